/* A responder's answer to a request that it refuses, the effect on its own queue pair and receives, and the time of
 * both.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 9.7.4.1 and 9.7.5.2 (NAK codes; the responder's resources
 * for reads and atomics), 9.9.3 with table 59 (responder fault classes), 10.3.1.7 (Error), 11.6.2 (completion statuses:
 * Local Access Error is that of a write with immediate data that the receiver's memory refuses); ibv_modify_qp(3)
 * (max_dest_rd_atomic), ibv_get_async_event(3), ibv_post_send(3) (IBV_SEND_INLINE). */

#include "contract.h"

#define LENGTH 64

struct memories {
	uint8_t *from, *into;
	struct ibv_mr *source, *target;
};

static struct memories memories_open(struct pair *pair)
{
	struct memories memories = { .from = private_pages(PAGE), .into = private_pages(PAGE) };
	memories.source = region(&pair->one, memories.from, PAGE, ALL_ACCESS);
	memories.target = region(&pair->other, memories.into, PAGE, ALL_ACCESS);
	return memories;
}

static void memories_close(struct memories *memories)
{
	CHECK_CALL(ibv_dereg_mr(memories->source));
	CHECK_CALL(ibv_dereg_mr(memories->target));
}

/* Whether the queue pair of the responder is in error when the requester has its completion: NAKs are
 * sent by a responder that has failed. */
static void responder_fails_first(uint32_t wrong_key, int access, enum ibv_wc_status status)
{
	enum { ROUNDS = 50 };
	struct pair pair = pair_open(endpoint_defaults());
	struct memories memories = memories_open(&pair);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		to_state(pair.one.qp, IBV_QPS_RESET);
		to_state(pair.other.qp, IBV_QPS_RESET);
		to_init(&pair.one, ALL_ACCESS);
		to_init(&pair.other, access);
		pair_connect(&pair, 0x100 * (round + 1));
		/* A process that polls is not woken; its own thread finds the completions later. */
		for (uint64_t end = now() + 3 * MILLISECOND; now() < end;)
			expect_none(&pair.other);
		post_write(&pair.one, round, piece_of(memories.source, 0, LENGTH),
			   (uintptr_t)memories.into, memories.target->rkey ^ wrong_key);
		expect(&pair.one, round, status);
		enum ibv_qp_state state = endpoint_state(&pair.other);
		if (state != IBV_QPS_ERR)
			check_failed(__FILE__, __LINE__,
				     "the requester has \"%s\" and the responder is in state %d",
				     ibv_wc_status_str(status), state);
	}
	memories_close(&memories);
	pair_close(&pair);
}

static void a_wrong_key_fails_the_responder_first(void)
{
	responder_fails_first(0x40, ALL_ACCESS, IBV_WC_REM_ACCESS_ERR);
}

static void a_missing_right_fails_the_responder_first(void)
{
	responder_fails_first(0, IBV_ACCESS_LOCAL_WRITE, IBV_WC_REM_INV_REQ_ERR);
}

#define CROWD 6000
#define DEPTH 8192

static struct settings deep(void)
{
	struct settings settings = endpoint_defaults();
	settings.depth = DEPTH;
	settings.unsignaled = true;
	settings.timeout = 18;
	return settings;
}

static void crowded_responder(struct peer *parent)
{
	struct endpoint crowd = endpoint_open(deep());
	struct endpoint endpoint = endpoint_beside(&crowd, deep());
	struct ibv_recv_wr nothing = { .wr_id = 1 };
	struct ibv_recv_wr *bad;
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&crowd, memory, PAGE, ALL_ACCESS);
	struct window window = region_window(mr);
	for (unsigned number = 0; number < DEPTH; number++)
		CHECK_CALL(ibv_post_recv(crowd.qp, &nothing, &bad));
	peer_connect(parent, &crowd);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);
	/* Here we are stopped. */
	peer_meet(parent);
	enum ibv_event_type seen;
	uint32_t told = 0;
	while (!told && event_within(crowd.context, 5 * SECOND, &seen))
		told = seen == IBV_EVENT_QP_ACCESS_ERR;
	uint32_t state = endpoint_state(&endpoint);
	peer_tell(parent, &told, sizeof told);
	peer_tell(parent, &state, sizeof state);
	peer_meet(parent);
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK_CALL(ibv_destroy_qp(endpoint.qp));
	endpoint_close(&crowd);
}

/* A responder that is stopped, with as many requests queued as there is space for, still gets a request that it must
 * refuse, and fails. */
