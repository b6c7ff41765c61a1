/* The MPI library's functions, found with RTLD_NEXT. */

#define _GNU_SOURCE
#include "recorder.h"
#include <dlfcn.h>

void *real_of[CALLS];

static const char *const names[CALLS] = {
#define CALL(name) "PMPI_" #name,
	EACH_CALL
#undef CALL
};

const char *name_of(enum call call)
{
	return names[call] + 1;
}

__attribute__((constructor)) static void find(void)
{
	for (int call = 0; call < CALLS; call++)
		real_of[call] = dlsym(RTLD_NEXT, names[call]);
}
