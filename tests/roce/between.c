#include "between.h"

#include <fcntl.h>
#include <stdlib.h>

int gid_index(void)
{
	const char *index = getenv("GID_INDEX");
	return index ? atoi(index) : 1;
}

int try_connect_by_gid(struct endpoint *end, union ibv_gid gid, uint32_t number, uint32_t psn, int timeout)
{
	enum ibv_qp_type type = end->settings.type;
	bool answers = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
	bool asks = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QUEUE_KEY,
					  .qp_access_flags = ALL_ACCESS };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	CHECK_CALL(ibv_modify_qp(end->qp, &attributes,
				 mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attributes = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = number,
		.rq_psn = psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = gid_index(), .hop_limit = 64 } },
	};
	mask = IBV_QP_STATE;
	if (type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (answers)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_CALL(ibv_modify_qp(end->qp, &attributes, mask));
	if (type == IBV_QPT_XRC_RECV)
		return 0;
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = (uint8_t)timeout,
					   .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4 };
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (asks)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(end->qp, &attributes, mask);
}

void connect_by_gid(struct endpoint *end, union ibv_gid gid, uint32_t number, uint32_t psn, int timeout)
{
	CHECK_CALL(try_connect_by_gid(end, gid, number, psn, timeout));
}

struct endpoint fresh(const struct endpoint *first, enum ibv_qp_type type, struct ibv_xrcd *xrcd)
{
	struct endpoint end = *first;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD,
		.xrcd = xrcd,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	end.settings.type = type;
	if (type != IBV_QPT_XRC_RECV) {
		end.cq = ibv_create_cq(first->context, 256, NULL, NULL, 0);
		CHECK_POINTER(end.cq);
		init.pd = first->pd;
		init.send_cq = init.recv_cq = end.cq;
	}
	end.qp = ibv_create_qp_ex(first->context, &init);
	CHECK_POINTER(end.qp);
	return end;
}

struct ibv_xrcd *xrc_domain(const struct endpoint *beside)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *domain = ibv_open_xrcd(beside->context, &init);
	CHECK_POINTER(domain);
	return domain;
}

struct ibv_srq *xrc_queue(const struct endpoint *beside, struct ibv_xrcd *domain, struct ibv_cq *cq, uint32_t depth)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = depth, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = domain,
		.cq = cq,
		.pd = beside->pd,
	};
	struct ibv_srq *queue = ibv_create_srq_ex(beside->context, &init);
	CHECK_POINTER(queue);
	return queue;
}
