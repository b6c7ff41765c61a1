/* Messages: blocking, nonblocking, and persistent. */

#include "recorder.h"
#include <stdlib.h>

static void put_message(enum part part, MPI_Comm comm, int peer, int tag, uint64_t bytes)
{
	if (peer == MPI_PROC_NULL)
		return;
	int number = communicator_of(comm)->number;
	put_part(part);
	put((uint64_t)number);
	put_signed(peer == MPI_ANY_SOURCE ? ANY : peer);
	put_signed(tag == MPI_ANY_TAG ? ANY : tag);
	put(bytes);
}

static uint64_t received_bytes(const MPI_Status *status)
{
	MPI_Count bytes = 0;
	PMPI_Get_elements_x(status, MPI_BYTE, &bytes);
	return bytes > 0 ? (uint64_t)bytes : 0;
}

static void put_received(MPI_Comm comm, int peer, const MPI_Status *status)
{
	if (peer != MPI_PROC_NULL)
		put_message(PART_RECEIVE, comm, status->MPI_SOURCE, status->MPI_TAG, received_bytes(status));
}

#define SEND(name) \
	DEFINE(name, (const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm), \
	       (buffer, count, type, peer, tag, comm), \
	       put_message(PART_SEND, comm, peer, tag, bytes_of(count, type)))

SEND(Send)
SEND(Ssend)
SEND(Rsend)
SEND(Bsend)

EXPORTED int MPI_Recv(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Recv)(buffer, count, type, peer, tag, comm, told);
	int error = REAL(Recv)(buffer, count, type, peer, tag, comm, status);
	if (error == MPI_SUCCESS)
		put_received(comm, peer, status);
	call_leave(CALL_Recv);
	return error;
}
ALSO_PMPI(Recv)

EXPORTED int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in, int in_count,
			  MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Sendrecv)(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, told);
	int error = REAL(Sendrecv)(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
	if (error == MPI_SUCCESS) {
		put_message(PART_SEND, comm, to, out_tag, bytes_of(out_count, out_type));
		put_received(comm, from, status);
	}
	call_leave(CALL_Sendrecv);
	return error;
}
ALSO_PMPI(Sendrecv)

EXPORTED int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int to, int out_tag, int from, int in_tag,
				  MPI_Comm comm, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Sendrecv_replace)(buffer, count, type, to, out_tag, from, in_tag, comm, told);
	int error = REAL(Sendrecv_replace)(buffer, count, type, to, out_tag, from, in_tag, comm, status);
	if (error == MPI_SUCCESS) {
		put_message(PART_SEND, comm, to, out_tag, bytes_of(count, type));
		put_received(comm, from, status);
	}
	call_leave(CALL_Sendrecv_replace);
	return error;
}
ALSO_PMPI(Sendrecv_replace)

/* Records the start of a request that is not persistent. */
static void put_begun(enum request_kind kind, MPI_Request request, MPI_Comm comm, int peer, int tag, uint64_t bytes)
{
	if (peer == MPI_PROC_NULL)
		return;
	int number = communicator_of(comm)->number;
	put_part(kind == REQUEST_SEND ? PART_BEGIN_SEND : PART_BEGIN_RECEIVE);
	put((uint64_t)request_new(request, kind));
	put((uint64_t)number);
	put_signed(peer == MPI_ANY_SOURCE ? ANY : peer);
	put_signed(tag == MPI_ANY_TAG ? ANY : tag);
	put(bytes);
}

#define BEGIN_SEND(name) \
	DEFINE(name, (const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request), \
	       (buffer, count, type, peer, tag, comm, request), \
	       put_begun(REQUEST_SEND, *request, comm, peer, tag, bytes_of(count, type)))

BEGIN_SEND(Isend)
BEGIN_SEND(Issend)
BEGIN_SEND(Irsend)
BEGIN_SEND(Ibsend)

DEFINE(Irecv, (void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request),
       (buffer, count, type, peer, tag, comm, request),
       put_begun(REQUEST_RECEIVE, *request, comm, peer, tag, bytes_of(count, type)))

/* Adds a persistent request, which MPI_Start begins, each time with the same arguments. */
static void prepared(enum request_kind kind, MPI_Request handle, MPI_Comm comm, int peer, int tag, uint64_t bytes)
{
	if (peer == MPI_PROC_NULL)
		return;
	int number = communicator_of(comm)->number;
	struct request *request = request_at(request_new(handle, kind));
	request->persistent = true;
	request->active = false;
	request->comm = number;
	request->peer = peer == MPI_ANY_SOURCE ? ANY : peer;
	request->tag = tag == MPI_ANY_TAG ? ANY : tag;
	request->bytes = bytes;
}

