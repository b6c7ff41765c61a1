/* Pins a rank to a processor: VERBENA_SEATS lists processors, and rank r gets the one at index r
 * modulo their number. Only the thread that called MPI_Init is pinned, because threads that the
 * library started there have their own work. */

#define _GNU_SOURCE
#include "recorder.h"
#include <sched.h>
#include <stdlib.h>

enum { MOST = 1024 };

void pinning_pin(int rank)
{
	const char *list = getenv("VERBENA_SEATS");
	int cpus[MOST], count = 0;
	while (list != NULL && *list != 0 && count < MOST) {
		char *rest;
		cpus[count++] = (int)strtol(list, &rest, 10);
		list = *rest == ',' ? rest + 1 : NULL;
	}
	if (count == 0)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpus[rank % count] % CPU_SETSIZE, &set);
	sched_setaffinity(0, sizeof set, &set);
}
