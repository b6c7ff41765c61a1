#include "verify.h"

#include "field.h"
#include "random.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The error of single precision in a few dozen operations and in sums. */
static const double CLOSE = 2e-6;

void verify_below(struct verdict *verdict, const char *what, double value, double bound) {
    if (value <= bound)
        return;
    verdict->failures++;
    if (verdict->rank == 0)
        fprintf(stderr, "error: %s: %.3g, and at most %.3g is right\n", what, value, bound);
}

/* Fields on all sites. */
struct fields {
    struct spinor *of[4][PARITIES];
};

static void fields_free(struct fields *fields) {
    for (int i = 0; i < 4; i++)
        for (int parity = 0; parity < PARITIES; parity++)
            free(fields->of[i][parity]);
}

static int fields_new(struct fields *fields, const struct geometry *geometry) {
    int all = 1;
    for (int i = 0; i < 4; i++)
        for (int parity = 0; parity < PARITIES; parity++)
            all = (fields->of[i][parity] = field_new(geometry)) && all;
    if (!all)
        fields_free(fields);
    return all;
}

void random_field(const struct geometry *geometry, struct spinor *const field[PARITIES], uint64_t seed, int subject) {
    for (int parity = 0; parity < PARITIES; parity++)
        for (int site = 0; site < geometry->half; site++) {
            int place[DIMENSIONS];
            geometry_place(geometry, parity, site, place);
            struct random random = random_of(seed, (enum subject)subject, geometry_number(geometry, place));
            for (int s = 0; s < SPINS; s++)
                for (int c = 0; c < COLOURS; c++) {
                    float re = (float)random_next(&random), im = (float)random_next(&random);
                    field[parity][site].of[s].of[c] = (struct number){re, im};
                }
        }
}

/* Norm of the difference over that of the first. Overwrites the second. */
static double difference(const struct geometry *geometry, struct spinor *const a[PARITIES], struct spinor *const b[PARITIES]) {
    double apart = 0, whole = 0;
    for (int parity = 0; parity < PARITIES; parity++) {
        whole += norm_squared(geometry, a[parity]);
        apart += add_scaled_and_norm(geometry, b[parity], -1, a[parity]);
    }
    return sqrt(apart / whole);
}

/* The gamma matrices, element by element, as an independent check of the projectors. */
static const double complex GAMMA[DIMENSIONS][SPINS][SPINS] = {
    {{0, 0, 0, I}, {0, 0, I, 0}, {0, -I, 0, 0}, {-I, 0, 0, 0}},
    {{0, 0, 0, -1}, {0, 0, 1, 0}, {0, 1, 0, 0}, {-1, 0, 0, 0}},
    {{0, 0, I, 0}, {0, 0, 0, -I}, {-I, 0, 0, 0}, {0, I, 0, 0}},
    {{0, 0, 1, 0}, {0, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, 0}},
};

/* D on a plane wave of unit links: 1 - 2 kappa sum cos p + 2 i kappa sum gamma sin p. `angle` is
 * p. */
static void eigenvalue(double kappa, const double angle[DIMENSIONS], double complex matrix[SPINS][SPINS]) {
    for (int row = 0; row < SPINS; row++)
        for (int column = 0; column < SPINS; column++) {
            matrix[row][column] = row == column;
            for (int d = 0; d < DIMENSIONS; d++) {
                matrix[row][column] -= row == column ? 2 * kappa * cos(angle[d]) : 0;
                matrix[row][column] += 2 * I * kappa * GAMMA[d][row][column] * sin(angle[d]);
            }
        }
}

int verify_free_field(struct verdict *verdict, struct dirac *dirac, struct gauge *gauge) {
    static const double TURNS[DIMENSIONS] = {1, -1, 1, -1};
    static const double complex SPIN[SPINS] = {1, 0.5 - 0.25 * I, -0.75 * I, 0.125 + I};
    const struct geometry *geometry = dirac->geometry;
    struct fields fields;
    if (!fields_new(&fields, geometry))
        return 0;
    double angle[DIMENSIONS];
    for (int d = 0; d < DIMENSIONS; d++)
        angle[d] = 2 * acos(-1) * TURNS[d] / geometry->extent[d];
    double complex matrix[SPINS][SPINS], result[SPINS] = {0};
    eigenvalue(dirac->kappa, angle, matrix);
    for (int row = 0; row < SPINS; row++)
        for (int column = 0; column < SPINS; column++)
            result[row] += matrix[row][column] * SPIN[column];
    for (int parity = 0; parity < PARITIES; parity++)
        for (int site = 0; site < geometry->half; site++) {
            int place[DIMENSIONS];
            double phase = 0;
            geometry_place(geometry, parity, site, place);
            for (int d = 0; d < DIMENSIONS; d++) {
                phase += angle[d] * place[d];
                gauge->of[parity][site * DIMENSIONS + d] = link_unit();
            }
            double complex wave = CMPLX(cos(phase), sin(phase));
            for (int s = 0; s < SPINS; s++)
                for (int c = 0; c < COLOURS; c++) {
                    double complex before = wave * SPIN[s] * (c + 1), after = wave * result[s] * (c + 1);
                    fields.of[0][parity][site].of[s].of[c] = (struct number){(float)creal(before), (float)cimag(before)};
                    fields.of[1][parity][site].of[s].of[c] = (struct number){(float)creal(after), (float)cimag(after)};
                }
        }
    dirac_apply(dirac, fields.of[2], fields.of[0], PLAIN);
    verify_below(verdict, "a plane wave on unit links is not taken to its eigenvalue", difference(geometry, fields.of[1], fields.of[2]), CLOSE);
    fields_free(&fields);
    return 1;
}