static void a_responder_with_much_to_do_fails_too(void)
{
	struct peer peer = peer_start(crowded_responder);
	struct endpoint crowd = endpoint_open(deep());
	struct endpoint endpoint = endpoint_beside(&crowd, deep());
	struct window window;
	peer_connect(&peer, &crowd);
	peer_connect(&peer, &endpoint);
	peer_hear(&peer, &window, sizeof window);
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&crowd, memory, PAGE, ALL_ACCESS);
	/* Each writes once, so that the connections are made. */
	for (unsigned number = 0; number < 2; number++) {
		struct endpoint *through = number == 0 ? &crowd : &endpoint;
		struct ibv_sge sge = { (uintptr_t)memory, LENGTH, mr->lkey };
		struct ibv_send_wr write = {
			.wr_id = number,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { .remote_addr = window.address, .rkey = window.rkey },
		};
		struct ibv_send_wr *bad;
		CHECK_CALL(ibv_post_send(through->qp, &write, &bad));
		expect(through, number, IBV_WC_SUCCESS);
	}
	peer_stop(&peer);
	for (unsigned number = 0; number < CROWD; number++) {
		struct ibv_send_wr nothing = { .wr_id = 2, .opcode = IBV_WR_SEND };
		struct ibv_send_wr *bad;
		CHECK_CALL(ibv_post_send(crowd.qp, &nothing, &bad));
	}
	post_write(&endpoint, 3, piece_of(mr, 0, LENGTH), window.address, window.rkey ^ 0x40);
	peer_continue(&peer);
	expect(&endpoint, 3, IBV_WC_REM_ACCESS_ERR);
	uint32_t told, state;
	peer_meet(&peer);
	peer_hear(&peer, &told, sizeof told);
	peer_hear(&peer, &state, sizeof state);
	if (!told || state != IBV_QPS_ERR)
		check_failed(__FILE__, __LINE__,
			     "the responder of a refused request is in state %u and %s", state,
			     told ? "has its event" : "has had no event");
	peer_meet(&peer);
	peer_end(&peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK_CALL(ibv_destroy_qp(endpoint.qp));
	endpoint_close(&crowd);
}

/* Class C, and the message takes a receive: the receive fails, with the status that says why. */
static void a_write_with_immediate_data_and_a_wrong_key(void)
{
	struct pair pair = pair_open(endpoint_defaults());
	struct memories memories = memories_open(&pair);
	post_receive(&pair.other, 1, piece_of(memories.target, 0, LENGTH));
	struct ibv_sge sge = { (uintptr_t)memories.from, LENGTH, memories.source->lkey };
	struct ibv_send_wr request = {
		.wr_id = 2,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)memories.into,
			     .rkey = memories.target->rkey ^ 0x40 },
	};
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(pair.one.qp, &request, &bad));
	expect(&pair.one, 2, IBV_WC_REM_ACCESS_ERR);
	struct ibv_wc wc = completion(&pair.other);
	CHECK_EQUAL(wc.wr_id, 1);
	/* Local Access Error by the specification; soft-RoCE in the kernel calls it the remote one. */
	if (wc.status != IBV_WC_LOC_ACCESS_ERR && wc.status != IBV_WC_REM_ACCESS_ERR)
		check_failed(__FILE__, __LINE__,
			     "the receive of a write with immediate data that was refused has \"%s\"",
			     ibv_wc_status_str(wc.status));
	CHECK_EQUAL(endpoint_state(&pair.other), IBV_QPS_ERR);
	memories_close(&memories);
	pair_close(&pair);
}

static struct pair pair_without_resources(void)
{
	struct settings settings = endpoint_defaults();
	struct pair pair = { .one = endpoint_open(settings), .other = endpoint_open(settings) };
	struct link there = { pair.other.qp->qp_num, pair.other.lid, 500, 400, 16 };
	struct link back = { pair.one.qp->qp_num, pair.one.lid, 400, 500, 0 };
	connect_link(&pair.other, back);
	connect_link(&pair.one, there);
	return pair;
}

