#include "field.h"

#include <mpi.h>
#include <stdlib.h>

struct spinor *field_new(const struct geometry *geometry) { return calloc((size_t)geometry->half, sizeof(struct spinor)); }

double sum_of_all(double mine) {
    double sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

static double site_norm(const struct spinor *a) {
    double sum = 0;
    for (int s = 0; s < SPINS; s++)
        for (int c = 0; c < COLOURS; c++) {
            double re = a->of[s].of[c].re, im = a->of[s].of[c].im;
            sum += re * re + im * im;
        }
    return sum;
}

double norm_squared(const struct geometry *geometry, const struct spinor *a) {
    double sum = 0;
    for (int site = 0; site < geometry->half; site++)
        sum += site_norm(&a[site]);
    return sum_of_all(sum);
}

struct complex_sum inner_product(const struct geometry *geometry, const struct spinor *a, const struct spinor *b) {
    double mine[2] = {0, 0}, all[2] = {0, 0};
    for (int site = 0; site < geometry->half; site++)
        for (int s = 0; s < SPINS; s++)
            for (int c = 0; c < COLOURS; c++) {
                struct number one = a[site].of[s].of[c], other = b[site].of[s].of[c];
                mine[0] += (double)one.re * other.re + (double)one.im * other.im;
                mine[1] += (double)one.re * other.im - (double)one.im * other.re;
            }
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (struct complex_sum){all[0], all[1]};
}

static void add_site(struct spinor *to, float scale, const struct spinor *what) {
    for (int s = 0; s < SPINS; s++)
        for (int c = 0; c < COLOURS; c++) {
            to->of[s].of[c].re += scale * what->of[s].of[c].re;
            to->of[s].of[c].im += scale * what->of[s].of[c].im;
        }
}

void add_scaled(const struct geometry *geometry, struct spinor *to, double scale, const struct spinor *what) {
    for (int site = 0; site < geometry->half; site++)
        add_site(&to[site], (float)scale, &what[site]);
}

double add_scaled_and_norm(const struct geometry *geometry, struct spinor *to, double scale, const struct spinor *what) {
    double sum = 0;
    for (int site = 0; site < geometry->half; site++) {
        add_site(&to[site], (float)scale, &what[site]);
        sum += site_norm(&to[site]);
    }
    return sum_of_all(sum);
}

void scale_and_add(const struct geometry *geometry, struct spinor *to, double scale, const struct spinor *what) {
    float by = (float)scale;
    for (int site = 0; site < geometry->half; site++)
        for (int s = 0; s < SPINS; s++)
            for (int c = 0; c < COLOURS; c++) {
                struct number *number = &to[site].of[s].of[c];
                number->re = by * number->re + what[site].of[s].of[c].re;
                number->im = by * number->im + what[site].of[s].of[c].im;
            }
}
