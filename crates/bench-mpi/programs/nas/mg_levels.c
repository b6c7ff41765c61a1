/* The grids of MG, distributed over processes in three dimensions, as in NAS-95-020: a grid with
 * too few points for all processes of a dimension is on every second one, and so on. Point j of
 * a grid coincides with point 2 j of the next finer one, and is on the same process. */
#include "mg.h"

enum { COARSEST = 2 };

size_t volume(const struct level *level) {
    return (size_t)level->extents[X] * (size_t)level->extents[Y] * (size_t)level->extents[Z];
}

int neighbour(const struct cube *cube, int axis, int distance) {
    int place[AXES] = {cube->place[X], cube->place[Y], cube->place[Z]};
    place[axis] = (place[axis] + distance + cube->processes[axis]) % cube->processes[axis];
    return (place[Z] * cube->processes[Y] + place[Y]) * cube->processes[X] + place[X];
}

/* A third of the powers of two along x, half of the others along y, the rest along z. */
static void deal(struct cube *cube) {
    int powers = 0;
    while (1 << (powers + 1) <= world_size)
        powers++;
    int along_x = powers / 3, along_y = (powers - along_x) / 2;
    cube->processes[X] = 1 << along_x;
    cube->processes[Y] = 1 << along_y;
    cube->processes[Z] = world_size / (cube->processes[X] * cube->processes[Y]);
    cube->place[X] = my_rank % cube->processes[X];
    cube->place[Y] = my_rank / cube->processes[X] % cube->processes[Y];
    cube->place[Z] = my_rank / (cube->processes[X] * cube->processes[Y]);
}

static void level_begin(struct level *level, const struct cube *cube, int size) {
    level->size = size;
    level->is_here = true;
    for (int axis = 0; axis < AXES; axis++) {
        int processes = cube->processes[axis];
        level->strides[axis] = size < processes ? processes / size : 1;
        level->has_points[axis] = (cube->place[axis] + 1) % level->strides[axis] == 0;
        level->points[axis] = size < processes ? 1 : size / processes;
        level->extents[axis] = level->points[axis] + 2;
        level->is_here = level->is_here && level->has_points[axis];
    }
    /* Also without points of the grid: a process may receive some for interpolation. */
    level->solution = room(volume(level), sizeof(double));
    level->residual = room(volume(level), sizeof(double));
}

/* Points of a level's largest plane. */
static size_t largest_plane(const struct level *level) {
    size_t most = 0;
    for (int axis = 0; axis < AXES; axis++) {
        size_t points = volume(level) / (size_t)level->extents[axis];
        most = points > most ? points : most;
    }
    return most;
}

void cube_begin(struct cube *cube, int size) {
    deal(cube);
    if (cube->processes[Z] > size)
        refuse("%d processes are too many for %d points in each dimension", world_size, size);
    for (int points = COARSEST; points <= size; points *= 2)
        cube->count++;
    cube->levels = room((size_t)cube->count, sizeof *cube->levels);
    for (int i = 0; i < cube->count; i++)
        level_begin(&cube->levels[i], cube, COARSEST << i);
    const struct level *finest = &cube->levels[cube->count - 1];
    cube->charges = room(volume(finest), sizeof(double));
    cube->most = largest_plane(finest);
    cube->packed = room(3 * cube->most, sizeof(double));
}
