/* Operations on links outside the Dirac operator. */
#include "su3.h"

#include <math.h>

struct link link_unit(void) {
    struct link unit = {0};
    for (int c = 0; c < COLOURS; c++)
        unit.of[c][c].re = 1;
    return unit;
}

struct link link_product(const struct link *a, const struct link *b) {
    struct link product;
    for (int row = 0; row < COLOURS; row++)
        for (int column = 0; column < COLOURS; column++) {
            struct number sum = {0, 0};
            for (int c = 0; c < COLOURS; c++)
                sum = plus(sum, times(a->of[row][c], b->of[c][column]));
            product.of[row][column] = sum;
        }
    return product;
}

struct link link_adjoint(const struct link *a) {
    struct link adjoint;
    for (int row = 0; row < COLOURS; row++)
        for (int column = 0; column < COLOURS; column++)
            adjoint.of[row][column] = conjugate(a->of[column][row]);
    return adjoint;
}

double link_trace(const struct link *a) {
    double trace = 0;
    for (int c = 0; c < COLOURS; c++)
        trace += a->of[c][c].re;
    return trace;
}

double link_distance(const struct link *a, const struct link *b) {
    double sum = 0;
    for (int row = 0; row < COLOURS; row++)
        for (int column = 0; column < COLOURS; column++) {
            double re = a->of[row][column].re - b->of[row][column].re, im = a->of[row][column].im - b->of[row][column].im;
            sum += re * re + im * im;
        }
    return sqrt(sum);
}

struct number link_determinant(const struct link *a) {
    struct number sum = {0, 0};
    for (int c = 0; c < COLOURS; c++) {
        int next = (c + 1) % COLOURS, last = (c + 2) % COLOURS;
        struct number one = times(a->of[1][next], a->of[2][last]), other = times(a->of[1][last], a->of[2][next]);
        sum = plus(sum, times(a->of[0][c], (struct number){one.re - other.re, one.im - other.im}));
    }
    return sum;
}
