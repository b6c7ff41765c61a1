/* MG: V-cycles, timed, and the check of the final residual against the published norm. */
#include "mg.h"

/* RNR-94-007 and NAS-95-020: sizes, and the norm of the last residual. */
static const struct problem {
    char name;
    int size, iterations;
    double norm;
} CLASSES[] = {
    {'S', 32, 4, 0.5307707005734e-04},
    {'W', 128, 4, 0.6467329375339e-05},
    {'A', 256, 4, 0.2433365309069e-05},
};

static const double ERROR = 1e-8;
/* Additions and multiplications per point and iteration, as counted by NAS-95-020. */
static const double OPERATIONS = 58;

/* Restricts the residual down the grids, and interpolates the correction of the solution up
 * again. */
static void cycle(const struct cube *cube) {
    struct level *levels = cube->levels, *finest = &levels[cube->count - 1];
    for (struct level *level = finest; level > levels; level--)
        restrict_residual(cube, level, level - 1);
    clear(levels, levels->solution);
    smooth(cube, levels);
    for (struct level *level = levels + 1; level <= finest; level++) {
        if (level < finest)
            clear(level, level->solution);
        interpolate(cube, level - 1, level);
        find_residual(cube, level, level < finest ? level->residual : cube->charges, level->residual);
        smooth(cube, level);
    }
}

static void find_whole_residual(const struct cube *cube) {
    const struct level *finest = &cube->levels[cube->count - 1];
    find_residual(cube, finest, cube->charges, finest->residual);
}

static void iterate(const struct cube *cube) {
    cycle(cube);
    find_whole_residual(cube);
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
    static struct cube cube;
    cube_begin(&cube, problem->size);
    place_charges(&cube);
    /* An untimed iteration touches all memory. */
    find_whole_residual(&cube);
    iterate(&cube);
    struct level *finest = &cube.levels[cube.count - 1];
    clear(finest, finest->solution);
    clock_start();
    find_whole_residual(&cube);
    norm(&cube);
    for (int i = 0; i < iterations; i++)
        iterate(&cube);
    double left = norm(&cube), seconds = clock_stop();
    enum verification verification = NOT_PERFORMED;
    if (iterations == problem->iterations)
        verification = is_near("L2 norm", left, problem->norm, ERROR) ? SUCCESSFUL : FAILED;
    double points = (double)problem->size * problem->size * problem->size;
    return end(&(struct report){"MG", problem->name, iterations, seconds, OPERATIONS * iterations * points, verification});
}
