/* Collective operations. Each begins after an untimed barrier, and every process times its own
 * part, as in OSU's benchmarks. */
#include "suite.h"

#include <stdlib.h>

struct collective {
    int size;
    unsigned char *out, *in;
};

static void at_barrier(void *subject, uint64_t number) {
    (void)subject;
    (void)number;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Counts the least payload that any algorithm must move. */
static void count_moved(uint64_t bytes_of_all) {
    if (my_rank == 0)
        moved += bytes_of_all;
}

static uint64_t others(void) { return (uint64_t)world_size - 1; }

static void from_root(void *subject, uint64_t number) {
    struct collective *collective = subject;
    (void)number;
    MPI_Bcast(collective->in, collective->size, MPI_BYTE, 0, MPI_COMM_WORLD);
    count_moved(others() * (uint64_t)collective->size);
}

static void summed(void *subject, uint64_t number) {
    struct collective *collective = subject;
    (void)number;
    MPI_Allreduce(collective->out, collective->in, collective->size, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
    count_moved(others() * (uint64_t)collective->size);
}

static void gathered(void *subject, uint64_t number) {
    struct collective *collective = subject;
    (void)number;
    MPI_Allgather(collective->out, collective->size, MPI_BYTE, collective->in, collective->size, MPI_BYTE, MPI_COMM_WORLD);
    count_moved(others() * (uint64_t)world_size * (uint64_t)collective->size);
}

static void dealt_out(void *subject, uint64_t number) {
    struct collective *collective = subject;
    (void)number;
    MPI_Alltoall(collective->out, collective->size, MPI_BYTE, collective->in, collective->size, MPI_BYTE, MPI_COMM_WORLD);
    count_moved(others() * (uint64_t)world_size * (uint64_t)collective->size);
}

typedef void checking(struct collective *collective, uint64_t round);

static void check_from_root(struct collective *collective, uint64_t round) {
    fill(collective->in, (size_t)collective->size, my_rank == 0 ? content(0, 0, round) : 0);
    from_root(collective, round);
    check(collective->in, (size_t)collective->size, content(0, 0, round), "what process 0 had");
}

/* The reduction is a bitwise XOR of all processes' contents. */
static void check_summed(struct collective *collective, uint64_t round) {
    size_t bytes = (size_t)collective->size;
    unsigned char *sum = buffer_of(bytes), *one = buffer_of(bytes);
    for (int rank = 0; rank < world_size; rank++) {
        fill(one, bytes, content(rank, rank, round));
        for (size_t at = 0; at < bytes; at++)
            sum[at] ^= one[at];
    }
    fill(collective->out, bytes, content(my_rank, my_rank, round));
    fill(collective->in, bytes, 0);
    summed(collective, round);
    /* XOR with the expected sum gives 0, or the errors, which XOR then applies to a known
     * content. */
    fill(one, bytes, content(0, 1, round));
    for (size_t at = 0; at < bytes; at++)
        one[at] ^= collective->in[at] ^ sum[at];
    check(one, bytes, content(0, 1, round), "the sum");
    free(sum);
    free(one);
}

static void check_gathered(struct collective *collective, uint64_t round) {
    size_t bytes = (size_t)collective->size;
    fill(collective->out, bytes, content(my_rank, 0, round));
    fill(collective->in, bytes * (size_t)world_size, 0);
    gathered(collective, round);
    for (int rank = 0; rank < world_size; rank++)
        check(collective->in + (size_t)rank * bytes, bytes, content(rank, 0, round), "what a process had");
}

static void check_dealt_out(struct collective *collective, uint64_t round) {
    size_t bytes = (size_t)collective->size;
    for (int rank = 0; rank < world_size; rank++)
        fill(collective->out + (size_t)rank * bytes, bytes, content(my_rank, rank, round));
    fill(collective->in, bytes * (size_t)world_size, 0);
    dealt_out(collective, round);
    for (int rank = 0; rank < world_size; rank++)
        check(collective->in + (size_t)rank * bytes, bytes, content(rank, my_rank, round), "what a process had for this one");
}

static void measure(const struct plan *plan, size_t size, size_t parts, step *step, checking *checking) {
    struct collective collective = {(int)size, buffer_of(size * parts), buffer_of(size * parts)};
    tell_point(size, NULL);
    for (uint64_t round = 0; checking != NULL && round < CHECKED_ROUNDS; round++)
        checking(&collective, round);
    if (nobody_saw_wrong())
        sample(plan, TIMED, LOCKSTEP, step, &collective);
    free(collective.out);
    free(collective.in);
}

/* A barrier moves no data that could be checked. */
void barrier(const struct plan *plan, size_t size) {
    (void)size;
    measure(plan, 0, 1, at_barrier, NULL);
}

void broadcast(const struct plan *plan, size_t size) { measure(plan, size, 1, from_root, check_from_root); }
void all_reduce(const struct plan *plan, size_t size) { measure(plan, size, 1, summed, check_summed); }
void all_gather(const struct plan *plan, size_t size) { measure(plan, size, (size_t)world_size, gathered, check_gathered); }
void all_to_all(const struct plan *plan, size_t size) { measure(plan, size, (size_t)world_size, dealt_out, check_dealt_out); }
