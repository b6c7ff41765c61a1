#include "geometry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char trouble[200];

/* Sites of all faces of one process, at both ends. */
static long surface(const int *extent, int z, int t) {
    long plane = (long)extent[X] * extent[Y];
    return (z > 1 ? 2 * plane * (extent[T] / t) : 0) + (t > 1 ? 2 * plane * (extent[Z] / z) : 0);
}

static int divides(const int *extent, int z, int t) { return extent[Z] % z == 0 && extent[T] % t == 0; }

static const char *choose_parts(struct geometry *geometry, const int *parts) {
    const int *extent = geometry->extent;
    if (parts[Z] > 0) {
        if ((long)parts[Z] * parts[T] != geometry->ranks) {
            snprintf(trouble, sizeof trouble, "split=%dx%d is for %ld processes, and there are %d", parts[Z], parts[T],
                     (long)parts[Z] * parts[T], geometry->ranks);
            return trouble;
        }
        if (!divides(extent, parts[Z], parts[T])) {
            snprintf(trouble, sizeof trouble, "split=%dx%d does not divide z and t of the lattice, %d and %d", parts[Z], parts[T], extent[Z],
                     extent[T]);
            return trouble;
        }
        geometry->parts[Z] = parts[Z];
        geometry->parts[T] = parts[T];
        return NULL;
    }
    long best = -1;
    for (int z = 1; z <= geometry->ranks && z <= extent[Z]; z++) {
        int t = geometry->ranks / z;
        if (z * t != geometry->ranks || !divides(extent, z, t))
            continue;
        long here = surface(extent, z, t);
        if (best < 0 || here <= best) {
            best = here;
            geometry->parts[Z] = z;
            geometry->parts[T] = t;
        }
    }
    if (best >= 0)
        return NULL;
    snprintf(trouble, sizeof trouble, "%d processes do not divide z and t of the lattice, %d and %d", geometry->ranks, extent[Z], extent[T]);
    return trouble;
}

const char *geometry_plan(struct geometry *geometry, const int *extent, const int *parts, int rank, int ranks) {
    *geometry = (struct geometry){.rank = rank, .ranks = ranks, .parts = {1, 1, 1, 1}};
    memcpy(geometry->extent, extent, sizeof geometry->extent);
    double sites = 1;
    for (int d = 0; d < DIMENSIONS; d++) {
        if (extent[d] < 2 || extent[d] % 2 != 0 || extent[d] > LONGEST) {
            snprintf(trouble, sizeof trouble, "an extent of the lattice is %d: even numbers from 2 to %d have even and odd sites alike", extent[d],
                     LONGEST);
            return trouble;
        }
        sites *= extent[d];
    }
    const char *wrong = choose_parts(geometry, parts);
    if (wrong)
        return wrong;
    if (sites / ranks > MOST_SITES) {
        snprintf(trouble, sizeof trouble, "%.0f sites are too many for %d processes: a process takes at most %d", sites, ranks, MOST_SITES);
        return trouble;
    }
    /* Ranks increase along z first. */
    int at[DIMENSIONS] = {0, 0, rank % geometry->parts[Z], rank / geometry->parts[Z]};
    geometry->half = 1;
    for (int d = 0; d < DIMENSIONS; d++) {
        geometry->local[d] = extent[d] / geometry->parts[d];
        geometry->begin[d] = at[d] * geometry->local[d];
        geometry->half *= geometry->local[d];
    }
    geometry->half /= 2;
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        int d = direction / 2, there[DIMENSIONS];
        memcpy(there, at, sizeof there);
        there[d] = (at[d] + (direction % 2 ? geometry->parts[d] - 1 : 1)) % geometry->parts[d];
        geometry->neighbour[direction] = there[Z] + there[T] * geometry->parts[Z];
        if (geometry->parts[d] > 1)
            geometry->face[d] = geometry->half / geometry->local[d];
    }
    return NULL;
}

/* The x coordinate for half of x: every second site of a row has the parity. */
static int whole_x(const struct geometry *geometry, int parity, int half_x, int y, int z, int t) {
    int others = geometry->begin[Y] + y + geometry->begin[Z] + z + geometry->begin[T] + t;
    return 2 * half_x + ((parity + others) & 1);
}

