/* Calls of every kind, whose messages and bytes the program counts itself: no second library counts them, but the
 * program knows its own calls. The last line of rank 0 is "sent MESSAGES BYTES" of all ranks, point to point and
 * one-sided, which a trace must have, too. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static uint64_t messages, bytes;

static void sent(uint64_t count, uint64_t length)
{
	messages += count;
	bytes += count * length;
}

/* Blocking, both ways at once, of any length, from any source. */
static void blocking(void)
{
	char out[300], in[300];
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	memset(out, rank, sizeof out);
	for (int length = 0; length <= 300; length += 75) {
		MPI_Sendrecv(out, length, MPI_CHAR, next, 1, in, sizeof in, MPI_CHAR, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		sent(1, (uint64_t)length);
	}
	if (rank == 0) {
		for (int from = 1; from < size; from++)
			MPI_Recv(in, sizeof in, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Ssend(out, 10 * rank, MPI_CHAR, 0, rank, MPI_COMM_WORLD);
		sent(1, 10 * (uint64_t)rank);
	}
	/* A rank's next message must not be taken in place of another rank's that is still to come: MPI_ANY_SOURCE
	 * accepts either. */
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Send(out, 7, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
	MPI_Recv(in, 7, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Begun, and waited for in every way. */
static void begun(void)
{
	double out[64] = { 0 }, in[4][64];
	int next = (rank + 1) % size, before = (rank + size - 1) % size, done, index, count, indices[8];
	for (int way = 0; way < 6; way++) {
		MPI_Request requests[8];
		for (int which = 0; which < 4; which++) {
			MPI_Irecv(in[which], 64, MPI_DOUBLE, before, which, MPI_COMM_WORLD, &requests[which]);
			MPI_Isend(out, 16 * which, MPI_DOUBLE, next, which, MPI_COMM_WORLD, &requests[4 + which]);
			sent(1, 128 * (uint64_t)which);
		}
		switch (way) {
		case 0:
			MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
			break;
		case 1:
			for (int which = 0; which < 8; which++)
				MPI_Wait(&requests[which], MPI_STATUS_IGNORE);
			break;
		case 2:
			for (int which = 0; which < 8; which++)
				MPI_Waitany(8, requests, &index, MPI_STATUS_IGNORE);
			break;
		case 3:
			for (int left = 8; left > 0; left -= count)
				MPI_Waitsome(8, requests, &count, indices, MPI_STATUSES_IGNORE);
			break;
		case 4:
			for (int which = 0; which < 8; which++)
				do
					MPI_Test(&requests[which], &done, MPI_STATUS_IGNORE);
				while (!done);
			break;
		default:
			do
				MPI_Testall(8, requests, &done, MPI_STATUSES_IGNORE);
			while (!done);
		}
	}
	MPI_Request never;
	MPI_Irecv(in, 64, MPI_DOUBLE, before, 99, MPI_COMM_WORLD, &never);
	MPI_Cancel(&never);
	MPI_Wait(&never, MPI_STATUS_IGNORE);
}

static void persistent(void)
{
	int out = rank, in, next = (rank + 1) % size, before = (rank + size - 1) % size;
	MPI_Request requests[2];
	MPI_Recv_init(&in, 1, MPI_INT, before, 5, MPI_COMM_WORLD, &requests[0]);
	MPI_Send_init(&out, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[1]);
	for (int round = 0; round < 10; round++) {
		MPI_Startall(2, requests);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		sent(1, 4);
	}
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
}

/* Looked for before it is received, and set aside. */
static void probed(void)
{
	int out = rank, in, next = (rank + 1) % size, before = (rank + size - 1) % size, found;
	MPI_Request request;
	MPI_Message message;
	MPI_Status status;
	for (int way = 0; way < 2; way++) {
		MPI_Isend(&out, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &request);
		sent(1, 4);
		if (way == 0) {
			do
				MPI_Iprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &found, &status);
			while (!found);
			MPI_Recv(&in, 1, MPI_INT, status.MPI_SOURCE, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Mprobe(before, 6, MPI_COMM_WORLD, &message, &status);
			MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
		}
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

/* Every second of every third double: 8 x 8 bytes of data. */
static void derived_types(void)
{
	double grid[64] = { 0 }, in[64];
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	MPI_Datatype column;
	MPI_Type_vector(8, 1, 8, MPI_DOUBLE, &column);
	MPI_Type_commit(&column);
	MPI_Sendrecv(grid, 1, column, next, 2, in, 8, MPI_DOUBLE, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	sent(1, 64);
	MPI_Type_free(&column);
}

static void collectives(MPI_Comm comm)
{
	int own, members;
	MPI_Comm_rank(comm, &own);
	MPI_Comm_size(comm, &members);
	int *out = calloc((size_t)members * 100, sizeof *out), *in = calloc((size_t)members * 100, sizeof *in);
	int *counts = malloc((size_t)members * sizeof *counts), *places = malloc((size_t)members * sizeof *places);
	if (out == NULL || in == NULL || counts == NULL || places == NULL)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int peer = 0, place = 0; peer < members; place += counts[peer++]) {
		counts[peer] = peer + 1;
		places[peer] = place;
	}
	int last = members - 1;
	MPI_Barrier(comm);
	MPI_Bcast(out, 10, MPI_INT, last, comm);
	MPI_Reduce(out, in, 10, MPI_INT, MPI_SUM, last, comm);
	MPI_Allreduce(MPI_IN_PLACE, in, 10, MPI_INT, MPI_SUM, comm);
	MPI_Gather(out, 3, MPI_INT, in, 3, MPI_INT, last, comm);
	MPI_Gatherv(out, own + 1, MPI_INT, in, counts, places, MPI_INT, 0, comm);
	MPI_Scatter(out, 3, MPI_INT, in, 3, MPI_INT, 0, comm);
	MPI_Scatterv(out, counts, places, MPI_INT, in, own + 1, MPI_INT, last, comm);
	MPI_Allgather(out, 3, MPI_INT, in, 3, MPI_INT, comm);
	MPI_Allgatherv(out, own + 1, MPI_INT, in, counts, places, MPI_INT, comm);
	MPI_Alltoall(out, 3, MPI_INT, in, 3, MPI_INT, comm);
	for (int peer = 0; peer < members; peer++) {
		counts[peer] = own + peer;
		places[peer] = peer * 2 * members;
	}
	int *large = calloc((size_t)(2 * members * members), 2 * sizeof *large);
	if (large == NULL)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Alltoallv(large, counts, places, MPI_INT, large + 2 * members * members, counts, places, MPI_INT, comm);
	free(large);
	MPI_Reduce_scatter_block(out, in, 3, MPI_INT, MPI_SUM, comm);
	MPI_Scan(out, in, 3, MPI_INT, MPI_SUM, comm);
	MPI_Request requests[2];
	MPI_Iallreduce(out, in, 20, MPI_INT, MPI_SUM, comm, &requests[0]);
	MPI_Ibarrier(comm, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	free(out);
	free(in);
	free(counts);
	free(places);
}

/* Groups, grids and their neighbors, two groups that face each other. */
static void communicators(void)
{
	MPI_Comm half, copy, grid, between;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
	MPI_Comm_dup(half, &copy);
	collectives(copy);
	MPI_Comm_free(&copy);
	int out = rank, in, own, members;
	MPI_Comm_rank(half, &own);
	MPI_Comm_size(half, &members);
	MPI_Sendrecv(&out, 1, MPI_INT, (own + 1) % members, 0, &in, 1, MPI_INT, (own + members - 1) % members, 0, half,
		     MPI_STATUS_IGNORE);
	sent(1, 4);
	if (size > 1) {
		/* The leaders are the highest ranks of either half, by the key. */
		int other = rank % 2 == 0 ? size - 1 - size % 2 : size - 1 - (size + 1) % 2;
		MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 17, &between);
		MPI_Comm_remote_size(between, &members);
		if (own < members) {
			MPI_Sendrecv(&out, 1, MPI_INT, own, 0, &in, 1, MPI_INT, own, 0, between, MPI_STATUS_IGNORE);
			sent(1, 4);
		}
		MPI_Comm_free(&between);
	}
	MPI_Comm_free(&half);
	int sides[1] = { 0 }, periods[1] = { 0 }, halos[2][10], edges[2][10] = { { 0 } };
	MPI_Dims_create(size, 1, sides);
	MPI_Cart_create(MPI_COMM_WORLD, 1, sides, periods, 0, &grid);
	MPI_Neighbor_alltoall(edges, 10, MPI_INT, halos, 10, MPI_INT, grid);
	sent((uint64_t)(rank > 0) + (rank < size - 1), 40);
	MPI_Comm_free(&grid);
}

static void one_sided(void)
{
	int *memory, out[50] = { 0 }, in[50], next = (rank + 1) % size, before = (rank + size - 1) % size;
	MPI_Win window;
	MPI_Request request;
	MPI_Win_allocate(200 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	MPI_Win_fence(0, window);
	MPI_Put(out, 50, MPI_INT, next, 0, 50, MPI_INT, window);
	MPI_Get(in, 50, MPI_INT, before, 50, 50, MPI_INT, window);
	MPI_Win_fence(0, window);
	sent(2, 200);
	MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window);
	MPI_Accumulate(out, 5, MPI_INT, next, 100, 5, MPI_INT, MPI_SUM, window);
	MPI_Win_flush(next, window);
	MPI_Fetch_and_op(out, in, MPI_INT, next, 120, MPI_SUM, window);
	MPI_Rput(out, 5, MPI_INT, next, 130, 5, MPI_INT, window, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Win_unlock(next, window);
	sent(2, 20);
	sent(1, 8);
	MPI_Group all, to, from;
	MPI_Win_get_group(window, &all);
	MPI_Group_incl(all, 1, &next, &to);
	MPI_Group_incl(all, 1, &before, &from);
	MPI_Win_post(from, 0, window);
	MPI_Win_start(to, 0, window);
	MPI_Put(out, 50, MPI_INT, next, 150, 50, MPI_INT, window);
	MPI_Win_complete(window);
	MPI_Win_wait(window);
	sent(1, 200);
	MPI_Group_free(&all);
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	MPI_Win_free(&window);
}

int main(int count, char **words)
{
	int provided;
	MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	blocking();
	begun();
	persistent();
	probed();
	derived_types();
	collectives(MPI_COMM_WORLD);
	communicators();
	one_sided();
	uint64_t own[2] = { messages, bytes }, all[2];
	MPI_Reduce(own, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("sent %llu %llu\n", (unsigned long long)all[0], (unsigned long long)all[1]);
	MPI_Finalize();
	return 0;
}
