/* Windows, accesses to them, and synchronization of accesses. */

#include "recorder.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* An existing window. Programs have few. */
struct window {
	MPI_Win handle;
	int number, size;
	struct window *next;
};

static struct window *windows;
static int made;

static void window_made(MPI_Win handle, MPI_Comm comm)
{
	const struct communicator *known = communicator_of(comm);
	struct window *window = malloc(sizeof *window);
	if (window == NULL) {
		fprintf(stderr, "verbena record: no memory for a window\n");
		abort();
	}
	*window = (struct window){ handle, made++, known->size, windows };
	windows = window;
	put_part(PART_WINDOW);
	put((uint64_t)window->number);
	put((uint64_t)known->number);
}

static struct window *window_of(MPI_Win handle)
{
	struct window *window = windows;
	while (window != NULL && window->handle != handle)
		window = window->next;
	return window;
}

static void window_gone(MPI_Win handle)
{
	for (struct window **here = &windows; *here != NULL; here = &(*here)->next) {
		struct window *window = *here;
		if (window->handle != handle)
			continue;
		put_part(PART_WINDOW_FREED);
		put((uint64_t)window->number);
		*here = window->next;
		free(window);
		return;
	}
}

DEFINE(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *window),
       (base, size, unit, info, comm, window), window_made(*window, comm))
DEFINE(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),
       (size, unit, info, comm, base, window), window_made(*window, comm))
DEFINE(Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),
       (size, unit, info, comm, base, window), window_made(*window, comm))
DEFINE(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *window), (info, comm, window), window_made(*window, comm))

EXPORTED int MPI_Win_free(MPI_Win *window)
{
	if (!call_enter())
		return REAL(Win_free)(window);
	window_gone(*window);
	int error = REAL(Win_free)(window);
	call_leave(CALL_Win_free);
	return error;
}
ALSO_PMPI(Win_free)

/* Records an access: `out` bytes go to the target and `in` bytes come back. */
static void put_access(MPI_Win handle, int target, uint64_t out, uint64_t in, const MPI_Request *request)
{
	const struct window *window = window_of(handle);
	if (window == NULL || target == MPI_PROC_NULL)
		return;
	put_part(PART_ACCESS);
	put((uint64_t)window->number);
	put((uint64_t)target);
	put(out);
	put(in);
	put_signed(request == NULL ? BLOCKING : request_new(*request, REQUEST_OTHER));
}

#define ORIGIN const void *origin, int count, MPI_Datatype type
#define TARGET int target, MPI_Aint at, int there_count, MPI_Datatype there

DEFINE(Put, (ORIGIN, TARGET, MPI_Win window), (origin, count, type, target, at, there_count, there, window),
       put_access(window, target, bytes_of(count, type), 0, NULL))
DEFINE(Get, (void *origin, int count, MPI_Datatype type, TARGET, MPI_Win window),
       (origin, count, type, target, at, there_count, there, window),
       put_access(window, target, 0, bytes_of(count, type), NULL))
DEFINE(Accumulate, (ORIGIN, TARGET, MPI_Op operation, MPI_Win window),
       (origin, count, type, target, at, there_count, there, operation, window),
       put_access(window, target, bytes_of(count, type), 0, NULL))
DEFINE(Get_accumulate, (ORIGIN, void *result, int result_count, MPI_Datatype result_type, TARGET, MPI_Op operation, MPI_Win window),
       (origin, count, type, result, result_count, result_type, target, at, there_count, there, operation, window),
       put_access(window, target, operation == MPI_NO_OP ? 0 : bytes_of(count, type), bytes_of(result_count, result_type), NULL))
DEFINE(Fetch_and_op,
       (const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Op operation, MPI_Win window),
       (origin, result, type, target, at, operation, window),
       put_access(window, target, operation == MPI_NO_OP ? 0 : bytes_of(1, type), bytes_of(1, type), NULL))
DEFINE(Compare_and_swap,
       (const void *origin, const void *compared, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Win window),
       (origin, compared, result, type, target, at, window),
       put_access(window, target, 2 * bytes_of(1, type), bytes_of(1, type), NULL))
DEFINE(Rput, (ORIGIN, TARGET, MPI_Win window, MPI_Request *request),
       (origin, count, type, target, at, there_count, there, window, request),
       put_access(window, target, bytes_of(count, type), 0, request))
