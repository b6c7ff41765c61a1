/* The gauge field: a link from each site in each dimension. */
#ifndef LATTICE_GAUGE_H
#define LATTICE_GAUGE_H

#include "geometry.h"

struct gauge {
    struct link *of[PARITIES]; /* DIMENSIONS of each site */
};

/* How links are drawn: 0 is unity, 1 is far from it. */
struct drawing {
    uint64_t seed;
    double roughness;
};

/* 0 if there is no memory. */
int gauge_new(struct gauge *gauge, const struct geometry *geometry);
void gauge_free(struct gauge *gauge);
void gauge_draw(struct gauge *gauge, const struct geometry *geometry, const struct drawing *drawing);

/* What a random transformation turns a site's colours by. */
struct link gauge_turn(const struct geometry *geometry, const int place[DIMENSIONS], uint64_t seed);
/* The field that the transformation makes of another. */
void gauge_transform(struct gauge *to, const struct gauge *from, const struct geometry *geometry, uint64_t seed);

/* A third of the mean trace of the product around a square: 1 of unit links. The links must be as they were drawn. */
double gauge_plaquette(const struct gauge *gauge, const struct geometry *geometry, const struct drawing *drawing);
/* How far links are from U U' = 1 and determinant 1, at most. */
double gauge_defect(const struct gauge *gauge, const struct geometry *geometry);

#endif
