/* Waiting and testing: records completed requests, and the messages of receives. */

#include "recorder.h"
#include <stdio.h>
#include <stdlib.h>

static int *slots;
static MPI_Status *statuses;
static int room;

/* Takes the slots of the requests, and provides statuses for a caller that ignores them. */
static void take_all(int count, const MPI_Request *requests)
{
	if (count > room) {
		room = 2 * count;
		slots = realloc(slots, (size_t)room * sizeof *slots);
		statuses = realloc(statuses, (size_t)room * sizeof *statuses);
		if (slots == NULL || statuses == NULL) {
			fprintf(stderr, "verbena record: no memory for %d requests\n", count);
			abort();
		}
	}
	for (int which = 0; which < count; which++)
		slots[which] = requests[which] == MPI_REQUEST_NULL ? -1 : request_take(requests[which]);
}

static void put_received(int slot, const MPI_Status *status)
{
	MPI_Count bytes = 0;
	PMPI_Get_elements_x(status, MPI_BYTE, &bytes);
	put_part(PART_RECEIVED);
	put((uint64_t)slot);
	put_signed(status->MPI_SOURCE);
	put_signed(status->MPI_TAG);
	put(bytes > 0 ? (uint64_t)bytes : 0);
}

static void put_ended(int slot, const MPI_Status *status)
{
	if (slot < 0)
		return;
	struct request *request = request_at(slot);
	int cancelled = 0;
	if (request->cancelled)
		PMPI_Test_cancelled(status, &cancelled);
	if (request->active && (cancelled || request->kind != REQUEST_RECEIVE)) {
		put_part(cancelled ? PART_CANCELLED : PART_DONE);
		put((uint64_t)slot);
	} else if (request->active) {
		put_received(slot, status);
	}
	request->cancelled = false;
	request_end(slot);
}

static void put_back(int slot)
{
	if (slot >= 0)
		request_put_back(slot);
}

static void put_all_back(int count)
{
	for (int which = 0; which < count; which++)
		put_back(slots[which]);
}

static void put_all_ended(int count, const MPI_Status *told)
{
	for (int which = 0; which < count; which++)
		put_ended(slots[which], &told[which]);
}

/* Records one completed request, and puts the others back. */
static void put_one_ended(int count, int ended, const MPI_Status *status)
{
	for (int which = 0; which < count; which++)
		if (which == ended)
			put_ended(slots[which], status);
		else
			put_back(slots[which]);
}

/* Records the requests in `indices` as completed; `told` has their statuses in the same order. */
static void put_some_ended(int count, int ended, const int *indices, const MPI_Status *told)
{
	for (int which = 0; which < ended; which++) {
		put_ended(slots[indices[which]], &told[which]);
		slots[indices[which]] = -1;
	}
	put_all_back(count);
}

EXPORTED int MPI_Wait(MPI_Request *request, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Wait)(request, told);
	take_all(1, request);
	int error = REAL(Wait)(request, status);
	put_ended(slots[0], status);
	call_leave(CALL_Wait);
	return error;
}
ALSO_PMPI(Wait)

EXPORTED int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *told)
{
	if (!call_enter())
		return REAL(Waitall)(count, requests, told);
	take_all(count, requests);
	MPI_Status *status = told == MPI_STATUSES_IGNORE ? statuses : told;
	int error = REAL(Waitall)(count, requests, count > 0 ? status : told);
	put_all_ended(count, status);
	call_leave(CALL_Waitall);
	return error;
}
ALSO_PMPI(Waitall)

EXPORTED int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Waitany)(count, requests, index, told);
	take_all(count, requests);
	int error = REAL(Waitany)(count, requests, index, status);
	put_one_ended(count, *index, status);
	call_leave(CALL_Waitany);
	return error;
}
ALSO_PMPI(Waitany)

