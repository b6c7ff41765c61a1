/* A step of symmetric successive over-relaxation (RNR-94-007, section 3): a block lower triangular system is solved from the
 * bottom of the cube to its top, then a block upper triangular one back. A point needs those before it along all axes, so that
 * processes follow each other plane by plane. */
#include "lu.h"

#include <string.h>

typedef double matrix[FIELDS][FIELDS];

/* How what streams along an axis depends on the fields (of lu_equations.c's stream, its derivatives). */
static inline void stream_block(const double *u, int axis, matrix block) {
    double inverse = 1 / u[0], speed = u[1 + axis] * inverse, energy = u[4] * inverse;
    double velocities[AXES] = {u[1] * inverse, u[2] * inverse, u[3] * inverse};
    double squared = velocities[0] * velocities[0] + velocities[1] * velocities[1] + velocities[2] * velocities[2];
    memset(block, 0, sizeof(matrix));
    block[0][1 + axis] = 1;
    for (int i = 0; i < AXES; i++) {
        block[1 + i][0] = -velocities[i] * speed;
        block[1 + i][1 + i] = speed;
    }
    for (int i = 0; i < AXES; i++) {
        block[1 + i][1 + axis] += velocities[i];
        block[1 + axis][1 + i] -= C2 * velocities[i];
        block[4][1 + i] = -C2 * velocities[i] * speed;
    }
    block[1 + axis][0] += 0.5 * C2 * squared;
    block[1 + axis][4] = C2;
    block[4][0] = (C2 * squared - C1 * energy) * speed;
    block[4][1 + axis] += C1 * energy - 0.5 * C2 * squared;
    block[4][4] = C1 * speed;
}

/* What friction along an axis adds, times a factor: the derivatives of the speeds and the energy that it evens out. It has only
 * a first column, a diagonal and a last row. */
static inline void add_friction_block(const double *u, int axis, double factor, matrix block) {
    double inverse = 1 / u[0], own = factor * C3 * C4 * inverse, energy = u[4] * inverse, last = 0;
    for (int i = 0; i < AXES; i++) {
        double share = i == axis ? 4.0 / 3 : 1, velocity = u[1 + i] * inverse;
        double heat = (share - C1 * C5) * velocity;
        block[1 + i][0] -= own * share * velocity;
        block[1 + i][1 + i] += own * share;
        block[4][1 + i] += own * heat;
        last += heat * velocity;
    }
    block[4][0] -= own * (last + C1 * C5 * energy);
    block[4][4] += own * C1 * C5;
}

/* What a point takes from a neighbour along an axis, from below or from above: sum += omega B(neighbour's flow) neighbour's
 * change */
static inline void add_neighbour(const double *u, const double *change, int axis, double direction, double width, double step,
                                 double *sum) {
    matrix block;
    double along = direction * step * 0.5 / width, across = -step / (width * width);
    stream_block(u, axis, block);
    for (int i = 0; i < FIELDS; i++)
        for (int j = 0; j < FIELDS; j++)
            block[i][j] *= along;
    add_friction_block(u, axis, across, block);
    for (int i = 0; i < FIELDS; i++)
        block[i][i] += across * DAMPING[axis];
    for (int i = 0; i < FIELDS; i++)
        for (int j = 0; j < FIELDS; j++)
            sum[i] += OMEGA * block[i][j] * change[j];
}

/* What a point takes from itself. */
static inline void own_block(const double *u, double width, double step, matrix block) {
    double across = 2 * step / (width * width);
    memset(block, 0, sizeof(matrix));
    for (int axis = 0; axis < AXES; axis++) {
        add_friction_block(u, axis, across, block);
        for (int i = 0; i < FIELDS; i++)
            block[i][i] += across * DAMPING[axis];
    }
    for (int i = 0; i < FIELDS; i++)
        block[i][i] += 1;
}

/* Gauss' elimination; the diagonal is large enough to go without a choice of rows. */
static inline void solve(matrix block, double *values) {
    for (int pivot = 0; pivot < FIELDS; pivot++) {
        double inverse = 1 / block[pivot][pivot];
        for (int row = pivot + 1; row < FIELDS; row++) {
            double factor = block[row][pivot] * inverse;
            for (int column = pivot + 1; column < FIELDS; column++)
                block[row][column] -= factor * block[pivot][column];
            values[row] -= factor * values[pivot];
        }
    }
    for (int row = FIELDS - 1; row >= 0; row--) {
        for (int column = row + 1; column < FIELDS; column++)
            values[row] -= block[row][column] * values[column];
        values[row] /= block[row][row];
    }
}

static inline void relax_point(const struct part *part, const state *flow, state *change, const size_t *from, size_t here,
                               enum sweep sweep, double step) {
    double width = 1.0 / (part->size - 1), sum[FIELDS] = {0};
    double direction = sweep == UP ? -1 : 1;
    for (int axis = AXES - 1; axis >= 0; axis--)
        add_neighbour(flow[from[axis]], change[from[axis]], axis, direction, width, step, sum);
    matrix block;
    own_block(flow[here], width, step, block);
    if (sweep == UP) {
        for (int field = 0; field < FIELDS; field++)
            change[here][field] -= sum[field];
        solve(block, change[here]);
    } else {
        solve(block, sum);
        for (int field = 0; field < FIELDS; field++)
            change[here][field] -= sum[field];
    }
}

static void sweep_up(const struct part *part, const state *flow, state *change, double step) {
    for (int z = part->begin[Z]; z < part->end[Z]; z++) {
        await_edges(part, change, z, UP);
        for (int y = part->begin[Y]; y < part->end[Y]; y++)
            for (int x = part->begin[X]; x < part->end[X]; x++) {
                size_t from[AXES] = {at(part, x - 1, y, z), at(part, x, y - 1, z), at(part, x, y, z - 1)};
                relax_point(part, flow, change, from, at(part, x, y, z), UP, step);
            }
        pass_edges(part, change, z, UP);
    }
}

static void sweep_down(const struct part *part, const state *flow, state *change, double step) {
    for (int z = part->end[Z] - 1; z >= part->begin[Z]; z--) {
        await_edges(part, change, z, DOWN);
        for (int y = part->end[Y] - 1; y >= part->begin[Y]; y--)
            for (int x = part->end[X] - 1; x >= part->begin[X]; x--) {
                size_t from[AXES] = {at(part, x + 1, y, z), at(part, x, y + 1, z), at(part, x, y, z + 1)};
                relax_point(part, flow, change, from, at(part, x, y, z), DOWN, step);
            }
        pass_edges(part, change, z, DOWN);
    }
}

void relax(const struct part *part, const state *flow, state *change, double time_step) {
    sweep_up(part, flow, change, time_step);
    sweep_down(part, flow, change, time_step);
}
