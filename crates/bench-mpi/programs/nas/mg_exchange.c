/* The communication of MG: faces, one dimension after the other, so that edges and corners
 * arrive with the later ones. */
#include "mg.h"

enum { UPWARDS, DOWNWARDS, LENT_UPWARDS, LENT_DOWNWARDS };

/* A plane of a grid: points of the two other axes, from the first to the last of each. */
struct plane {
    int axis, place;
    int first[AXES], last[AXES];
};

/* A face includes the neighbours' points in dimensions that were already exchanged. */
static struct plane face(const struct level *level, int axis, int place) {
    struct plane plane = {.axis = axis, .place = place};
    for (int other = 0; other < AXES; other++) {
        plane.first[other] = other < axis ? 0 : 1;
        plane.last[other] = other < axis ? level->points[other] + 1 : level->points[other];
    }
    plane.first[axis] = plane.last[axis] = place;
    return plane;
}

static struct plane whole(const struct level *level, int axis, int place) {
    struct plane plane = {.axis = axis, .place = place};
    for (int other = 0; other < AXES; other++)
        plane.last[other] = level->extents[other] - 1;
    plane.first[axis] = plane.last[axis] = place;
    return plane;
}

typedef void visitor(double *point, double *packed);
static void pack(double *point, double *packed) { *packed = *point; }
static void unpack(double *point, double *packed) { *point = *packed; }

/* Visits the points of a plane; returns their number. */
static inline int each(const struct level *level, double *grid, const struct plane *plane, double *packed, visitor *visit) {
    int count = 0;
    for (int z = plane->first[Z]; z <= plane->last[Z]; z++)
        for (int y = plane->first[Y]; y <= plane->last[Y]; y++)
            for (int x = plane->first[X]; x <= plane->last[X]; x++)
                visit(&grid[at(level, x, y, z)], &packed[count++]);
    return count;
}

static void send(const struct level *level, double *grid, struct plane plane, double *packed, int to, int tag) {
    int count = each(level, grid, &plane, packed, pack);
    MPI_Send(packed, count, MPI_DOUBLE, to, tag, MPI_COMM_WORLD);
}

static void take(const struct level *level, double *grid, struct plane plane, double *packed, MPI_Request *arrival) {
    MPI_Wait(arrival, MPI_STATUS_IGNORE);
    each(level, grid, &plane, packed, unpack);
}

static void wrap(const struct level *level, double *grid, int axis, double *packed) {
    const int last = level->points[axis];
    const int from[] = {last, 1}, to[] = {0, last + 1};
    for (int i = 0; i < 2; i++) {
        struct plane source = face(level, axis, from[i]), target = face(level, axis, to[i]);
        each(level, grid, &source, packed, pack);
        each(level, grid, &target, packed, unpack);
    }
}

void exchange_faces(const struct cube *cube, const struct level *level, double *grid) {
    if (!level->is_here)
        return;
    size_t most = cube->most;
    double *packed = cube->packed, *below = packed + most, *above = below + most;
    for (int axis = 0; axis < AXES; axis++) {
        if (cube->processes[axis] == 1) {
            wrap(level, grid, axis, packed);
            continue;
        }
        int last = level->points[axis], stride = level->strides[axis];
        int up = neighbour(cube, axis, stride), down = neighbour(cube, axis, -stride);
        MPI_Request from_below, from_above;
        MPI_Irecv(below, (int)most, MPI_DOUBLE, down, UPWARDS, MPI_COMM_WORLD, &from_below);
        MPI_Irecv(above, (int)most, MPI_DOUBLE, up, DOWNWARDS, MPI_COMM_WORLD, &from_above);
        send(level, grid, face(level, axis, last), packed, up, UPWARDS);
        send(level, grid, face(level, axis, 1), packed, down, DOWNWARDS);
        take(level, grid, face(level, axis, 0), below, &from_below);
        take(level, grid, face(level, axis, last + 1), above, &from_above);
    }
}

/* A process takes part in sending coarse points along an axis if it has points of the finer grid
 * and, along later axes, of the coarser one: it has already received those missing along earlier
 * axes. */
static bool takes_part(const struct level *coarse, const struct level *fine, int axis) {
    for (int later = axis + 1; later < AXES; later++)
        if (!coarse->has_points[later])
            return false;
    return fine->is_here;
}

void lend_coarse(const struct cube *cube, const struct level *coarse, const struct level *fine) {
    double *grid = coarse->solution;
    size_t most = cube->most;
    double *packed = cube->packed, *below = packed + most, *above = below + most;
    for (int axis = 0; axis < AXES; axis++) {
        int stride = fine->strides[axis];
        if (stride == coarse->strides[axis] || !takes_part(coarse, fine, axis))
            continue;
        int up = neighbour(cube, axis, stride), down = neighbour(cube, axis, -stride);
        if (coarse->has_points[axis]) {
            send(coarse, grid, whole(coarse, axis, 1), packed, up, LENT_UPWARDS);
            send(coarse, grid, whole(coarse, axis, 1), packed, down, LENT_DOWNWARDS);
            continue;
        }
        MPI_Request from_below, from_above;
        MPI_Irecv(below, (int)most, MPI_DOUBLE, down, LENT_UPWARDS, MPI_COMM_WORLD, &from_below);
        MPI_Irecv(above, (int)most, MPI_DOUBLE, up, LENT_DOWNWARDS, MPI_COMM_WORLD, &from_above);
        take(coarse, grid, whole(coarse, axis, 0), below, &from_below);
        take(coarse, grid, whole(coarse, axis, 1), above, &from_above);
    }
}
