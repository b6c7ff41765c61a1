/* Calls that a time-independent trace of SimGrid shows: messages of each kind, from any rank, with tests, to MPI_PROC_NULL;
 * collective operations of each kind, some nonblocking. */

#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#define WORLD MPI_COMM_WORLD
enum { MOST = 64, ELEMENTS = 1 << 16 };

static int rank, size, next, before;
static double *out, *in;

static void compute(void)
{
	volatile double sum = 0;
	for (int i = 0; i < 100000 * (rank + 1); i++)
		sum += i;
}

static void messages(void)
{
	MPI_Request request[4];
	MPI_Status status;
	int flag = 0;

	if (rank == 0)
		MPI_Send(out, 100, MPI_DOUBLE, next, 7, WORLD);
	if (rank == 1)
		MPI_Recv(in, 200, MPI_DOUBLE, 0, 7, WORLD, &status);
	MPI_Irecv(in, 50, MPI_INT, before, 3, WORLD, &request[0]);
	MPI_Isend(out, 50, MPI_INT, next, 3, WORLD, &request[1]);
	compute();
	MPI_Wait(&request[0], &status);
	MPI_Wait(&request[1], &status);
	MPI_Irecv(in, 40000, MPI_FLOAT, before, 4, WORLD, &request[0]);
	MPI_Issend(out, 40000, MPI_FLOAT, next, 4, WORLD, &request[1]);
	MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
	MPI_Irecv(in, 6, MPI_SHORT, before, 5, WORLD, &request[0]);
	MPI_Isend(out, 6, MPI_SHORT, next, 5, WORLD, &request[1]);
	for (int done = 0; done < 2; done++) {
		int which;
		MPI_Waitany(2, request, &which, &status);
	}
	MPI_Sendrecv(out, 9, MPI_CHAR, next, 1, in, 9, MPI_CHAR, before, 1, WORLD, &status);
	/* The first rank polls. */
	if (rank == 0) {
		MPI_Irecv(in, 3, MPI_LONG, 1, 6, WORLD, &request[0]);
		while (!flag)
			MPI_Test(&request[0], &flag, &status);
	}
	if (rank == 1) {
		usleep(2000);
		MPI_Send(out, 3, MPI_LONG, 0, 6, WORLD);
	}
	/* The first rank collects from any, with any tag. */
	MPI_Barrier(WORLD);
	for (int other = 1; rank == 0 && other < size; other++)
		MPI_Recv(in, 64, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &status);
	if (rank > 0)
		MPI_Send(out, rank, MPI_INT, 0, rank, WORLD);
	MPI_Barrier(WORLD);
	MPI_Irecv(in, 2, MPI_INT, MPI_ANY_SOURCE, 8, WORLD, &request[0]);
	MPI_Send(out, 2, MPI_INT, next, 8, WORLD);
	MPI_Wait(&request[0], &status);
	/* A line of ranks that is not closed to a ring: the ends communicate with MPI_PROC_NULL. */
	int up = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, down = rank > 0 ? rank - 1 : MPI_PROC_NULL;
	MPI_Barrier(WORLD);
	MPI_Irecv(in, 10, MPI_DOUBLE, down, 11, WORLD, &request[0]);
	MPI_Irecv(in + 100, 10, MPI_DOUBLE, up, 12, WORLD, &request[1]);
	MPI_Isend(out, 10, MPI_DOUBLE, up, 11, WORLD, &request[2]);
	MPI_Isend(out, 10, MPI_DOUBLE, down, 12, WORLD, &request[3]);
	MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
}

static void collectives(void)
{
	int counts[MOST], places[MOST], own[MOST];
	MPI_Request request[2];

	for (int other = 0; other < size; other++) {
		counts[other] = other + 1;
		own[other] = rank + 1;
		places[other] = other * MOST;
	}
	MPI_Bcast(out, 1000, MPI_FLOAT, 1, WORLD);
	MPI_Reduce(out, in, 10, MPI_DOUBLE, MPI_SUM, 2 % size, WORLD);
	MPI_Allreduce(out, in, 10, MPI_LONG_LONG, MPI_SUM, WORLD);
	MPI_Allreduce(MPI_IN_PLACE, in, 3, MPI_INT, MPI_SUM, WORLD);
	MPI_Alltoall(out, 8, MPI_CHAR, in, 8, MPI_CHAR, WORLD);
	MPI_Gather(rank == 1 ? MPI_IN_PLACE : out, 8, MPI_SHORT, in, 8, MPI_SHORT, 1, WORLD);
	MPI_Scatter(out, 8, MPI_INT, in, 8, MPI_INT, 0, WORLD);
	MPI_Allgather(out, 8, MPI_INT, in, 8, MPI_INT, WORLD);
	MPI_Gatherv(out, rank + 1, MPI_INT, in, counts, places, MPI_INT, 0, WORLD);
	MPI_Scatterv(out, counts, places, MPI_INT, in, rank + 1, MPI_INT, 0, WORLD);
	MPI_Allgatherv(out, rank + 1, MPI_INT, in, counts, places, MPI_INT, WORLD);
	MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, WORLD);
	MPI_Alltoallv(out, own, places, MPI_INT, in, counts, places, MPI_INT, WORLD);
	MPI_Scan(out, in, 5, MPI_INT, MPI_SUM, WORLD);
	MPI_Exscan(out, in, 5, MPI_INT, MPI_SUM, WORLD);
	MPI_Iallreduce(out, in, 13, MPI_INT, MPI_SUM, WORLD, &request[0]);
	MPI_Ibcast(out, 11, MPI_DOUBLE, 0, WORLD, &request[1]);
	compute();
	MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
	MPI_Ibarrier(WORLD, &request[0]);
	MPI_Wait(&request[0], MPI_STATUS_IGNORE);
	MPI_Barrier(WORLD);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &size);
	next = (rank + 1) % size;
	before = (rank + size - 1) % size;
	out = calloc(ELEMENTS, sizeof(double));
	in = calloc(ELEMENTS, sizeof(double));
	messages();
	collectives();
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
