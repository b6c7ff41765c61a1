/* Warm-up that doubles until all processes agree, then blocks with an agreed start, until the
 * median is precise enough and the tail has its samples (rules 2 to 6, 9, 11). */
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Share of the clock's cost in an operation above which several are timed together. */
static const double CLOCK_SHARE = 0.01;
enum { LARGEST_BATCH = 64, LEAST_SAMPLES = 10, CAP = 1 << 17 };

struct sampler {
    const struct plan *plan;
    enum role role;
    enum mode mode;
    step *step;
    void *subject;
    uint64_t number; /* of the next operation */
    double skew;     /* largest difference between the first and the last start of a block */
};

/* Nanoseconds per operation. */
struct recording {
    double *values;
    long count;
};

struct warm {
    uint64_t operations;
    double nanos, first;
};

static struct warm warm_up(struct sampler *sampler) {
    struct warm warm = {0, INFINITY, 0};
    for (uint64_t count = 1;; count *= 2) {
        start_together();
        uint64_t begun = clock_now();
        for (uint64_t i = 0; i < count; i++) {
            if (sampler->mode == LOCKSTEP)
                MPI_Barrier(MPI_COMM_WORLD);
            sampler->step(sampler->subject, sampler->number++);
        }
        double spent = clock_nanos(clock_now() - begun);
        if (warm.operations == 0)
            warm.first = largest_of_all(sampler->role == TIMED ? spent : 0);
        warm.operations += count;
        /* The fastest of several rounds counts: one in which a process was preempted does not
         * end the warm-up. */
        double each = largest_of_all(spent) / (double)count;
        warm.nanos = each < warm.nanos ? each : warm.nanos;
        int long_enough = warm.nanos * (double)count >= sampler->plan->warmup || count >= (uint64_t)sampler->plan->most;
        if (count > 1 && long_enough)
            return warm;
    }
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Relative half-width of the 95 % interval of the median, from order statistics. */
static double half_width(const struct recording *recording) {
    long count = recording->count;
    double spread = 0.98 * sqrt((double)count), middle = (double)count / 2;
    long low = (long)floor(middle - spread) - 1, high = (long)ceil(middle + spread);
    if (low < 0 || high >= count)
        return INFINITY;
    double *sorted = malloc(sizeof(double) * (size_t)count);
    memcpy(sorted, recording->values, sizeof(double) * (size_t)count);
    qsort(sorted, (size_t)count, sizeof(double), ascending);
    double width = (sorted[high] - sorted[low]) / 2 / sorted[count / 2];
    free(sorted);
    return width;
}

/* Blocks of samples of `batch` operations each: at least `least` blocks, then until the least
 * precise process reaches the target for its median. */
static struct recording blocks(struct sampler *sampler, long samples, long batch, long least, long most) {
    struct recording recording = {calloc((size_t)(samples * most), sizeof(double)), 0};
    memset(recording.values, 0xff, (size_t)(samples * most) * sizeof(double)); /* touched before it is timed */
    for (long done = 1; done <= most; done++) {
        uint64_t agreed = start_together(), last = clock_now();
        double start = clock_nanos(last - agreed);
        for (long i = 0; i < samples; i++) {
            if (sampler->mode == LOCKSTEP) {
                MPI_Barrier(MPI_COMM_WORLD);
                last = clock_now();
            }
            for (long j = 0; j < batch; j++)
                sampler->step(sampler->subject, sampler->number++);
            uint64_t now = clock_now();
            recording.values[recording.count++] = clock_nanos(now - last) / (double)batch;
            last = now;
        }
        double skew = largest_of_all(start) + largest_of_all(-start);
        sampler->skew = skew > sampler->skew ? skew : sampler->skew;
        if (done >= least && done < most) {
            double mine = sampler->role == TIMED ? half_width(&recording) : 0;
            if (largest_of_all(mine) <= sampler->plan->target)
                break;
        }
    }
    return recording;
}

static long at_most(double wanted, long most) { return wanted < (double)most ? (long)wanted : most; }

/* Samples per block, given their duration. The samples of all blocks together are kept
 * individually. */
static long samples_of(const struct plan *plan, double nanos) {
    long most = plan->most < CAP / plan->blocks ? plan->most : CAP / plan->blocks;
    long samples = at_most(ceil(plan->block / nanos), most);
    return samples < LEAST_SAMPLES ? LEAST_SAMPLES : samples;
}

void sample(const struct plan *plan, enum role role, enum mode mode, step *step, void *subject) {
    struct sampler sampler = {plan, role, mode, step, subject, 0, 0};
    struct warm warm = warm_up(&sampler);
    double nanos = warm.nanos > 1 ? warm.nanos : 1;
    double share = largest_of_all(clock_overhead()) / nanos;
    long batch = 1;
    if (mode == FREE && share > CLOCK_SHARE)
        batch = at_most(ceil(share / CLOCK_SHARE), LARGEST_BATCH);
    tell("warmup %llu %.1f\n", (unsigned long long)warm.operations, warm.first);
    struct recording batches = {NULL, 0};
    if (batch > 1)
        batches = blocks(&sampler, samples_of(plan, nanos * (double)batch), batch, 1, plan->blocks);
    long samples = samples_of(plan, nanos);
    long tail = at_most(plan->tail_time / nanos, plan->tail);
    long least = (tail + samples - 1) / samples;
    least = least < 1 ? 1 : least;
    long most = least > plan->blocks || batch > 1 ? least : plan->blocks;
    most = samples * most > CAP ? CAP / samples : most;
    struct recording singles = blocks(&sampler, samples, 1, least < most ? least : most, most);
    tell("sampled %ld %.5f %.1f\n", batch, share, sampler.skew);
    if (batch > 1)
        tell_values("batches", role, batches.values, batches.count);
    tell_values("singles", role, singles.values, singles.count);
    free(batches.values);
    free(singles.values);
}
