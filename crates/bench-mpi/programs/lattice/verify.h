/* The checks. Process 0 prints each failure; all processes reach the same verdict. */
#ifndef LATTICE_VERIFY_H
#define LATTICE_VERIFY_H

#include "arguments.h"
#include "dirac.h"
#include "solver.h"

struct verdict {
    int rank;
    int failures;
};

/* Compares a value with an upper bound. */
void verify_below(struct verdict *verdict, const char *what, double value, double bound);

/* Sets `gauge` to unit links and compares the operator on a plane wave with its eigenvalue.
 * Returns 0 if there is no memory, as do the functions below. */
int verify_free_field(struct verdict *verdict, struct dirac *dirac, struct gauge *gauge);
/* Checks that links are unitary, that gamma5 turns the operator into its adjoint, and gauge
 * covariance. */
int verify_operator(struct verdict *verdict, struct dirac *dirac, uint64_t seed);
/* Checks the solution; returns the relative residual of the equation in `left`. */
int verify_solution(struct verdict *verdict, struct dirac *dirac, const struct goal *goal, const struct solution *solution,
                    struct spinor *const x[PARITIES], struct spinor *const b[PARITIES], double *left);
/* Compares with the known results of the default arguments, which hold for every distribution. */
void verify_default(struct verdict *verdict, double plaquette, double norm);

/* Sets random spinors on all sites. */
void random_field(const struct geometry *geometry, struct spinor *const field[PARITIES], uint64_t seed, int subject);

#endif
