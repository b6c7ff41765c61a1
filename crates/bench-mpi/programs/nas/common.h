/* NAS parallel benchmarks CG, MG and LU, written from their specification: D. Bailey et al., The
 * NAS Parallel Benchmarks, report RNR-94-007 (problems and verification), and D. Bailey et al.,
 * The NAS Parallel Benchmarks 2.0, report NAS-95-020 (distribution over processes). Usage:
 * PROGRAM [CLASS [ITERATIONS]]. Fewer iterations than the class has are for recording, and are
 * not verified. */
#ifndef VERBENA_NAS_COMMON_H
#define VERBENA_NAS_COMMON_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* run.c: start, time and end. */
extern int my_rank, world_size;

struct request {
    char class_name;
    int iterations; /* 0: the number of the class */
};

/* Starts MPI and parses the arguments; `classes` lists the valid ones. Ends the program after an
 * error message if they are wrong. */
struct request begin(int count, char **words, const char *classes);
/* Ends the program with a message; all processes must call it. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the requested number of iterations, at most that of the class. */
int iterations_of(const struct request *request, int of_class);
/* Allocates zeroed memory; without memory ends all processes. */
void *room(size_t count, size_t bytes);

/* The timed section lies between a barrier and a reduction, at which a recording of the program
 * is cut. */
void clock_start(void);
/* Seconds taken by the slowest process, on process 0. */
double clock_stop(void);

double sum_of_all(double mine);
/* Whether a value is within a relative error of the expected one; process 0 prints both. */
int is_near(const char *what, double value, double expected, double error);

enum verification { FAILED, SUCCESSFUL, NOT_PERFORMED };
struct report {
    const char *name;
    char class_name;
    int iterations;
    double seconds;
    double operations; /* as counted by the specification */
    enum verification verification;
};
/* Prints the report and ends MPI; returns the exit status. */
int end(const struct report *report);

/* random.c: the generator of RNR-94-007, section 2.3. */
enum { RANDOM_SEED = 314159265 };
double random_next(uint64_t *state);
/* The state after `numbers` further numbers. */
uint64_t random_skip(uint64_t state, uint64_t numbers);

#endif