static int site_of(const struct geometry *geometry, const int at[DIMENSIONS]) {
    const int *local = geometry->local;
    return ((at[T] * local[Z] + at[Z]) * local[Y] + at[Y]) * (local[X] / 2) + at[X] / 2;
}

static void local_place(const struct geometry *geometry, int parity, int site, int at[DIMENSIONS]) {
    const int *local = geometry->local;
    int half_x = site % (local[X] / 2), rest = site / (local[X] / 2);
    at[Y] = rest % local[Y];
    rest /= local[Y];
    at[Z] = rest % local[Z];
    at[T] = rest / local[Z];
    at[X] = whole_x(geometry, parity, half_x, at[Y], at[Z], at[T]);
}

/* The position of a site in its face, the same for the site's neighbour beyond the face. */
static int place_in_face(const struct geometry *geometry, const int at[DIMENSIONS], int dimension) {
    const int *local = geometry->local;
    int other = dimension == Z ? at[T] : at[Z];
    return (other * local[Y] + at[Y]) * (local[X] / 2) + at[X] / 2;
}

static void tables(struct geometry *geometry, int parity) {
    int edge = geometry->half, inner = 0;
    for (int site = 0; site < geometry->half; site++) {
        int at[DIMENSIONS], is_inner = 1;
        local_place(geometry, parity, site, at);
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            int d = direction / 2, forward = direction % 2 == 0, extent = geometry->local[d];
            int is_last = at[d] == (forward ? extent - 1 : 0);
            int *next = &geometry->next[parity][site * DIRECTIONS + direction];
            if (is_last && geometry->parts[d] > 1) {
                int place = place_in_face(geometry, at, d);
                geometry->face_sites[parity][direction][place] = site;
                *next = -1 - place;
                is_inner = 0;
                continue;
            }
            int there[DIMENSIONS];
            memcpy(there, at, sizeof there);
            there[d] = (at[d] + (forward ? 1 : extent - 1)) % extent;
            *next = site_of(geometry, there);
        }
        /* Sites at the edges fill the order from its end. */
        geometry->order[parity][is_inner ? inner++ : --edge] = site;
    }
    geometry->inner[parity] = inner;
}

int geometry_build(struct geometry *geometry) {
    size_t half = (size_t)geometry->half;
    for (int parity = 0; parity < PARITIES; parity++) {
        geometry->next[parity] = malloc(half * DIRECTIONS * sizeof(int));
        geometry->order[parity] = malloc(half * sizeof(int));
        if (!geometry->next[parity] || !geometry->order[parity])
            return 0;
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            size_t face = (size_t)geometry->face[direction / 2];
            if (face == 0)
                continue;
            geometry->face_sites[parity][direction] = malloc(face * sizeof(int));
            if (!geometry->face_sites[parity][direction])
                return 0;
        }
        tables(geometry, parity);
    }
    return 1;
}

void geometry_free(struct geometry *geometry) {
    for (int parity = 0; parity < PARITIES; parity++) {
        free(geometry->next[parity]);
        free(geometry->order[parity]);
        for (int direction = 0; direction < DIRECTIONS; direction++)
            free(geometry->face_sites[parity][direction]);
    }
}

void geometry_place(const struct geometry *geometry, int parity, int site, int place[DIMENSIONS]) {
    local_place(geometry, parity, site, place);
    for (int d = 0; d < DIMENSIONS; d++)
        place[d] += geometry->begin[d];
}

void geometry_step(const struct geometry *geometry, const int place[DIMENSIONS], int direction, int neighbour[DIMENSIONS]) {
    int d = direction / 2, extent = geometry->extent[d];
    memcpy(neighbour, place, DIMENSIONS * sizeof(int));
    neighbour[d] = (place[d] + (direction % 2 ? extent - 1 : 1)) % extent;
}

uint64_t geometry_number(const struct geometry *geometry, const int place[DIMENSIONS]) {
    uint64_t number = 0;
    for (int d = DIMENSIONS; d-- > 0;)
        number = number * (uint64_t)geometry->extent[d] + (uint64_t)place[d];
    return number;
}
