/* Measures a program's duration from MPI_Init to MPI_Finalize without recording: each rank
 * writes a file of one line to the directory named by VERBENA_STOPWATCH, with elapsed
 * nanoseconds and nanoseconds of processor time. The calls in between go directly to the
 * library. */

#define _GNU_SOURCE
#include "recorder.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static char path[PATH_MAX];
static uint64_t passed, worked;

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

void stopwatch_start(void)
{
	const char *directory = getenv("VERBENA_STOPWATCH");
	if (directory == NULL)
		return;
	int rank;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	pinning_pin(rank);
	int length = snprintf(path, sizeof path, "%s/rank-%d.time", directory, rank);
	if (length < 0 || (size_t)length >= sizeof path) {
		path[0] = 0;
		return;
	}
	/* Ranks leave MPI_Init one after another; the measurement begins when the last one has
	 * left. */
	PMPI_Barrier(MPI_COMM_WORLD);
	passed = nanoseconds(CLOCK_MONOTONIC);
	worked = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
}

void stopwatch_stop(void)
{
	if (path[0] == 0)
		return;
	passed = nanoseconds(CLOCK_MONOTONIC) - passed;
	worked = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - worked;
	FILE *file = fopen(path, "w");
	if (file == NULL || fprintf(file, "%llu %llu\n", (unsigned long long)passed, (unsigned long long)worked) < 0)
		fprintf(stderr, "verbena: cannot write %s\n", path);
	if (file != NULL)
		fclose(file);
	path[0] = 0;
}
