/* LU: the flow of a compressible fluid in a cube, whose steady state is found by symmetric
 * successive over-relaxation (RNR-94-007, section 3: the equations, and the simulated
 * application that solves a block lower and a block upper triangular system). */
#ifndef VERBENA_NAS_LU_H
#define VERBENA_NAS_LU_H

#include "common.h"

enum { FIELDS = 5 }; /* density, three momenta, energy */
enum { AXES = 3, X = 0, Y = 1, Z = 2 };
typedef double state[FIELDS];

/* lu_part.c: a column of the cube, from bottom to top, for each process. Points are numbered
 * from 0 along each axis of the part; two more on each side along x and y belong to the
 * neighbours. */
enum { GHOSTS = 2 };
struct part {
    int size;           /* points of the whole cube along each axis */
    int first[AXES];    /* of this part, in the cube */
    int points[AXES];
    int begin[AXES], end[AXES]; /* interior points of the cube: the first, and one past the last */
    int below[2], above[2];     /* neighbours along x and y; MPI_PROC_NULL if none */
    double *packed;             /* buffer for two faces, out and in, of `most` values each */
    size_t most;
};
void part_begin(struct part *part, int size);
size_t volume(const struct part *part);
static inline size_t at(const struct part *part, int x, int y, int z) {
    size_t width = (size_t)part->points[X] + 2 * GHOSTS, depth = (size_t)part->points[Y] + 2 * GHOSTS;
    return ((size_t)z * depth + (size_t)(y + GHOSTS)) * width + (size_t)(x + GHOSTS);
}

/* lu_exchange.c */
/* Faces two points deep, as needed by differences of the fourth order. */
void exchange_faces(const struct part *part, state *grid);
/* Edges of a plane, one point deep: received from the previous process in a sweep, and sent to
 * the next. Sweeps go up or down along all axes. */
enum sweep { UP, DOWN };
void await_edges(const struct part *part, state *grid, int z, enum sweep sweep);
void pass_edges(const struct part *part, state *grid, int z, enum sweep sweep);

/* lu_solution.c: the exact solution and the initial flow. */
void exact(const struct part *part, int x, int y, int z, state *solution);
void set_exactly(const struct part *part, state *grid);
void set_beginning(const struct part *part, state *grid);

/* lu_equations.c */
/* The Navier-Stokes constants that both files of equations need. */
static const double C1 = 1.4, C2 = 0.4, C3 = 0.1, C4 = 1, C5 = 1.4;
/* Coefficients of the second differences added for stability, by axis. */
static const double DAMPING[AXES] = {0.75, 0.75, 1};
/* change = change of the flow per unit time, less the forcing, which may be NULL. */
void find_change(const struct part *part, state *flow, const state *forcing, state *change);

/* lu_sweeps.c: a step of the relaxation of `change`, in place. */
void relax(const struct part *part, const state *flow, state *change, double time_step);
static const double OMEGA = 1.2;

/* lu_norms.c: the verified quantities. */
void norm_of_change(const struct part *part, const state *change, state norm);
void norm_of_error(const struct part *part, const state *flow, state norm);
double surface_integral(const struct part *part, const state *flow);

#endif