/* A responder that was given no resources for reads and atomics refuses them: NAK invalid request. */
static void a_read_without_responder_resources(void)
{
	struct pair pair = pair_without_resources();
	struct memories memories = memories_open(&pair);
	post_read(&pair.one, 1, piece_of(memories.source, 0, LENGTH), (uintptr_t)memories.into,
		  memories.target->rkey);
	expect(&pair.one, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_event(pair.other.context, IBV_EVENT_QP_REQ_ERR);
	CHECK_EQUAL(endpoint_state(&pair.other), IBV_QPS_ERR);
	memories_close(&memories);
	pair_close(&pair);
}

static void an_atomic_without_responder_resources(void)
{
	struct pair pair = pair_without_resources();
	struct memories memories = memories_open(&pair);
	post_fetch_add(&pair.one, 1, piece_of(memories.source, 0, 8), (uintptr_t)memories.into,
		       memories.target->rkey, 1);
	expect(&pair.one, 1, IBV_WC_REM_INV_REQ_ERR);
	CHECK_EQUAL(*(uint64_t *)memories.into, 0);
	memories_close(&memories);
	pair_close(&pair);
}

/* IBV_SEND_INLINE is for data that are sent. An atomic returns data: the flag is refused or ignored, and the buffer for
 * the returned value needs its key. */
static void inline_atomic(uint32_t key_error, int access)
{
	struct pair pair = pair_open(endpoint_defaults());
	struct memories memories = memories_open(&pair);
	uint64_t *result = (uint64_t *)private_pages(PAGE);
	*result = UINT64_MAX;
	struct ibv_mr *mr = region(&pair.one, result, PAGE, access);
	struct ibv_sge sge = { (uintptr_t)result, 8, mr->lkey ^ key_error };
	struct ibv_send_wr request = {
		.wr_id = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = { .remote_addr = (uintptr_t)memories.into,
			       .rkey = memories.target->rkey,
			       .compare_add = 1 },
	};
	struct ibv_send_wr *bad;
	if (ibv_post_send(pair.one.qp, &request, &bad) == 0)
		expect(&pair.one, 1, IBV_WC_LOC_PROT_ERR);
	if (*result != UINT64_MAX)
		check_failed(__FILE__, __LINE__,
			     "an inline atomic was stored in memory without the right to it");
	CHECK_CALL(ibv_dereg_mr(mr));
	memories_close(&memories);
	pair_close(&pair);
}

static void an_inline_atomic_with_a_wrong_key(void)
{
	inline_atomic(0x40, IBV_ACCESS_LOCAL_WRITE);
}

static void an_inline_atomic_into_what_is_not_writable(void)
{
	inline_atomic(0, 0);
}

/* A completion that does not fit is lost, and whose completion it is can no longer be trusted: the
 * completion queue is in error, and the queue pair goes there (11.6.3.3, ibv_get_async_event(3)). */
static void an_overrun_queue_ends_its_queue_pairs(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_cq *cq = ibv_create_cq(endpoint.context, 1, NULL, NULL, 0);
	CHECK_POINTER(cq);
	struct endpoint small = endpoint;
	unsigned posts = (unsigned)cq->cqe + 4;
	small.settings.depth = posts;
	struct ibv_qp_init_attr attributes = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = posts, .max_send_sge = 1, .max_recv_wr = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	small.qp = ibv_create_qp(endpoint.pd, &attributes);
	CHECK_POINTER(small.qp);
	to_init(&small, ALL_ACCESS);
	struct link there = { endpoint.qp->qp_num, endpoint.lid, 9, 8, 16 };
	struct link back = { small.qp->qp_num, endpoint.lid, 8, 9, 16 };
	connect_link(&endpoint, back);
	connect_link(&small, there);
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&endpoint, memory, PAGE, ALL_ACCESS);
	for (unsigned number = 0; number < posts; number++) {
		struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
		struct ibv_send_wr write = {
			.wr_id = number,
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.wr.rdma = { .remote_addr = (uintptr_t)memory + 64, .rkey = mr->rkey },
		};
		struct ibv_send_wr *bad;
		/* It may have failed already. */
		(void)ibv_post_send(small.qp, &write, &bad);
	}
	expect_event(endpoint.context, IBV_EVENT_CQ_ERR);
	uint64_t deadline = now() + 5 * SECOND;
	while (endpoint_state(&small) != IBV_QPS_ERR) {
		if (now() > deadline)
			check_failed(__FILE__, __LINE__,
				     "the queue pair of an overrun completion queue is in state %d",
				     endpoint_state(&small));
		expect_none(&endpoint);
	}
	CHECK_CALL(ibv_destroy_qp(small.qp));
	CHECK_CALL(ibv_destroy_cq(cq));
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "a_wrong_key_fails_the_responder_first", a_wrong_key_fails_the_responder_first },
	{ "a_missing_right_fails_the_responder_first",
	  a_missing_right_fails_the_responder_first },
	{ "a_responder_with_much_to_do_fails_too", a_responder_with_much_to_do_fails_too },
	{ "a_write_with_immediate_data_and_a_wrong_key",
	  a_write_with_immediate_data_and_a_wrong_key },
	{ "a_read_without_responder_resources", a_read_without_responder_resources },
	{ "an_atomic_without_responder_resources", an_atomic_without_responder_resources },
	{ "an_inline_atomic_with_a_wrong_key", an_inline_atomic_with_a_wrong_key },
	{ "an_inline_atomic_into_what_is_not_writable",
	  an_inline_atomic_into_what_is_not_writable },
	{ "an_overrun_queue_ends_its_queue_pairs", an_overrun_queue_ends_its_queue_pairs },
	{ 0 },
};
