/* Spinors, and the projectors 1 + gamma and 1 - gamma of a dimension, which have half the rank.
 *
 * In the chiral basis gamma has two off-diagonal blocks, A and its adjoint, and A has one power
 * of i in each row. So two components determine all of (1 + gamma) psi: half = upper + A lower,
 * and the lower ones are A's adjoint times the half. */
#ifndef LATTICE_SPINOR_H
#define LATTICE_SPINOR_H

#include "su3.h"

enum { SPINS = 4, HALF = 2, DIMENSIONS = 4 };

struct spinor {
    struct colour of[SPINS];
};

struct half_spinor {
    struct colour of[HALF];
};

/* Inlined with constant arguments, the code below reduces to additions. */
#define UNFOLDED static inline __attribute__((always_inline))

/* Column and power of i of the only nonzero entry in row `a` of a dimension's A. x: i, i off the
 * diagonal. y: -1, 1 off the diagonal. z: i, -i. t: 1, 1. */
UNFOLDED int column_of(int dimension, int a) { return dimension < 2 ? 1 - a : a; }
UNFOLDED int power_of(int dimension, int a) {
    switch (dimension) {
    case 0:
        return 1;
    case 1:
        return a == 0 ? 2 : 0;
    case 2:
        return a == 0 ? 1 : 3;
    default:
        return 0;
    }
}

/* a + i^power b */
UNFOLDED struct number plus_turned(struct number a, struct number b, int power) {
    switch (power & 3) {
    case 0:
        return (struct number){a.re + b.re, a.im + b.im};
    case 1:
        return (struct number){a.re - b.im, a.im + b.re};
    case 2:
        return (struct number){a.re - b.re, a.im - b.im};
    default:
        return (struct number){a.re + b.im, a.im - b.re};
    }
}

/* The upper half of (1 + gamma) psi, or of (1 - gamma) psi if `sign` is -1. */
UNFOLDED struct half_spinor project(const struct spinor *psi, int dimension, int sign) {
    struct half_spinor half;
    for (int a = 0; a < HALF; a++) {
        int lower = HALF + column_of(dimension, a), power = power_of(dimension, a) + (sign < 0 ? 2 : 0);
        for (int c = 0; c < COLOURS; c++)
            half.of[a].of[c] = plus_turned(psi->of[a].of[c], psi->of[lower].of[c], power);
    }
    return half;
}

/* Adds the full spinor that a half determines. */
UNFOLDED void add_projected(struct spinor *sum, const struct half_spinor *half, int dimension, int sign) {
    for (int a = 0; a < HALF; a++) {
        int lower = HALF + column_of(dimension, a), power = (sign < 0 ? 2 : 0) - power_of(dimension, a);
        for (int c = 0; c < COLOURS; c++) {
            sum->of[a].of[c] = plus(sum->of[a].of[c], half->of[a].of[c]);
            sum->of[lower].of[c] = plus_turned(sum->of[lower].of[c], half->of[a].of[c], power);
        }
    }
}

#endif
