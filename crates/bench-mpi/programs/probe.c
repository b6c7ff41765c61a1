/* Measures three properties of an MPI library that pure message benchmarks do not show.
 * Arguments: the number of processes that share a processor, then message sizes.
 *
 * Time of an exchange between processes that compute: all processes compute over some memory,
 * then each exchanges with its neighbor, once or twice; the time without an exchange is
 * subtracted. Prints `exchange BYTES FIRST SECOND` for each size, in nanoseconds per process.
 *
 * Time of a barrier of all processes. Prints `barrier NANOSECONDS`.
 *
 * The eager limit, up to which MPI_Send returns before the message is received: tries powers of
 * two, each until one send returns while the receiver sleeps. Prints `eager BYTES`. */

#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LARGEST = 1 << 22, TRIES = 3, ASLEEP = 4000000 };

static long long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static void sleep_for(long nanoseconds)
{
	struct timespec span = { 0, nanoseconds };
	nanosleep(&span, NULL);
}

/* Whether MPI_Send returned within a quarter of the receiver's sleep. */
static int returns_at_once(int rank, char *bytes, int size)
{
	int did = 0;
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		/* Waits until the receiver sleeps. */
		sleep_for(ASLEEP / 4);
		long long began = now();
		MPI_Send(bytes, size, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
		did = now() - began < ASLEEP / 4;
	} else if (rank == 1) {
		sleep_for(ASLEEP);
		MPI_Recv(bytes, size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Bcast(&did, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return did;
}

/* Computes for about 100 us over memory that does not stay in the nearest cache. */
static double memory[1 << 16];

static double compute(void)
{
	double sum = 0;
	for (int round = 0; round < 2; round++)
		for (int i = 1; i < 1 << 16; i++)
			sum += memory[i] = memory[i - 1] * 0.5 + i;
	return sum;
}

enum { ROUNDS = 150, BARRIERS = 1000, REPEATS = 3 };

/* Nanoseconds of a round of computing and `exchanges` exchanges, in the best of several trials. */
static double round_takes(int neighbor, char *out, char *in, int size, int exchanges)
{
	double best = 0;
	volatile double sum = 0;
	for (int trial = 0; trial < REPEATS; trial++) {
		MPI_Barrier(MPI_COMM_WORLD);
		long long began = now();
		for (int round = 0; round < ROUNDS; round++) {
			sum += compute();
			for (int i = 0; i < exchanges; i++)
				MPI_Sendrecv(out, size, MPI_BYTE, neighbor, 1, in, size, MPI_BYTE, neighbor, 1,
					     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		double took = (double)(now() - began) / ROUNDS;
		if (trial == 0 || took < best)
			best = took;
	}
	return best;
}

static void exchanges(int rank, int sharing, char *out, char *in, int sizes, char **words)
{
	double alone = round_takes(rank ^ 1, out, in, 0, 0);
	for (int i = 0; i < sizes; i++) {
		int size = atoi(words[i]);
		double once = round_takes(rank ^ 1, out, in, size, 1);
		double twice = round_takes(rank ^ 1, out, in, size, 2);
		if (rank == 0)
			printf("exchange %d %.0f %.0f\n", size, (once - alone) / sharing, (twice - once) / sharing);
	}
}

static double barrier_takes(void)
{
	double best = 0;
	for (int trial = 0; trial < REPEATS; trial++) {
		MPI_Barrier(MPI_COMM_WORLD);
		long long began = now();
		for (int i = 0; i < BARRIERS; i++)
			MPI_Barrier(MPI_COMM_WORLD);
		double took = (double)(now() - began) / BARRIERS;
		if (trial == 0 || took < best)
			best = took;
	}
	return best;
}

int main(int count, char **words)
{
	int rank, eager = 0;
	char *bytes = calloc(1, LARGEST);
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	char *in = calloc(1, LARGEST);
	exchanges(rank, atoi(words[1]), bytes, in, count - 2, words + 2);
	double barrier = barrier_takes();
	if (rank == 0)
		printf("barrier %.0f\n", barrier);
	for (int size = 1; size <= LARGEST; size *= 2) {
		int did = 0;
		for (int try = 0; try < TRIES && !did; try++)
			did = returns_at_once(rank, bytes, size);
		if (!did)
			break;
		eager = size;
	}
	if (rank == 0)
		printf("eager %d\n", eager);
	MPI_Finalize();
	return 0;
}
