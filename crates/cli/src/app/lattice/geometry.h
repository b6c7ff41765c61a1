/* The lattice and this process' part of it. The dimensions z and t are dealt out; x and y are whole everywhere. All are periodic.
 *
 * Sites are even or odd, by the sum of their coordinates in the whole lattice. A process keeps the sites of each parity by themselves, in
 * the order of t, z, y and half of x. */
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
    int face[DIMENSIONS];             /* of those, at an end of a dimension that is dealt out; 0 of others */
    int *face_sites[PARITIES][DIRECTIONS];
    int *next[PARITIES];              /* of a site and a direction: the neighbour among the other parity's sites, or where in the face of
                                       * the neighbouring process, as -1 - place */
    int *order[PARITIES];             /* sites without neighbours in other processes first */
    int inner[PARITIES];              /* how many these are */
};

/* Chooses the parts with the smallest faces if `parts` of z and t are 0, both dimensions dealt out where that is as good. On error says why, in a text that stays. */
const char *geometry_plan(struct geometry *geometry, const int *extent, const int *parts, int rank, int ranks);
/* The tables of what was planned; 0 if there is no memory for them. */
int geometry_build(struct geometry *geometry);
void geometry_free(struct geometry *geometry);

/* A site's place in the whole lattice. */
void geometry_place(const struct geometry *geometry, int parity, int site, int place[DIMENSIONS]);
/* The neighbour of a place in the whole lattice. */
void geometry_step(const struct geometry *geometry, const int place[DIMENSIONS], int direction, int neighbour[DIMENSIONS]);
/* A place's number in the whole lattice, whoever has it. */
uint64_t geometry_number(const struct geometry *geometry, const int place[DIMENSIONS]);

#endif
