/* The communication of LU. */
#include "lu.h"

#include <string.h>

enum { TAG_FACE_UP, TAG_FACE_DOWN, TAG_EDGE_UP, TAG_EDGE_DOWN };

/* Points of a part, from the first to one past the last along each axis. */
struct box {
    int begin[AXES], end[AXES];
};

static int count(const struct box *box) {
    int points = 1;
    for (int axis = 0; axis < AXES; axis++)
        points *= box->end[axis] - box->begin[axis];
    return points * FIELDS;
}

static void pack(const struct part *part, const state *grid, const struct box *box, double *packed) {
    for (int z = box->begin[Z]; z < box->end[Z]; z++)
        for (int y = box->begin[Y]; y < box->end[Y]; y++)
            for (int x = box->begin[X]; x < box->end[X]; x++, packed += FIELDS)
                memcpy(packed, grid[at(part, x, y, z)], sizeof(state));
}

static void unpack(const struct part *part, state *grid, const struct box *box, const double *packed) {
    for (int z = box->begin[Z]; z < box->end[Z]; z++)
        for (int y = box->begin[Y]; y < box->end[Y]; y++)
            for (int x = box->begin[X]; x < box->end[X]; x++, packed += FIELDS)
                memcpy(grid[at(part, x, y, z)], packed, sizeof(state));
}

/* All points, restricted to `depth` layers along one axis. */
static struct box slab(const struct part *part, int axis, int begin, int depth) {
    struct box box = {.end = {part->points[X], part->points[Y], part->points[Z]}};
    box.begin[axis] = begin;
    box.end[axis] = begin + depth;
    return box;
}

/* Sends faces one way along an axis: `given` to one neighbour, while `taken` arrives from the
 * other. */
static void shift(const struct part *part, state *grid, int from, int to, int tag, struct box given, struct box taken) {
    double *out = part->packed, *in = part->packed + part->most;
    MPI_Request arrival;
    if (from != MPI_PROC_NULL)
        MPI_Irecv(in, count(&taken), MPI_DOUBLE, from, tag, MPI_COMM_WORLD, &arrival);
    if (to != MPI_PROC_NULL) {
        pack(part, grid, &given, out);
        MPI_Send(out, count(&given), MPI_DOUBLE, to, tag, MPI_COMM_WORLD);
    }
    if (from != MPI_PROC_NULL) {
        MPI_Wait(&arrival, MPI_STATUS_IGNORE);
        unpack(part, grid, &taken, in);
    }
}

void exchange_faces(const struct part *part, state *grid) {
    for (int axis = X; axis <= Y; axis++) {
        int points = part->points[axis];
        shift(part, grid, part->below[axis], part->above[axis], TAG_FACE_UP, slab(part, axis, points - GHOSTS, GHOSTS),
              slab(part, axis, -GHOSTS, GHOSTS));
        shift(part, grid, part->above[axis], part->below[axis], TAG_FACE_DOWN, slab(part, axis, 0, GHOSTS),
              slab(part, axis, points, GHOSTS));
    }
}

/* The line of a plane shared with a neighbour along an axis: its points that are not on the
 * cube's surface. */
static struct box edge(const struct part *part, int axis, int place, int z) {
    struct box box = {.begin = {part->begin[X], part->begin[Y], z}, .end = {part->end[X], part->end[Y], z + 1}};
    box.begin[axis] = place;
    box.end[axis] = place + 1;
    return box;
}

void await_edges(const struct part *part, state *grid, int z, enum sweep sweep) {
    for (int axis = X; axis <= Y; axis++) {
        int from = sweep == UP ? part->below[axis] : part->above[axis];
        if (from == MPI_PROC_NULL)
            continue;
        struct box box = edge(part, axis, sweep == UP ? -1 : part->points[axis], z);
        MPI_Recv(part->packed, count(&box), MPI_DOUBLE, from, sweep == UP ? TAG_EDGE_UP : TAG_EDGE_DOWN, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        unpack(part, grid, &box, part->packed);
    }
}

void pass_edges(const struct part *part, state *grid, int z, enum sweep sweep) {
    for (int axis = X; axis <= Y; axis++) {
        int to = sweep == UP ? part->above[axis] : part->below[axis];
        if (to == MPI_PROC_NULL)
            continue;
        struct box box = edge(part, axis, sweep == UP ? part->points[axis] - 1 : 0, z);
        pack(part, grid, &box, part->packed);
        MPI_Send(part->packed, count(&box), MPI_DOUBLE, to, sweep == UP ? TAG_EDGE_UP : TAG_EDGE_DOWN, MPI_COMM_WORLD);
    }
}
