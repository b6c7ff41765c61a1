/* Faults that a responder finds in a request, and the result at both ends: one row for each fault that a program can
 * cause. The rows are the same on every path.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 9.9.3 (responder faults by class) and 9.9.2 (the
 * requester's handling of the answers); ibv_get_async_event(3), ibv_poll_cq(3). */
#ifndef VERBENA_TESTS_CONTRACT_FAULT_ROWS_H
#define VERBENA_TESTS_CONTRACT_FAULT_ROWS_H

#include "contract.h"

enum { NO_RECEIVE = -1, NO_EVENT = -1, ROOM = 4096, SENT = 64 };

/* The fault of the receive. */
enum receive { ABSENT, RIGHT, SHORT, UNWRITABLE };

struct fault_row {
	const char *name;
	enum ibv_wr_opcode opcode;
	int key;            /* is changed by this */
	int offset;         /* of the remote address */
	int access;         /* of the region */
	enum receive receive;
	int qp_access;      /* of the responder's queue pair */
	enum ibv_wc_status requester;
	int received;       /* status of the receive, or NO_RECEIVE */
	int event;          /* at the responder, or NO_EVENT */
	enum ibv_qp_state state; /* of the responder */
};

#define WRONG_KEY 0x40

static const struct fault_row fault_rows[] = {
	{ "receiver not ready", IBV_WR_SEND, 0, 0, ALL_ACCESS, ABSENT, ALL_ACCESS, IBV_WC_RNR_RETRY_EXC_ERR,
	  NO_RECEIVE, NO_EVENT, IBV_QPS_RTS },
	{ "receive too small", IBV_WR_SEND, 0, 0, ALL_ACCESS, SHORT, ALL_ACCESS, IBV_WC_REM_INV_REQ_ERR,
	  IBV_WC_LOC_LEN_ERR, NO_EVENT, IBV_QPS_ERR },
	{ "receive that may not be written", IBV_WR_SEND, 0, 0, ALL_ACCESS, UNWRITABLE, ALL_ACCESS,
	  IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, NO_EVENT, IBV_QPS_ERR },
	{ "write by a wrong key", IBV_WR_RDMA_WRITE, WRONG_KEY, 0, ALL_ACCESS, ABSENT, ALL_ACCESS,
	  IBV_WC_REM_ACCESS_ERR, NO_RECEIVE, IBV_EVENT_QP_ACCESS_ERR, IBV_QPS_ERR },
	{ "write beyond the region", IBV_WR_RDMA_WRITE, 0, ROOM - SENT / 2, ALL_ACCESS, ABSENT, ALL_ACCESS,
	  IBV_WC_REM_ACCESS_ERR, NO_RECEIVE, IBV_EVENT_QP_ACCESS_ERR, IBV_QPS_ERR },
	{ "write without the right", IBV_WR_RDMA_WRITE, 0, 0, IBV_ACCESS_REMOTE_READ, ABSENT, ALL_ACCESS,
	  IBV_WC_REM_ACCESS_ERR, NO_RECEIVE, IBV_EVENT_QP_ACCESS_ERR, IBV_QPS_ERR },
	{ "read by a wrong key", IBV_WR_RDMA_READ, WRONG_KEY, 0, ALL_ACCESS, ABSENT, ALL_ACCESS,
	  IBV_WC_REM_ACCESS_ERR, NO_RECEIVE, IBV_EVENT_QP_ACCESS_ERR, IBV_QPS_ERR },
	{ "read without the right", IBV_WR_RDMA_READ, 0, 0, IBV_ACCESS_LOCAL_WRITE, ABSENT, ALL_ACCESS,
	  IBV_WC_REM_ACCESS_ERR, NO_RECEIVE, IBV_EVENT_QP_ACCESS_ERR, IBV_QPS_ERR },
	{ "atomic by a wrong key", IBV_WR_ATOMIC_FETCH_AND_ADD, WRONG_KEY, 0, ALL_ACCESS, ABSENT, ALL_ACCESS,
	  IBV_WC_REM_ACCESS_ERR, NO_RECEIVE, IBV_EVENT_QP_ACCESS_ERR, IBV_QPS_ERR },
	{ "atomic that is not aligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 4, ALL_ACCESS, ABSENT, ALL_ACCESS,
	  IBV_WC_REM_INV_REQ_ERR, NO_RECEIVE, IBV_EVENT_QP_REQ_ERR, IBV_QPS_ERR },
	{ "write with immediate, receiver not ready", IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, ALL_ACCESS, ABSENT, ALL_ACCESS,
	  IBV_WC_RNR_RETRY_EXC_ERR, NO_RECEIVE, NO_EVENT, IBV_QPS_RTS },
	{ "write with immediate by a wrong key, with a receive", IBV_WR_RDMA_WRITE_WITH_IMM, WRONG_KEY, 0, ALL_ACCESS,
	  RIGHT, ALL_ACCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, NO_EVENT, IBV_QPS_ERR },
	{ "write that the queue pair does not allow", IBV_WR_RDMA_WRITE, 0, 0, ALL_ACCESS, ABSENT,
	  IBV_ACCESS_REMOTE_READ, IBV_WC_REM_INV_REQ_ERR, NO_RECEIVE, IBV_EVENT_QP_REQ_ERR, IBV_QPS_ERR },
	{ "atomic that the queue pair does not allow", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, ALL_ACCESS, ABSENT,
	  IBV_ACCESS_REMOTE_READ, IBV_WC_REM_INV_REQ_ERR, NO_RECEIVE, IBV_EVENT_QP_REQ_ERR, IBV_QPS_ERR },
	{ "invalidation of no key", IBV_WR_SEND_WITH_INV, WRONG_KEY, 0, ALL_ACCESS, RIGHT, ALL_ACCESS,
	  IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_INV_REQ_ERR, NO_EVENT, IBV_QPS_ERR },
	{ "invalidation of a region's key", IBV_WR_SEND_WITH_INV, 0, 0, ALL_ACCESS, RIGHT, ALL_ACCESS,
	  IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_INV_REQ_ERR, NO_EVENT, IBV_QPS_ERR },
};

