/* Start, timing and final report of a kernel, in the format of the original NAS programs. */
#include "common.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STARTED_WRONGLY = 2, MOST_ITERATIONS = 1000000 };

int my_rank, world_size;

static double started;

_Noreturn void refuse(const char *format, ...) {
    if (my_rank == 0) {
        va_list values;
        va_start(values, format);
        fputs("error: ", stderr);
        vfprintf(stderr, format, values);
        fputc('\n', stderr);
        va_end(values);
    }
    MPI_Finalize();
    exit(STARTED_WRONGLY);
}

/* Parses a whole number from 1; 0 if malformed. */
static int whole(const char *word) {
    char *end;
    long value = strtol(word, &end, 10);
    return *word != '\0' && *end == '\0' && value > 0 && value <= MOST_ITERATIONS ? (int)value : 0;
}

struct request begin(int count, char **words, const char *classes) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    struct request request = {.class_name = 'A'};
    if (count > 3)
        refuse("more words than a class and a number of iterations");
    if (count > 1) {
        if (strlen(words[1]) != 1 || strchr(classes, words[1][0]) == NULL)
            refuse("the class is one of %s, not \"%s\"", classes, words[1]);
        request.class_name = words[1][0];
    }
    if (count > 2 && (request.iterations = whole(words[2])) == 0)
        refuse("\"%s\" is no number of iterations", words[2]);
    if ((world_size & (world_size - 1)) != 0)
        refuse("there are %d processes, and their number must be a power of two", world_size);
    return request;
}

int iterations_of(const struct request *request, int of_class) {
    if (request->iterations > of_class)
        refuse("class %c has %d iterations, not %d", request->class_name, of_class, request->iterations);
    return request->iterations == 0 ? of_class : request->iterations;
}

void *room(size_t count, size_t bytes) {
    /* calloc may return NULL for a size of 0. */
    void *memory = calloc(count == 0 ? 1 : count, bytes);
    if (memory == NULL) {
        fprintf(stderr, "error: process %d has no memory for %zu times %zu bytes\n", my_rank, count, bytes);
        MPI_Abort(MPI_COMM_WORLD, STARTED_WRONGLY);
        exit(STARTED_WRONGLY);
    }
    return memory;
}

void clock_start(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    started = MPI_Wtime();
}

double clock_stop(void) {
    double mine = MPI_Wtime() - started, slowest = 0;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return slowest;
}

double sum_of_all(double mine) {
    double sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

int is_near(const char *what, double value, double expected, double error) {
    /* A NaN is near no value. */
    int is = fabs(value - expected) <= error * fabs(expected);
    if (my_rank == 0)
        printf(" %s %-12s = %21.13e, should be %21.13e\n", is ? "  " : "!!", what, value, expected);
    return is;
}

int end(const struct report *report) {
    static const char *const WORDS[] = {"UNSUCCESSFUL", "SUCCESSFUL", "NOT PERFORMED"};
    if (my_rank == 0) {
        /* The clock may not have advanced in a section as short as class S. */
        double rate = report->seconds > 0 ? report->operations / report->seconds * 1e-6 : 0;
        printf("\n %s Benchmark Completed\n", report->name);
        printf(" Class           = %24c\n", report->class_name);
        printf(" Iterations      = %24d\n", report->iterations);
        printf(" Time in seconds = %24.6f\n", report->seconds);
        printf(" Total processes = %24d\n", world_size);
        printf(" Mop/s total     = %24.2f\n", rate);
        printf(" Verification    = %24s\n", WORDS[report->verification]);
    }
    MPI_Finalize();
    return report->verification == FAILED;
}
