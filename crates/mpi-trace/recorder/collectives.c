/* Collective operations. With the same amount on all ranks, records that amount: of each pair,
 * or of the whole. With amounts per rank, records the amounts that this rank sends to and
 * receives from each. */

#include "recorder.h"

/* Returns the slot of a nonblocking operation's request, or BLOCKING. */
static int begun(const MPI_Request *request)
{
	return request == NULL ? BLOCKING : request_new(*request, REQUEST_OTHER);
}

static void put_head(enum part part, enum collective kind, MPI_Comm comm, int root, const MPI_Request *request)
{
	int number = communicator_of(comm)->number;
	put_part(part);
	put(kind);
	put((uint64_t)number);
	/* On intercommunicators, MPI_ROOT and MPI_PROC_NULL are negative, too. */
	put_signed(root);
	put_signed(begun(request));
}

static void put_alike(enum collective kind, MPI_Comm comm, int root, uint64_t bytes, const MPI_Request *request)
{
	put_head(PART_COLLECTIVE, kind, comm, root, request);
	put(bytes);
}

static int peers(MPI_Comm comm)
{
	const struct communicator *known = communicator_of(comm);
	return known->remote > 0 ? known->remote : known->size;
}

static void put_counts(int peers, const int *counts, MPI_Datatype type)
{
	put((uint64_t)peers);
	for (int peer = 0; peer < peers; peer++)
		put(bytes_of(counts[peer], type));
}

/* Returns whether this rank is the root. On an intercommunicator, the root passes MPI_ROOT, the
 * others of its group MPI_PROC_NULL; the other group passes the root's rank. */
static bool is_root(MPI_Comm comm, int root)
{
	const struct communicator *known = communicator_of(comm);
	return root == MPI_ROOT || (known->remote == 0 && root == known->rank);
}

/* Returns this rank's bytes of an operation; 0 for a rank that does not take part, whose
 * arguments are not significant. */
static uint64_t own_bytes(int root, int count, MPI_Datatype type)
{
	return root == MPI_PROC_NULL ? 0 : bytes_of(count, type);
}

/* The root of a gather or scatter knows the parts of all ranks, the others their own. */
static void put_gathered(MPI_Comm comm, int root, int count, MPI_Datatype type, const int *counts, MPI_Datatype there,
			 const MPI_Request *request)
{
	put_head(PART_VARIED, GATHER, comm, root, request);
	if (is_root(comm, root)) {
		put(0);
		put_counts(peers(comm), counts, there);
	} else {
		put(1);
		put(own_bytes(root, count, type));
		put(0);
	}
}

static void put_scattered(MPI_Comm comm, int root, const int *counts, MPI_Datatype there, int count, MPI_Datatype type,
			  const MPI_Request *request)
{
	put_head(PART_VARIED, SCATTER, comm, root, request);
	if (is_root(comm, root)) {
		put_counts(peers(comm), counts, there);
		put(0);
	} else {
		put(0);
		put(1);
		put(own_bytes(root, count, type));
	}
}

/* Records an operation in which all ranks know the amount of each. */
static void put_known_to_all(enum collective kind, MPI_Comm comm, int ranks, const int *counts, MPI_Datatype type,
			     const MPI_Request *request)
{
	put_head(PART_VARIED, kind, comm, NO_ROOT, request);
	put(0);
	put_counts(ranks, counts, type);
}

static void put_each(MPI_Comm comm, const void *out, const int *out_counts, MPI_Datatype out_type, const int *in_counts,
		     MPI_Datatype in_type, const MPI_Request *request)
{
	put_head(PART_VARIED, ALL_TO_ALL, comm, NO_ROOT, request);
	if (out == MPI_IN_PLACE)
		put_counts(peers(comm), in_counts, in_type);
	else
		put_counts(peers(comm), out_counts, out_type);
	put_counts(peers(comm), in_counts, in_type);
}

static void put_typed_counts(int peers, const int *counts, const MPI_Datatype *types)
{
	put((uint64_t)peers);
	for (int peer = 0; peer < peers; peer++)
		put(bytes_of(counts[peer], types[peer]));
}

static void put_each_typed(MPI_Comm comm, const void *out, const int *out_counts, const MPI_Datatype *out_types,
			   const int *in_counts, const MPI_Datatype *in_types, const MPI_Request *request)
{
	put_head(PART_VARIED, ALL_TO_ALL, comm, NO_ROOT, request);
	if (out == MPI_IN_PLACE)
		put_typed_counts(peers(comm), in_counts, in_types);
	else
		put_typed_counts(peers(comm), out_counts, out_types);
	put_typed_counts(peers(comm), in_counts, in_types);
}

/* Defines an operation and its nonblocking variant. In `told`, `started` points to the request
 * of the latter. */
