#include "dirac.h"

#include "field.h"

#include <stddef.h>

/* Adds a neighbour's contribution. For a backward neighbour in another process, that process has
 * applied the link. */
UNFOLDED void add_neighbour(struct spinor *sum, const struct dirac *dirac, const struct spinor *psi, int parity, int site, int direction,
                            enum side side) {
    int d = direction / 2, sign = sign_of(direction, side), next = dirac->geometry->next[parity][site * DIRECTIONS + direction];
    struct half_spinor half;
    if (next >= 0)
        half = project(&psi[next], d, sign);
    else
        half = dirac->halo->in[direction][-1 - next];
    for (int a = 0; a < HALF; a++)
        if (direction % 2 == 0)
            half.of[a] = link_times(&dirac->gauge->of[parity][site * DIMENSIONS + d], &half.of[a]);
        else if (next >= 0)
            half.of[a] = adjoint_times(&dirac->gauge->of[1 - parity][next * DIMENSIONS + d], &half.of[a]);
    add_projected(sum, &half, d, sign);
}

/* Computes positions `from` to `end` of the order. */
UNFOLDED void hop_sites(const struct dirac *dirac, struct spinor *to, int parity, const struct spinor *base, float scale,
                        const struct spinor *psi, enum side side, int from, int end) {
    for (int place = from; place < end; place++) {
        int site = dirac->geometry->order[parity][place];
        struct spinor sum = {0};
        add_neighbour(&sum, dirac, psi, parity, site, 0, side);
        add_neighbour(&sum, dirac, psi, parity, site, 1, side);
        add_neighbour(&sum, dirac, psi, parity, site, 2, side);
        add_neighbour(&sum, dirac, psi, parity, site, 3, side);
        add_neighbour(&sum, dirac, psi, parity, site, 4, side);
        add_neighbour(&sum, dirac, psi, parity, site, 5, side);
        add_neighbour(&sum, dirac, psi, parity, site, 6, side);
        add_neighbour(&sum, dirac, psi, parity, site, 7, side);
        for (int s = 0; s < SPINS; s++)
            for (int c = 0; c < COLOURS; c++) {
                struct number under = base ? base[site].of[s].of[c] : (struct number){0, 0}, number = sum.of[s].of[c];
                to[site].of[s].of[c] = (struct number){under.re + scale * number.re, under.im + scale * number.im};
            }
    }
}

static void hop_plain(const struct dirac *dirac, struct spinor *to, int parity, const struct spinor *base, float scale, const struct spinor *psi,
                      int from, int end) {
    hop_sites(dirac, to, parity, base, scale, psi, PLAIN, from, end);
}

static void hop_adjoint(const struct dirac *dirac, struct spinor *to, int parity, const struct spinor *base, float scale,
                        const struct spinor *psi, int from, int end) {
    hop_sites(dirac, to, parity, base, scale, psi, ADJOINT, from, end);
}

void hop(struct dirac *dirac, struct spinor *to, int parity, const struct spinor *base, double scale, const struct spinor *psi, enum side side) {
    int half = dirac->geometry->half, inner = dirac->geometry->inner[parity];
    void (*sites)(const struct dirac *, struct spinor *, int, const struct spinor *, float, const struct spinor *, int, int) =
        side == PLAIN ? hop_plain : hop_adjoint;
    /* The faces are in transit while the inner sites are computed. */
    halo_begin(dirac->halo, dirac->gauge, psi, 1 - parity, side);
    sites(dirac, to, parity, base, (float)scale, psi, 0, inner);
    halo_end(dirac->halo);
    sites(dirac, to, parity, base, (float)scale, psi, inner, half);
    dirac->flops += (double)half * (HOP_FLOPS + (base ? SUM_FLOPS : SUM_FLOPS / 2));
}

void dirac_apply(struct dirac *dirac, struct spinor *const to[PARITIES], struct spinor *const psi[PARITIES], enum side side) {
    for (int parity = 0; parity < PARITIES; parity++)
        hop(dirac, to[parity], parity, psi[parity], -dirac->kappa, psi[1 - parity], side);
}

void even_apply(struct dirac *dirac, struct spinor *to, const struct spinor *psi, enum side side) {
    hop(dirac, dirac->odd, ODD, NULL, 1, psi, side);
    hop(dirac, to, EVEN, psi, -dirac->kappa * dirac->kappa, dirac->odd, side);
}
