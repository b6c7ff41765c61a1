/* A peer that reads and writes memory that something else uses by its pages. */
#ifndef VERBENA_TESTS_MEMORY_WATCHED_H
#define VERBENA_TESTS_MEMORY_WATCHED_H

#include "../contract/contract.h"

#define LENGTH MEBIBYTE

/* A peer, and a queue pair that it is connected to. */
struct bench {
	struct peer peer;
	struct endpoint endpoint;
};

/* The peer's task: to read a region and compare, or to write a pattern to it. */
struct order {
	char what;
	uint64_t seed;
	struct window window;
};

static inline void serve(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	peer_connect(parent, &endpoint);
	for (;;) {
		struct order order;
		peer_hear(parent, &order, sizeof order);
		if (order.what == 'r') {
			memset(memory, 0, LENGTH);
			post_read(&endpoint, 1, piece_of(mr, 0, LENGTH), order.window.address, order.window.rkey);
			expect(&endpoint, 1, IBV_WC_SUCCESS);
			pattern_check(memory, LENGTH, order.seed);
		} else {
			pattern_fill(memory, LENGTH, order.seed);
			post_write(&endpoint, 1, piece_of(mr, 0, LENGTH), order.window.address, order.window.rkey);
			expect(&endpoint, 1, IBV_WC_SUCCESS);
		}
		peer_tell(parent, "d", 1);
	}
}

static inline struct bench bench_open(void)
{
	hang_after(120);
	struct bench bench = { .peer = peer_start(serve) };
	bench.endpoint = endpoint_open(endpoint_defaults());
	peer_connect(&bench.peer, &bench.endpoint);
	return bench;
}

static inline void bench_close(struct bench *bench)
{
	peer_kill(&bench->peer);
}

static inline void bench_order(struct bench *bench, char what, struct ibv_mr *mr, uint64_t seed)
{
	struct order order = { .what = what, .seed = seed, .window = region_window(mr) };
	peer_tell(&bench->peer, &order, sizeof order);
	char done;
	peer_hear(&bench->peer, &done, 1);
}

/* The peer sees this pattern in a region. */
static inline void peer_sees(struct bench *bench, struct ibv_mr *mr, uint64_t seed)
{
	bench_order(bench, 'r', mr, seed);
}

/* The peer writes a pattern, which the program sees. */
static inline void peer_writes(struct bench *bench, struct ibv_mr *mr, uint64_t seed)
{
	bench_order(bench, 'w', mr, seed);
	pattern_check(mr->addr, LENGTH, seed);
}

#endif
