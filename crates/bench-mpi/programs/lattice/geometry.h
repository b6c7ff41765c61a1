/* The lattice and this process' part of it. The dimensions z and t are distributed over
 * processes; x and y are not. All are periodic.
 *
 * Sites are even or odd, by the sum of their coordinates in the whole lattice. A process stores
 * the sites of each parity separately, in the order of t, z, y and half of x. */
#ifndef LATTICE_GEOMETRY_H
#define LATTICE_GEOMETRY_H

#include "spinor.h"

#include <stdint.h>

enum { X, Y, Z, T };
/* Forward and backward in each dimension; the opposite of d is d ^ 1. */
enum { DIRECTIONS = 2 * DIMENSIONS, PARITIES = 2 };
enum { LONGEST = 1024, MOST_SITES = 1 << 26 };

struct geometry {
    int rank, ranks;
    int extent[DIMENSIONS];
    int parts[DIMENSIONS]; /* processes in each dimension */
    int local[DIMENSIONS]; /* extents of a process' part */
    int begin[DIMENSIONS]; /* the first site of this part */
    int neighbour[DIRECTIONS];
    int half;                         /* sites of each parity here */
    int face[DIMENSIONS];             /* of those, at one end of a distributed dimension; 0 for others */
    int *face_sites[PARITIES][DIRECTIONS];
    int *next[PARITIES];              /* neighbour by site and direction: site of the other parity, or -1 - place in a face */
    int *order[PARITIES];             /* sites without neighbours in other processes first */
    int inner[PARITIES];              /* their number */
};

/* Plans the distribution. If `parts` of z and t are 0, chooses the parts with the smallest
 * faces, preferring a distribution of both dimensions if equal. Returns NULL, or an error
 * message in static memory. */
const char *geometry_plan(struct geometry *geometry, const int *extent, const int *parts, int rank, int ranks);
/* Builds the tables; returns 0 if there is no memory. */
int geometry_build(struct geometry *geometry);
void geometry_free(struct geometry *geometry);

/* A site's place in the whole lattice. */
void geometry_place(const struct geometry *geometry, int parity, int site, int place[DIMENSIONS]);
/* The neighbour of a place in the whole lattice. */
void geometry_step(const struct geometry *geometry, const int place[DIMENSIONS], int direction, int neighbour[DIMENSIONS]);
/* A place's number in the whole lattice, independent of the distribution. */
uint64_t geometry_number(const struct geometry *geometry, const int place[DIMENSIONS]);

#endif
