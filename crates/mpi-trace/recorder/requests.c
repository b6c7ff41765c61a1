/* Active requests by handle. Each gets the lowest free slot, so that the requests of a loop have
 * the same slots in every iteration. */

#include "recorder.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 4096
#define NONE (-1)

static struct request *slots;
static int slot_count, lowest_free;
/* First and last slot of the handles of a bucket plus 1, oldest first; 0 for none. */
static struct { int first, last; } buckets[BUCKETS];

static uint64_t number_of(MPI_Request handle)
{
	uint64_t number = 0;
	memcpy(&number, &handle, sizeof handle);
	return number;
}

static unsigned bucket_of(uint64_t handle)
{
	return (unsigned)(handle * 0x9e3779b97f4a7c15ull >> 52) % BUCKETS;
}

struct request *request_at(int slot)
{
	return &slots[slot];
}

static int free_slot(void)
{
	while (lowest_free < slot_count && slots[lowest_free].handle != 0)
		lowest_free++;
	if (lowest_free == slot_count) {
		int count = slot_count == 0 ? 64 : 2 * slot_count;
		struct request *moved = realloc(slots, (size_t)count * sizeof *slots);
		if (moved == NULL) {
			fprintf(stderr, "verbena record: no memory for %d requests\n", count);
			abort();
		}
		slots = moved;
		memset(slots + slot_count, 0, (size_t)(count - slot_count) * sizeof *slots);
		slot_count = count;
	}
	return lowest_free++;
}

static void enqueue(int slot)
{
	unsigned bucket = bucket_of(slots[slot].handle);
	slots[slot].next = NONE;
	if (buckets[bucket].first == 0)
		buckets[bucket].first = slot + 1;
	else
		slots[buckets[bucket].last - 1].next = slot;
	buckets[bucket].last = slot + 1;
}

/* Adds a request that has begun; returns its slot. */
int request_new(MPI_Request handle, enum request_kind kind)
{
	int slot = free_slot();
	slots[slot] = (struct request){ .kind = kind, .active = true, .handle = number_of(handle) };
	enqueue(slot);
	return slot;
}

/* Removes and returns the oldest slot of a handle; NONE if the handle is unknown. */
int request_take(MPI_Request handle)
{
	uint64_t number = number_of(handle);
	unsigned bucket = bucket_of(number);
	int before = NONE;
	for (int slot = buckets[bucket].first - 1; slot != NONE; before = slot, slot = slots[slot].next) {
		if (slots[slot].handle != number)
			continue;
		if (before == NONE)
			buckets[bucket].first = slots[slot].next + 1;
		else
			slots[before].next = slots[slot].next;
		if (buckets[bucket].last == slot + 1)
			buckets[bucket].last = before + 1;
		return slot;
	}
	return NONE;
}

/* Puts back a request that was taken and has not completed. */
void request_put_back(int slot)
{
	enqueue(slot);
}

/* Completes a request that was taken; a persistent one can be started again. */
void request_end(int slot)
{
	if (slots[slot].persistent) {
		slots[slot].active = false;
		enqueue(slot);
		return;
	}
	slots[slot].handle = 0;
	if (slot < lowest_free)
		lowest_free = slot;
}
