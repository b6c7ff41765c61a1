/* Posting and completing work requests, one at a time. */
#ifndef VERBENA_TESTS_WORK_H
#define VERBENA_TESTS_WORK_H

#include "endpoint.h"

/* A local piece of memory for a work request. */
struct piece {
	const void *address;
	uint32_t length;
	uint32_t lkey;
};

/* The first `length` bytes of a region, from `offset` on. */
struct piece piece_of(const struct ibv_mr *mr, uint64_t offset, uint32_t length);

void post_receive(struct endpoint *endpoint, uint64_t id, struct piece into);
void post_send(struct endpoint *endpoint, uint64_t id, struct piece from);
void post_write(struct endpoint *endpoint, uint64_t id, struct piece from, uint64_t address,
		uint32_t rkey);
void post_read(struct endpoint *endpoint, uint64_t id, struct piece into, uint64_t address,
	       uint32_t rkey);
void post_fetch_add(struct endpoint *endpoint, uint64_t id, struct piece into, uint64_t address,
		    uint32_t rkey, uint64_t add);
void post_compare_swap(struct endpoint *endpoint, uint64_t id, struct piece into, uint64_t address,
		       uint32_t rkey, uint64_t compare, uint64_t swap);

/* Waits for the next completion; fails after `limit` nanoseconds. */
struct ibv_wc completion_within(struct endpoint *endpoint, uint64_t limit);

/* The same with ten seconds. */
struct ibv_wc completion(struct endpoint *endpoint);

/* Waits for the next completion and checks that it is this one. */
void expect(struct endpoint *endpoint, uint64_t id, enum ibv_wc_status status);

/* Checks that nothing has completed. */
void expect_none(struct endpoint *endpoint);

#endif
