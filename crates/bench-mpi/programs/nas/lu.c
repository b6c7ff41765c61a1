/* LU: relaxation steps, timed, and the check of their result against published values. */
#include "lu.h"

#include <stdio.h>

/* RNR-94-007 and NAS-95-020: sizes, norms of the change and of the error, and the integral after
 * the last step. */
static const struct problem {
    char name;
    int size, iterations;
    double time_step;
    state change, error;
    double integral;
} CLASSES[] = {
    {'S', 12, 50, 0.5,
     {1.6196343210976702e-02, 2.1976745164821318e-03, 1.5179927653399185e-03, 1.5029584435994323e-03, 3.4264073155896461e-02},
     {6.4223319957960924e-04, 8.4144342047347926e-05, 5.8588269616485186e-05, 5.8474222595157350e-05, 1.3103347914111294e-03},
     7.8418928865937083e+00},
    {'W', 33, 300, 1.5e-3,
     {0.1236511638192e+02, 0.1317228477799e+01, 0.2550120713095e+01, 0.2326187750252e+01, 0.2826799444189e+02},
     {0.4867877144216e+00, 0.5064652880982e-01, 0.9281818101960e-01, 0.8570126542733e-01, 0.1084277417792e+01},
     0.1161399311023e+02},
    {'A', 64, 250, 2,
     {7.7902107606689367e+02, 6.3402765259692870e+01, 1.9499249727292479e+02, 1.7845301160418537e+02, 1.8384760349464247e+03},
     {2.9964085685471943e+01, 2.8194576365003349e+00, 7.3473412698774742e+00, 6.7139225687777051e+00, 7.0715315688392578e+01},
     2.6030925604886277e+01},
};

static const double ERROR = 1e-8;

struct solver {
    const struct problem *problem;
    struct part part;
    state *flow, *change, *forcing;
};

static void add_step(struct solver *solver) {
    const struct part *part = &solver->part;
    double share = 1 / (OMEGA * (2 - OMEGA));
    for (int z = part->begin[Z]; z < part->end[Z]; z++)
        for (int y = part->begin[Y]; y < part->end[Y]; y++)
            for (int x = part->begin[X]; x < part->end[X]; x++)
                for (int field = 0; field < FIELDS; field++)
                    solver->flow[at(part, x, y, z)][field] += share * solver->change[at(part, x, y, z)][field];
}

static void scale_by_time(struct solver *solver) {
    const struct part *part = &solver->part;
    for (int z = part->begin[Z]; z < part->end[Z]; z++)
        for (int y = part->begin[Y]; y < part->end[Y]; y++)
            for (int x = part->begin[X]; x < part->end[X]; x++)
                for (int field = 0; field < FIELDS; field++)
                    solver->change[at(part, x, y, z)][field] *= solver->problem->time_step;
}

static void find_changes(struct solver *solver) {
    exchange_faces(&solver->part, solver->flow);
    find_change(&solver->part, solver->flow, solver->forcing, solver->change);
}

static void iterate(struct solver *solver) {
    scale_by_time(solver);
    relax(&solver->part, solver->flow, solver->change, solver->problem->time_step);
    add_step(solver);
    find_changes(solver);
}

static void prepare(struct solver *solver) {
    part_begin(&solver->part, solver->problem->size);
    size_t points = volume(&solver->part);
    solver->flow = room(points, sizeof(state));
    solver->change = room(points, sizeof(state));
    solver->forcing = room(points, sizeof(state));
    /* The forcing keeps the exact solution stationary. */
    set_exactly(&solver->part, solver->flow);
    find_change(&solver->part, solver->flow, NULL, solver->forcing);
}

static void begin_anew(struct solver *solver) {
    set_beginning(&solver->part, solver->flow);
    find_changes(solver);
}

static int is_as_published(const struct solver *solver, const state last) {
    static const char *const FIELD_NAMES[] = {"density", "momentum x", "momentum y", "momentum z", "energy"};
    const struct problem *problem = solver->problem;
    state error;
    norm_of_error(&solver->part, solver->flow, error);
    double integral = surface_integral(&solver->part, solver->flow);
    int is = 1;
    if (my_rank == 0)
        printf(" Norms of the last change\n");
    for (int field = 0; field < FIELDS; field++)
        is &= is_near(FIELD_NAMES[field], last[field], problem->change[field], ERROR);
    if (my_rank == 0)
        printf(" Norms of the error\n");
    for (int field = 0; field < FIELDS; field++)
        is &= is_near(FIELD_NAMES[field], error[field], problem->error[field], ERROR);
    if (my_rank == 0)
        printf(" Surface integral\n");
    return is & is_near("pressure", integral, problem->integral, ERROR);
}

/* Additions and multiplications in `iterations` iterations, as counted by NAS-95-020. */
static double operations(int size, int iterations) {
    double n = size;
    return iterations * (((1984.77 * n - 10923.3) * n + 27770.9) * n - 144010);
}

static const struct problem *problem_of(char name) {
    const struct problem *problem = CLASSES;
    while (problem->name != name)
        problem++;
    return problem;
}

int main(int count, char **words) {
    struct request request = begin(count, words, "SWA");
    const struct problem *problem = problem_of(request.class_name);
    int iterations = iterations_of(&request, problem->iterations);
    static struct solver solver;
    solver.problem = problem;
    prepare(&solver);
    /* An untimed step touches all memory. */
    begin_anew(&solver);
    iterate(&solver);
    begin_anew(&solver);
    state last;
    norm_of_change(&solver.part, solver.change, last);
    clock_start();
    for (int i = 0; i < iterations; i++)
        iterate(&solver);
    norm_of_change(&solver.part, solver.change, last);
    double seconds = clock_stop();
    enum verification verification = NOT_PERFORMED;
    if (iterations == problem->iterations)
        verification = is_as_published(&solver, last) ? SUCCESSFUL : FAILED;
    return end(&(struct report){"LU", problem->name, iterations, seconds, operations(problem->size, iterations), verification});
}
