/* Records the MPI calls of a process: preloaded, it has every call's MPI_ and PMPI_ name and calls the library's PMPI_ function.
 * PMPI_ too because Open MPI's Fortran bindings call that one; what a library calls within a call is not recorded.
 *
 * The format is described in docs/trace-format.md. */

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

/* What a call did. */
enum part {
	/* Ends the parts with the call's name. */
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

/* names.c: the library's functions. */
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

/* call.c: the way in and out of a call. */
bool call_enter(void);
void call_leave(enum call call);
void call_polled(enum call call);
void call_recording(void);
void call_stop(void);

/* stopwatch.c: times the program where nothing is recorded. */
void stopwatch_start(void);
void stopwatch_stop(void);

/* seats.c: keeps a rank at one processor, if that is wanted. */
void seat_take(int rank);

/* communicators.c */
struct communicator {
	int number, size, rank;
	/* Ranks of the other side, if it has two. */
	int remote;
};
const struct communicator *communicator_of(MPI_Comm comm);
void communicator_made(MPI_Comm comm);
void communicator_gone(MPI_Comm comm);

/* requests.c: what is under way. A library may give one handle to several sends that are done. */
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

/* A call of which is told, once it has succeeded, what `told` says. */
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

/* Where there is nothing the type says nothing, and may be none. */
static inline uint64_t bytes_of(int64_t count, MPI_Datatype type)
{
	if (count == 0)
		return 0;
	int size = 0;
	PMPI_Type_size(type, &size);
	return (uint64_t)count * (uint64_t)size;
}

#endif
