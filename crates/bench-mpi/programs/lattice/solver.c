#include "solver.h"

#include "field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The vectors, all on even sites. */
struct vectors {
    struct spinor *right, *residual, *direction, *product, *back;
};

static int vectors_new(struct vectors *vectors, const struct geometry *geometry) {
    *vectors = (struct vectors){field_new(geometry), field_new(geometry), field_new(geometry), field_new(geometry), field_new(geometry)};
    return vectors->right && vectors->residual && vectors->direction && vectors->product && vectors->back;
}

static void vectors_free(struct vectors *vectors) {
    free(vectors->right);
    free(vectors->residual);
    free(vectors->direction);
    free(vectors->product);
    free(vectors->back);
}

/* The right side of the even equation. */
static void right_side(struct dirac *dirac, struct spinor *right, struct spinor *const b[PARITIES]) {
    hop(dirac, right, EVEN, b[EVEN], dirac->kappa, b[ODD], PLAIN);
}

/* residual = M' (right - M x); returns the squared norms of the term in parentheses and of the
 * residual. */
static void begin_anew(struct dirac *dirac, struct vectors *vectors, const struct spinor *x, double *left, double *normal) {
    const struct geometry *geometry = dirac->geometry;
    even_apply(dirac, vectors->product, x, PLAIN);
    scale_and_add(geometry, vectors->product, -1, vectors->right);
    *left = norm_squared(geometry, vectors->product);
    even_apply(dirac, vectors->residual, vectors->product, ADJOINT);
    *normal = norm_squared(geometry, vectors->residual);
    dirac->flops += (double)geometry->half * (SUM_FLOPS + 2 * NORM_FLOPS);
}

/* Iterates until the residual's squared norm is at most `target`; returns that norm. */
static double iterate(struct dirac *dirac, struct vectors *vectors, struct spinor *x, double normal, double target, int most, int *iterations) {
    const struct geometry *geometry = dirac->geometry;
    memcpy(vectors->direction, vectors->residual, (size_t)geometry->half * sizeof(struct spinor));
    for (int done = 0; done < most && normal > target; done++) {
        even_apply(dirac, vectors->product, vectors->direction, PLAIN);
        double curvature = norm_squared(geometry, vectors->product);
        if (!(curvature > 0))
            break;
        double step = normal / curvature;
        even_apply(dirac, vectors->back, vectors->product, ADJOINT);
        add_scaled(geometry, x, step, vectors->direction);
        double next = add_scaled_and_norm(geometry, vectors->residual, -step, vectors->back);
        scale_and_add(geometry, vectors->direction, next / normal, vectors->residual);
        normal = next;
        ++*iterations;
        dirac->flops += (double)geometry->half * (3 * SUM_FLOPS + 2 * NORM_FLOPS);
    }
    return normal;
}

/* Restarts from the true residual, because the recurrence drifts away from it in single
 * precision. */
static void until_reached(struct dirac *dirac, const struct goal *goal, struct vectors *vectors, struct spinor *x, double source,
                          struct solution *solution) {
    double left, normal, enough = goal->tolerance * goal->tolerance;
    begin_anew(dirac, vectors, x, &left, &normal);
    double right = normal, target = normal * enough;
    for (;;) {
        solution->is_reached = left <= enough * source;
        if (solution->is_reached || solution->iterations >= goal->most || !(normal > 0))
            break;
        int before = solution->iterations;
        solution->estimate = sqrt(iterate(dirac, vectors, x, normal, target, goal->most - before, &solution->iterations) / right);
        /* No further progress. */
        if (solution->iterations == before)
            break;
        begin_anew(dirac, vectors, x, &left, &normal);
        /* Reduces the target by the factor that is still missing. */
        target = 0.25 * normal * (enough * source / left);
    }
}

static void exactly(struct dirac *dirac, const struct goal *goal, struct vectors *vectors, struct spinor *x, struct solution *solution) {
    double left, normal;
    begin_anew(dirac, vectors, x, &left, &normal);
    double last = iterate(dirac, vectors, x, normal, 0, goal->iterations, &solution->iterations);
    solution->estimate = normal > 0 ? sqrt(last / normal) : 0;
    solution->is_reached = solution->iterations == goal->iterations;
}

int solve(struct dirac *dirac, const struct goal *goal, struct spinor *const x[PARITIES], struct spinor *const b[PARITIES],
          struct solution *solution) {
    const struct geometry *geometry = dirac->geometry;
    struct vectors vectors;
    *solution = (struct solution){0};
    if (!vectors_new(&vectors, geometry)) {
        vectors_free(&vectors);
        return 0;
    }
    double source = norm_squared(geometry, b[EVEN]) + norm_squared(geometry, b[ODD]);
    memset(x[EVEN], 0, (size_t)geometry->half * sizeof(struct spinor));
    right_side(dirac, vectors.right, b);

    MPI_Barrier(MPI_COMM_WORLD);
    double flops = dirac->flops, begun = MPI_Wtime();
    if (goal->iterations > 0)
        exactly(dirac, goal, &vectors, x[EVEN], solution);
    else
        until_reached(dirac, goal, &vectors, x[EVEN], source, solution);
    double taken = MPI_Wtime() - begun;
    flops = dirac->flops - flops;
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Allreduce(&taken, &solution->seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    solution->flops = sum_of_all(flops);
    hop(dirac, x[ODD], ODD, b[ODD], dirac->kappa, x[EVEN], PLAIN);
    vectors_free(&vectors);
    return 1;
}

double normal_residual(struct dirac *dirac, struct spinor *const x[PARITIES], struct spinor *const b[PARITIES]) {
    struct vectors vectors;
    double left, normal, right = -1;
    if (vectors_new(&vectors, dirac->geometry)) {
        right_side(dirac, vectors.right, b);
        begin_anew(dirac, &vectors, x[EVEN], &left, &normal);
        even_apply(dirac, vectors.residual, vectors.right, ADJOINT);
        right = norm_squared(dirac->geometry, vectors.residual);
    }
    vectors_free(&vectors);
    if (right < 0)
        return -1;
    return right > 0 ? sqrt(normal / right) : 0;
}