#define PREPARE_SEND(name) \
	DEFINE(name, (const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request), \
	       (buffer, count, type, peer, tag, comm, request), \
	       prepared(REQUEST_SEND, *request, comm, peer, tag, bytes_of(count, type)))

PREPARE_SEND(Send_init)
PREPARE_SEND(Ssend_init)
PREPARE_SEND(Rsend_init)
PREPARE_SEND(Bsend_init)

DEFINE(Recv_init, (void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request),
       (buffer, count, type, peer, tag, comm, request),
       prepared(REQUEST_RECEIVE, *request, comm, peer, tag, bytes_of(count, type)))

static void put_started(MPI_Request handle)
{
	int slot = request_take(handle);
	if (slot < 0)
		return;
	struct request *request = request_at(slot);
	request->active = true;
	put_part(request->kind == REQUEST_SEND ? PART_BEGIN_SEND : PART_BEGIN_RECEIVE);
	put((uint64_t)slot);
	put((uint64_t)request->comm);
	put_signed(request->peer);
	put_signed(request->tag);
	put(request->bytes);
	request_put_back(slot);
}

static void put_all_started(int count, const MPI_Request *requests)
{
	for (int which = 0; which < count; which++)
		put_started(requests[which]);
}

DEFINE(Start, (MPI_Request *request), (request), put_started(*request))
DEFINE(Startall, (int count, MPI_Request requests[]), (count, requests), put_all_started(count, requests))

DEFINE(Probe, (int peer, int tag, MPI_Comm comm, MPI_Status *status), (peer, tag, comm, status), (void)0)

EXPORTED int MPI_Iprobe(int peer, int tag, MPI_Comm comm, int *found, MPI_Status *status)
{
	if (!call_enter())
		return REAL(Iprobe)(peer, tag, comm, found, status);
	int error = REAL(Iprobe)(peer, tag, comm, found, status);
	if (error == MPI_SUCCESS && !*found)
		call_polled(CALL_Iprobe);
	else
		call_leave(CALL_Iprobe);
	return error;
}
ALSO_PMPI(Iprobe)

/* Messages that a matched probe has set aside, with their communicators. */
static struct aside { MPI_Message message; MPI_Comm comm; } *aside;
static int aside_count, aside_room;

static void set_aside(MPI_Message message, MPI_Comm comm)
{
	if (message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC)
		return;
	if (aside_count == aside_room) {
		aside_room = 2 * aside_room + 16;
		aside = realloc(aside, (size_t)aside_room * sizeof *aside);
		if (aside == NULL)
			abort();
	}
	aside[aside_count++] = (struct aside){ message, comm };
}

static MPI_Comm take_aside(MPI_Message message)
{
	for (int which = 0; which < aside_count; which++) {
		if (aside[which].message != message)
			continue;
		MPI_Comm comm = aside[which].comm;
		aside[which] = aside[--aside_count];
		return comm;
	}
	return MPI_COMM_NULL;
}

DEFINE(Mprobe, (int peer, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
       (peer, tag, comm, message, status), set_aside(*message, comm))

EXPORTED int MPI_Improbe(int peer, int tag, MPI_Comm comm, int *found, MPI_Message *message, MPI_Status *status)
{
	if (!call_enter())
		return REAL(Improbe)(peer, tag, comm, found, message, status);
	int error = REAL(Improbe)(peer, tag, comm, found, message, status);
	if (error == MPI_SUCCESS && !*found) {
		call_polled(CALL_Improbe);
	} else {
		if (error == MPI_SUCCESS)
			set_aside(*message, comm);
		call_leave(CALL_Improbe);
	}
	return error;
}
ALSO_PMPI(Improbe)

EXPORTED int MPI_Mrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Mrecv)(buffer, count, type, message, told);
	MPI_Comm comm = take_aside(*message);
	int error = REAL(Mrecv)(buffer, count, type, message, status);
	if (error == MPI_SUCCESS && comm != MPI_COMM_NULL)
		put_received(comm, status->MPI_SOURCE, status);
	call_leave(CALL_Mrecv);
	return error;
}
ALSO_PMPI(Mrecv)

EXPORTED int MPI_Imrecv(void *buffer, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
	if (!call_enter())
		return REAL(Imrecv)(buffer, count, type, message, request);
	MPI_Comm comm = take_aside(*message);
	int error = REAL(Imrecv)(buffer, count, type, message, request);
	if (error == MPI_SUCCESS && comm != MPI_COMM_NULL)
		put_begun(REQUEST_RECEIVE, *request, comm, MPI_ANY_SOURCE, MPI_ANY_TAG, bytes_of(count, type));
	call_leave(CALL_Imrecv);
	return error;
}
ALSO_PMPI(Imrecv)
