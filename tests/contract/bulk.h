/* A second process that writes all of a large region of this one with one request, so that there is
 * time to do something meanwhile. */
#ifndef VERBENA_TESTS_CONTRACT_BULK_H
#define VERBENA_TESTS_CONTRACT_BULK_H

#include <stdatomic.h>

#include <sys/socket.h>

#include "contract.h"

#define BULK (192 * MEBIBYTE)
#define WRITTEN 0x77
#define GUARD 0x2a

#define SEND 's'
#define END 'e'

static void bulk_writer(struct peer *parent)
{
	struct settings settings = endpoint_defaults();
	/* Patience enough for an owner that is busy for a while. */
	settings.timeout = 16;
	struct endpoint endpoint = endpoint_open(settings);
	uint8_t *memory = private_pages(BULK);
	memset(memory, WRITTEN, BULK);
	struct ibv_mr *mr = region(&endpoint, memory, BULK, IBV_ACCESS_LOCAL_WRITE);
	struct window window;
	peer_connect(parent, &endpoint);
	peer_hear(parent, &window, sizeof window);
	post_write(&endpoint, 1, piece_of(mr, 0, BULK), window.address, window.rkey);
	uint32_t status = completion_within(&endpoint, 60 * SECOND).status;
	peer_tell(parent, &status, sizeof status);
	char order;
	for (peer_hear(parent, &order, 1); order == SEND; peer_hear(parent, &order, 1)) {
		post_send(&endpoint, 2, piece_of(mr, 0, PAGE));
		status = completion_within(&endpoint, 20 * SECOND).status;
		peer_tell(parent, &status, sizeof status);
	}
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

/* This process, whose region is being written. */
struct bulk {
	struct peer writer;
	struct endpoint endpoint;
	uint8_t *memory;
	struct ibv_mr *mr;
};

/* Returns when the first bytes have arrived. */
static inline struct bulk bulk_begin(void)
{
	struct bulk bulk = { .writer = peer_start(bulk_writer) };
	bulk.endpoint = endpoint_open(endpoint_defaults());
	bulk.memory = private_pages(BULK);
	memset(bulk.memory, 0, BULK);
	bulk.mr = region(&bulk.endpoint, bulk.memory, BULK, ALL_ACCESS);
	struct window window = region_window(bulk.mr);
	peer_connect(&bulk.writer, &bulk.endpoint);
	peer_tell(&bulk.writer, &window, sizeof window);
	uint64_t deadline = now() + 20 * SECOND;
	while (*(volatile uint8_t *)bulk.memory == 0) {
		/* Where the owner has to place the bytes itself. */
		struct ibv_wc wc;
		(void)ibv_poll_cq(bulk.endpoint.cq, 1, &wc);
		CHECK(now() < deadline);
	}
	return bulk;
}

/* Marks each page with a byte that the writer does not write. */
static inline void guard_pages(struct bulk *bulk)
{
	for (size_t at = 0; at < BULK; at += PAGE)
		((volatile uint8_t *)bulk->memory)[at] = GUARD;
}

/* How many pages were written after they were marked. */
static inline size_t pages_written(const struct bulk *bulk)
{
	size_t count = 0;
	for (size_t at = 0; at < BULK; at += PAGE)
		count += ((volatile uint8_t *)bulk->memory)[at] != GUARD;
	return count;
}

static inline enum ibv_wc_status bulk_status(struct bulk *bulk)
{
	uint32_t status;
	peer_hear(&bulk->writer, &status, sizeof status);
	return (enum ibv_wc_status)status;
}

static inline void bulk_end(struct bulk *bulk)
{
	char order = END;
	peer_tell(&bulk->writer, &order, 1);
	peer_end(&bulk->writer);
}

#endif
