/* Exchanges with the neighbors of a topology: amounts to and from each. */

#include "recorder.h"
#include <stdio.h>
#include <stdlib.h>

struct neighbors {
	int in, out;
	int *sources, *destinations;
};

static int *numbers(int count)
{
	int *got = malloc((size_t)(count + 1) * sizeof *got);
	if (got == NULL) {
		fprintf(stderr, "verbena record: no memory for %d neighbors\n", count);
		abort();
	}
	return got;
}

static struct neighbors of_distributed_graph(MPI_Comm comm)
{
	struct neighbors found;
	int weighted;
	PMPI_Dist_graph_neighbors_count(comm, &found.in, &found.out, &weighted);
	found.sources = numbers(found.in);
	found.destinations = numbers(found.out);
	int *in_weights = numbers(found.in), *out_weights = numbers(found.out);
	PMPI_Dist_graph_neighbors(comm, found.in, found.sources, weighted ? in_weights : MPI_UNWEIGHTED, found.out,
				  found.destinations, weighted ? out_weights : MPI_UNWEIGHTED);
	free(in_weights);
	free(out_weights);
	return found;
}

static struct neighbors of_graph(MPI_Comm comm)
{
	struct neighbors found;
	int rank = communicator_of(comm)->rank;
	PMPI_Graph_neighbors_count(comm, rank, &found.in);
	found.out = found.in;
	found.sources = numbers(found.in);
	found.destinations = numbers(found.out);
	PMPI_Graph_neighbors(comm, rank, found.in, found.sources);
	PMPI_Graph_neighbors(comm, rank, found.out, found.destinations);
	return found;
}

/* Returns the neighbors in a grid: down and up in each dimension. */
static struct neighbors of_grid(MPI_Comm comm)
{
	struct neighbors found;
	int dimensions = 0;
	PMPI_Cartdim_get(comm, &dimensions);
	found.in = found.out = 2 * dimensions;
	found.sources = numbers(found.in);
	found.destinations = numbers(found.out);
	for (int dimension = 0; dimension < dimensions; dimension++) {
		int *pair = &found.sources[2 * dimension];
		PMPI_Cart_shift(comm, dimension, 1, &pair[0], &pair[1]);
		found.destinations[2 * dimension] = pair[0];
		found.destinations[2 * dimension + 1] = pair[1];
	}
	return found;
}

static struct neighbors neighbors_of(MPI_Comm comm)
{
	int kind = MPI_UNDEFINED;
	PMPI_Topo_test(comm, &kind);
	if (kind == MPI_DIST_GRAPH)
		return of_distributed_graph(comm);
	return kind == MPI_GRAPH ? of_graph(comm) : of_grid(comm);
}

/* Amounts to or from neighbors, by their index. */
struct amounts {
	int count;
	const int *counts;
	MPI_Datatype type;
	const MPI_Datatype *types;
};

#define ALIKE(count, type) ((struct amounts){ count, NULL, type, NULL })
#define VARIED(counts, type) ((struct amounts){ 0, counts, type, NULL })
#define TYPED(counts, types) ((struct amounts){ 0, counts, MPI_BYTE, types })

static void put_side(int count, const int *peers, const struct amounts *amounts)
{
	int present = 0;
	for (int which = 0; which < count; which++)
		present += peers[which] != MPI_PROC_NULL;
	put((uint64_t)present);
	for (int which = 0; which < count; which++) {
		if (peers[which] == MPI_PROC_NULL)
			continue;
		put((uint64_t)peers[which]);
		put(bytes_of(amounts->counts != NULL ? amounts->counts[which] : amounts->count,
			     amounts->types != NULL ? amounts->types[which] : amounts->type));
	}
}

static void put_neighbors(MPI_Comm comm, struct amounts out, struct amounts in, const MPI_Request *request)
{
	int number = communicator_of(comm)->number;
	struct neighbors found = neighbors_of(comm);
	put_part(PART_NEIGHBORS);
	put((uint64_t)number);
	put_signed(request == NULL ? BLOCKING : request_new(*request, REQUEST_OTHER));
	put_side(found.out, found.destinations, &out);
	put_side(found.in, found.sources, &in);
	free(found.sources);
	free(found.destinations);
}

/* Defines an operation and its nonblocking variant. */
#define BOTH(name, begun_name, parameters, arguments, out_amounts, in_amounts) \
	DEFINE(name, (LIST parameters), (LIST arguments), put_neighbors(comm, out_amounts, in_amounts, NULL)) \
	DEFINE(begun_name, (LIST parameters, MPI_Request *request), (LIST arguments, request), \
	       put_neighbors(comm, out_amounts, in_amounts, request))
#define LIST(...) __VA_ARGS__

BOTH(Neighbor_allgather, Ineighbor_allgather,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm), ALIKE(out_count, out_type), ALIKE(in_count, in_type))

BOTH(Neighbor_allgatherv, Ineighbor_allgatherv,
     (const void *out, int count, MPI_Datatype type, void *in, const int counts[], const int places[], MPI_Datatype there,
      MPI_Comm comm),
     (out, count, type, in, counts, places, there, comm), ALIKE(count, type), VARIED(counts, there))

BOTH(Neighbor_alltoall, Ineighbor_alltoall,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm), ALIKE(out_count, out_type), ALIKE(in_count, in_type))

BOTH(Neighbor_alltoallv, Ineighbor_alltoallv,
     (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type, void *in, const int in_counts[],
      const int in_places[], MPI_Datatype in_type, MPI_Comm comm),
     (out, out_counts, out_places, out_type, in, in_counts, in_places, in_type, comm), VARIED(out_counts, out_type),
     VARIED(in_counts, in_type))

BOTH(Neighbor_alltoallw, Ineighbor_alltoallw,
     (const void *out, const int out_counts[], const MPI_Aint out_places[], const MPI_Datatype out_types[], void *in,
      const int in_counts[], const MPI_Aint in_places[], const MPI_Datatype in_types[], MPI_Comm comm),
     (out, out_counts, out_places, out_types, in, in_counts, in_places, in_types, comm), TYPED(out_counts, out_types),
     TYPED(in_counts, in_types))
