/* The send queue is drained when the requests that were begun are finished, and not before.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 10.3.1.5 (Send Queue Drain: processing of the requests that
 * have begun goes on to their completion; then the event is raised); ibv_modify_qp(3), ibv_get_async_event(3)
 * (IBV_EVENT_SQ_DRAINED). */

#include "contract.h"

#define LENGTH (4 * MEBIBYTE)
#define SEED 50

static void receiver(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	post_receive(&endpoint, 1, piece_of(mr, 0, LENGTH));
	post_receive(&endpoint, 2, piece_of(mr, 0, LENGTH));
	post_receive(&endpoint, 3, piece_of(mr, 0, LENGTH));
	peer_connect(parent, &endpoint);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	peer_meet(parent);
	/* Here we are stopped. */
	expect(&endpoint, 2, IBV_WC_SUCCESS);
	pattern_check(memory, LENGTH, SEED);
	peer_meet(parent);
	expect(&endpoint, 3, IBV_WC_SUCCESS);
	peer_meet(parent);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

/* A message too long to be buffered is begun while its receiver is stopped, and the queue is set to drain. */
static void drained_means_finished(uint8_t *memory)
{
	struct peer peer = peer_start(receiver);
	struct settings settings = endpoint_defaults();
	settings.timeout = 18;
	struct endpoint endpoint = endpoint_open(settings);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	peer_connect(&peer, &endpoint);
	post_send(&endpoint, 1, piece_of(mr, 0, 1));
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	peer_meet(&peer);
	peer_stop(&peer);
	pattern_fill(memory, LENGTH, SEED);
	post_send(&endpoint, 2, piece_of(mr, 0, LENGTH));
	struct ibv_qp_attr drain = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	CHECK_CALL(ibv_modify_qp(endpoint.qp, &drain,
				 IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	enum ibv_event_type seen;
	if (event_within(endpoint.context, 100 * MILLISECOND, &seen))
		check_failed(__FILE__, __LINE__,
			     "the event \"%s\" comes with a message on its way to a stopped process",
			     ibv_event_type_str(seen));
	/* Requests posted now wait. */
	post_send(&endpoint, 3, piece_of(mr, 0, 1));
	peer_continue(&peer);
	expect(&endpoint, 2, IBV_WC_SUCCESS);
	expect_event(endpoint.context, IBV_EVENT_SQ_DRAINED);
	struct ibv_qp_attr attributes;
	struct ibv_qp_init_attr initial;
	CHECK_CALL(ibv_query_qp(endpoint.qp, &attributes, IBV_QP_STATE, &initial));
	CHECK_EQUAL(attributes.qp_state, IBV_QPS_SQD);
	CHECK_EQUAL(attributes.sq_draining, 0);
	peer_meet(&peer);
	expect_silence(&endpoint, 20);
	to_state(endpoint.qp, IBV_QPS_RTS);
	expect(&endpoint, 3, IBV_WC_SUCCESS);
	peer_meet(&peer);
	peer_end(&peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

static void drained_with_a_message_in_private_memory(void)
{
	drained_means_finished(private_pages(LENGTH));
}

static void drained_with_a_message_in_shared_memory(void)
{
	drained_means_finished(shared_pages(LENGTH));
}

const struct test tests[] = {
	{ "drained_with_a_message_in_private_memory", drained_with_a_message_in_private_memory },
	{ "drained_with_a_message_in_shared_memory", drained_with_a_message_in_shared_memory },
	{ 0 },
};
