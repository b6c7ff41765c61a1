/* Messages in blocks, each from an agreed start to its last completion; if processes were not
 * active together, blocks get longer (rules 8 to 11). */
#include "suite.h"

#include <math.h>
#include <stdlib.h>

static const double LEAST_OVERLAP = 0.9;
static const long LONGER[] = {1, 3, 9};
/* More processes than processors overlap only over many time slices of the scheduler. */
static const long CROWDED[] = {16};

/* Nanoseconds since the agreed start. */
struct span {
    double start, end;
};

struct warm {
    uint64_t windows;
    double nanos;
};

static struct warm warm_up(const struct plan *plan, run *run, void *subject) {
    struct warm warm = {0, INFINITY};
    for (uint64_t count = 1;; count *= 2) {
        start_together();
        uint64_t begun = clock_now();
        run(subject, count);
        double each = largest_of_all(clock_nanos(clock_now() - begun)) / (double)count;
        warm.windows += count;
        warm.nanos = each < warm.nanos ? each : warm.nanos;
        if (count > 1 && (warm.nanos * (double)count >= plan->warmup || count >= 1 << 24))
            return warm;
    }
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* The share of the union interval in which all timed processes were active, the median over
 * blocks. */
static double overlap(const struct span *spans, const int *timed, long blocks) {
    double *shares = malloc(sizeof(double) * (size_t)blocks);
    for (long block = 0; block < blocks; block++) {
        double first = INFINITY, last_start = 0, first_end = INFINITY, end = 0;
        for (int rank = 0; rank < world_size; rank++) {
            struct span span = spans[rank * blocks + block];
            if (!timed[rank])
                continue;
            first = fmin(first, span.start);
            last_start = fmax(last_start, span.start);
            first_end = fmin(first_end, span.end);
            end = fmax(end, span.end);
        }
        shares[block] = fmax(0, (first_end - last_start) / (end - first));
    }
    qsort(shares, (size_t)blocks, sizeof(double), ascending);
    double median = shares[blocks / 2];
    free(shares);
    return median;
}

void rate(const struct plan *plan, enum role role, const char *name, long messages, run *run, void *subject) {
    struct warm warm = warm_up(plan, run, subject);
    int crowded = plan->processor_count < world_size, mine = role == TIMED;
    const long *lengths = crowded ? CROWDED : LONGER;
    int tries = crowded ? 1 : 3;
    int *timed = calloc((size_t)world_size, sizeof *timed);
    MPI_Gather(&mine, 1, MPI_INT, timed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int try = 0; try < tries; try++) {
        /* Fewer blocks suffice if they are longer. */
        long blocks = crowded ? 3 : plan->rate_blocks - 2 * try;
        blocks = blocks < 3 ? 3 : blocks;
        uint64_t windows = (uint64_t)ceil(plan->rate_block * (double)lengths[try] / warm.nanos);
        windows = windows < 1 ? 1 : windows;
        struct span *own = calloc((size_t)blocks, sizeof *own);
        for (long block = 0; block < blocks; block++) {
            uint64_t agreed = start_together();
            own[block].start = clock_nanos(clock_now() - agreed);
            run(subject, windows);
            own[block].end = clock_nanos(clock_now() - agreed);
        }
        struct span *all = calloc((size_t)(blocks * world_size), sizeof *all);
        MPI_Gather(own, 2 * (int)blocks, MPI_DOUBLE, all, 2 * (int)blocks, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        double share = my_rank == 0 ? overlap(all, timed, blocks) : 0;
        int last = largest_of_all(share) >= LEAST_OVERLAP || try + 1 == tries;
        if (last) {
            tell("rates %s %llu %llu\n", name, (unsigned long long)windows * (unsigned long long)messages,
                 (unsigned long long)warm.windows * (unsigned long long)messages);
            for (long block = 0; my_rank == 0 && block < blocks; block++)
                for (int rank = 0; rank < world_size; rank++)
                    if (timed[rank])
                        tell("span %ld %d %.1f %.1f\n", block, rank, all[rank * blocks + block].start,
                             all[rank * blocks + block].end);
        }
        free(own);
        free(all);
        if (last)
            break;
    }
    free(timed);
}
