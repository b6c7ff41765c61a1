/* Posts three writes to itself, of which a rule has the adapter fail at the third, and prints the results of calls after that.
 * An identifier of librdmacm is bound to the adapter.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(bool right, const char *call)
{
	if (right)
		return;
	fprintf(stderr, "fatal: %s fails: %s\n", call, strerror(errno));
	exit(3);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	check(context != NULL, "ibv_open_device");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	check(pd && cq, "ibv_alloc_pd");
	struct ibv_qp_init_attr initial = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &initial);
	check(qp != NULL, "ibv_create_qp");
	static char buffer[4096];
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, access);
	check(mr != NULL, "ibv_reg_mr");
	struct ibv_port_attr port;
	check(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
	struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };
	check(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
	to = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 1, .ah_attr = { .dlid = port.lid, .port_num = 1 } };
	check(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	/* 4 ms: a request that only had no answer would have ended before the end of the waits below. */
	to = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 0, .max_rd_atomic = 1 };
	check(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");

	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct rdma_cm_event *cm;
	check(channel && rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(1) };
	check(rdma_resolve_addr(id, NULL, (struct sockaddr *)&local, 1000) == 0, "rdma_resolve_addr");
	check(rdma_get_cm_event(channel, &cm) == 0 && cm->event == RDMA_CM_EVENT_ADDR_RESOLVED, "RDMA_CM_EVENT_ADDR_RESOLVED");
	rdma_ack_cm_event(cm);

	struct ibv_sge sge = { (uintptr_t)buffer, 8, mr->lkey };
	struct ibv_send_wr request = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)buffer + 64, mr->rkey } }, *bad = NULL;
	struct ibv_wc wc;
	for (int number = 1; number <= 3; number++) {
		request.wr_id = number;
		check(ibv_post_send(qp, &request, &bad) == 0, "ibv_post_send");
		while (number < 3 && ibv_poll_cq(cq, 1, &wc) == 0)
			;
	}
	struct ibv_async_event event;
	check(ibv_get_async_event(context, &event) == 0, "ibv_get_async_event");
	printf("event %s\n", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	check(rdma_get_cm_event(channel, &cm) == 0, "rdma_get_cm_event");
	printf("event %s\n", rdma_event_str(cm->event));
	rdma_ack_cm_event(cm);
	struct pollfd none = { 0 };
	poll(&none, 0, 300);
	printf("completions %d\n", ibv_poll_cq(cq, 1, &wc));
	int result = ibv_post_send(qp, &request, &bad);
	printf("post %s %d\n", strerror(result), bad == &request);
	printf("region %d\n", ibv_reg_mr(pd, buffer, 64, 0) == NULL && errno == EIO);
	printf("port %s\n", strerror(ibv_query_port(context, 1, &port)));
	to.qp_state = IBV_QPS_ERR;
	printf("modify %s\n", strerror(ibv_modify_qp(qp, &to, IBV_QP_STATE)));
	printf("open %d\n", ibv_open_device(list[0]) == NULL && errno == EIO);
	check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
	check(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
	check(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	check(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
	check(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
	check(ibv_close_device(context) == 0, "ibv_close_device");
	printf("destroyed\n");
	return 0;
}
