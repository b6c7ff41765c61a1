/* Extended reliable connections: a new connection is independent of the one before, and a domain is one domain.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, Annex A14 (XRC): A14.4.2 (the target's state is that of the
 * XRC target queue pair), A14.4.4 (the shared receive queue must be of the target's XRC domain); 9.7.5.2.8 (RNR NAK);
 * ibv_open_xrcd(3) (without a file, its own domain), ibv_create_srq_ex(3), ibv_create_qp_ex(3). */

#include "contract.h"

#define LENGTH 256
#define MESSAGES 10
#define SEED 60

/* The receiving half of XRC: its own domain, a shared receive queue, and a target queue pair. */
struct host {
	struct endpoint endpoint; /* device, domain and completion queue */
	struct ibv_xrcd *domain;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint32_t srq_number;
	uint8_t *memory;
	struct ibv_mr *mr;
};

/* A shared receive queue of the host's domain, and its number. */
static struct ibv_srq *shared_queue(const struct host *host, uint32_t *number)
{
	struct ibv_srq_init_attr_ex queue = {
		.attr = { .max_wr = 2 * MESSAGES, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = host->domain,
		.cq = host->endpoint.cq,
		.pd = host->endpoint.pd,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(host->endpoint.context, &queue);
	CHECK_POINTER(srq);
	CHECK_CALL(ibv_get_srq_num(srq, number));
	return srq;
}

static struct host host_open(void)
{
	struct host host = { .endpoint = endpoint_open(endpoint_defaults()) };
	struct ibv_xrcd_init_attr private = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	host.domain = ibv_open_xrcd(host.endpoint.context, &private);
	CHECK_POINTER(host.domain);
	host.srq = shared_queue(&host, &host.srq_number);
	host.endpoint.settings.srq = host.srq;
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = host.domain,
	};
	host.qp = ibv_create_qp_ex(host.endpoint.context, &target);
	CHECK_POINTER(host.qp);
	host.memory = private_pages(MESSAGES * PAGE);
	host.mr = region(&host.endpoint, host.memory, MESSAGES * PAGE, ALL_ACCESS);
	return host;
}

static void host_close(struct host *host)
{
	CHECK_CALL(ibv_destroy_qp(host->qp));
	CHECK_CALL(ibv_destroy_srq(host->srq));
	CHECK_CALL(ibv_close_xrcd(host->domain));
	CHECK_CALL(ibv_dereg_mr(host->mr));
	endpoint_close(&host->endpoint);
}

/* From RESET to ready. The target only receives, the initiator only sends. */
static void connect_xrc(struct ibv_qp *qp, uint32_t destination, uint16_t lid, uint32_t receive_psn,
			uint32_t send_psn, bool initiator, uint8_t rnr_retry)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	CHECK_CALL(ibv_modify_qp(qp, &init,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_2048,
		.dest_qp_num = destination,
		.rq_psn = receive_psn,
		.ah_attr = { .dlid = lid, .port_num = 1 },
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (!initiator)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_CALL(ibv_modify_qp(qp, &receive, mask));
	if (!initiator)
		return;
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = send_psn,
		.timeout = 12,
		.retry_cnt = 5,
		.rnr_retry = rnr_retry,
		.max_rd_atomic = 4,
	};
	CHECK_CALL(ibv_modify_qp(qp, &send,
				 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					 IBV_QP_MAX_QP_RD_ATOMIC));
}

/* The sending half. */
struct initiator {
	struct endpoint endpoint;
	struct ibv_qp *qp;
	uint8_t *memory;
	struct ibv_mr *mr;
};

static struct initiator initiator_open(void)
{
	struct initiator initiator = { .endpoint = endpoint_open(endpoint_defaults()) };
	struct ibv_qp_init_attr_ex attributes = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.pd = initiator.endpoint.pd,
		.send_cq = initiator.endpoint.cq,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 2 * MESSAGES, .max_send_sge = 1 },
	};
	initiator.qp = ibv_create_qp_ex(initiator.endpoint.context, &attributes);
	CHECK_POINTER(initiator.qp);
	initiator.memory = private_pages(MESSAGES * PAGE);
	initiator.mr =
		region(&initiator.endpoint, initiator.memory, MESSAGES * PAGE, ALL_ACCESS);
	return initiator;
}