EXPORTED int MPI_Waitsome(int count, MPI_Request requests[], int *ended, int indices[], MPI_Status *told)
{
	if (!call_enter())
		return REAL(Waitsome)(count, requests, ended, indices, told);
	take_all(count, requests);
	MPI_Status *status = told == MPI_STATUSES_IGNORE ? statuses : told;
	int error = REAL(Waitsome)(count, requests, ended, indices, count > 0 ? status : told);
	put_some_ended(count, *ended == MPI_UNDEFINED ? 0 : *ended, indices, status);
	call_leave(CALL_Waitsome);
	return error;
}
ALSO_PMPI(Waitsome)

EXPORTED int MPI_Test(MPI_Request *request, int *done, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Test)(request, done, told);
	take_all(1, request);
	int error = REAL(Test)(request, done, status);
	if (!*done) {
		put_back(slots[0]);
		call_polled(CALL_Test);
		return error;
	}
	put_ended(slots[0], status);
	call_leave(CALL_Test);
	return error;
}
ALSO_PMPI(Test)

EXPORTED int MPI_Testall(int count, MPI_Request requests[], int *done, MPI_Status *told)
{
	if (!call_enter())
		return REAL(Testall)(count, requests, done, told);
	take_all(count, requests);
	MPI_Status *status = told == MPI_STATUSES_IGNORE ? statuses : told;
	int error = REAL(Testall)(count, requests, done, count > 0 ? status : told);
	if (!*done) {
		put_all_back(count);
		call_polled(CALL_Testall);
		return error;
	}
	put_all_ended(count, status);
	call_leave(CALL_Testall);
	return error;
}
ALSO_PMPI(Testall)

EXPORTED int MPI_Testany(int count, MPI_Request requests[], int *index, int *done, MPI_Status *told)
{
	MPI_Status own, *status = told == MPI_STATUS_IGNORE ? &own : told;
	if (!call_enter())
		return REAL(Testany)(count, requests, index, done, told);
	take_all(count, requests);
	int error = REAL(Testany)(count, requests, index, done, status);
	if (!*done) {
		put_all_back(count);
		call_polled(CALL_Testany);
		return error;
	}
	put_one_ended(count, *index, status);
	call_leave(CALL_Testany);
	return error;
}
ALSO_PMPI(Testany)

EXPORTED int MPI_Testsome(int count, MPI_Request requests[], int *ended, int indices[], MPI_Status *told)
{
	if (!call_enter())
		return REAL(Testsome)(count, requests, ended, indices, told);
	take_all(count, requests);
	MPI_Status *status = told == MPI_STATUSES_IGNORE ? statuses : told;
	int error = REAL(Testsome)(count, requests, ended, indices, count > 0 ? status : told);
	if (*ended == 0) {
		put_all_back(count);
		call_polled(CALL_Testsome);
		return error;
	}
	put_some_ended(count, *ended == MPI_UNDEFINED ? 0 : *ended, indices, status);
	call_leave(CALL_Testsome);
	return error;
}
ALSO_PMPI(Testsome)

/* The operation goes on, and the program never queries its completion. */
EXPORTED int MPI_Request_free(MPI_Request *request)
{
	if (!call_enter())
		return REAL(Request_free)(request);
	take_all(1, request);
	int error = REAL(Request_free)(request);
	if (slots[0] >= 0) {
		struct request *freed = request_at(slots[0]);
		if (freed->active) {
			put_part(PART_FREED);
			put((uint64_t)slots[0]);
		}
		freed->persistent = false;
		request_end(slots[0]);
	}
	call_leave(CALL_Request_free);
	return error;
}
ALSO_PMPI(Request_free)

EXPORTED int MPI_Cancel(MPI_Request *request)
{
	if (!call_enter())
		return REAL(Cancel)(request);
	take_all(1, request);
	if (slots[0] >= 0)
		request_at(slots[0])->cancelled = true;
	put_back(slots[0]);
	int error = REAL(Cancel)(request);
	call_leave(CALL_Cancel);
	return error;
}
ALSO_PMPI(Cancel)
