/* The flow's finite difference equations (RNR-94-007, section 3): along each axis, the change of
 * the flow is the difference of inflow and outflow, of viscous fluxes, and damping by second and
 * fourth differences. Lines along an axis are copied to a buffer, so that the same code serves
 * all three axes. */
#include "lu.h"

#include <stdlib.h>
#include <string.h>

static const double FOURTH_DAMPING = 0.25; /* a quarter of the largest DAMPING */

/* A line of points with two more at each end; those outside the cube are never read. */
struct line {
    state *flow, *change; /* from the part's point 0 on */
    int axis;
    int begin, end; /* of the points whose change is computed */
    int first, size; /* of the part, in the cube; of the cube */
};

static double squared_speeds(const double *u) { return (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / (u[0] * u[0]); }

/* The flux through a point along an axis. */
static void stream(const double *u, int axis, double *flux) {
    double speed = u[1 + axis] / u[0], kinetic = 0.5 * u[0] * squared_speeds(u);
    flux[0] = u[1 + axis];
    for (int field = 1; field <= AXES; field++)
        flux[field] = u[field] * speed;
    flux[1 + axis] += C2 * (u[4] - kinetic);
    flux[4] = (C1 * u[4] - C2 * kinetic) * speed;
}

static void add_streams(const struct line *line) {
    double scale = 0.5 * (line->size - 1);
    double fluxes[3][FIELDS];
    stream(line->flow[line->begin - 1], line->axis, fluxes[(line->begin + 2) % 3]);
    stream(line->flow[line->begin], line->axis, fluxes[line->begin % 3]);
    for (int i = line->begin; i < line->end; i++) {
        stream(line->flow[i + 1], line->axis, fluxes[(i + 1) % 3]);
        for (int field = 0; field < FIELDS; field++)
            line->change[i][field] -= scale * (fluxes[(i + 1) % 3][field] - fluxes[(i + 2) % 3][field]);
    }
}

/* The viscous flux between a point and the next. */
static void friction(const double *u, const double *next, int axis, double scale, double *flux) {
    double own = 1 / u[0], others = 1 / next[0];
    flux[0] = 0;
    for (int field = 1; field <= AXES; field++)
        flux[field] = scale * (next[field] * others - u[field] * own);
    flux[1 + axis] *= 4.0 / 3;
    double speed = u[1 + axis] * own, next_speed = next[1 + axis] * others;
    flux[4] = scale * (0.5 * (1 - C1 * C5) * (squared_speeds(next) - squared_speeds(u)) +
                       (1.0 / 6) * (next_speed * next_speed - speed * speed) + C1 * C5 * (next[4] * others - u[4] * own));
}

static void add_friction(const struct line *line) {
    double scale = line->size - 1, damping = DAMPING[line->axis] * scale * scale;
    double before[FIELDS], behind[FIELDS];
    friction(line->flow[line->begin - 1], line->flow[line->begin], line->axis, scale, before);
    for (int i = line->begin; i < line->end; i++) {
        const state *u = &line->flow[i];
        friction(u[0], u[1], line->axis, scale, behind);
        for (int field = 0; field < FIELDS; field++)
            line->change[i][field] += scale * C3 * C4 * (behind[field] - before[field]) +
                                      damping * (u[-1][field] - 2 * u[0][field] + u[1][field]);
        memcpy(before, behind, sizeof before);
    }
}

/* Fourth differences; next to the surface, points outside the cube are omitted. */
static void damp(const struct line *line) {
    for (int i = line->begin; i < line->end; i++) {
        const state *u = &line->flow[i];
        int place = line->first + i, last = line->size - 1;
        for (int field = 0; field < FIELDS; field++) {
            double sum = (place == 1 || place == last - 1 ? 5 : 6) * u[0][field];
            if (place > 1)
                sum -= 4 * u[-1][field];
            if (place > 2)
                sum += u[-2][field];
            if (place < last - 1)
                sum -= 4 * u[1][field];
            if (place < last - 2)
                sum += u[2][field];
            line->change[i][field] -= FOURTH_DAMPING * sum;
        }
    }
}

static size_t place_on(const struct part *part, const int *start, int axis, int i) {
    int here[AXES] = {start[X], start[Y], start[Z]};
    here[axis] = i;
    return at(part, here[X], here[Y], here[Z]);
}

/* Copies a line's points, including the neighbours'; there are none below the bottom and above
 * the top. */
static void change_of(const struct part *part, const state *flow, state *change, const int *start, struct line *line) {
    int ghosts = line->axis == Z ? 0 : GHOSTS, points = part->points[line->axis];
    for (int i = -ghosts; i < points + ghosts; i++)
        memcpy(line->flow[i], flow[place_on(part, start, line->axis, i)], sizeof(state));
    memset(line->change, 0, (size_t)points * sizeof(state));
    add_streams(line);
    add_friction(line);
    damp(line);
    for (int i = line->begin; i < line->end; i++) {
        double *sum = change[place_on(part, start, line->axis, i)];
        for (int field = 0; field < FIELDS; field++)
            sum[field] += line->change[i][field];
    }
}

void find_change(const struct part *part, state *flow, const state *forcing, state *change) {
    size_t longest = (size_t)part->size + 2 * GHOSTS;
    state *line_of_flow = room(longest, sizeof(state)), *line_of_change = room(longest, sizeof(state));
    for (int z = part->begin[Z]; z < part->end[Z]; z++)
        for (int y = part->begin[Y]; y < part->end[Y]; y++)
            for (int x = part->begin[X]; x < part->end[X]; x++)
                for (int field = 0; field < FIELDS; field++)
                    change[at(part, x, y, z)][field] = forcing == NULL ? 0 : -forcing[at(part, x, y, z)][field];
    for (int axis = 0; axis < AXES; axis++) {
        struct line line = {line_of_flow + GHOSTS, line_of_change, axis, part->begin[axis], part->end[axis], part->first[axis],
                            part->size};
        int one = axis == X ? Y : X, other = axis == Z ? Y : Z;
        int start[AXES] = {0};
        for (int i = part->begin[other]; i < part->end[other]; i++)
            for (int j = part->begin[one]; j < part->end[one]; j++) {
                start[other] = i;
                start[one] = j;
                change_of(part, flow, change, start, &line);
            }
    }
    free(line_of_flow);
    free(line_of_change);
}
