/* Records the MPI calls of a process. The preloaded library defines the MPI_ and PMPI_ name of
 * every call and calls the MPI library's PMPI_ function. It defines PMPI_ names too, because
 * Open MPI's Fortran bindings call these; calls that a library makes within a call are not
 * recorded.
 *
 * docs/trace-format.md describes the format. */

#ifndef RECORDER_H
#define RECORDER_H

#include "calls.h"
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum call {
#define CALL(name) CALL_##name,
	EACH_CALL
#undef CALL
	CALLS
};

/* Kinds of parts of a call. */
enum part {
	/* Ends the parts; the call's name follows. */
	PART_CALL,
	PART_SEND,
	PART_RECEIVE,
	PART_BEGIN_SEND,
	PART_BEGIN_RECEIVE,
	PART_DONE,
	PART_RECEIVED,
	PART_CANCELLED,
	PART_FREED,
	PART_COLLECTIVE,
	PART_VARIED,
	PART_COMMUNICATOR,
	PART_COMMUNICATOR_FREED,
	PART_WINDOW,
	PART_WINDOW_FREED,
	PART_ACCESS,
	PART_SYNCHRONIZED,
	PART_NEIGHBORS,
	PART_FINALIZED,
};

enum collective {
	BARRIER, BROADCAST, REDUCE, ALL_REDUCE, GATHER, SCATTER, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, SCAN
};

enum synchronization { FENCE, POST, START, COMPLETE, WAIT, LOCK, UNLOCK, LOCK_ALL, UNLOCK_ALL, FLUSH };

#define NO_ROOT (-1)
#define ANY (-2)
#define BLOCKING (-1)

/* names.c: the MPI library's functions. */
extern void *real_of[CALLS];
#define REAL(name) ((__typeof__(&MPI_##name))real_of[CALL_##name])
const char *name_of(enum call call);

/* output.c: the entry under construction, and the file. */
void put(uint64_t number);
void put_signed(int64_t number);
void put_part(enum part part);
bool output_open(const char *directory, int rank, int size);
unsigned output_entry(enum call call);
void output_record(unsigned entry, uint64_t computing, uint64_t within, uint64_t now);
void output_polls(enum call call, uint64_t polls, uint64_t within);
void output_flush(void);
void output_close(void);

/* call.c: start and end of a call. */
bool call_enter(void);
void call_leave(enum call call);
void call_polled(enum call call);
void call_recording(void);
void call_stop(void);

/* stopwatch.c: measures the program's duration without recording. */
void stopwatch_start(void);
void stopwatch_stop(void);

/* pinning.c: pins a rank to one processor, if requested. */
void pinning_pin(int rank);

/* communicators.c */
struct communicator {
	int number, size, rank;
	/* Size of the remote group of an intercommunicator; otherwise 0. */
	int remote;
};
const struct communicator *communicator_of(MPI_Comm comm);
void communicator_made(MPI_Comm comm);
void communicator_gone(MPI_Comm comm);

/* requests.c: active requests. A library may return one handle for several completed sends. */
enum request_kind { REQUEST_SEND, REQUEST_RECEIVE, REQUEST_OTHER };
struct request {
	enum request_kind kind;
	bool persistent, active, cancelled;
	int comm, peer, tag;
	uint64_t bytes;
	uint64_t handle;
	int next;
};
int request_new(MPI_Request handle, enum request_kind kind);
int request_take(MPI_Request handle);
void request_put_back(int slot);
void request_end(int slot);
struct request *request_at(int slot);

#define EXPORTED __attribute__((visibility("default")))

/* PMPI_name is the same function. */
#define ALSO_PMPI(name) \
	EXPORTED extern __typeof__(MPI_##name) PMPI_##name __attribute__((alias("MPI_" #name)));

/* Defines a call. After success, `told` records its parts. */
#define DEFINE(name, parameters, arguments, told) \
	EXPORTED int MPI_##name parameters \
	{ \
		if (!call_enter()) \
			return REAL(name) arguments; \
		int error = REAL(name) arguments; \
		if (error == MPI_SUCCESS) { \
			told; \
		} \
		call_leave(CALL_##name); \
		return error; \
	} \
	ALSO_PMPI(name)

/* Returns the bytes of `count` items. With count 0 the type is not used, because it may be
 * MPI_DATATYPE_NULL. */
static inline uint64_t bytes_of(int64_t count, MPI_Datatype type)
{
	if (count == 0)
		return 0;
	int size = 0;
	PMPI_Type_size(type, &size);
	return (uint64_t)count * (uint64_t)size;
}

#endif
