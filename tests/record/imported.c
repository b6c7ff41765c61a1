/* Messages and collective operations, as archive.py writes them into an archive in OTF2: the test compares an import of
 * that archive with a recording of this program. For four ranks. */

#include <mpi.h>
#include <stdlib.h>

enum { ROUNDS = 10 };

static char out[1 << 18], in[1 << 18];
static int rank;

static void ping_pong(int bytes)
{
	if (rank == 0) {
		MPI_Send(out, bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
		MPI_Recv(in, bytes, MPI_CHAR, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		MPI_Recv(in, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(out, bytes, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
	}
}

static void ring(int ranks, int bytes)
{
	MPI_Request requests[2];
	MPI_Irecv(in, bytes, MPI_CHAR, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, bytes, MPI_CHAR, (rank + 1) % ranks, 5, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void alike(MPI_Comm comm, int bytes)
{
	MPI_Request request;
	MPI_Barrier(comm);
	MPI_Bcast(out, bytes, MPI_CHAR, 1, comm);
	MPI_Reduce(out, in, bytes, MPI_CHAR, MPI_MAX, 1, comm);
	MPI_Allreduce(out, in, bytes, MPI_CHAR, MPI_MAX, comm);
	MPI_Gather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, 1, comm);
	MPI_Scatter(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, 1, comm);
	MPI_Allgather(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, comm);
	MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, comm);
	MPI_Reduce_scatter_block(out, in, bytes, MPI_CHAR, MPI_MAX, comm);
	MPI_Scan(out, in, bytes, MPI_CHAR, MPI_MAX, comm);
	MPI_Iallreduce(out, in, bytes, MPI_CHAR, MPI_MAX, comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void each_its_own(MPI_Comm comm, int bytes)
{
	int place, size, counts[4], places[4], at = 0;
	MPI_Comm_rank(comm, &place);
	MPI_Comm_size(comm, &size);
	for (int i = 0; i < size; i++) {
		counts[i] = bytes * (i + 1);
		places[i] = at;
		at += counts[i];
	}
	MPI_Gatherv(out, counts[place], MPI_CHAR, in, counts, places, MPI_CHAR, 1, comm);
	MPI_Scatterv(out, counts, places, MPI_CHAR, in, counts[place], MPI_CHAR, 1, comm);
	MPI_Allgatherv(out, counts[place], MPI_CHAR, in, counts, places, MPI_CHAR, comm);
	MPI_Reduce_scatter(out, in, counts, MPI_CHAR, MPI_MAX, comm);
}

int main(int count, char **words)
{
	int ranks;
	MPI_Comm half;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
	for (int round = 0; round < ROUNDS; round++) {
		ping_pong(1);
		ping_pong(1000);
		ping_pong(100000);
		ring(ranks, 20000);
		alike(MPI_COMM_WORLD, 400);
		alike(half, 3000);
		each_its_own(MPI_COMM_WORLD, 500);
		each_its_own(half, 2000);
	}
	MPI_Finalize();
	return 0;
}
