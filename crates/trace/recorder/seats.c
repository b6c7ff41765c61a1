/* Which processor a rank keeps to: VERBENA_SEATS lists them, and rank r takes the one at place r modulo their number. The thread that called
 * MPI_Init alone does, as what a library started there has its own work. */

#define _GNU_SOURCE
#include "recorder.h"
#include <sched.h>
#include <stdlib.h>

enum { MOST = 1024 };

void seat_take(int rank)
{
	const char *list = getenv("VERBENA_SEATS");
	int seats[MOST], count = 0;
	while (list != NULL && *list != 0 && count < MOST) {
		char *rest;
		seats[count++] = (int)strtol(list, &rest, 10);
		list = *rest == ',' ? rest + 1 : NULL;
	}
	if (count == 0)
		return;
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(seats[rank % count] % CPU_SETSIZE, &set);
	sched_setaffinity(0, sizeof set, &set);
}
