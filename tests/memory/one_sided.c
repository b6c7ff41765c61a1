/* One-sided operations complete while the target never calls verbs: it sleeps in a system call, or
 * computes. They move exactly the bytes that were asked for. */

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define LENGTH (1 << 20)
#define SEED 3
#define ADDS 1000

/* The target's registered regions. */
struct board {
	uint8_t data[LENGTH];
	/* Bytes after the data, which must not change. */
	uint8_t fence[4096];
	uint64_t counter;
	/* Set by the last operation of a test. */
	uint64_t done;
};

/* How the target spends its time while the other process works on its memory. */
enum pastime { SLEEPS, COMPUTES };
static enum pastime pastime;

/* Seed of the expected final data; the child inherits it. */
static uint64_t final_seed;
static uint64_t final_counter;

/* The target: after it has connected it waits in recv(2), or makes no system call at all, and
 * calls no verb until everything has been checked. */
static void target(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct board *board = aligned_alloc(4096, (sizeof *board + 4095) / 4096 * 4096);
	CHECK_POINTER(board);
	memset(board, 0, sizeof *board);
	pattern_fill(board->data, LENGTH, SEED);
	pattern_fill(board->fence, sizeof board->fence, SEED + 1);
	struct ibv_mr *mr = region(&endpoint, board, sizeof *board, ALL_ACCESS);
	struct window window = region_window(mr);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);

	if (pastime == COMPUTES) {
		volatile uint64_t *done = &board->done;
		while (*done == 0)
			;
	}
	peer_meet(parent);
	pattern_check(board->data, LENGTH, final_seed);
	pattern_check(board->fence, sizeof board->fence, SEED + 1);
	CHECK_EQUAL(board->counter, final_counter);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

struct origin {
	struct peer peer;
	struct endpoint endpoint;
	struct ibv_mr *mr;
	uint8_t *memory;
	struct window window;
};

static struct origin begin(enum pastime how, uint64_t seed, uint64_t counter)
{
	pastime = how;
	final_seed = seed;
	final_counter = counter;
	struct origin origin = { .peer = peer_start(target) };
	origin.endpoint = endpoint_open(endpoint_defaults());
	origin.memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(origin.memory);
	pattern_fill(origin.memory, LENGTH, SEED + 2);
	origin.mr = region(&origin.endpoint, origin.memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	peer_connect(&origin.peer, &origin.endpoint);
	peer_hear(&origin.peer, &origin.window, sizeof origin.window);
	return origin;
}

static uint64_t at(const struct origin *origin, size_t offset)
{
	return origin->window.address + offset;
}

/* Lets a computing target check its memory, and ends both. */
static void end(struct origin *origin)
{
	memset(origin->memory, 0xff, 8);
	post_write(&origin->endpoint, 99, piece_of(origin->mr, 0, 8),
		   at(origin, offsetof(struct board, done)), origin->window.rkey);
	expect(&origin->endpoint, 99, IBV_WC_SUCCESS);
	peer_meet(&origin->peer);
	peer_end(&origin->peer);
	CHECK_CALL(ibv_dereg_mr(origin->mr));
	endpoint_close(&origin->endpoint);
}

static void writes(enum pastime how)
{
	struct origin origin = begin(how, SEED + 2, 0);
	/* Pieces of odd sizes from the first byte to the last. */
	uint32_t offset = 0;
	for (uint32_t length = 1; offset < LENGTH; length = length * 3 + 1) {
		if (length > LENGTH - offset)
			length = LENGTH - offset;
		post_write(&origin.endpoint, offset, piece_of(origin.mr, offset, length),
			   at(&origin, offset), origin.window.rkey);
		expect(&origin.endpoint, offset, IBV_WC_SUCCESS);
		offset += length;
	}
	end(&origin);
}

static void reads(enum pastime how)
{
	struct origin origin = begin(how, SEED, 0);
	uint32_t offset = 0;
	for (uint32_t length = 1; offset < LENGTH; length = length * 3 + 1) {
		if (length > LENGTH - offset)
			length = LENGTH - offset;
		post_read(&origin.endpoint, offset, piece_of(origin.mr, offset, length),
			  at(&origin, offset), origin.window.rkey);
		expect(&origin.endpoint, offset, IBV_WC_SUCCESS);
		offset += length;
	}
	pattern_check(origin.memory, LENGTH, SEED);
	end(&origin);
}

static void atomics(enum pastime how)
{
	struct origin origin = begin(how, SEED, ADDS * 5 + 1);
	uint64_t counter = at(&origin, offsetof(struct board, counter));
	uint64_t *fetched = (uint64_t *)origin.memory;
	for (uint64_t round = 0; round < ADDS; round++) {
		post_fetch_add(&origin.endpoint, round, piece_of(origin.mr, 0, 8), counter,
			       origin.window.rkey, 5);
		expect(&origin.endpoint, round, IBV_WC_SUCCESS);
		CHECK_EQUAL(*fetched, round * 5);
	}
	/* One that does not match, one that does: both give the value from before. */
	for (uint64_t match = 0; match < 2; match++) {
		post_compare_swap(&origin.endpoint, match, piece_of(origin.mr, 0, 8), counter,
				  origin.window.rkey, ADDS * 5 - 1 + match, ADDS * 5 + 1);
		expect(&origin.endpoint, match, IBV_WC_SUCCESS);
		CHECK_EQUAL(*fetched, ADDS * 5);
	}
	end(&origin);
}

static void writes_while_asleep(void)
{
	writes(SLEEPS);
}

static void writes_while_computing(void)
{
	writes(COMPUTES);
}

static void reads_while_asleep(void)
{
	reads(SLEEPS);
}

static void reads_while_computing(void)
{
	reads(COMPUTES);
}

static void atomics_while_asleep(void)
{
	atomics(SLEEPS);
}

static void atomics_while_computing(void)
{
	atomics(COMPUTES);
}

const struct test tests[] = {
	{ "writes_while_asleep", writes_while_asleep },
	{ "writes_while_computing", writes_while_computing },
	{ "reads_while_asleep", reads_while_asleep },
	{ "reads_while_computing", reads_while_computing },
	{ "atomics_while_asleep", atomics_while_asleep },
	{ "atomics_while_computing", atomics_while_computing },
	{ 0 },
};
