/* The Wilson Dirac operator, D = 1 - kappa H: H takes a site's neighbours to it, and so even sites to odd ones and back.
 *
 * Of the whole equation D x = b only that of the even sites is solved, M x = b + kappa H b(odd) with M = 1 - kappa^2 H H, as programs of
 * this kind do: it needs about half of the steps, and vectors half as long. The odd sites follow. */
#ifndef LATTICE_DIRAC_H
#define LATTICE_DIRAC_H

#include "halo.h"

enum { EVEN, ODD };

struct dirac {
    const struct geometry *geometry;
    const struct gauge *gauge;
    struct halo *halo;
    struct spinor *odd; /* what lies between the two halves of M */
    double kappa;
    double flops; /* of this process, up to now */
};

/* Floating-point operations of a site in H. */
enum { HOP_FLOPS = 1320 };

/* to = base + scale H psi, for the sites of `parity`, psi being of the others. `base` may be `to`, or NULL for nothing. */
void hop(struct dirac *dirac, struct spinor *to, int parity, const struct spinor *base, double scale, const struct spinor *psi, enum side side);
/* to = D psi, on all sites. */
void dirac_apply(struct dirac *dirac, struct spinor *const to[PARITIES], struct spinor *const psi[PARITIES], enum side side);
/* to = M psi, on even sites. */
void even_apply(struct dirac *dirac, struct spinor *to, const struct spinor *psi, enum side side);

#endif
