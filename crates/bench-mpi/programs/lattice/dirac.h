/* The Wilson Dirac operator, D = 1 - kappa H: H sums over a site's neighbours, and so maps even
 * sites to odd ones and vice versa.
 *
 * Instead of the whole equation D x = b, only that of the even sites is solved, M x = b + kappa
 * H b(odd) with M = 1 - kappa^2 H H, as is usual: it needs about half of the steps, and vectors
 * of half the length. The odd sites follow. */
#ifndef LATTICE_DIRAC_H
#define LATTICE_DIRAC_H

#include "halo.h"

enum { EVEN, ODD };

struct dirac {
    const struct geometry *geometry;
    const struct gauge *gauge;
    struct halo *halo;
    struct spinor *odd; /* intermediate result between the two factors H of M */
    double kappa;
    double flops; /* of this process, up to now */
};

/* Floating-point operations per site in H. */
enum { HOP_FLOPS = 1320 };

/* to = base + scale H psi, for the sites of `parity`; psi is on the other sites. `base` may be
 * `to`, or NULL for zero. */
void hop(struct dirac *dirac, struct spinor *to, int parity, const struct spinor *base, double scale, const struct spinor *psi, enum side side);
/* to = D psi, on all sites. */
void dirac_apply(struct dirac *dirac, struct spinor *const to[PARITIES], struct spinor *const psi[PARITIES], enum side side);
/* to = M psi, on even sites. */
void even_apply(struct dirac *dirac, struct spinor *to, const struct spinor *psi, enum side side);

#endif
