/* The program that measures an MPI library from inside. It is compiled by the user's mpicc and
 * started by the same library's mpirun. The plan comes as NAME=VALUE arguments; process 0 prints
 * raw samples as lines (lines.c), which the suite evaluates. Sampling follows the rules of
 * docs/methods-rules.md, as in every benchmark. */
#ifndef VERBENA_MPI_SUITE_H
#define VERBENA_MPI_SUITE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_SIZES = 64, MOST_PROCESSORS = 1024 };

/* The measurement and its time limits. Times are nanoseconds. */
struct plan {
    const char *benchmark;
    size_t sizes[MOST_SIZES];
    int size_count;
    double warmup, block, target, tail_time, rate_block;
    long blocks, most, tail, rate_blocks;
    double nanos_per_tick; /* of the time-stamp counter; 0 for the system clock */
    int processors[MOST_PROCESSORS];
    int processor_count; /* 0 if there is not one for each process */
};

/* plan.c */
int plan_read(struct plan *plan, int count, char **words);

/* clock.c: the processes are on one host and share its clock. */
void clock_choose(double nanos_per_tick);
uint64_t clock_now(void);
double clock_nanos(uint64_t ticks);
double clock_overhead(void);

/* together.c: coordination of all processes. */
extern int my_rank, world_size;
void together_begin(void);
int pin_cpu(const struct plan *plan);
double largest_of_all(double mine);
uint64_t start_together(void);

/* data.c: content determined by sender, receiver and sequence number. */
void *buffer_of(size_t bytes);
uint64_t content(int from, int to, uint64_t sequence);
void fill(void *buffer, size_t bytes, uint64_t content);
int check(const void *buffer, size_t bytes, uint64_t content, const char *what);
int nobody_saw_wrong(void);
void forget_wrong(void);
const char *what_was_wrong(void);

/* The role of a process in a point. */
enum role { TIMED, ANSWERING };
/* Whether an untimed barrier precedes each operation. */
enum mode { FREE, LOCKSTEP };

/* sampling.c: times of single operations. */
typedef void step(void *subject, uint64_t number);
void sample(const struct plan *plan, enum role role, enum mode mode, step *step, void *subject);

/* rates.c: messages over the union of all processes' intervals. */
typedef void run(void *subject, uint64_t windows);
void rate(const struct plan *plan, enum role role, const char *name, long messages, run *run, void *subject);

/* lines.c */
void tell_beginning(void);
void tell_point(size_t size, const int *shape);
void tell_values(const char *name, enum role role, const double *values, long count);
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tell_end(void);
/* Payload moved by this process, a lower bound. */
extern uint64_t moved;

/* One point of a benchmark: checks the data, then measures. */
typedef void benchmark(const struct plan *plan, size_t size);
benchmark latency, pingping, bandwidth, bandwidth_both, multi_pair_latency, multi_pair_bandwidth; /* messages.c, streams.c */
benchmark put_latency, get_latency, put_bandwidth, get_bandwidth;                                 /* one_sided.c */
benchmark barrier, broadcast, all_reduce, all_gather, all_to_all;                                 /* collectives.c */
benchmark halo;                                                                                   /* halo.c */

/* Rounds of the checking pass, which is not timed. */
enum { CHECKED_ROUNDS = 3 };

#endif
