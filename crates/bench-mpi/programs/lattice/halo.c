#include "halo.h"

#include <stdlib.h>

int halo_new(struct halo *halo, const struct geometry *geometry) {
    *halo = (struct halo){.geometry = geometry};
    for (int d = 0; d < DIRECTIONS; d++) {
        size_t face = (size_t)geometry->face[d / 2];
        if (face == 0)
            continue;
        halo->out[d] = malloc(face * sizeof(struct half_spinor));
        halo->in[d] = malloc(face * sizeof(struct half_spinor));
        if (!halo->out[d] || !halo->in[d])
            return 0;
    }
    return 1;
}

void halo_free(struct halo *halo) {
    for (int d = 0; d < DIRECTIONS; d++) {
        free(halo->out[d]);
        free(halo->in[d]);
    }
}

/* Packs the face for the neighbour in a direction, which receives it from the opposite one. The
 * neighbour ahead does not have the link from here, so it is applied before sending. */
UNFOLDED void pack(struct half_spinor *out, const struct geometry *geometry, const struct gauge *gauge, const struct spinor *psi, int parity,
                   int direction, enum side side) {
    const int *sites = geometry->face_sites[parity][direction], d = direction / 2;
    for (int place = 0; place < geometry->face[d]; place++) {
        struct half_spinor half = project(&psi[sites[place]], d, sign_of(direction ^ 1, side));
        if (direction % 2 == 0)
            for (int a = 0; a < HALF; a++)
                half.of[a] = adjoint_times(&gauge->of[parity][sites[place] * DIMENSIONS + d], &half.of[a]);
        out[place] = half;
    }
}

UNFOLDED void pack_all(struct halo *halo, const struct gauge *gauge, const struct spinor *psi, int parity, enum side side) {
    const struct geometry *geometry = halo->geometry;
    pack(halo->out[2 * Z], geometry, gauge, psi, parity, 2 * Z, side);
    pack(halo->out[2 * Z + 1], geometry, gauge, psi, parity, 2 * Z + 1, side);
    pack(halo->out[2 * T], geometry, gauge, psi, parity, 2 * T, side);
    pack(halo->out[2 * T + 1], geometry, gauge, psi, parity, 2 * T + 1, side);
}

void halo_begin(struct halo *halo, const struct gauge *gauge, const struct spinor *psi, int parity, enum side side) {
    const struct geometry *geometry = halo->geometry;
    enum { NUMBERS = sizeof(struct half_spinor) / sizeof(float) };
    halo->pending = 0;
    for (int d = 0; d < DIRECTIONS; d++)
        if (halo->in[d])
            MPI_Irecv(halo->in[d], geometry->face[d / 2] * NUMBERS, MPI_FLOAT, geometry->neighbour[d], d ^ 1, MPI_COMM_WORLD,
                      &halo->requests[halo->pending++]);
    if (side == PLAIN)
        pack_all(halo, gauge, psi, parity, PLAIN);
    else
        pack_all(halo, gauge, psi, parity, ADJOINT);
    for (int d = 0; d < DIRECTIONS; d++)
        if (halo->out[d])
            MPI_Isend(halo->out[d], geometry->face[d / 2] * NUMBERS, MPI_FLOAT, geometry->neighbour[d], d, MPI_COMM_WORLD,
                      &halo->requests[halo->pending++]);
}

void halo_end(struct halo *halo) {
    if (halo->pending > 0)
        MPI_Waitall(halo->pending, halo->requests, MPI_STATUSES_IGNORE);
}
