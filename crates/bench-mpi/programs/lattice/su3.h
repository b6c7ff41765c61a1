/* Algebra of SU(3): links, and vectors of three colours. Complex numbers are pairs, because C's
 * complex multiplication handles infinities. */
#ifndef LATTICE_SU3_H
#define LATTICE_SU3_H

enum { COLOURS = 3 };

struct number {
    float re, im;
};

struct colour {
    struct number of[COLOURS];
};

/* Elements by row and column. */
struct link {
    struct number of[COLOURS][COLOURS];
};

static inline struct number times(struct number a, struct number b) {
    return (struct number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* The conjugate of the first times the second. */
static inline struct number conjugate_times(struct number a, struct number b) {
    return (struct number){a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}

static inline struct number plus(struct number a, struct number b) {
    return (struct number){a.re + b.re, a.im + b.im};
}

static inline struct number conjugate(struct number a) { return (struct number){a.re, -a.im}; }

static inline struct colour link_times(const struct link *u, const struct colour *v) {
    struct colour product;
    for (int row = 0; row < COLOURS; row++)
        product.of[row] = plus(plus(times(u->of[row][0], v->of[0]), times(u->of[row][1], v->of[1])), times(u->of[row][2], v->of[2]));
    return product;
}

/* Multiplies by the adjoint of a link, which is its inverse. */
static inline struct colour adjoint_times(const struct link *u, const struct colour *v) {
    struct colour product;
    for (int row = 0; row < COLOURS; row++)
        product.of[row] = plus(plus(conjugate_times(u->of[0][row], v->of[0]), conjugate_times(u->of[1][row], v->of[1])),
                               conjugate_times(u->of[2][row], v->of[2]));
    return product;
}

/* su3.c */
struct link link_unit(void);
struct link link_product(const struct link *a, const struct link *b);
struct link link_adjoint(const struct link *a);
double link_trace(const struct link *a); /* real part */
double link_distance(const struct link *a, const struct link *b);
struct number link_determinant(const struct link *a);

#endif
