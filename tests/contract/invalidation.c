/* Only the queue pair that a window is bound to may invalidate it, locally or for its peer. Checks the result of an
 * invalidation that is refused, too.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 10.6.7.2 (type 2B: a window belongs to the queue pair it
 * was bound through), 9.4.1.1.4 and 10.6.5 (invalidation checks protection domain and queue pair as an access does),
 * 9.9.3.1.10 (responder fault class J: a Send with Invalidate whose key cannot be invalidated ends the responder's
 * queue pair and its receive, and is not NAKed); ibv_post_send(3). */

#include "requester.h"

#define MARK 0x4d

struct target {
	struct peer requester;
	struct endpoint one, other;
	uint8_t *memory;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t key;
	bool separate;
};

/* A window that is bound through `one`; `other` is a queue pair beside it, or in another domain. */
static struct target target_open(bool separate)
{
	struct target target = { .requester = requester_start(), .separate = separate };
	target.one = endpoint_open(endpoint_defaults());
	target.other = separate ? endpoint_open(endpoint_defaults())
				: endpoint_beside(&target.one, endpoint_defaults());
	requester_connect(&target.requester, &target.one, &target.other);
	target.memory = private_pages(PAGE);
	target.mr = region(&target.one, target.memory, PAGE, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	target.mw = ibv_alloc_mw(target.one.pd, IBV_MW_TYPE_2);
	CHECK_POINTER(target.mw);
	target.key = ibv_inc_rkey(target.mw->rkey);
	struct ibv_send_wr bind = {
		.wr_id = 7,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {
			.mw = target.mw,
			.rkey = target.key,
			.bind_info = {
				.mr = target.mr,
				.addr = (uintptr_t)target.memory,
				.length = PAGE,
				.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
			},
		},
	};
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(target.one.qp, &bind, &bad));
	expect(&target.one, 7, IBV_WC_SUCCESS);
	return target;
}

static void target_close(struct target *target)
{
	requester_end(&target->requester);
	CHECK_CALL(ibv_dealloc_mw(target->mw));
	CHECK_CALL(ibv_dereg_mr(target->mr));
	if (target->separate)
		endpoint_close(&target->other);
	else
		CHECK_CALL(ibv_destroy_qp(target->other.qp));
	endpoint_close(&target->one);
}

static void check_window_works(struct target *target)
{
	target->memory[0] = 0;
	enum ibv_wc_status status =
		ask(&target->requester, (struct order){ .opcode = IBV_WR_RDMA_WRITE,
							.address = (uintptr_t)target->memory,
							.rkey = target->key,
							.length = 1,
							.fill = MARK });
	if (status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__,
			     "the window works no longer: a queue pair without a right to it has "
			     "invalidated it (\"%s\")",
			     ibv_wc_status_str(status));
	CHECK_EQUAL(target->memory[0], MARK);
}

static void remote(bool separate)
{
	struct target target = target_open(separate);
	struct ibv_sge none = { 0 };
	struct ibv_recv_wr receive = { .wr_id = 1, .sg_list = &none, .num_sge = 0 };
	struct ibv_recv_wr *bad;
	CHECK_CALL(ibv_post_recv(target.other.qp, &receive, &bad));
	enum ibv_wc_status status =
		ask(&target.requester, (struct order){ .opcode = IBV_WR_SEND_WITH_INV,
						       .through = 1,
						       .rkey = target.key });
	(void)status;
	struct ibv_wc wc;
	for (unsigned turn = 0; turn < 20; turn++) {
		if (ibv_poll_cq(target.other.cq, 1, &wc) == 1)
			CHECK(wc.status != IBV_WC_SUCCESS);
		usleep(1000);
	}
	check_window_works(&target);
	target_close(&target);
}

static void another_queue_pairs_peer_does_not_invalidate(void)
{
	remote(false);
}

static void another_domains_peer_does_not_invalidate(void)
{
	remote(true);
}

static void local(bool separate)
{
	struct target target = target_open(separate);
	struct ibv_send_wr request = {
		.wr_id = 9,
		.opcode = IBV_WR_LOCAL_INV,
		.invalidate_rkey = target.key,
	};
	struct ibv_send_wr *bad;
	if (ibv_post_send(target.other.qp, &request, &bad) == 0)
		CHECK(status_of(&target.other) != IBV_WC_SUCCESS);
	check_window_works(&target);
	target_close(&target);
}

static void another_queue_pair_does_not_invalidate(void)
{
	local(false);
}

static void another_domain_does_not_invalidate(void)
{
	local(true);
}

/* Class J. The requester gets no NAK: it is acknowledged or it runs out of retries. The responder's receive fails, and
 * so does its queue pair. */
static void a_refused_invalidation_is_not_answered(void)
{
	struct target target = target_open(false);
	struct ibv_recv_wr receive = { .wr_id = 1 };
	struct ibv_recv_wr *bad;
	CHECK_CALL(ibv_post_recv(target.one.qp, &receive, &bad));
	enum ibv_wc_status status =
		ask(&target.requester, (struct order){ .opcode = IBV_WR_SEND_WITH_INV,
						       .rkey = target.key ^ 0x40 });
	if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
	    status == IBV_WC_REM_OP_ERR)
		check_failed(__FILE__, __LINE__, "the refusal was NAKed: \"%s\"",
			     ibv_wc_status_str(status));
	struct ibv_wc wc = completion(&target.one);
	CHECK_EQUAL(wc.wr_id, 1);
	CHECK(wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(endpoint_state(&target.one), IBV_QPS_ERR);
	target_close(&target);
}

const struct test tests[] = {
	{ "another_queue_pairs_peer_does_not_invalidate",
	  another_queue_pairs_peer_does_not_invalidate },
	{ "another_domains_peer_does_not_invalidate",
	  another_domains_peer_does_not_invalidate },
	{ "another_queue_pair_does_not_invalidate", another_queue_pair_does_not_invalidate },
	{ "another_domain_does_not_invalidate", another_domain_does_not_invalidate },
	{ "a_refused_invalidation_is_not_answered", a_refused_invalidation_is_not_answered },
	{ 0 },
};
