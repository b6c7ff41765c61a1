/* Latency and bandwidth of an MPI library by the method of the OSU benchmarks, independent of the suite: warm-up of fixed
 * length, means over loops, the library's own clock; 64 messages and a reply, over one buffer. OSU prints the mean of one loop;
 * this program prints the median of the means of as many parts of it, so that one preemption does not dominate the result.
 * Each process is bound to a processor, as in the suite.
 *
 *     reference latency|bandwidth BYTES...   prints microseconds one way, or 10^6 bytes a second, a line for each size */

#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, LARGE = 8192, PARTS = 101 };

static char *out, *in;
static int rank, size;

static void round_trips(int count) {
    for (int i = 0; i < count; i++) {
        if (rank == 0)
            MPI_Send(out, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(out, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

static void windows(int count) {
    MPI_Request requests[WINDOW];
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < WINDOW; k++) {
            if (rank == 0)
                MPI_Isend(out, size, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[k]);
            else
                MPI_Irecv(in, size, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[k]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(in, 4, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(out, 4, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
    }
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Binds this process to the allowed processor whose index is the rank of the process. */
static void bind_to_one(void) {
    cpu_set_t allowed, one;
    int left = rank;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2)
        return;
    for (int processor = 0; processor < CPU_SETSIZE; processor++)
        if (CPU_ISSET(processor, &allowed) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(processor, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}

static void measure(int is_latency) {
    int is_large = size > LARGE;
    int skipped = is_large ? 10 : 200, loops = is_latency ? (is_large ? 20 : 200) : (is_large ? 2 : 5);
    out = aligned_alloc(4096, ((size_t)size + 8191) / 4096 * 4096);
    in = aligned_alloc(4096, ((size_t)size + 8191) / 4096 * 4096);
    memset(out, 'a', (size_t)size);
    memset(in, 'b', (size_t)size + 4);
    void (*run)(int) = is_latency ? round_trips : windows;
    run(skipped);
    MPI_Barrier(MPI_COMM_WORLD);
    double parts[PARTS];
    for (int part = 0; part < PARTS; part++) {
        double begun = MPI_Wtime();
        run(loops);
        parts[part] = (MPI_Wtime() - begun) / loops;
    }
    qsort(parts, PARTS, sizeof *parts, ascending);
    double spent = parts[PARTS / 2];
    if (rank == 0 && is_latency)
        printf("reference %.4f\n", spent / 2 * 1e6);
    else if (rank == 0)
        printf("reference %.4f\n", (double)size * WINDOW / spent / 1e6);
    free(out);
    free(in);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bind_to_one();
    for (int word = 2; word < count || count < 3; word++) {
        size = count < 3 ? 0 : atoi(words[word]);
        if (size <= 0) {
            fprintf(stderr, "usage: reference latency|bandwidth BYTES...\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        measure(strcmp(words[1], "latency") == 0);
    }
    MPI_Finalize();
    return 0;
}
