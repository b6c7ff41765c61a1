/* CG: inverse iteration, timed, and its check against the published eigenvalue. */
#include "cg.h"

#include <math.h>
#include <stddef.h>

/* RNR-94-007 and NAS-95-020: sizes, and the result of the last iteration. */
static const struct problem {
    char name;
    struct recipe recipe;
    int iterations;
    double zeta;
} CLASSES[] = {
    {'S', {1400, 7, 10}, 15, 8.5971775078648},
    {'W', {7000, 8, 12}, 15, 10.362595087124},
    {'A', {14000, 11, 20}, 15, 17.130235054029},
};

enum { STEPS = 25 };
static const double ERROR = 1e-10;

struct solver {
    struct grid grid;
    struct matrix matrix;
    int count; /* of a vector's elements here */
    double *x, *z, *r, *p, *q;
    double *product;
};

/* result = A vector */
static void multiply(struct solver *solver, const double *vector, double *result) {
    const struct matrix *matrix = &solver->matrix;
    for (int row = 0; row < matrix->rows; row++) {
        double sum = 0;
        for (size_t i = matrix->starts[row]; i < matrix->starts[row + 1]; i++)
            sum += matrix->values[i] * vector[matrix->columns[i]];
        solver->product[row] = sum;
    }
    grid_turn(&solver->grid, solver->product, result);
}

static double dot_here(const struct solver *solver, const double *one, const double *other) {
    double sum = 0;
    for (int i = 0; i < solver->count; i++)
        sum += one[i] * other[i];
    return sum;
}

static double dot(const struct solver *solver, const double *one, const double *other) {
    double sum = dot_here(solver, one, other);
    grid_sum(&solver->grid, &sum, 1);
    return sum;
}

/* Solves A z = x approximately; returns the norm of the residual. */
static double solve(struct solver *solver) {
    double *x = solver->x, *z = solver->z, *r = solver->r, *p = solver->p, *q = solver->q;
    int count = solver->count;
    for (int i = 0; i < count; i++) {
        z[i] = 0;
        r[i] = p[i] = x[i];
    }
    double rho = dot(solver, r, r);
    for (int step = 0; step < STEPS; step++) {
        multiply(solver, p, q);
        double alpha = rho / dot(solver, p, q), before = rho;
        for (int i = 0; i < count; i++) {
            z[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        rho = dot(solver, r, r);
        double beta = rho / before;
        for (int i = 0; i < count; i++)
            p[i] = r[i] + beta * p[i];
    }
    multiply(solver, z, q);
    for (int i = 0; i < count; i++)
        q[i] = x[i] - q[i];
    return sqrt(dot(solver, q, q));
}

static void begin_with_ones(struct solver *solver) {
    for (int i = 0; i < solver->count; i++)
        solver->x[i] = 1;
}

/* One step of inverse iteration: solves, estimates the eigenvalue, and normalises the solution
 * for the next right side. */
static double iterate(struct solver *solver, double shift, double *residual) {
    *residual = solve(solver);
    double sums[] = {dot_here(solver, solver->x, solver->z), dot_here(solver, solver->z, solver->z)};
    grid_sum(&solver->grid, sums, 2);
    double scale = 1 / sqrt(sums[1]);
    for (int i = 0; i < solver->count; i++)
        solver->x[i] = scale * solver->z[i];
    return shift + 1 / sums[0];
}

static const struct problem *problem_of(char name) {
    const struct problem *problem = CLASSES;
    while (problem->name != name)
        problem++;
    return problem;
}

static void prepare(struct solver *solver, const struct recipe *recipe) {
    grid_begin(&solver->grid, recipe->size);
    matrix_make(&solver->matrix, recipe, &solver->grid);
    size_t count = (size_t)solver->grid.column_count;
    solver->count = solver->grid.column_count;
    double **const vectors[] = {&solver->x, &solver->z, &solver->r, &solver->p, &solver->q};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        *vectors[i] = room(count, sizeof(double));
    solver->product = room((size_t)solver->grid.row_count, sizeof(double));
}

/* Additions and multiplications in `iterations` iterations, as counted by NAS-95-020. */
static double operations(const struct problem *problem, int iterations) {
    double products = problem->recipe.nonzeros * (problem->recipe.nonzeros + 1.0);
    return 2.0 * iterations * problem->recipe.size * (3 + products + STEPS * (5 + products) + 3);
}

int main(int count, char **words) {
    struct request request = begin(count, words, "SWA");
    const struct problem *problem = problem_of(request.class_name);
    int iterations = iterations_of(&request, problem->iterations);
    double shift = problem->recipe.shift, residual = 0, zeta = 0;
    static struct solver solver;
    prepare(&solver, &problem->recipe);
    /* An untimed iteration touches all memory. */
    begin_with_ones(&solver);
    iterate(&solver, shift, &residual);
    begin_with_ones(&solver);
    clock_start();
    for (int i = 0; i < iterations; i++)
        zeta = iterate(&solver, shift, &residual);
    double seconds = clock_stop();
    enum verification verification = NOT_PERFORMED;
    if (iterations == problem->iterations)
        verification = is_near("zeta", zeta, problem->zeta, ERROR) ? SUCCESSFUL : FAILED;
    return end(&(struct report){"CG", problem->name, iterations, seconds, operations(problem, iterations), verification});
}