enum { FAULT_ROWS = sizeof fault_rows / sizeof *fault_rows };

static inline struct settings settings_of_row(const struct fault_row *row)
{
	struct settings settings = endpoint_defaults();
	settings.access = row->qp_access;
	settings.rnr_retry = 1;
	settings.retry_count = 1;
	/* 67 ms: a process that waits so long for a processor is not dead. */
	settings.timeout = 14;
	return settings;
}

/* The next event of a queue pair; NO_EVENT if none comes in time. */
static inline int next_event(struct ibv_context *context, int milliseconds)
{
	struct pollfd ready = { .fd = context->async_fd, .events = POLLIN };
	if (poll(&ready, 1, milliseconds) != 1)
		return NO_EVENT;
	struct ibv_async_event event;
	CHECK_CALL(ibv_get_async_event(context, &event));
	ibv_ack_async_event(&event);
	return (int)event.event_type;
}

#define CHECK_ROW(row, what, found, expected)                                                          \
	do {                                                                                           \
		if ((int)(found) != (int)(expected))                                                   \
			check_failed(__FILE__, __LINE__, "%s: %s is %d and not %d", (row)->name, what, \
				     (int)(found), (int)(expected));                                  \
	} while (0)

static inline void respond_to_row(struct peer *peer, const struct fault_row *row)
{
	struct endpoint endpoint = endpoint_open(settings_of_row(row));
	uint8_t *memory = private_pages(ROOM);
	struct ibv_mr *mr = region(&endpoint, memory, ROOM, row->access);
	struct ibv_mr *read_only = region(&endpoint, memory, ROOM, 0);
	if (row->receive == RIGHT)
		post_receive(&endpoint, 7, piece_of(mr, 0, SENT));
	if (row->receive == SHORT)
		post_receive(&endpoint, 7, piece_of(mr, 0, SENT / 2));
	if (row->receive == UNWRITABLE)
		post_receive(&endpoint, 7, piece_of(read_only, 0, SENT));
	struct window window = region_window(mr);
	peer_connect(peer, &endpoint);
	peer_tell(peer, &window, sizeof window);
	char done;
	peer_hear(peer, &done, 1);
	int event = next_event(endpoint.context, row->event == NO_EVENT ? 50 : 5000);
	CHECK_ROW(row, "the responder's event", event, row->event);
	CHECK_ROW(row, "a second event", next_event(endpoint.context, 0), NO_EVENT);
	CHECK_ROW(row, "the responder's state", endpoint_state(&endpoint), row->state);
	struct ibv_wc wc = { 0 };
	int count = ibv_poll_cq(endpoint.cq, 1, &wc);
	CHECK_ROW(row, "the number of receives that have ended", count, row->received != NO_RECEIVE);
	if (count)
		CHECK_ROW(row, "the status of the receive", wc.status, row->received);
	peer_meet(peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK_CALL(ibv_dereg_mr(read_only));
	endpoint_close(&endpoint);
}

static inline void request_row(struct peer *peer, const struct fault_row *row)
{
	fprintf(stderr, "%s\n", row->name);
	struct endpoint endpoint = endpoint_open(settings_of_row(row));
	struct ibv_mr *mr = region(&endpoint, private_pages(ROOM), ROOM, ALL_ACCESS);
	peer_connect(peer, &endpoint);
	struct window window;
	peer_hear(peer, &window, sizeof window);
	uint64_t address = window.address + (uint64_t)row->offset;
	uint32_t key = window.rkey ^ (uint32_t)row->key;
	bool is_atomic = row->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge piece = { (uintptr_t)mr->addr, is_atomic ? 8 : SENT, mr->lkey };
	struct ibv_send_wr request = {
		.wr_id = 3, .opcode = row->opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &piece, .num_sge = 1
	};
	if (is_atomic) {
		request.wr.atomic.remote_addr = address;
		request.wr.atomic.rkey = key;
	} else if (row->opcode == IBV_WR_SEND_WITH_INV) {
		request.invalidate_rkey = key;
	} else {
		request.wr.rdma.remote_addr = address;
		request.wr.rdma.rkey = key;
	}
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(endpoint.qp, &request, &bad));
	CHECK_ROW(row, "the requester's status", completion(&endpoint).status, row->requester);
	CHECK_ROW(row, "the requester's state", endpoint_state(&endpoint), IBV_QPS_ERR);
	peer_tell(peer, "d", 1);
	peer_meet(peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

#endif
