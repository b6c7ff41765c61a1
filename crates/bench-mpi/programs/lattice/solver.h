/* Conjugate gradients for M' M x = M' b on the even sites, in single precision with sums in
 * double. */
#ifndef LATTICE_SOLVER_H
#define LATTICE_SOLVER_H

#include "dirac.h"

/* When to stop. */
struct goal {
    int iterations;   /* exact number, or 0 to iterate until the tolerance is reached */
    int most;         /* limit in the latter case */
    double tolerance; /* largest accepted norm of b - D x over that of b */
};

struct solution {
    int iterations;
    double seconds; /* of the slowest process */
    double flops;   /* of all processes */
    double estimate; /* relative residual of the normal equations, by the recurrence */
    int is_reached;
};

/* Solves D x = b. The time is taken between two barriers; the program has no others. Returns 0
 * if there is no memory. */
int solve(struct dirac *dirac, const struct goal *goal, struct spinor *const x[PARITIES], struct spinor *const b[PARITIES],
          struct solution *solution);
/* Computes the true relative residual of the normal equations; -1 if there is no memory. */
double normal_residual(struct dirac *dirac, struct spinor *const x[PARITIES], struct spinor *const b[PARITIES]);

#endif
