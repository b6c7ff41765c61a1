/* Declares computing that it does not do, and does some that is not to be counted: rank r has computed r + 4 seconds,
 * and hardly more. */

#include "../../crates/mpi-trace/recorder/verbena.h"
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define SECOND 1000000000ull

static void tell(uint64_t nanoseconds)
{
	if (verbena_computed)
		verbena_computed(nanoseconds);
}

/* A quarter of a second of processor time. */
static void compute(void)
{
	for (clock_t end = clock() + CLOCKS_PER_SEC / 4; clock() < end;)
		;
}

/* Its thread makes no call: neither its declarations count, nor its computing before the pause. */
static void *aside(void *nothing)
{
	tell(1000 * SECOND);
	compute();
	if (verbena_pause) {
		verbena_pause();
		verbena_resume();
	}
	return nothing;
}

/* Code that a library calls is not the program's computing. */
static void sum(void *in, void *out, int *count, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *count; i++)
		((int *)out)[i] += ((int *)in)[i];
	tell(1000 * SECOND);
}

int main(int count, char **words)
{
	int rank, one = 1, all;
	tell(1000 * SECOND);
	if (verbena_pause)
		verbena_pause();
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (verbena_resume)
		verbena_resume();

	tell(rank * SECOND);
	tell(SECOND);
	MPI_Barrier(MPI_COMM_WORLD);

	if (verbena_pause) {
		verbena_pause();
		compute();
		tell(SECOND);
		verbena_pause();
		verbena_resume();
		MPI_Barrier(MPI_COMM_WORLD);
		compute();
		verbena_resume();
		tell(SECOND);
	} else {
		MPI_Barrier(MPI_COMM_WORLD);
	}
	/* Those are too much. */
	tell(UINT64_MAX);
	tell(UINT64_MAX - SECOND + 1);

	pthread_t thread;
	pthread_create(&thread, NULL, aside, NULL);
	pthread_join(thread, NULL);

	MPI_Op op;
	MPI_Op_create(sum, 1, &op);
	MPI_Allreduce(&one, &all, 1, MPI_INT, op, MPI_COMM_WORLD);
	MPI_Op_free(&op);

	tell(SECOND);
	MPI_Finalize();
	tell(1000 * SECOND);
	if (rank == 0)
		printf("%s\n", verbena_computed ? "told" : "no recorder");
	return 0;
}
