/* NAS parallel benchmarks CG, MG and LU, written from their specification: D. Bailey et al., The NAS Parallel Benchmarks, report
 * RNR-94-007 (the problems and how they are checked), and D. Bailey et al., The NAS Parallel Benchmarks 2.0, report NAS-95-020
 * (how they are dealt out over processes). Each is started as PROGRAM [CLASS [ITERATIONS]]; fewer iterations than the class has
 * are for recording, and nothing is checked then. */
#ifndef VERBENA_NAS_COMMON_H
#define VERBENA_NAS_COMMON_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

/* run.c: start, time and end. */
extern int my_rank, world_size;

struct request {
    char class_name;
    int iterations; /* 0: as many as the class has */
};

/* Starts MPI and reads the words; classes are those that there are. Whoever is started wrongly is told, and the program ends. */
struct request begin(int count, char **words, const char *classes);
/* Ends the program in all processes, which all call it, with a reason. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* So many iterations as were asked for, of those that the class has. */
int iterations_of(const struct request *request, int of_class);
/* Memory, zeroed; a process without ends all. */
void *room(size_t count, size_t bytes);

/* The section that is timed lies between a barrier and a reduction, which a recording of the program is cut at. */
void clock_start(void);
/* Seconds that the slowest process took, on process 0. */
double clock_stop(void);

double sum_of_all(double mine);
/* Whether a value is within a relative error of what it should be; process 0 tells both. */
int is_near(const char *what, double value, double expected, double error);

enum verification { FAILED, SUCCESSFUL, NOT_PERFORMED };
struct report {
    const char *name;
    char class_name;
    int iterations;
    double seconds;
    double operations; /* as the specification counts them */
    enum verification verification;
};
/* Tells how it went, and ends MPI; the status that the program ends with. */
int end(const struct report *report);

/* random.c: the generator of RNR-94-007, section 2.3. */
enum { RANDOM_SEED = 314159265 };
double random_next(uint64_t *state);
/* The state after so many further numbers. */
uint64_t random_skip(uint64_t state, uint64_t numbers);

#endif
