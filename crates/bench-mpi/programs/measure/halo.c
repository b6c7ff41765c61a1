/* The exchange of a tile's edges with four neighbours on a torus as square as possible
 * (connectx_multicore, section 3.4). The size is that of an edge. Ranks increase along the
 * second dimension first; mpirun places them. */
#include "suite.h"

#include <stdlib.h>

enum { DIRECTIONS = 4 };

struct torus {
    int size;
    int neighbour[DIRECTIONS]; /* the opposite of d is d ^ 1 */
    unsigned char *out[DIRECTIONS], *in[DIRECTIONS];
};

/* In a torus of one row, a process is its own neighbour above and below; these edges are
 * omitted. */
static int is_other(const struct torus *torus, int direction) { return torus->neighbour[direction] != my_rank; }

/* Both edges of one dimension. */
static void phase(struct torus *torus, int first) {
    MPI_Request requests[4];
    int pending = 0;
    if (!is_other(torus, first))
        return;
    for (int d = first; d < first + 2; d++)
        MPI_Irecv(torus->in[d], torus->size, MPI_BYTE, torus->neighbour[d], 10 + (d ^ 1), MPI_COMM_WORLD, &requests[pending++]);
    for (int d = first; d < first + 2; d++) {
        MPI_Isend(torus->out[d], torus->size, MPI_BYTE, torus->neighbour[d], 10 + d, MPI_COMM_WORLD, &requests[pending++]);
        moved += (uint64_t)torus->size;
    }
    MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
}

/* Rows first, then columns, as in the Halo benchmark: the second phase includes the corners
 * received in the first. */
static void exchange(void *subject, uint64_t number) {
    struct torus *torus = subject;
    (void)number;
    phase(torus, 0);
    phase(torus, 2);
}

/* The content of the edge sent in a direction in a round. */
static uint64_t edge(int from, int direction, uint64_t round) { return content(from, direction, round); }

static void check_edges(struct torus *torus) {
    for (uint64_t round = 0; round < CHECKED_ROUNDS; round++) {
        for (int d = 0; d < DIRECTIONS; d++) {
            fill(torus->out[d], (size_t)torus->size, edge(my_rank, d, round));
            fill(torus->in[d], (size_t)torus->size, 0);
        }
        exchange(torus, round);
        for (int d = 0; d < DIRECTIONS; d++)
            if (is_other(torus, d))
                check(torus->in[d], (size_t)torus->size, edge(torus->neighbour[d], d ^ 1, round), "an edge");
    }
}

void halo(const struct plan *plan, size_t size) {
    struct torus torus = {.size = (int)size};
    int shape[2] = {0, 0}, around[2] = {1, 1};
    MPI_Comm grid;
    MPI_Dims_create(world_size, 2, shape);
    int rows_first[2] = {shape[1], shape[0]};
    MPI_Cart_create(MPI_COMM_WORLD, 2, rows_first, around, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &torus.neighbour[0], &torus.neighbour[1]);
    MPI_Cart_shift(grid, 1, 1, &torus.neighbour[2], &torus.neighbour[3]);
    MPI_Comm_free(&grid);
    for (int d = 0; d < DIRECTIONS; d++) {
        torus.out[d] = buffer_of(size);
        torus.in[d] = buffer_of(size);
    }
    tell_point(size, rows_first);
    check_edges(&torus);
    if (nobody_saw_wrong())
        sample(plan, TIMED, FREE, exchange, &torus);
    for (int d = 0; d < DIRECTIONS; d++) {
        free(torus.out[d]);
        free(torus.in[d]);
    }
}
