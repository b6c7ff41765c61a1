/* The exchange of faces with the neighbouring processes: half spinors, twelve numbers a site, as the projectors leave no more. */
#ifndef LATTICE_HALO_H
#define LATTICE_HALO_H

#include "gauge.h"

#include <mpi.h>

/* The operator, or its adjoint, whose projectors are exchanged. */
enum side { PLAIN, ADJOINT };

struct halo {
    const struct geometry *geometry;
    struct half_spinor *out[DIRECTIONS], *in[DIRECTIONS]; /* NULL where there is no other process */
    MPI_Request requests[2 * DIRECTIONS];
    int pending;
};

/* 0 if there is no memory. */
int halo_new(struct halo *halo, const struct geometry *geometry);
void halo_free(struct halo *halo);

/* Begins to send the faces of a field of sites of `parity`, and to receive the neighbours'. */
void halo_begin(struct halo *halo, const struct gauge *gauge, const struct spinor *psi, int parity, enum side side);
/* Waits until all of it is done. */
void halo_end(struct halo *halo);

/* The sign of gamma in the projector of what comes from a direction. */
UNFOLDED int sign_of(int direction, enum side side) { return (direction % 2 == 0) == (side == PLAIN) ? -1 : 1; }

#endif
