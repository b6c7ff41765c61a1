/* A step of symmetric successive over-relaxation (RNR-94-007, section 3): a block lower
 * triangular system is solved from the bottom of the cube to its top, then a block upper
 * triangular one in the opposite direction. A point depends on the previous ones along all axes,
 * so the processes form a pipeline over planes. */
#include "lu.h"

/* Weights of differences in a step: `along` for fluxes along an axis, `across` for viscosity and
 * damping. */
struct weights {
    double along, across;
};

static inline struct weights weights_of(const struct part *part, double step) {
    double points = part->size - 1;
    return (struct weights){0.5 * step * points, step * points * points};
}

/* Along its own axis the viscous term is larger. */
static inline double share(int axis, int field) { return field == 1 + axis ? 4.0 / 3 : 1; }

/* A neighbour's contribution along an axis: sum += omega B change, where B has the derivatives
 * of the fluxes in lu_equations.c. The products are written out, which is shorter than the
 * blocks. */
static inline void add_neighbour(const double *u, const double *change, int axis, struct weights weights, double *sum) {
    double inverse = 1 / u[0], speed = u[1 + axis] * inverse, energy = u[4] * inverse;
    double moved[1 + AXES]; /* changes of velocities, times the density */
    double squared = 0, work = 0, heat = 0;
    for (int field = 1; field <= AXES; field++) {
        double velocity = u[field] * inverse;
        moved[field] = change[field] - velocity * change[0];
        squared += velocity * velocity;
        work += velocity * moved[field];
        heat += (share(axis, field) - C1 * C5) * velocity * moved[field];
    }
    double pressure = C2 * (u[4] - 0.5 * u[0] * squared), speed_change = moved[1 + axis] * inverse;
    double pressure_change = C2 * (change[4] - work - 0.5 * squared * change[0]);
    double streams[FIELDS] = {change[1 + axis]}, friction[FIELDS] = {0};
    for (int field = 1; field <= AXES; field++) {
        streams[field] = change[field] * speed + u[field] * speed_change;
        friction[field] = share(axis, field) * moved[field];
    }
    streams[1 + axis] += pressure_change;
    streams[4] = (change[4] + pressure_change) * speed + (u[4] + pressure) * speed_change;
    friction[4] = heat + C1 * C5 * (change[4] - energy * change[0]);
    for (int field = 0; field < FIELDS; field++)
        sum[field] += OMEGA * (weights.along * streams[field] -
                               weights.across * (C3 * C4 * inverse * friction[field] + DAMPING[axis] * change[field]));
}

/* Divides by a point's diagonal block. Its viscous part along all axes is lower triangular: the
 * density determines the momenta, and all of them the energy. */
static inline void divide_by_own(const double *u, struct weights weights, double *values) {
    double inverse = 1 / u[0], twice = 2 * weights.across, friction = twice * C3 * C4 * inverse, heat = 0;
    double diagonal = 1 + twice * (DAMPING[X] + DAMPING[Y] + DAMPING[Z]);
    double shares = 4.0 / 3 + 2, flow = C1 * C5 * AXES; /* of all axes */
    values[0] /= diagonal;
    for (int field = 1; field <= AXES; field++) {
        double velocity = u[field] * inverse;
        values[field] = (values[field] + friction * shares * velocity * values[0]) / (diagonal + friction * shares);
        heat += (shares - flow) * velocity * (values[field] - velocity * values[0]);
    }
    values[4] = (values[4] - friction * (heat - flow * u[4] * inverse * values[0])) / (diagonal + friction * flow);
}

/* Sweeping up, the system has 1 on its diagonal and B below it; sweeping down, B above it, with
 * the sign of the flux reversed. */
static inline void relax_point(const state *flow, state *change, const size_t *from, size_t here, enum sweep sweep,
                               struct weights weights) {
    double sum[FIELDS] = {0};
    if (sweep == UP)
        weights.along = -weights.along;
    for (int axis = AXES - 1; axis >= 0; axis--)
        add_neighbour(flow[from[axis]], change[from[axis]], axis, weights, sum);
    if (sweep == UP) {
        for (int field = 0; field < FIELDS; field++)
            change[here][field] -= sum[field];
        divide_by_own(flow[here], weights, change[here]);
    } else {
        divide_by_own(flow[here], weights, sum);
        for (int field = 0; field < FIELDS; field++)
            change[here][field] -= sum[field];
    }
}

static void sweep_up(const struct part *part, const state *flow, state *change, struct weights weights) {
    for (int z = part->begin[Z]; z < part->end[Z]; z++) {
        await_edges(part, change, z, UP);
        for (int y = part->begin[Y]; y < part->end[Y]; y++)
            for (int x = part->begin[X]; x < part->end[X]; x++) {
                size_t from[AXES] = {at(part, x - 1, y, z), at(part, x, y - 1, z), at(part, x, y, z - 1)};
                relax_point(flow, change, from, at(part, x, y, z), UP, weights);
            }
        pass_edges(part, change, z, UP);
    }
}

static void sweep_down(const struct part *part, const state *flow, state *change, struct weights weights) {
    for (int z = part->end[Z] - 1; z >= part->begin[Z]; z--) {
        await_edges(part, change, z, DOWN);
        for (int y = part->end[Y] - 1; y >= part->begin[Y]; y--)
            for (int x = part->end[X] - 1; x >= part->begin[X]; x--) {
                size_t from[AXES] = {at(part, x + 1, y, z), at(part, x, y + 1, z), at(part, x, y, z + 1)};
                relax_point(flow, change, from, at(part, x, y, z), DOWN, weights);
            }
        pass_edges(part, change, z, DOWN);
    }
}

void relax(const struct part *part, const state *flow, state *change, double time_step) {
    sweep_up(part, flow, change, weights_of(part, time_step));
    sweep_down(part, flow, change, weights_of(part, time_step));
}
