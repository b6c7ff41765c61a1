/* Errors: objects in use, invalid arguments, missing features, one request of a list. */
#pragma once

#include "pair.h"

static void objects_in_use_cannot_be_destroyed(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_srq_init_attr srq_attr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_qp_init_attr qp_attr = { .send_cq = pair.cq, .recv_cq = pair.cq, .srq = srq,
		.cap = { 1, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);

	NEED(srq && qp);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_cq(pair.cq) == EBUSY);
	CHECK(ibv_destroy_srq(srq) == EBUSY);
	CHECK(ibv_destroy_comp_channel(pair.channel) == EBUSY);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_srq(srq));
	close_pair(&pair);
	CHECK(!ibv_dealloc_pd(pd));
}

static void null_and_nonsense_are_refused(void)
{
	struct ibv_device_attr attr;
	struct ibv_ah_attr ah_attr = { .port_num = 9 };

	CHECK(ibv_query_device(NULL, &attr) == EINVAL);
	CHECK(ibv_query_device(context, NULL) == EINVAL);
	CHECK(ibv_alloc_pd(NULL) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_open_device(NULL) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_cq(context, 0, NULL, NULL, 0) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_cq(context, -1, NULL, NULL, 0) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors) == NULL
	      && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_ah(pd, &ah_attr) == NULL && errno == EINVAL);
	/* An object of another kind. */
	CHECK(ibv_destroy_cq((struct ibv_cq *)pd) == EINVAL);
	errno = 0;
	CHECK(ibv_reg_mr(pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE) == NULL
	      && errno == EFAULT);
	errno = 0;
	CHECK(ibv_reg_mr(pd, &attr, sizeof attr, IBV_ACCESS_REMOTE_WRITE) == NULL
	      && errno == EINVAL);
}

static void what_is_not_supported_says_so(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_flow_attr flow = { 0 };
	struct ibv_wq_init_attr wq = { .pd = pd, .cq = pair.cq };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_ops_wr operation = { 0 }, *bad = NULL;
	struct ibv_srq_init_attr_ex srq = { .attr = { 4, 1, 0 }, .pd = pd,
		.srq_type = IBV_SRQT_TM, .cq = pair.cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE
			| IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM };
	struct ibv_qp_rate_limit_attr rate = { 0 };
	struct ibv_cq_init_attr_ex tags = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_qp_init_attr raw = { .send_cq = pair.cq, .recv_cq = pair.cq,
		.cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RAW_PACKET };
	struct ibv_ece ece = { 1, 2, 3 };

	errno = 0;
	CHECK(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, 0) == NULL && errno == EBADF);
#define UNSUPPORTED(object) do { errno = 0; CHECK((object) == NULL); \
	CHECK(errno == EOPNOTSUPP); } while (0)
	UNSUPPORTED(ibv_create_flow(pair.qp[0], &flow));
	UNSUPPORTED(ibv_create_wq(context, &wq));
	UNSUPPORTED(ibv_create_rwq_ind_table(context, &table));
	UNSUPPORTED(ibv_create_counters(context, &counters));
	UNSUPPORTED(ibv_create_srq_ex(context, &srq));
	UNSUPPORTED(ibv_create_cq_ex(context, &tags));
	UNSUPPORTED(ibv_create_qp(pd, &raw));
	CHECK(ibv_modify_qp_rate_limit(pair.qp[0], &rate) == EOPNOTSUPP);
	struct ibv_srq_init_attr basic = { .attr = { 4, 1, 0 } };
	struct ibv_srq *shared = ibv_create_srq(pd, &basic);
	NEED(shared);
	CHECK(ibv_post_srq_ops(shared, &operation, &bad) == EOPNOTSUPP && bad == &operation);
	uint32_t number;
	CHECK(ibv_get_srq_num(shared, &number) == EINVAL);
	CHECK(!ibv_destroy_srq(shared));
	CHECK(ibv_query_ece(pair.qp[0], &ece) == EOPNOTSUPP && ece.vendor_id == 0);
	close_pair(&pair);
}

static void a_list_stops_at_the_request_that_is_refused(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_sge sge = { (uintptr_t)pair.memory, 16, pair.mr->lkey };
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_recv_wr receive = { .num_sge = 3 }, *bad_receive = NULL;

	memset(wr, 0, sizeof wr);
	for (int i = 0; i < 3; i++) {
		wr[i].wr_id = i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].wr.rdma.remote_addr = (uintptr_t)pair.memory + 512;
		wr[i].wr.rdma.rkey = pair.mr->rkey;
	}
	/* More buffers than the queue pair accepts. */
	wr[1].num_sge = 3;
	CHECK(ibv_post_send(pair.qp[0], wr, &bad) == EINVAL && bad == &wr[1]);
	CHECK(wait_for(pair.cq).wr_id == 0);
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(pair.cq, 1, &wc) == 0);
	CHECK(ibv_post_recv(pair.qp[0], &receive, &bad_receive) == EINVAL
	      && bad_receive == &receive);
	close_pair(&pair);
}
