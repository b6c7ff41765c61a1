/* MG: Poisson's equation on a cube with periodic boundaries, by V-cycles over grids, each with
 * half the points of the next finer one in every dimension (RNR-94-007, kernel MG of section 2). */
#ifndef VERBENA_NAS_MG_H
#define VERBENA_NAS_MG_H

#include "common.h"

#include <stdbool.h>

enum { AXES = 3, X = 0, Y = 1, Z = 2 };

/* mg_levels.c: the grids and their distribution. A process' points are 1 to points[axis]; 0 and
 * points[axis] + 1 are a neighbour's. */
struct level {
    int size;           /* points of the whole grid, in each dimension */
    int points[AXES];
    int extents[AXES];  /* points + 2 */
    int strides[AXES];  /* one process in `strides` has points */
    bool has_points[AXES];
    bool is_here;       /* in all dimensions */
    double *solution, *residual;
};
struct cube {
    int processes[AXES], place[AXES]; /* of this process */
    int count;
    struct level *levels; /* the coarsest first */
    double *charges;      /* the right side, of the finest */
    double *packed;       /* buffer for three planes of the finest, each of `most` points */
    size_t most;
};
void cube_begin(struct cube *cube, int size);
size_t volume(const struct level *level);
/* The process at a distance along an axis, periodically. */
int neighbour(const struct cube *cube, int axis, int distance);
static inline size_t at(const struct level *level, int x, int y, int z) {
    return ((size_t)z * (size_t)level->extents[Y] + (size_t)y) * (size_t)level->extents[X] + (size_t)x;
}

/* mg_exchange.c */
/* Fills the neighbours' points of a grid. */
void exchange_faces(const struct cube *cube, const struct level *level, double *grid);
/* Sends points of the coarser grid, for interpolation, to processes that have points of the
 * finer grid only. */
void lend_coarse(const struct cube *cube, const struct level *coarse, const struct level *fine);

/* mg_operators.c */
void clear(const struct level *level, double *grid);
/* result = right - A solution; result may be right. */
void find_residual(const struct cube *cube, const struct level *level, const double *right, double *result);
/* solution += S residual */
void smooth(const struct cube *cube, const struct level *level);
/* residual of the coarser = P residual of the finer */
void restrict_residual(const struct cube *cube, const struct level *fine, const struct level *coarse);
/* solution of the finer += Q solution of the coarser */
void interpolate(const struct cube *cube, const struct level *coarse, const struct level *fine);
/* The root of the mean square of the finest grid's residual. */
double norm(const struct cube *cube);

/* mg_charges.c: the right side. */
void place_charges(const struct cube *cube);

#endif
