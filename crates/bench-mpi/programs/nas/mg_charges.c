/* The right side of MG (RNR-94-007, kernel MG of section 2): with one random number per point, 1
 * at the ten largest, -1 at the ten smallest, 0 elsewhere. */
#include "mg.h"

#include <stdlib.h>
#include <string.h>

enum { CHARGES = 10 };

struct candidate {
    double value;
    int64_t place; /* among the whole grid's points, x first */
};

/* Keeps the largest candidates, in descending order. */
static void offer(struct candidate *best, struct candidate offered) {
    if (offered.value <= best[CHARGES - 1].value)
        return;
    int i = CHARGES - 1;
    for (; i > 0 && best[i - 1].value < offered.value; i--)
        best[i] = best[i - 1];
    best[i] = offered;
}

/* Finds the largest candidates of all processes. */
static void agree(struct candidate *best) {
    struct candidate *all = room((size_t)world_size * CHARGES, sizeof *all);
    int bytes = CHARGES * (int)sizeof *all;
    MPI_Allgather(best, bytes, MPI_BYTE, all, bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < CHARGES; i++)
        best[i].value = -2;
    for (int i = 0; i < world_size * CHARGES; i++)
        offer(best, all[i]);
    free(all);
}

static void put(const struct cube *cube, const struct candidate *best, double charge) {
    const struct level *level = &cube->levels[cube->count - 1];
    for (int i = 0; i < CHARGES; i++) {
        int64_t rest = best[i].place;
        int here[AXES], is_here = 1;
        for (int axis = 0; axis < AXES; axis++, rest /= level->size) {
            here[axis] = (int)(rest % level->size) - cube->place[axis] * level->points[axis] + 1;
            is_here = is_here && here[axis] >= 1 && here[axis] <= level->points[axis];
        }
        if (is_here)
            cube->charges[at(level, here[X], here[Y], here[Z])] = charge;
    }
}

void place_charges(const struct cube *cube) {
    const struct level *level = &cube->levels[cube->count - 1];
    struct candidate largest[CHARGES], smallest[CHARGES];
    memset(largest, 0, sizeof largest);
    for (int i = 0; i < CHARGES; i++)
        largest[i].value = -2; /* less than any number, negated or not */
    memcpy(smallest, largest, sizeof smallest);
    int64_t size = level->size;
    for (int z = 0; z < level->points[Z]; z++)
        for (int y = 0; y < level->points[Y]; y++) {
            int64_t line = (int64_t)cube->place[Z] * level->points[Z] + z;
            line = line * size + (int64_t)cube->place[Y] * level->points[Y] + y;
            int64_t place = line * size + (int64_t)cube->place[X] * level->points[X];
            uint64_t state = random_skip(RANDOM_SEED, (uint64_t)place);
            for (int x = 0; x < level->points[X]; x++, place++) {
                double value = random_next(&state);
                offer(largest, (struct candidate){value, place});
                offer(smallest, (struct candidate){-value, place});
            }
        }
    agree(largest);
    agree(smallest);
    put(cube, smallest, -1);
    put(cube, largest, 1);
    exchange_faces(cube, level, cube->charges);
}
