/* Communicators: their numbers within this rank, and their members. */

#include "recorder.h"
#include <stdio.h>
#include <stdlib.h>

/* A known communicator, and the next one of its bucket. */
struct known {
	MPI_Comm comm;
	struct communicator what;
	struct known *next;
};

#define BUCKETS 256

static struct known *buckets[BUCKETS];
static struct known *latest;
static int made;

static struct known **bucket_of(MPI_Comm comm)
{
	uint64_t number = (uint64_t)(uintptr_t)comm;
	return &buckets[number * 0x9e3779b97f4a7c15ull >> 56];
}

static void *memory(size_t bytes)
{
	void *got = malloc(bytes > 0 ? bytes : 1);
	if (got == NULL) {
		fprintf(stderr, "verbena record: no memory for a communicator\n");
		abort();
	}
	return got;
}

/* Records the members by their ranks in MPI_COMM_WORLD. */
static void put_members(MPI_Group group)
{
	MPI_Group world;
	int size;
	PMPI_Group_size(group, &size);
	PMPI_Comm_group(MPI_COMM_WORLD, &world);
	int *own = memory((size_t)size * sizeof *own), *there = memory((size_t)size * sizeof *there);
	for (int rank = 0; rank < size; rank++)
		own[rank] = rank;
	PMPI_Group_translate_ranks(group, size, own, world, there);
	put((uint64_t)size);
	for (int rank = 0, before = -1; rank < size; before = there[rank++])
		put_signed(there[rank] - before - 1);
	free(own);
	free(there);
	PMPI_Group_free(&world);
}

static struct known *add(MPI_Comm comm)
{
	struct known *known = memory(sizeof *known), **bucket = bucket_of(comm);
	int between = 0;
	known->comm = comm;
	known->what = (struct communicator){ .number = made++ };
	PMPI_Comm_size(comm, &known->what.size);
	PMPI_Comm_rank(comm, &known->what.rank);
	known->next = *bucket;
	*bucket = known;
	MPI_Group group;
	PMPI_Comm_group(comm, &group);
	put_part(PART_COMMUNICATOR);
	put((uint64_t)known->what.number);
	put_members(group);
	PMPI_Group_free(&group);
	PMPI_Comm_test_inter(comm, &between);
	if (between) {
		PMPI_Comm_remote_size(comm, &known->what.remote);
		PMPI_Comm_remote_group(comm, &group);
		put_members(group);
		PMPI_Group_free(&group);
	} else {
		put(0);
	}
	return known;
}

/* Returns a communicator; records it first if no recorded call has created it. */
const struct communicator *communicator_of(MPI_Comm comm)
{
	if (latest != NULL && latest->comm == comm)
		return &latest->what;
	struct known *known = *bucket_of(comm);
	while (known != NULL && known->comm != comm)
		known = known->next;
	latest = known != NULL ? known : add(comm);
	return &latest->what;
}

/* Records a new communicator, if this rank is a member. */
void communicator_made(MPI_Comm comm)
{
	if (comm != MPI_COMM_NULL)
		communicator_of(comm);
}

/* Forgets a communicator: its handle may be reused for another one. */
void communicator_gone(MPI_Comm comm)
{
	for (struct known **here = bucket_of(comm); *here != NULL; here = &(*here)->next) {
		struct known *known = *here;
		if (known->comm != comm)
			continue;
		put_part(PART_COMMUNICATOR_FREED);
		put((uint64_t)known->what.number);
		*here = known->next;
		free(known);
		latest = NULL;
		return;
	}
}
