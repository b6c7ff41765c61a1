#include "gauge.h"

#include "field.h"
#include "random.h"

#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

int gauge_new(struct gauge *gauge, const struct geometry *geometry) {
    size_t links = (size_t)geometry->half * DIMENSIONS;
    for (int parity = 0; parity < PARITIES; parity++)
        gauge->of[parity] = malloc(links * sizeof(struct link));
    return gauge->of[0] && gauge->of[1];
}

void gauge_free(struct gauge *gauge) {
    for (int parity = 0; parity < PARITIES; parity++)
        free(gauge->of[parity]);
}

static void normalise(double complex *row) {
    double norm = 0;
    for (int c = 0; c < COLOURS; c++)
        norm += creal(row[c]) * creal(row[c]) + cimag(row[c]) * cimag(row[c]);
    for (int c = 0; c < COLOURS; c++)
        row[c] /= sqrt(norm);
}

/* The unit matrix plus a random one, with rows made orthonormal, the last one so that the
 * determinant is 1. */
static struct link drawn(struct random *random, double roughness) {
    double complex row[COLOURS][COLOURS];
    for (int r = 0; r < COLOURS; r++)
        for (int c = 0; c < COLOURS; c++) {
            double re = random_next(random), im = random_next(random);
            row[r][c] = (r == c) * (1 - roughness) + roughness * CMPLX(re, im);
        }
    normalise(row[0]);
    double complex shared = 0;
    for (int c = 0; c < COLOURS; c++)
        shared += conj(row[0][c]) * row[1][c];
    for (int c = 0; c < COLOURS; c++)
        row[1][c] -= shared * row[0][c];
    normalise(row[1]);
    struct link link;
    for (int c = 0; c < COLOURS; c++) {
        int next = (c + 1) % COLOURS, last = (c + 2) % COLOURS;
        row[2][c] = conj(row[0][next] * row[1][last] - row[0][last] * row[1][next]);
    }
    for (int r = 0; r < COLOURS; r++)
        for (int c = 0; c < COLOURS; c++)
            link.of[r][c] = (struct number){(float)creal(row[r][c]), (float)cimag(row[r][c])};
    return link;
}

static struct link drawn_link(const struct geometry *geometry, const int place[DIMENSIONS], int dimension, const struct drawing *drawing) {
    uint64_t number = geometry_number(geometry, place) * DIMENSIONS + (uint64_t)dimension;
    struct random random = random_of(drawing->seed, LINKS, number);
    return drawn(&random, drawing->roughness);
}

void gauge_draw(struct gauge *gauge, const struct geometry *geometry, const struct drawing *drawing) {
    for (int parity = 0; parity < PARITIES; parity++)
        for (int site = 0; site < geometry->half; site++)
            for (int d = 0; d < DIMENSIONS; d++) {
                int place[DIMENSIONS];
                geometry_place(geometry, parity, site, place);
                gauge->of[parity][site * DIMENSIONS + d] = drawn_link(geometry, place, d, drawing);
            }
}

struct link gauge_turn(const struct geometry *geometry, const int place[DIMENSIONS], uint64_t seed) {
    struct random random = random_of(seed, TRANSFORMATION, geometry_number(geometry, place));
    return drawn(&random, 1);
}

void gauge_transform(struct gauge *to, const struct gauge *from, const struct geometry *geometry, uint64_t seed) {
    for (int parity = 0; parity < PARITIES; parity++)
        for (int site = 0; site < geometry->half; site++)
            for (int d = 0; d < DIMENSIONS; d++) {
                int place[DIMENSIONS], there[DIMENSIONS], link = site * DIMENSIONS + d;
                geometry_place(geometry, parity, site, place);
                geometry_step(geometry, place, 2 * d, there);
                struct link here = gauge_turn(geometry, place, seed), beyond = gauge_turn(geometry, there, seed);
                struct link back = link_adjoint(&beyond), turned = link_product(&here, &from->of[parity][link]);
                to->of[parity][link] = link_product(&turned, &back);
            }
}

/* The link from a site's neighbour; if it belongs to another process, it is generated again. */
static struct link neighbour_link(const struct gauge *gauge, const struct geometry *geometry, int parity, int site, int step, int dimension,
                                  const struct drawing *drawing) {
    int next = geometry->next[parity][site * DIRECTIONS + 2 * step];
    if (next >= 0)
        return gauge->of[1 - parity][next * DIMENSIONS + dimension];
    int place[DIMENSIONS], there[DIMENSIONS];
    geometry_place(geometry, parity, site, place);
    geometry_step(geometry, place, 2 * step, there);
    return drawn_link(geometry, there, dimension, drawing);
}

double gauge_plaquette(const struct gauge *gauge, const struct geometry *geometry, const struct drawing *drawing) {
    double sum = 0;
    for (int parity = 0; parity < PARITIES; parity++)
        for (int site = 0; site < geometry->half; site++)
            for (int d = 0; d < DIMENSIONS; d++)
                for (int e = d + 1; e < DIMENSIONS; e++) {
                    const struct link *here = &gauge->of[parity][site * DIMENSIONS];
                    struct link after = neighbour_link(gauge, geometry, parity, site, d, e, drawing);
                    struct link above = neighbour_link(gauge, geometry, parity, site, e, d, drawing);
                    struct link one = link_product(&here[d], &after), other = link_product(&here[e], &above);
                    struct link back = link_adjoint(&other), around = link_product(&one, &back);
                    sum += link_trace(&around) / COLOURS;
                }
    double squares = DIMENSIONS * (DIMENSIONS - 1) / 2.0;
    for (int d = 0; d < DIMENSIONS; d++)
        squares *= geometry->extent[d];
    return sum_of_all(sum) / squares;
}

double gauge_defect(const struct gauge *gauge, const struct geometry *geometry) {
    struct link unit = link_unit();
    double worst = 0, all = 0;
    for (int parity = 0; parity < PARITIES; parity++)
        for (int link = 0; link < geometry->half * DIMENSIONS; link++) {
            const struct link *here = &gauge->of[parity][link];
            struct link back = link_adjoint(here), both = link_product(here, &back);
            struct number determinant = link_determinant(here);
            double defect = link_distance(&both, &unit) + hypot(determinant.re - 1, determinant.im);
            /* A NaN is not a link, either. */
            if (!(defect <= worst))
                worst = isfinite(defect) ? defect : HUGE_VAL;
        }
    MPI_Allreduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}
