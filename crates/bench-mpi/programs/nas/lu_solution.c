/* The exact solution, a polynomial of the fourth order along each axis without mixed terms, and
 * the initial flow of LU: the exact solution on the cube's surface, interpolated inside
 * (RNR-94-007, section 3). */
#include "lu.h"

#include <string.h>

/* For each field the constant, then the coefficients of x, y and z, of their squares, cubes and
 * fourth powers. */
static const double COEFFICIENTS[FIELDS][13] = {
    {2, 0, 0, 4, 5, 3, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3}, {1, 0, 0, 0, 1, 2, 3, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2, 2, 0, 0, 0, 2, 3, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},   {2, 2, 0, 0, 0, 2, 3, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5, 4, 3, 2, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

static double polynomial(const double *coefficients, const double *place) {
    double value = coefficients[0];
    for (int axis = 0; axis < AXES; axis++) {
        double sum = 0;
        for (int power = 3; power >= 0; power--)
            sum = (sum + coefficients[1 + 3 * power + axis]) * place[axis];
        value += sum;
    }
    return value;
}

/* Coordinates from 0 to 1 along each axis of the cube. */
static void place_of(const struct part *part, int x, int y, int z, double *place) {
    const int here[AXES] = {x, y, z};
    for (int axis = 0; axis < AXES; axis++)
        place[axis] = (double)(part->first[axis] + here[axis]) / (part->size - 1);
}

static void exact_at(const double *place, double *solution) {
    for (int field = 0; field < FIELDS; field++)
        solution[field] = polynomial(COEFFICIENTS[field], place);
}

void exact(const struct part *part, int x, int y, int z, state *solution) {
    double place[AXES];
    place_of(part, x, y, z, place);
    exact_at(place, *solution);
}

/* Includes the neighbours' points. */
void set_exactly(const struct part *part, state *grid) {
    for (int z = 0; z < part->size; z++)
        for (int y = -GHOSTS; y < part->points[Y] + GHOSTS; y++)
            for (int x = -GHOSTS; x < part->points[X] + GHOSTS; x++)
                exact(part, x, y, z, &grid[at(part, x, y, z)]);
}

/* Interpolates linearly between opposite faces, along all axes at once. */
static void between_faces(const double *place, double *value) {
    double along[AXES][FIELDS];
    for (int axis = 0; axis < AXES; axis++) {
        double near[FIELDS], far[FIELDS], face[AXES];
        memcpy(face, place, sizeof face);
        face[axis] = 0;
        exact_at(face, near);
        face[axis] = 1;
        exact_at(face, far);
        for (int field = 0; field < FIELDS; field++)
            along[axis][field] = (1 - place[axis]) * near[field] + place[axis] * far[field];
    }
    for (int field = 0; field < FIELDS; field++) {
        double x = along[X][field], y = along[Y][field], z = along[Z][field];
        value[field] = x + y + z - x * y - y * z - z * x + x * y * z;
    }
}

static int is_on_surface(const struct part *part, int x, int y, int z) {
    const int here[AXES] = {x, y, z};
    for (int axis = 0; axis < AXES; axis++)
        if (here[axis] < part->begin[axis] || here[axis] >= part->end[axis])
            return 1;
    return 0;
}

void set_beginning(const struct part *part, state *grid) {
    for (int z = 0; z < part->size; z++)
        for (int y = 0; y < part->points[Y]; y++)
            for (int x = 0; x < part->points[X]; x++) {
                double place[AXES];
                place_of(part, x, y, z, place);
                (is_on_surface(part, x, y, z) ? exact_at : between_faces)(place, grid[at(part, x, y, z)]);
            }
}
