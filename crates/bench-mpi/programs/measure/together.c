#define _GNU_SOURCE
#include "suite.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Nanoseconds between agreeing on a start and that start. */
static const double LEAD = 20000;

int my_rank, world_size;

void together_begin(void) {
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    /* Compares names: a library whose shared memory is disabled may report that no two processes
     * share a host. */
    char here[MPI_MAX_PROCESSOR_NAME] = "", first[MPI_MAX_PROCESSOR_NAME] = "";
    int length;
    MPI_Get_processor_name(here, &length);
    memcpy(first, here, sizeof first);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (largest_of_all(strcmp(here, first) != 0) > 0) {
        if (my_rank == 0)
            fprintf(stderr, "the processes are on several hosts, which have no clock in common; let mpirun use one host\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* Binds this thread to its processor; threads started by the library keep their affinity.
 * Returns whether every process succeeded. */
int pin_cpu(const struct plan *plan) {
    int pinned = 0;
    if (plan->processor_count >= world_size) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(plan->processors[my_rank], &one);
        pinned = sched_setaffinity(0, sizeof one, &one) == 0;
    }
    return largest_of_all(!pinned) == 0;
}

double largest_of_all(double mine) {
    double largest;
    MPI_Allreduce(&mine, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return largest;
}

uint64_t start_together(void) {
    uint64_t now, latest;
    MPI_Barrier(MPI_COMM_WORLD);
    now = clock_now();
    MPI_Allreduce(&now, &latest, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    while ((now = clock_now()) < latest || clock_nanos(now - latest) < LEAD)
        ;
    uint64_t lead = now - latest;
    /* Returns the agreed start, not the time at which this process noticed that it had passed. */
    double over = clock_nanos(lead) - LEAD;
    return now - (uint64_t)((double)lead * over / clock_nanos(lead));
}