static void initiator_close(struct initiator *initiator)
{
	CHECK_CALL(ibv_destroy_qp(initiator->qp));
	CHECK_CALL(ibv_dereg_mr(initiator->mr));
	endpoint_close(&initiator->endpoint);
}

static void send_to(struct initiator *initiator, uint32_t srq_number, uint64_t number)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)initiator->memory + number * PAGE,
		.length = LENGTH,
		.lkey = initiator->mr->lkey,
	};
	struct ibv_send_wr request = {
		.wr_id = number,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.qp_type.xrc.remote_srqn = srq_number,
	};
	struct ibv_send_wr *bad;
	pattern_fill(initiator->memory + number * PAGE, LENGTH, SEED + number);
	CHECK_CALL(ibv_post_send(initiator->qp, &request, &bad));
}

/* A message finds no receive, the sender gives up, and both ends begin anew with other packet sequence
 * numbers: each message from then on arrives, or is not acknowledged. */
static void acknowledged_messages_arrive_after_rnr_and_reset(void)
{
	struct host host = host_open();
	struct initiator initiator = initiator_open();
	uint16_t lid = host.endpoint.lid;
	connect_xrc(host.qp, initiator.qp->qp_num, lid, 100, 0, false, 0);
	connect_xrc(initiator.qp, host.qp->qp_num, lid, 0, 100, true, 0);
	send_to(&initiator, host.srq_number, 0);
	CHECK_EQUAL(status_of(&initiator.endpoint), IBV_WC_RNR_RETRY_EXC_ERR);

	to_state(initiator.qp, IBV_QPS_RESET);
	to_state(host.qp, IBV_QPS_RESET);
	connect_xrc(host.qp, initiator.qp->qp_num, lid, 5000, 0, false, 7);
	connect_xrc(initiator.qp, host.qp->qp_num, lid, 0, 5000, true, 7);
	for (uint64_t number = 0; number < MESSAGES; number++)
		post_receive(&host.endpoint, number, piece_of(host.mr, number * PAGE, LENGTH));
	for (uint64_t number = 0; number < MESSAGES; number++)
		send_to(&initiator, host.srq_number, number);
	for (uint64_t number = 0; number < MESSAGES; number++)
		CHECK_EQUAL(status_of(&initiator.endpoint), IBV_WC_SUCCESS);
	/* Acknowledged: so all of them have arrived, or are about to complete. */
	for (uint64_t number = 0; number < MESSAGES; number++) {
		struct ibv_wc wc;
		uint64_t deadline = now() + 5 * SECOND;
		while (ibv_poll_cq(host.endpoint.cq, 1, &wc) == 0)
			if (now() > deadline)
				check_failed(__FILE__, __LINE__,
					     "%u messages were acknowledged, and %llu have arrived",
					     MESSAGES, (unsigned long long)number);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.wr_id, number);
		pattern_check(host.memory + number * PAGE, LENGTH, SEED + number);
	}
	initiator_close(&initiator);
	host_close(&host);
}

