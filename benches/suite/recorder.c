/* Cost of an MPI call: one process sends messages to itself, waits for both requests, and reduces alone. Prints nanoseconds per call,
 * the median of batches that are long enough for blocks of a trace to be written. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 41, ROUNDS = 8000, CALLS = 4 };

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

int main(int count, char **words)
{
	double took[BATCHES];
	char out = 0, in;
	int one = 1, sum;
	MPI_Init(&count, &words);
	for (int batch = 0; batch < BATCHES; batch++) {
		double begun = now();
		for (int round = 0; round < ROUNDS; round++) {
			MPI_Request requests[2];
			MPI_Irecv(&in, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[0]);
			MPI_Isend(&out, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[1]);
			MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
			MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
		}
		took[batch] = (now() - begun) / ROUNDS / CALLS;
	}
	MPI_Finalize();
	qsort(took, BATCHES, sizeof *took, ascending);
	printf("a call takes %.1f ns\n", took[BATCHES / 2]);
	return 0;
}
