/* Latency and bandwidth of an MPI library by the method of the OSU benchmarks, and by nothing of the suite: warm-up of fixed
 * length, the mean over one loop, the library's own clock; 64 messages and an answer, over one buffer.
 *
 *     reference latency|bandwidth BYTES      prints microseconds one way, or 10^6 bytes a second */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, LARGE = 8192 };

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

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size = count == 3 ? atoi(words[2]) : 0;
    if (size <= 0) {
        fprintf(stderr, "usage: reference latency|bandwidth BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int is_latency = strcmp(words[1], "latency") == 0, is_large = size > LARGE;
    int skipped = is_large ? 10 : 200, loops = is_latency ? (is_large ? 1000 : 10000) : (is_large ? 50 : 200);
    out = aligned_alloc(4096, ((size_t)size + 8191) / 4096 * 4096);
    in = aligned_alloc(4096, ((size_t)size + 8191) / 4096 * 4096);
    memset(out, 'a', (size_t)size);
    memset(in, 'b', (size_t)size + 4);
    void (*run)(int) = is_latency ? round_trips : windows;
    run(skipped);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    run(loops);
    double spent = MPI_Wtime() - begun;
    if (rank == 0 && is_latency)
        printf("reference %.4f\n", spent / loops / 2 * 1e6);
    else if (rank == 0)
        printf("reference %.4f\n", (double)size * WINDOW * loops / spent / 1e6);
    MPI_Finalize();
    return 0;
}
