/* Divides LU's cube among processes: along x and y by powers of two, with more parts along x if
 * they cannot be equal (NAS-95-020, LU). */
#include "lu.h"

/* Fewer points along an axis would not fill the faces that a neighbour needs. */
enum { FEWEST = 3 };

static void cut(struct part *part, int axis, int place, int processes) {
    int size = part->size;
    if (size / processes < FEWEST)
        refuse("%d processes are too many for %d points in each dimension", world_size, size);
    /* The first parts have one of the remaining points each. */
    int rest = size % processes, extra = place < rest ? place : rest;
    part->points[axis] = size / processes + (place < rest);
    part->first[axis] = place * (size / processes) + extra;
}

void part_begin(struct part *part, int size) {
    *part = (struct part){.size = size};
    int processes[2] = {1, 1};
    while (processes[X] * processes[Y] < world_size)
        processes[processes[X] > processes[Y] ? Y : X] *= 2;
    int place[2] = {my_rank % processes[X], my_rank / processes[X]}, strides[2] = {1, processes[X]};
    for (int axis = X; axis <= Y; axis++) {
        cut(part, axis, place[axis], processes[axis]);
        part->below[axis] = place[axis] > 0 ? my_rank - strides[axis] : MPI_PROC_NULL;
        part->above[axis] = place[axis] + 1 < processes[axis] ? my_rank + strides[axis] : MPI_PROC_NULL;
    }
    part->points[Z] = size;
    for (int axis = 0; axis < AXES; axis++) {
        int last = part->first[axis] + part->points[axis];
        part->begin[axis] = part->first[axis] == 0 ? 1 : 0;
        part->end[axis] = part->points[axis] - (last == size ? 1 : 0);
    }
    int wider = part->points[X] > part->points[Y] ? part->points[X] : part->points[Y];
    part->most = (size_t)wider * (size_t)size * GHOSTS * FIELDS;
    part->packed = room(2 * part->most, sizeof *part->packed);
}

size_t volume(const struct part *part) {
    return at(part, part->points[X] + GHOSTS, part->points[Y] + GHOSTS - 1, part->size - 1);
}
