/* The four operators of MG (RNR-94-007, kernel MG of section 2): each of their coefficients
 * applies to neighbours at a distance; a point has one (itself), six (over faces), twelve (over
 * edges) and eight (over corners). */
#include "mg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* By distance: itself, faces, edges, corners. */
static const double A[] = {-8.0 / 3, 0, 1.0 / 6, 1.0 / 12};
static const double S[] = {-3.0 / 8, 1.0 / 32, -1.0 / 64, 0};
static const double P[] = {1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16};

void clear(const struct level *level, double *grid) { memset(grid, 0, volume(level) * sizeof *grid); }

/* Sums of the four face neighbours and the four edge neighbours of each point on a line along x,
 * computed once for the three points that need each. */
struct sums {
    double *memory, *faces, *edges;
};

static struct sums sums_begin(const struct level *level) {
    size_t count = (size_t)level->extents[X];
    double *memory = room(2 * count, sizeof *memory);
    return (struct sums){memory, memory, memory + count};
}

static void sums_of(struct sums *sums, const struct level *level, const double *grid, int y, int z) {
    const double *before = &grid[at(level, 0, y - 1, z)], *behind = &grid[at(level, 0, y + 1, z)];
    const double *below = &grid[at(level, 0, y, z - 1)], *above = &grid[at(level, 0, y, z + 1)];
    const double *low_before = &grid[at(level, 0, y - 1, z - 1)], *low_behind = &grid[at(level, 0, y + 1, z - 1)];
    const double *high_before = &grid[at(level, 0, y - 1, z + 1)], *high_behind = &grid[at(level, 0, y + 1, z + 1)];
    for (int x = 0; x < level->extents[X]; x++) {
        sums->faces[x] = before[x] + behind[x] + below[x] + above[x];
        sums->edges[x] = low_before[x] + low_behind[x] + high_before[x] + high_behind[x];
    }
}

void find_residual(const struct cube *cube, const struct level *level, const double *right, double *result) {
    if (!level->is_here)
        return;
    struct sums sums = sums_begin(level);
    const double *faces = sums.faces, *edges = sums.edges;
    for (int z = 1; z <= level->points[Z]; z++)
        for (int y = 1; y <= level->points[Y]; y++) {
            size_t line = at(level, 0, y, z);
            const double *u = level->solution + line, *v = right + line;
            double *r = result + line;
            sums_of(&sums, level, level->solution, y, z);
            /* A has no coefficient for face neighbours. */
            for (int x = 1; x <= level->points[X]; x++)
                r[x] = v[x] - A[0] * u[x] - A[2] * (edges[x] + faces[x - 1] + faces[x + 1]) -
                       A[3] * (edges[x - 1] + edges[x + 1]);
        }
    free(sums.memory);
    exchange_faces(cube, level, result);
}

void smooth(const struct cube *cube, const struct level *level) {
    if (!level->is_here)
        return;
    struct sums sums = sums_begin(level);
    const double *faces = sums.faces, *edges = sums.edges;
    for (int z = 1; z <= level->points[Z]; z++)
        for (int y = 1; y <= level->points[Y]; y++) {
            size_t line = at(level, 0, y, z);
            const double *r = level->residual + line;
            double *u = level->solution + line;
            sums_of(&sums, level, level->residual, y, z);
            /* In these classes, S has none for corner neighbours. */
            for (int x = 1; x <= level->points[X]; x++)
                u[x] += S[0] * r[x] + S[1] * (r[x - 1] + r[x + 1] + faces[x]) + S[2] * (edges[x] + faces[x - 1] + faces[x + 1]);
        }
    free(sums.memory);
    exchange_faces(cube, level, level->solution);
}

/* Where the finer grid has one point per process along an axis, a point of the coarser one
 * coincides with it; otherwise point j of the coarser grid coincides with point 2 j of the
 * finer. */
static int shift_of(const struct level *coarse, const struct level *fine, int axis) {
    return fine->points[axis] == 1 && coarse->has_points[axis];
}

void restrict_residual(const struct cube *cube, const struct level *fine, const struct level *coarse) {
    if (!coarse->is_here)
        return;
    struct sums sums = sums_begin(fine);
    const double *faces = sums.faces, *edges = sums.edges;
    int shift[AXES];
    for (int axis = 0; axis < AXES; axis++)
        shift[axis] = shift_of(coarse, fine, axis);
    for (int z = 1; z <= coarse->points[Z]; z++)
        for (int y = 1; y <= coarse->points[Y]; y++) {
            int fine_y = 2 * y - shift[Y], fine_z = 2 * z - shift[Z];
            const double *r = fine->residual + at(fine, 0, fine_y, fine_z);
            double *s = coarse->residual + at(coarse, 0, y, z);
            sums_of(&sums, fine, fine->residual, fine_y, fine_z);
            for (int x = 1; x <= coarse->points[X]; x++) {
                int i = 2 * x - shift[X];
                s[x] = P[0] * r[i] + P[1] * (r[i - 1] + r[i + 1] + faces[i]) + P[2] * (edges[i] + faces[i - 1] + faces[i + 1]) +
                       P[3] * (edges[i - 1] + edges[i + 1]);
            }
        }
    free(sums.memory);
    exchange_faces(cube, coarse, coarse->residual);
}

/* A point of the finer grid lies at one of the coarser or between two: both, which may be the
 * same. */
struct pair {
    int low, high;
};
static struct pair between(int fine, int shift) {
    int place = fine + shift;
    return (struct pair){place / 2, (place + 1) / 2};
}

void interpolate(const struct cube *cube, const struct level *coarse, const struct level *fine) {
    lend_coarse(cube, coarse, fine);
    if (!fine->is_here)
        return;
    double *mean = room((size_t)coarse->extents[X], sizeof *mean);
    int shift[AXES];
    for (int axis = 0; axis < AXES; axis++)
        shift[axis] = shift_of(coarse, fine, axis);
    /* The neighbours' points are computed like the process' own, so they need not be sent. */
    for (int z = 0; z < fine->extents[Z]; z++)
        for (int y = 0; y < fine->extents[Y]; y++) {
            struct pair ys = between(y, shift[Y]), zs = between(z, shift[Z]);
            const double *from = coarse->solution;
            const double *one = from + at(coarse, 0, ys.low, zs.low), *two = from + at(coarse, 0, ys.high, zs.low);
            const double *three = from + at(coarse, 0, ys.low, zs.high), *four = from + at(coarse, 0, ys.high, zs.high);
            for (int x = 0; x < coarse->extents[X]; x++)
                mean[x] = 0.25 * (one[x] + two[x] + three[x] + four[x]);
            double *to = fine->solution + at(fine, 0, y, z);
            for (int x = 0; x < fine->extents[X]; x++) {
                struct pair xs = between(x, shift[X]);
                to[x] += 0.5 * (mean[xs.low] + mean[xs.high]);
            }
        }
    free(mean);
}

double norm(const struct cube *cube) {
    const struct level *level = &cube->levels[cube->count - 1];
    double sum = 0, points = (double)level->size * level->size * level->size;
    for (int z = 1; z <= level->points[Z]; z++)
        for (int y = 1; y <= level->points[Y]; y++) {
            const double *r = level->residual + at(level, 0, y, z);
            for (int x = 1; x <= level->points[X]; x++)
                sum += r[x] * r[x];
        }
    return sqrt(sum_of_all(sum) / points);
}