#define BOTH(name, begun_name, parameters, arguments, told) \
	DEFINE(name, (LIST parameters), (LIST arguments), const MPI_Request *started = NULL; told) \
	DEFINE(begun_name, (LIST parameters, MPI_Request *request), (LIST arguments, request), \
	       const MPI_Request *started = request; told)
#define LIST(...) __VA_ARGS__

BOTH(Barrier, Ibarrier, (MPI_Comm comm), (comm), put_alike(BARRIER, comm, NO_ROOT, 0, started))

BOTH(Bcast, Ibcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm), (buffer, count, type, root, comm),
     put_alike(BROADCAST, comm, root, own_bytes(root, count, type), started))

BOTH(Reduce, Ireduce, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op operation, int root, MPI_Comm comm),
     (out, in, count, type, operation, root, comm), put_alike(REDUCE, comm, root, own_bytes(root, count, type), started))

BOTH(Allreduce, Iallreduce, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm),
     (out, in, count, type, operation, comm), put_alike(ALL_REDUCE, comm, NO_ROOT, bytes_of(count, type), started))

BOTH(Scan, Iscan, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm),
     (out, in, count, type, operation, comm), put_alike(SCAN, comm, NO_ROOT, bytes_of(count, type), started))

BOTH(Exscan, Iexscan, (const void *out, void *in, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm),
     (out, in, count, type, operation, comm), put_alike(SCAN, comm, NO_ROOT, bytes_of(count, type), started))

BOTH(Gather, Igather,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, root, comm),
     put_alike(GATHER, comm, root, is_root(comm, root) ? bytes_of(in_count, in_type) : own_bytes(root, out_count, out_type), started))

BOTH(Scatter, Iscatter,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, root, comm),
     put_alike(SCATTER, comm, root, is_root(comm, root) ? bytes_of(out_count, out_type) : own_bytes(root, in_count, in_type), started))

BOTH(Allgather, Iallgather,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm),
     put_alike(ALL_GATHER, comm, NO_ROOT, bytes_of(in_count, in_type), started))

BOTH(Alltoall, Ialltoall,
     (const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, MPI_Comm comm),
     (out, out_count, out_type, in, in_count, in_type, comm),
     put_alike(ALL_TO_ALL, comm, NO_ROOT, bytes_of(in_count, in_type), started))

BOTH(Reduce_scatter_block, Ireduce_scatter_block,
     (const void *out, void *in, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm),
     (out, in, count, type, operation, comm), put_alike(REDUCE_SCATTER, comm, NO_ROOT, bytes_of(count, type), started))

BOTH(Gatherv, Igatherv,
     (const void *out, int count, MPI_Datatype type, void *in, const int counts[], const int places[], MPI_Datatype there,
      int root, MPI_Comm comm),
     (out, count, type, in, counts, places, there, root, comm), put_gathered(comm, root, count, type, counts, there, started))

BOTH(Scatterv, Iscatterv,
     (const void *out, const int counts[], const int places[], MPI_Datatype there, void *in, int count, MPI_Datatype type,
      int root, MPI_Comm comm),
     (out, counts, places, there, in, count, type, root, comm),
     put_scattered(comm, root, counts, there, count, type, started))

BOTH(Allgatherv, Iallgatherv,
     (const void *out, int count, MPI_Datatype type, void *in, const int counts[], const int places[], MPI_Datatype there,
      MPI_Comm comm),
     (out, count, type, in, counts, places, there, comm), put_known_to_all(ALL_GATHER, comm, peers(comm), counts, there, started))

BOTH(Reduce_scatter, Ireduce_scatter,
     (const void *out, void *in, const int counts[], MPI_Datatype type, MPI_Op operation, MPI_Comm comm),
     (out, in, counts, type, operation, comm), put_known_to_all(REDUCE_SCATTER, comm, communicator_of(comm)->size, counts, type, started))

BOTH(Alltoallv, Ialltoallv,
     (const void *out, const int out_counts[], const int out_places[], MPI_Datatype out_type, void *in, const int in_counts[],
      const int in_places[], MPI_Datatype in_type, MPI_Comm comm),
     (out, out_counts, out_places, out_type, in, in_counts, in_places, in_type, comm),
     put_each(comm, out, out_counts, out_type, in_counts, in_type, started))

BOTH(Alltoallw, Ialltoallw,
     (const void *out, const int out_counts[], const int out_places[], const MPI_Datatype out_types[], void *in,
      const int in_counts[], const int in_places[], const MPI_Datatype in_types[], MPI_Comm comm),
     (out, out_counts, out_places, out_types, in, in_counts, in_places, in_types, comm),
     put_each_typed(comm, out, out_counts, out_types, in_counts, in_types, started))
