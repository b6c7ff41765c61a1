/* Cost of polling an empty completion queue: without other peers, and
 * with 32 connected, idle peers. */

#include <stdlib.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"
#include "steps.h"

#define PEERS 32
#define POLLS 100000 /* in a batch */
#define COUNTED 100

static void quiet(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	peer_connect(parent, &endpoint);
	/* This process sleeps until the parent has finished. */
	peer_meet(parent);
}

static void poll(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	if (ibv_poll_cq(cq, 1, &wc) != 0)
		check_failed(__FILE__, __LINE__, "an empty queue returned a completion");
}

static void measure(struct ibv_cq *cq, const char *time, const char *instructions,
		    const char *locked)
{
	double costs[BATCHES];
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		uint64_t start = processor_time();
		for (unsigned turn = 0; turn < POLLS; turn++)
			poll(cq);
		costs[batch] = (double)(processor_time() - start) / POLLS;
	}
	print_result(time, median(costs, BATCHES));
	struct steps sum = { 0 };
	for (unsigned turn = 0; turn < COUNTED; turn++) {
		steps_begin();
		poll(cq);
		steps_add(&sum, steps_end());
	}
	print_result(instructions, (double)sum.instructions / COUNTED);
	print_result(locked, (double)sum.locked / COUNTED);
}

static void empty(void)
{
	struct peer peers[PEERS];
	for (unsigned peer = 0; peer < PEERS; peer++)
		peers[peer] = peer_start(quiet);
	pin(0);
	struct endpoint first = endpoint_open(endpoint_defaults());
	measure(first.cq, "empty_poll_ns", "empty_poll_instructions", "empty_poll_locked");
	for (unsigned peer = 0; peer < PEERS; peer++) {
		struct endpoint pair = endpoint_beside(&first, endpoint_defaults());
		peer_connect(&peers[peer], &pair);
	}
	measure(first.cq, "empty_poll_32_ns", "empty_poll_32_instructions", "empty_poll_32_locked");
	for (unsigned peer = 0; peer < PEERS; peer++) {
		peer_meet(&peers[peer]);
		peer_end(&peers[peer]);
	}
}

const struct test tests[] = {
	{ "empty", empty },
	{ 0 },
};
