#include "suite.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    benchmark *point;
} ALL[] = {
    {"mpi.latency", latency},
    {"mpi.pingping", pingping},
    {"mpi.bandwidth", bandwidth},
    {"mpi.bandwidth-both", bandwidth_both},
    {"mpi.multi-pair-latency", multi_pair_latency},
    {"mpi.multi-pair-bandwidth", multi_pair_bandwidth},
    {"mpi.put-latency", put_latency},
    {"mpi.get-latency", get_latency},
    {"mpi.put-bandwidth", put_bandwidth},
    {"mpi.get-bandwidth", get_bandwidth},
    {"mpi.barrier-latency", barrier},
    {"mpi.broadcast-latency", broadcast},
    {"mpi.allreduce-latency", all_reduce},
    {"mpi.allgather-latency", all_gather},
    {"mpi.alltoall-latency", all_to_all},
    {"mpi.halo", halo},
};

static benchmark *find(const char *name) {
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        if (strcmp(ALL[i].name, name) == 0)
            return ALL[i].point;
    return NULL;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    static struct plan plan;
    benchmark *point = NULL;
    if (plan_read(&plan, count - 1, words + 1) == 0) {
        point = find(plan.benchmark);
        if (point == NULL)
            fprintf(stderr, "no benchmark %s\n", plan.benchmark);
    }
    if (point == NULL)
        MPI_Abort(MPI_COMM_WORLD, 2);
    clock_choose(plan.nanos_per_tick);
    together_begin();
    int bound = pin_cpu(&plan);
    tell_beginning();
    if (!bound)
        tell("unbound\n");
    for (int i = 0; i < plan.size_count; i++) {
        forget_wrong();
        point(&plan, plan.sizes[i]);
        if (nobody_saw_wrong())
            tell("end\n");
        else
            tell("wrong %s\n", what_was_wrong());
    }
    tell_end();
    MPI_Finalize();
    return 0;
}
