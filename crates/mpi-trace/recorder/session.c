/* Recording from MPI_Init to MPI_Finalize. */

#define _GNU_SOURCE
#include "recorder.h"
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beginnings of the file names of MPI libraries; a process must not load both. */
static const char *const libraries[] = { "libmpi.so", "libmpich.so" };

static int see(struct dl_phdr_info *object, size_t size, void *seen)
{
	(void)size;
	const char *slash = strrchr(object->dlpi_name, '/');
	const char *name = slash ? slash + 1 : object->dlpi_name;
	for (int which = 0; which < 2; which++)
		if (strncmp(name, libraries[which], strlen(libraries[which])) == 0)
			((const char **)seen)[which] = object->dlpi_name;
	return 0;
}

static void refuse_two_libraries(void)
{
	const char *seen[2] = { NULL, NULL };
	dl_iterate_phdr(see, seen);
	if (seen[0] == NULL || seen[1] == NULL)
		return;
	fprintf(stderr,
		"verbena record: the program and the recorder are of two MPI libraries, %s and %s; "
		"name the compiler of the program's: verbena record --mpicc mpicc.mpich, or mpicc.openmpi\n",
		seen[0], seen[1]);
	exit(3);
}

static void begin(enum call call)
{
	const char *directory = getenv("VERBENA_RECORD");
	if (directory == NULL) {
		stopwatch_start();
		return;
	}
	MPI_Comm parent = MPI_COMM_NULL;
	PMPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		fprintf(stderr, "verbena record: processes that a program spawns are not recorded\n");
		return;
	}
	int rank, size;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	pinning_pin(rank);
	if (!output_open(directory, rank, size))
		return;
	call_recording();
	call_enter();
	communicator_made(MPI_COMM_WORLD);
	communicator_made(MPI_COMM_SELF);
	call_leave(call);
}

EXPORTED int MPI_Init(int *count, char ***words)
{
	refuse_two_libraries();
	int error = REAL(Init)(count, words);
	if (error == MPI_SUCCESS)
		begin(CALL_Init);
	return error;
}
ALSO_PMPI(Init)

/* Concurrent calls of several threads have no order that could be recorded, so the program gets
 * at most MPI_THREAD_SERIALIZED. */
EXPORTED int MPI_Init_thread(int *count, char ***words, int required, int *provided)
{
	refuse_two_libraries();
	bool too_much = required > MPI_THREAD_SERIALIZED && getenv("VERBENA_RECORD") != NULL;
	if (too_much)
		required = MPI_THREAD_SERIALIZED;
	int error = REAL(Init_thread)(count, words, required, provided);
	if (too_much && *provided > MPI_THREAD_SERIALIZED)
		*provided = MPI_THREAD_SERIALIZED;
	if (error == MPI_SUCCESS)
		begin(CALL_Init_thread);
	return error;
}
ALSO_PMPI(Init_thread)

EXPORTED int MPI_Finalize(void)
{
	if (!call_enter()) {
		stopwatch_stop();
		return REAL(Finalize)();
	}
	int error = REAL(Finalize)();
	put_part(PART_FINALIZED);
	call_leave(CALL_Finalize);
	call_stop();
	output_close();
	return error;
}
ALSO_PMPI(Finalize)

EXPORTED int MPI_Abort(MPI_Comm comm, int code)
{
	output_flush();
	return REAL(Abort)(comm, code);
}
ALSO_PMPI(Abort)

/* A program may end without MPI_Finalize. */
__attribute__((destructor)) static void end(void)
{
	output_flush();
}
