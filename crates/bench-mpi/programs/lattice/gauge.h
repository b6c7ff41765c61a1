/* The gauge field: a link from each site in each dimension. */
#ifndef LATTICE_GAUGE_H
#define LATTICE_GAUGE_H

#include "geometry.h"

struct gauge {
    struct link *of[PARITIES]; /* DIMENSIONS per site */
};

/* Parameters of random links: with roughness 0 they are unit matrices, with 1 far from it. */
struct drawing {
    uint64_t seed;
    double roughness;
};

/* Returns 0 if there is no memory. */
int gauge_new(struct gauge *gauge, const struct geometry *geometry);
void gauge_free(struct gauge *gauge);
void gauge_draw(struct gauge *gauge, const struct geometry *geometry, const struct drawing *drawing);

/* The colour rotation of a site in a random gauge transformation. */
struct link gauge_turn(const struct geometry *geometry, const int place[DIMENSIONS], uint64_t seed);
/* Applies the gauge transformation to a field. */
void gauge_transform(struct gauge *to, const struct gauge *from, const struct geometry *geometry, uint64_t seed);

/* A third of the mean trace of the product around a square: 1 for unit links. The links must be
 * as generated. */
double gauge_plaquette(const struct gauge *gauge, const struct geometry *geometry, const struct drawing *drawing);
/* The largest deviation of links from U U' = 1 and determinant 1. */
double gauge_defect(const struct gauge *gauge, const struct geometry *geometry);

#endif
