/* Spinor fields on the sites of one parity: sums over all processes, and linear combinations.
 * Fields are single precision, sums double. */
#ifndef LATTICE_FIELD_H
#define LATTICE_FIELD_H

#include "geometry.h"

struct complex_sum {
    double re, im;
};

/* Allocates a field; NULL if there is no memory. */
struct spinor *field_new(const struct geometry *geometry);

double sum_of_all(double mine);
double norm_squared(const struct geometry *geometry, const struct spinor *a);
struct complex_sum inner_product(const struct geometry *geometry, const struct spinor *a, const struct spinor *b);

/* to += scale * what */
void add_scaled(const struct geometry *geometry, struct spinor *to, double scale, const struct spinor *what);
/* to = scale * to + what */
void scale_and_add(const struct geometry *geometry, struct spinor *to, double scale, const struct spinor *what);
/* The same as add_scaled; returns the squared norm of the new `to`. */
double add_scaled_and_norm(const struct geometry *geometry, struct spinor *to, double scale, const struct spinor *what);
/* Floating-point operations per site of each of these except the inner product. */
enum { SUM_FLOPS = 2 * 2 * SPINS * COLOURS, NORM_FLOPS = SUM_FLOPS };

#endif