/* Two shared receive queues of one host, named in turn by the requests of one batch: ibv_wr_set_xrc_srqn. */
static void each_request_of_a_batch_names_its_queue(void)
{
	struct host host = host_open();
	struct initiator initiator = initiator_open();
	uint32_t numbers[2] = { host.srq_number, 0 };
	struct ibv_srq *second = shared_queue(&host, &numbers[1]);
	connect_xrc(host.qp, initiator.qp->qp_num, host.endpoint.lid, 100, 0, false, 0);
	connect_xrc(initiator.qp, host.qp->qp_num, host.endpoint.lid, 0, 100, true, 0);
	for (uint64_t number = 0; number < MESSAGES; number++) {
		struct ibv_sge sge = { (uintptr_t)host.memory + number * PAGE, LENGTH, host.mr->lkey };
		struct ibv_recv_wr receive = { .wr_id = number, .sg_list = &sge, .num_sge = 1 }, *bad;
		CHECK_CALL(ibv_post_srq_recv(number % 2 ? second : host.srq, &receive, &bad));
	}
	struct ibv_qp_ex *requests = ibv_qp_to_qp_ex(initiator.qp);
	CHECK_POINTER(requests);
	ibv_wr_start(requests);
	for (uint64_t number = 0; number < MESSAGES; number++) {
		pattern_fill(initiator.memory + number * PAGE, LENGTH, SEED + number);
		requests->wr_id = number;
		requests->wr_flags = 0;
		ibv_wr_send(requests);
		ibv_wr_set_xrc_srqn(requests, numbers[number % 2]);
		ibv_wr_set_sge(requests, initiator.mr->lkey, (uintptr_t)initiator.memory + number * PAGE, LENGTH);
	}
	CHECK_CALL(ibv_wr_complete(requests));
	for (uint64_t number = 0; number < MESSAGES; number++)
		CHECK_EQUAL(status_of(&initiator.endpoint), IBV_WC_SUCCESS);
	for (uint64_t number = 0; number < MESSAGES; number++) {
		struct ibv_wc wc = completion(&host.endpoint);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.wr_id, number);
		pattern_check(host.memory + number * PAGE, LENGTH, SEED + number);
	}
	initiator_close(&initiator);
	CHECK_CALL(ibv_destroy_srq(second));
	host_close(&host);
}

/* The data that a host sends to the other. */
struct offer {
	uint32_t qp_number, srq_number;
	uint16_t lid;
};

static void be_a_host(struct peer *parent)
{
	struct host host = host_open();
	struct offer offer = { host.qp->qp_num, host.srq_number, host.endpoint.lid };
	uint32_t initiator;
	post_receive(&host.endpoint, 1, piece_of(host.mr, 0, LENGTH));
	peer_tell(parent, &offer, sizeof offer);
	peer_hear(parent, &initiator, sizeof initiator);
	connect_xrc(host.qp, initiator, host.endpoint.lid, 100, 0, false, 0);
	peer_meet(parent);
	/* The initiator has its completion: every message has arrived by now. */
	peer_meet(parent);
	struct ibv_wc wc;
	uint32_t arrived = 0;
	for (unsigned turn = 0; turn < 50; turn++) {
		arrived += ibv_poll_cq(host.endpoint.cq, 1, &wc) == 1;
		usleep(1000);
	}
	peer_tell(parent, &arrived, sizeof arrived);
	peer_meet(parent);
	host_close(&host);
}

/* Two processes have a domain each: a connection to the one does not lead to the other's queue. */
static void private_domains_are_different(void)
{
	struct peer peers[2] = { peer_start(be_a_host), peer_start(be_a_host) };
	struct initiator initiator = initiator_open();
	struct offer offers[2];
	uint32_t own = initiator.qp->qp_num, arrived;
	for (unsigned number = 0; number < 2; number++) {
		peer_hear(&peers[number], &offers[number], sizeof *offers);
		peer_tell(&peers[number], &own, sizeof own);
		peer_meet(&peers[number]);
	}
	connect_xrc(initiator.qp, offers[0].qp_number, offers[0].lid, 0, 100, true, 0);
	send_to(&initiator, offers[1].srq_number, 1);
	enum ibv_wc_status status = status_of(&initiator.endpoint);
	for (unsigned number = 0; number < 2; number++) {
		peer_meet(&peers[number]);
		peer_hear(&peers[number], &arrived, sizeof arrived);
		if (arrived != 0)
			check_failed(__FILE__, __LINE__,
				     "a message through one process's private domain arrived in %s, "
				     "status \"%s\"",
				     number ? "another's" : "its own, though it was for another",
				     ibv_wc_status_str(status));
		peer_meet(&peers[number]);
	}
	CHECK(status != IBV_WC_SUCCESS);
	peer_end(&peers[0]);
	peer_end(&peers[1]);
	initiator_close(&initiator);
}

const struct test tests[] = {
	{ "acknowledged_messages_arrive_after_rnr_and_reset",
	  acknowledged_messages_arrive_after_rnr_and_reset },
	{ "each_request_of_a_batch_names_its_queue", each_request_of_a_batch_names_its_queue },
	{ "private_domains_are_different", private_domains_are_different },
	{ 0 },
};