DEFINE(Rget, (void *origin, int count, MPI_Datatype type, TARGET, MPI_Win window, MPI_Request *request),
       (origin, count, type, target, at, there_count, there, window, request),
       put_access(window, target, 0, bytes_of(count, type), request))
DEFINE(Raccumulate, (ORIGIN, TARGET, MPI_Op operation, MPI_Win window, MPI_Request *request),
       (origin, count, type, target, at, there_count, there, operation, window, request),
       put_access(window, target, bytes_of(count, type), 0, request))
DEFINE(Rget_accumulate,
       (ORIGIN, void *result, int result_count, MPI_Datatype result_type, TARGET, MPI_Op operation, MPI_Win window,
	MPI_Request *request),
       (origin, count, type, result, result_count, result_type, target, at, there_count, there, operation, window, request),
       put_access(window, target, operation == MPI_NO_OP ? 0 : bytes_of(count, type), bytes_of(result_count, result_type),
		  request))

static bool put_synchronized(MPI_Win handle, enum synchronization kind)
{
	const struct window *window = window_of(handle);
	if (window == NULL)
		return false;
	put_part(PART_SYNCHRONIZED);
	put((uint64_t)window->number);
	put(kind);
	return true;
}

static void put_all(MPI_Win handle, enum synchronization kind)
{
	if (put_synchronized(handle, kind))
		put(0);
}

static void put_one(MPI_Win handle, enum synchronization kind, int target)
{
	if (target == MPI_PROC_NULL || !put_synchronized(handle, kind))
		return;
	put(1);
	put((uint64_t)target);
}

/* Records a synchronization with a group, by ranks within the window. */
static void put_group(MPI_Win handle, enum synchronization kind, MPI_Group group)
{
	if (!put_synchronized(handle, kind))
		return;
	MPI_Group all;
	int size;
	PMPI_Win_get_group(handle, &all);
	PMPI_Group_size(group, &size);
	int *own = malloc((size_t)(size + 1) * sizeof *own), *there = malloc((size_t)(size + 1) * sizeof *there);
	if (own == NULL || there == NULL)
		abort();
	for (int rank = 0; rank < size; rank++)
		own[rank] = rank;
	PMPI_Group_translate_ranks(group, size, own, all, there);
	put((uint64_t)size);
	for (int rank = 0; rank < size; rank++)
		put((uint64_t)there[rank]);
	free(own);
	free(there);
	PMPI_Group_free(&all);
}

DEFINE(Win_fence, (int assertion, MPI_Win window), (assertion, window), put_all(window, FENCE))
DEFINE(Win_post, (MPI_Group group, int assertion, MPI_Win window), (group, assertion, window), put_group(window, POST, group))
DEFINE(Win_start, (MPI_Group group, int assertion, MPI_Win window), (group, assertion, window), put_group(window, START, group))
DEFINE(Win_complete, (MPI_Win window), (window), put_all(window, COMPLETE))
DEFINE(Win_wait, (MPI_Win window), (window), put_all(window, WAIT))
DEFINE(Win_lock, (int kind, int target, int assertion, MPI_Win window), (kind, target, assertion, window),
       put_one(window, LOCK, target))
DEFINE(Win_unlock, (int target, MPI_Win window), (target, window), put_one(window, UNLOCK, target))
DEFINE(Win_lock_all, (int assertion, MPI_Win window), (assertion, window), put_all(window, LOCK_ALL))
DEFINE(Win_unlock_all, (MPI_Win window), (window), put_all(window, UNLOCK_ALL))
DEFINE(Win_flush, (int target, MPI_Win window), (target, window), put_one(window, FLUSH, target))
DEFINE(Win_flush_all, (MPI_Win window), (window), put_all(window, FLUSH))
DEFINE(Win_flush_local, (int target, MPI_Win window), (target, window), put_one(window, FLUSH, target))
DEFINE(Win_flush_local_all, (MPI_Win window), (window), put_all(window, FLUSH))

EXPORTED int MPI_Win_test(MPI_Win window, int *done)
{
	if (!call_enter())
		return REAL(Win_test)(window, done);
	int error = REAL(Win_test)(window, done);
	if (error == MPI_SUCCESS && !*done) {
		call_polled(CALL_Win_test);
		return error;
	}
	put_all(window, WAIT);
	call_leave(CALL_Win_test);
	return error;
}
ALSO_PMPI(Win_test)
