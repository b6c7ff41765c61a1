/* The checks. Each says on process 0 what failed; all processes come to the same verdict. */
#ifndef LATTICE_VERIFY_H
#define LATTICE_VERIFY_H

#include "arguments.h"
#include "dirac.h"
#include "solver.h"

struct verdict {
    int rank;
    int failures;
};

/* Holds a value against a bound. */
void verify_below(struct verdict *verdict, const char *what, double value, double bound);

/* The operator on unit links, which `gauge` is made of first, against what a plane wave's eigenvalue is. 0 if there is no memory, as below. */
int verify_free_field(struct verdict *verdict, struct dirac *dirac, struct gauge *gauge);
/* That links are unitary, that gamma5 turns the operator into its adjoint, and that it goes with a change of gauge. */
int verify_operator(struct verdict *verdict, struct dirac *dirac, uint64_t seed);
/* That the solution is one. Tells what is left of the equation. */
int verify_solution(struct verdict *verdict, struct dirac *dirac, const struct goal *goal, const struct solution *solution,
                    struct spinor *const x[PARITIES], struct spinor *const b[PARITIES], double *left);
/* What the default comes to, however it is dealt out. */
void verify_default(struct verdict *verdict, double plaquette, double norm);

/* A field of random spinors on all sites. */
void random_field(const struct geometry *geometry, struct spinor *const field[PARITIES], uint64_t seed, int subject);

#endif
