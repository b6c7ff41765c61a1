/* The exchange of faces with the neighbouring processes: half spinors, twelve numbers per site,
 * which suffice after projection. */
#ifndef LATTICE_HALO_H
#define LATTICE_HALO_H

#include "gauge.h"

#include <mpi.h>

/* The operator or its adjoint, whose projectors differ. */
enum side { PLAIN, ADJOINT };

struct halo {
    const struct geometry *geometry;
    struct half_spinor *out[DIRECTIONS], *in[DIRECTIONS]; /* NULL where the neighbour is this process */
    MPI_Request requests[2 * DIRECTIONS];
    int pending;
};

/* Returns 0 if there is no memory. */
int halo_new(struct halo *halo, const struct geometry *geometry);
void halo_free(struct halo *halo);

/* Starts sending the faces of a field on sites of `parity`, and receiving the neighbours'. */
void halo_begin(struct halo *halo, const struct gauge *gauge, const struct spinor *psi, int parity, enum side side);
/* Waits for completion of the exchange. */
void halo_end(struct halo *halo);

/* The sign of gamma in the projector for a direction. */
UNFOLDED int sign_of(int direction, enum side side) { return (direction % 2 == 0) == (side == PLAIN) ? -1 : 1; }

#endif
