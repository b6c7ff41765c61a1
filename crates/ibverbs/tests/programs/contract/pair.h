/* Two queue pairs of this process that are connected to each other. */
#pragma once

#include "check.h"

/* Two connected queue pairs of this process. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_comp_channel *channel;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	char *memory;
};

#define LENGTH 4096

static void connect_qp(struct ibv_qp *qp, uint32_t destination)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
			| IBV_ACCESS_REMOTE_ATOMIC };

	NEED(!ibv_query_port(context, 1, &port));
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT
		| IBV_QP_ACCESS_FLAGS));
	CHECK(qp->state == IBV_QPS_INIT);
	memset(&attr, 0, sizeof attr);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_4096;
	attr.dest_qp_num = destination;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 1;
	attr.ah_attr.dlid = port.lid;
	attr.ah_attr.port_num = 1;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU
		| IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
		| IBV_QP_MIN_RNR_TIMER));
	memset(&attr, 0, sizeof attr);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
		| IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct pair open_pair(uint64_t send_ops, uint64_t wc_flags)
{
	struct pair pair = { 0 };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 64, .wc_flags = wc_flags };

	pair.channel = ibv_create_comp_channel(context);
	NEED(pair.channel);
	cq_attr.channel = pair.channel;
	cq_attr.cq_context = &pair;
	pair.cq_ex = ibv_create_cq_ex(context, &cq_attr);
	NEED(pair.cq_ex);
	pair.cq = ibv_cq_ex_to_cq(pair.cq_ex);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = { .send_cq = pair.cq, .recv_cq = pair.cq,
			.cap = { 8, 8, 2, 2, 64 }, .qp_type = IBV_QPT_RC, .pd = pd,
			.comp_mask = IBV_QP_INIT_ATTR_PD, .qp_context = &wrong };

		if (send_ops) {
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = send_ops;
		}
		pair.qp[i] = ibv_create_qp_ex(context, &attr);
		NEED(pair.qp[i]);
		CHECK(attr.cap.max_send_wr >= 8 && attr.cap.max_inline_data >= 64);
	}
	connect_qp(pair.qp[0], pair.qp[1]->qp_num);
	connect_qp(pair.qp[1], pair.qp[0]->qp_num);
	NEED(!posix_memalign((void **)&pair.memory, 4096, LENGTH));
	memset(pair.memory, 0, LENGTH);
	pair.mr = ibv_reg_mr(pd, pair.memory, LENGTH, IBV_ACCESS_LOCAL_WRITE
		| IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	NEED(pair.mr);
	return pair;
}

static void close_pair(struct pair *pair)
{
	CHECK(!ibv_destroy_qp(pair->qp[0]));
	CHECK(!ibv_destroy_qp(pair->qp[1]));
	CHECK(!ibv_destroy_cq(pair->cq));
	CHECK(!ibv_destroy_comp_channel(pair->channel));
	CHECK(!ibv_dereg_mr(pair->mr));
	free(pair->memory);
}

static void post_receive(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory + 2048, 1024, pair->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	NEED(!ibv_post_recv(pair->qp[1], &wr, &bad));
}

static int post_send(struct pair *pair, uint64_t wr_id, struct ibv_send_wr **bad)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory, 16, pair->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	return ibv_post_send(pair->qp[0], &wr, bad);
}

static struct ibv_wc wait_for(struct ibv_cq *cq)
{
	struct ibv_wc wc = { 0 };
	int polled;

	for (long tries = 0; tries < 500 * 1000 * 1000L; tries++) {
		polled = ibv_poll_cq(cq, 1, &wc);
		NEED(polled >= 0);
		if (polled == 1)
			return wc;
	}
	NEED(!"a completion");
	return wc;
}
