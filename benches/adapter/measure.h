/* Shared by the adapter's benchmarks: two pinned processes, batches, medians, output format.
 *
 * A benchmark prints lines "name value", in nanoseconds, bytes or operations per second as the name
 * says. `benches/run` makes all comparisons and has all targets. */
#ifndef VERBENA_BENCHES_MEASURE_H
#define VERBENA_BENCHES_MEASURE_H

#include <stdint.h>

/* Number of batches. Their median is used, so that preemption on a shared machine in some of
 * them has no effect. */
#define BATCHES 41

/* Pins this process to the first or the second of its allowed processors. If there is only one,
 * both processes share it, and the result says so. */
void pin(unsigned which);

/* CPU time of the calling thread in nanoseconds. */
uint64_t processor_time(void);

/* Sorts the values and returns their median. */
double median(double *values, unsigned count);

void print_result(const char *name, double value);

#endif
