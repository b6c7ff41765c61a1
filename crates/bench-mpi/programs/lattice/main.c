/* Lattice QCD: solves the Wilson Dirac equation on a random gauge field, parallel in z and t,
 * verifies the result, and reports the performance. */
#include "arguments.h"
#include "field.h"
#include "random.h"
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>

/* Exit status. */
enum { WELL = 0, WRONG = 1, MISUSED = 2 };

struct run {
    struct arguments arguments;
    struct geometry geometry;
    struct gauge gauge;
    struct halo halo;
    struct dirac dirac;
    struct spinor *x[PARITIES], *b[PARITIES];
    struct solution solution;
    double plaquette, norm, left;
};

/* Ends all processes, because others may be waiting in a reduction for the one without memory. */
static void need(int is_there) {
    if (is_there)
        return;
    fprintf(stderr, "error: there is not enough memory\n");
    MPI_Abort(MPI_COMM_WORLD, MISUSED);
}

static void begin(struct run *run) {
    need(geometry_build(&run->geometry));
    need(gauge_new(&run->gauge, &run->geometry));
    need(halo_new(&run->halo, &run->geometry));
    run->dirac = (struct dirac){.geometry = &run->geometry,
                                .gauge = &run->gauge,
                                .halo = &run->halo,
                                .odd = field_new(&run->geometry),
                                .kappa = run->arguments.kappa};
    need(run->dirac.odd != NULL);
    for (int parity = 0; parity < PARITIES; parity++) {
        run->x[parity] = field_new(&run->geometry);
        run->b[parity] = field_new(&run->geometry);
        need(run->x[parity] && run->b[parity]);
    }
}

static void end(struct run *run) {
    for (int parity = 0; parity < PARITIES; parity++) {
        free(run->x[parity]);
        free(run->b[parity]);
    }
    free(run->dirac.odd);
    halo_free(&run->halo);
    gauge_free(&run->gauge);
    geometry_free(&run->geometry);
}

static int work(struct run *run) {
    const struct arguments *arguments = &run->arguments;
    const struct geometry *geometry = &run->geometry;
    struct verdict verdict = {.rank = geometry->rank};
    need(verify_free_field(&verdict, &run->dirac, &run->gauge));
    gauge_draw(&run->gauge, geometry, &arguments->drawing);
    need(verify_operator(&verdict, &run->dirac, arguments->drawing.seed));
    run->plaquette = gauge_plaquette(&run->gauge, geometry, &arguments->drawing);
    random_field(geometry, run->b, arguments->drawing.seed, SOURCE);
    need(solve(&run->dirac, &arguments->goal, run->x, run->b, &run->solution));
    need(verify_solution(&verdict, &run->dirac, &arguments->goal, &run->solution, run->x, run->b, &run->left));
    run->norm = norm_squared(geometry, run->x[EVEN]) + norm_squared(geometry, run->x[ODD]);
    if (arguments_are_default(arguments))
        verify_default(&verdict, run->plaquette, run->norm);
    return verdict.failures == 0;
}

static void tell(const struct run *run, int is_verified) {
    const struct geometry *geometry = &run->geometry;
    const int *extent = geometry->extent;
    double rate = run->solution.seconds > 0 ? run->solution.flops / run->solution.seconds / 1e6 : 0;
    printf(" Lattice QCD Completed\n");
    printf(" Lattice         = %dx%dx%dx%d\n", extent[X], extent[Y], extent[Z], extent[T]);
    printf(" Processes       = %d in z, %d in t\n", geometry->parts[Z], geometry->parts[T]);
    printf(" Iterations      = %d\n", run->solution.iterations);
    printf(" Time in seconds = %.6f\n", run->solution.seconds);
    printf(" Total processes = %d\n", geometry->ranks);
    printf(" Mop/s total     = %.2f\n", rate);
    printf(" Mop/s/process   = %.2f\n", rate / geometry->ranks);
    printf(" Operation type  = floating point\n");
    printf(" Residual        = %.2e\n", run->left);
    printf(" Plaquette       = %.6f\n", run->plaquette);
    printf(" Solution norm   = %.5e\n", run->norm);
    printf(" Verification    = %s\n", is_verified ? "SUCCESSFUL" : "UNSUCCESSFUL");
}

int main(int count, char **words) {
    static struct run run;
    int rank, ranks, status = MISUSED;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *wrong = arguments_read(&run.arguments, count, words);
    if (!wrong)
        wrong = geometry_plan(&run.geometry, run.arguments.extent, run.arguments.parts, rank, ranks);
    if (wrong) {
        if (rank == 0)
            fprintf(stderr, "error: %s\n", wrong);
    } else {
        begin(&run);
        int is_verified = work(&run);
        if (rank == 0)
            tell(&run, is_verified);
        end(&run);
        status = is_verified ? WELL : WRONG;
    }
    MPI_Finalize();
    return status;
}
