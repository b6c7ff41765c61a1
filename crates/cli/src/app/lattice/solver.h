/* Conjugate gradients for M' M x = M' b on the even sites, in single precision with sums in double. */
#ifndef LATTICE_SOLVER_H
#define LATTICE_SOLVER_H

#include "dirac.h"

/* When to end. */
struct goal {
    int iterations;   /* exactly so many, or 0 for as many as it takes */
    int most;         /* then */
    double tolerance; /* what may be left of b: norm of b - D x over that of b */
};

struct solution {
    int iterations;
    double seconds; /* of the slowest process */
    double flops;   /* of all processes */
    double estimate; /* what is left of the normal equations, over their right side, as the recurrence has it */
    int is_reached;
};

/* Solves D x = b. The time is between two barriers, of which the program has no others. 0 if there is no memory. */
int solve(struct dirac *dirac, const struct goal *goal, struct spinor *const x[PARITIES], struct spinor *const b[PARITIES],
          struct solution *solution);
/* What is truly left of the normal equations, over their right side; -1 if there is no memory. */
double normal_residual(struct dirac *dirac, struct spinor *const x[PARITIES], struct spinor *const b[PARITIES]);

#endif
