/* The verified quantities of LU (RNR-94-007, section 3, and NAS-95-020): norms of the last
 * change and of the difference from the exact solution, and an integral of the pressure over the
 * surface of a box inside the cube. */
#include "lu.h"

#include <math.h>

static void add_squares(const double *values, double *sums) {
    for (int field = 0; field < FIELDS; field++)
        sums[field] += values[field] * values[field];
}

/* Over the interior points of the cube, of all processes. */
static void root_of_mean(const struct part *part, const double *sums, double *norm) {
    double inside = part->size - 2;
    MPI_Allreduce(sums, norm, FIELDS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int field = 0; field < FIELDS; field++)
        norm[field] = sqrt(norm[field] / (inside * inside * inside));
}

void norm_of_change(const struct part *part, const state *change, state norm) {
    double sums[FIELDS] = {0};
    for (int z = part->begin[Z]; z < part->end[Z]; z++)
        for (int y = part->begin[Y]; y < part->end[Y]; y++)
            for (int x = part->begin[X]; x < part->end[X]; x++)
                add_squares(change[at(part, x, y, z)], sums);
    root_of_mean(part, sums, norm);
}

void norm_of_error(const struct part *part, const state *flow, state norm) {
    double sums[FIELDS] = {0};
    for (int z = part->begin[Z]; z < part->end[Z]; z++)
        for (int y = part->begin[Y]; y < part->end[Y]; y++)
            for (int x = part->begin[X]; x < part->end[X]; x++) {
                state difference;
                exact(part, x, y, z, &difference);
                for (int field = 0; field < FIELDS; field++)
                    difference[field] -= flow[at(part, x, y, z)][field];
                add_squares(difference, sums);
            }
    root_of_mean(part, sums, norm);
}

static double pressure(const double *u) { return C2 * (u[4] - 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0]); }

/* The box has its edges next to the surface, but ends one point earlier along y, and begins one
 * point later along z. */
static void box(const struct part *part, int *low, int *high) {
    int last = part->size - 1;
    low[X] = low[Y] = 1;
    low[Z] = 2;
    high[X] = high[Z] = last - 1;
    high[Y] = last - 2;
}

/* Number of cells of a line that touch a point: two inside, one at an end, none elsewhere. */
static int cells(int place, int low, int high) {
    if (place < low || place > high)
        return 0;
    return place == low || place == high ? 1 : 2;
}

double surface_integral(const struct part *part, const state *flow) {
    int low[AXES], high[AXES];
    double sum = 0, width = 1.0 / (part->size - 1);
    box(part, low, high);
    /* A cell of a face counts with the mean of its four corners, so a point is weighted by the
     * number of cells it is a corner of. */
    for (int z = 0; z < part->size; z++)
        for (int y = 0; y < part->points[Y]; y++)
            for (int x = 0; x < part->points[X]; x++) {
                const int place[AXES] = {part->first[X] + x, part->first[Y] + y, z};
                int touched[AXES], count = 0;
                for (int axis = 0; axis < AXES; axis++)
                    touched[axis] = cells(place[axis], low[axis], high[axis]);
                for (int axis = 0; axis < AXES; axis++)
                    if (place[axis] == low[axis] || place[axis] == high[axis])
                        count += touched[(axis + 1) % AXES] * touched[(axis + 2) % AXES];
                if (count > 0)
                    sum += count * pressure(flow[at(part, x, y, z)]);
            }
    return 0.25 * width * width * sum_of_all(sum);
}
