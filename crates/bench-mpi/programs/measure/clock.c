/* The clock (rule 1): the time-stamp counter, read with fences, if the suite calibrated it,
 * otherwise the system clock. */
#include "suite.h"

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static double nanos_per_tick;

void clock_choose(double tick) {
#if defined(__x86_64__)
    nanos_per_tick = tick;
#else
    (void)tick;
#endif
}

uint64_t clock_now(void) {
#if defined(__x86_64__)
    if (nanos_per_tick > 0) {
        _mm_lfence();
        uint64_t ticks = __rdtsc();
        _mm_lfence();
        return ticks;
    }
#endif
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double clock_nanos(uint64_t ticks) {
    return nanos_per_tick > 0 ? (double)ticks * nanos_per_tick : (double)ticks;
}

/* The cost of reading the clock: the fastest of several batches, because other load is not part
 * of it. */
double clock_overhead(void) {
    enum { BATCHES = 20, READS = 500 };
    uint64_t fastest = UINT64_MAX;
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t begun = clock_now();
        for (int i = 0; i < READS; i++)
            clock_now();
        uint64_t spent = clock_now() - begun;
        fastest = spent < fastest ? spent : fastest;
    }
    return clock_nanos(fastest) / READS;
}