/* gamma5, the product of all four, is -1 on the lower half. */
static void turn_lower(const struct geometry *geometry, struct spinor *const field[PARITIES]) {
    for (int parity = 0; parity < PARITIES; parity++)
        for (int site = 0; site < geometry->half; site++)
            for (int s = HALF; s < SPINS; s++)
                for (int c = 0; c < COLOURS; c++) {
                    struct number *number = &field[parity][site].of[s].of[c];
                    *number = (struct number){-number->re, -number->im};
                }
}

static struct complex_sum product(const struct geometry *geometry, struct spinor *const a[PARITIES], struct spinor *const b[PARITIES]) {
    struct complex_sum even = inner_product(geometry, a[EVEN], b[EVEN]), odd = inner_product(geometry, a[ODD], b[ODD]);
    return (struct complex_sum){even.re + odd.re, even.im + odd.im};
}

static double apart(struct complex_sum a, struct complex_sum b, double scale) { return hypot(a.re - b.re, a.im - b.im) / scale; }

/* <x, gamma5 D gamma5 y> = <D x, y>, and the solver's adjoint agrees with it. */
static void verify_adjoint(struct verdict *verdict, struct dirac *dirac, struct fields *fields, uint64_t seed) {
    const struct geometry *geometry = dirac->geometry;
    struct spinor *const *x = fields->of[0], *const *y = fields->of[1], *const *result = fields->of[2];
    random_field(geometry, x, seed, FIRST_FIELD);
    random_field(geometry, y, seed, SECOND_FIELD);
    dirac_apply(dirac, result, x, PLAIN);
    struct complex_sum right = product(geometry, result, y), length = product(geometry, x, x), other = product(geometry, y, y);
    double scale = sqrt(length.re * other.re);
    dirac_apply(dirac, result, y, ADJOINT);
    verify_below(verdict, "the adjoint is not the operator's", apart(product(geometry, x, result), right, scale), CLOSE);
    turn_lower(geometry, y);
    dirac_apply(dirac, result, y, PLAIN);
    turn_lower(geometry, result);
    verify_below(verdict, "gamma5 does not turn the operator into its adjoint", apart(product(geometry, x, result), right, scale), CLOSE);
}

static void turn_colours(const struct geometry *geometry, struct spinor *const to[PARITIES], struct spinor *const from[PARITIES], uint64_t seed) {
    for (int parity = 0; parity < PARITIES; parity++)
        for (int site = 0; site < geometry->half; site++) {
            int place[DIMENSIONS];
            geometry_place(geometry, parity, site, place);
            struct link turn = gauge_turn(geometry, place, seed);
            for (int s = 0; s < SPINS; s++)
                to[parity][site].of[s] = link_times(&turn, &from[parity][site].of[s]);
        }
}

/* Gauge covariance: D of the transformed field, on transformed links, is the transform of D. */
static int verify_covariance(struct verdict *verdict, struct dirac *dirac, struct fields *fields, uint64_t seed) {
    const struct geometry *geometry = dirac->geometry;
    const struct gauge *own = dirac->gauge;
    struct gauge turned;
    int is_there = gauge_new(&turned, geometry);
    if (is_there) {
        random_field(geometry, fields->of[0], seed, FIRST_FIELD);
        dirac_apply(dirac, fields->of[1], fields->of[0], PLAIN);
        turn_colours(geometry, fields->of[2], fields->of[1], seed);
        turn_colours(geometry, fields->of[1], fields->of[0], seed);
        gauge_transform(&turned, own, geometry, seed);
        dirac->gauge = &turned;
        dirac_apply(dirac, fields->of[3], fields->of[1], PLAIN);
        dirac->gauge = own;
        verify_below(verdict, "the operator does not go with a change of gauge", difference(geometry, fields->of[2], fields->of[3]), CLOSE);
    }
    gauge_free(&turned);
    return is_there;
}

int verify_operator(struct verdict *verdict, struct dirac *dirac, uint64_t seed) {
    struct fields fields;
    verify_below(verdict, "links are not of SU(3)", gauge_defect(dirac->gauge, dirac->geometry), CLOSE);
    if (!fields_new(&fields, dirac->geometry))
        return 0;
    verify_adjoint(verdict, dirac, &fields, seed);
    int is_there = verify_covariance(verdict, dirac, &fields, seed);
    fields_free(&fields);
    return is_there;
}

int verify_solution(struct verdict *verdict, struct dirac *dirac, const struct goal *goal, const struct solution *solution,
                    struct spinor *const x[PARITIES], struct spinor *const b[PARITIES], double *left) {
    struct fields fields;
    double normal = normal_residual(dirac, x, b);
    if (normal < 0 || !fields_new(&fields, dirac->geometry))
        return 0;
    dirac_apply(dirac, fields.of[0], x, PLAIN);
    *left = difference(dirac->geometry, b, fields.of[0]);
    fields_free(&fields);
    /* The recurrence drifts from the true residual by the rounding error of each step. */
    verify_below(verdict, "the solver is wrong about what it left", fabs(normal - solution->estimate), 1e-5);
    if (goal->iterations > 0)
        verify_below(verdict, "the iterations came to an early end", goal->iterations - solution->iterations, 0);
    else
        verify_below(verdict, "what is left of the equation", *left, 1.5 * goal->tolerance);
    return 1;
}

void verify_default(struct verdict *verdict, double plaquette, double norm) {
    static const double PLAQUETTE = 0.667783716, NORM = 1.391672e6;
    verify_below(verdict, "the plaquette is not what it was elsewhere, apart by", fabs(plaquette - PLAQUETTE), 1e-6);
    verify_below(verdict, "the solution's norm is not what it was elsewhere, apart by", fabs(norm / NORM - 1), 1e-4);
}
