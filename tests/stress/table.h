/* State that the processes of the stress test share beside the adapter: one table in shared memory,
 * made before they start, with a barrier. */
#ifndef VERBENA_TESTS_STRESS_TABLE_H
#define VERBENA_TESTS_STRESS_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define PROCESSES 8

/* Queue pairs between two processes, by transport: 8 x 7 x (40 + 24) = 3,584 in all, and one UD
 * queue pair a process. */
#define RC_PAIRS 40
#define UC_PAIRS 24
#define PAIRS (RC_PAIRS + UC_PAIRS)

/* Each direction of a pair has a slice of the target's memory to itself. */
#define SLICE 4096
#define SLICES ((size_t)PROCESSES * PAIRS * SLICE)

struct entry {
	/* Where others find it. */
	uint64_t slices;
	uint64_t counter;
	uint32_t rkey;
	uint16_t lid;
	uint32_t datagram_number;
	uint32_t numbers[PROCESSES][PAIRS];
	/* Operations of others on it: messages to it, and the sum of their additions. */
	_Atomic uint64_t sent[PROCESSES][RC_PAIRS];
	_Atomic uint64_t added;
	/* Its writes to others, as they must be there: [target][pair][SLICE]. */
	uint8_t mirror[SLICES] __attribute__((aligned(4096)));
};

struct table {
	pthread_barrier_t barrier;
	_Atomic uint32_t finished;
	struct entry entries[PROCESSES];
};

static inline size_t slice_offset(uint32_t process, uint32_t pair)
{
	return ((size_t)process * PAIRS + pair) * SLICE;
}

#endif
