/* A program that learns from its peer that a request was served finds it complete, even if it goes to the error state
 * before it polls.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 9.7.5.1.2 (a responder acknowledges the requests that it
 * has executed) and 10.3.1.6 (the error state flushes outstanding requests); ibv_modify_qp(3). An adapter processes
 * acknowledgements without the program. */
#ifndef VERBENA_TESTS_CONTRACT_SETTLED_H
#define VERBENA_TESTS_CONTRACT_SETTLED_H

#include "contract.h"

enum { SETTLED_ROUNDS = 50, SETTLED_REQUESTS = 4, LONGEST = 64 * 1024 };

/* Where the receiver counts the requests that it was served, for a sender of the same host that waits without a system
 * call; else the count goes through the channel between the two. */
static _Atomic uint32_t *settled_told;

static inline void settled_tell(struct peer *peer, unsigned round)
{
	if (settled_told != NULL)
		*settled_told = round + 1;
	else
		peer_tell(peer, "s", 1);
}

static inline void settled_wait(struct peer *peer, unsigned round)
{
	char served;
	if (settled_told == NULL)
		peer_hear(peer, &served, 1);
	else
		while (*settled_told != round + 1)
			;
}

/* Each round of a different length and kind. */
static inline uint32_t settled_length(unsigned round)
{
	static const uint32_t lengths[] = { 8, 256, 4096, LONGEST };
	return lengths[round % 4];
}

static inline bool settled_is_write(unsigned round)
{
	return round / 4 % 2 == 1;
}

static inline void settled_receiver(struct peer *peer)
{
	struct endpoint first = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(SETTLED_REQUESTS * LONGEST);
	struct ibv_mr *mr = region(&first, memory, SETTLED_REQUESTS * LONGEST, ALL_ACCESS);
	struct window window = region_window(mr);
	for (unsigned round = 0; round < SETTLED_ROUNDS; round++) {
		struct endpoint endpoint = endpoint_beside(&first, endpoint_defaults());
		for (uint64_t number = 0; number < SETTLED_REQUESTS; number++)
			post_receive(&endpoint, number, piece_of(mr, number * LONGEST, LONGEST));
		peer_connect(peer, &endpoint);
		peer_tell(peer, &window, sizeof window);
		for (uint64_t number = 0; number < SETTLED_REQUESTS; number++)
			expect(&endpoint, number, IBV_WC_SUCCESS);
		settled_tell(peer, round);
		char done;
		peer_hear(peer, &done, 1);
		CHECK_CALL(ibv_destroy_qp(endpoint.qp));
	}
}

static inline void settled_sender(struct peer *peer)
{
	struct endpoint first = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = region(&first, private_pages(LONGEST), LONGEST, ALL_ACCESS);
	unsigned flushed = 0;
	for (unsigned round = 0; round < SETTLED_ROUNDS; round++) {
		struct endpoint endpoint = endpoint_beside(&first, endpoint_defaults());
		peer_connect(peer, &endpoint);
		struct window window;
		peer_hear(peer, &window, sizeof window);
		for (uint64_t number = 0; number < SETTLED_REQUESTS; number++) {
			struct ibv_sge piece = { (uintptr_t)mr->addr, settled_length(round), mr->lkey };
			struct ibv_send_wr request = {
				.wr_id = number,
				.opcode = settled_is_write(round) ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND,
				.send_flags = IBV_SEND_SIGNALED,
				.sg_list = &piece,
				.num_sge = 1,
				.wr.rdma = { .remote_addr = window.address, .rkey = window.rkey },
			};
			struct ibv_send_wr *bad;
			CHECK_CALL(ibv_post_send(endpoint.qp, &request, &bad));
		}
		settled_wait(peer, round);
		endpoint_break(&endpoint);
		for (uint64_t number = 0; number < SETTLED_REQUESTS; number++) {
			struct ibv_wc wc = completion(&endpoint);
			CHECK_EQUAL(wc.wr_id, number);
			flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
			CHECK(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR);
		}
		peer_tell(peer, "d", 1);
		CHECK_CALL(ibv_destroy_qp(endpoint.qp));
	}
	if (flushed != 0)
		check_failed(__FILE__, __LINE__, "%u of %u requests that were served are flushed", flushed,
			     SETTLED_ROUNDS * SETTLED_REQUESTS);
}

#endif
