#include "measure.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

void pin(unsigned which)
{
	cpu_set_t allowed, one;
	CHECK_CALL(sched_getaffinity(0, sizeof allowed, &allowed));
	int count = CPU_COUNT(&allowed), wanted = (int)which % count, processor = 0;
	for (int seen = -1;; processor++) {
		seen += CPU_ISSET(processor, &allowed) != 0;
		if (seen == wanted)
			break;
	}
	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	CHECK_CALL(sched_setaffinity(0, sizeof one, &one));
}

uint64_t processor_time(void)
{
	struct timespec time;
	CHECK_CALL(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static int ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return (a > b) - (a < b);
}

double median(double *values, unsigned count)
{
	qsort(values, count, sizeof *values, ascending);
	return values[count / 2];
}

void print_result(const char *name, double value)
{
	printf("%s %.3f\n", name, value);
	fflush(stdout);
}
