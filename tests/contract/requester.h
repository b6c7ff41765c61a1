/* A second process that executes this one's commands: writes, sends, reads, invalidates, through its own queue pairs,
 * and reports how each ended. */
#ifndef VERBENA_TESTS_CONTRACT_REQUESTER_H
#define VERBENA_TESTS_CONTRACT_REQUESTER_H

#include "contract.h"

#define REQUESTER_QUEUE_PAIRS 2
#define REQUESTER_BUFFER (256 * (size_t)1024)

struct order {
	int opcode; /* of enum ibv_wr_opcode; below zero: end */
	unsigned through; /* which of its queue pairs */
	uint64_t address;
	uint32_t rkey; /* or the key to invalidate */
	uint32_t length;
	uint8_t fill;
};

static void requester_body(struct peer *parent)
{
	struct endpoint endpoints[REQUESTER_QUEUE_PAIRS];
	for (unsigned number = 0; number < REQUESTER_QUEUE_PAIRS; number++) {
		endpoints[number] = endpoint_open(endpoint_defaults());
		peer_connect(parent, &endpoints[number]);
	}
	uint8_t *memory = private_pages(REQUESTER_BUFFER);
	struct ibv_mr *mrs[REQUESTER_QUEUE_PAIRS];
	for (unsigned number = 0; number < REQUESTER_QUEUE_PAIRS; number++)
		mrs[number] = region(&endpoints[number], memory, REQUESTER_BUFFER, ALL_ACCESS);
	struct order order;
	for (peer_hear(parent, &order, sizeof order); order.opcode >= 0;
	     peer_hear(parent, &order, sizeof order)) {
		CHECK(order.length <= REQUESTER_BUFFER);
		struct endpoint *endpoint = &endpoints[order.through];
		memset(memory, order.fill, order.length);
		struct ibv_sge sge = {
			.addr = (uint64_t)(uintptr_t)memory,
			.length = order.length,
			.lkey = mrs[order.through]->lkey,
		};
		struct ibv_send_wr request = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = (enum ibv_wr_opcode)order.opcode,
			.wr.rdma = { .remote_addr = order.address, .rkey = order.rkey },
		};
		struct ibv_send_wr *bad;
		if (order.opcode == IBV_WR_SEND_WITH_INV)
			request.invalidate_rkey = order.rkey;
		CHECK_CALL(ibv_post_send(endpoint->qp, &request, &bad));
		uint32_t status = completion_within(endpoint, 30 * SECOND).status;
		peer_tell(parent, &status, sizeof status);
	}
	for (unsigned number = 0; number < REQUESTER_QUEUE_PAIRS; number++) {
		CHECK_CALL(ibv_dereg_mr(mrs[number]));
		endpoint_close(&endpoints[number]);
	}
}

/* Call it before the device is opened. */
static inline struct peer requester_start(void)
{
	return peer_start(requester_body);
}

/* Connects its queue pairs to ours, one after another. */
static inline void requester_connect(struct peer *requester, struct endpoint *first,
				     struct endpoint *second)
{
	peer_connect(requester, first);
	peer_connect(requester, second);
}

static inline void tell_order(struct peer *requester, struct order order)
{
	peer_tell(requester, &order, sizeof order);
}

static inline enum ibv_wc_status hear_status(struct peer *requester)
{
	uint32_t status;
	peer_hear(requester, &status, sizeof status);
	return (enum ibv_wc_status)status;
}

static inline enum ibv_wc_status ask(struct peer *requester, struct order order)
{
	tell_order(requester, order);
	return hear_status(requester);
}

static inline void requester_end(struct peer *requester)
{
	tell_order(requester, (struct order){ .opcode = -1 });
	peer_end(requester);
}

#endif
