/* Calls whose results are known, for the tracer: some fail, some come from a child. Returns 0 if each did the same as
 * without the tracer. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEMAND(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: not %s (errno %d)\n", __LINE__, #what, errno); \
			exit(1); \
		} \
	} while (0)

static struct ibv_context *opened(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	DEMAND(list && count == 1);
	struct ibv_context *context = ibv_open_device(list[0]);
	DEMAND(context);
	ibv_free_device_list(list);
	return context;
}

/* Calls that the adapter refuses, and a queue pair that sends to itself. */
static void exchange(struct ibv_context *context)
{
	static char memory[8192] __attribute__((aligned(4096)));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	DEMAND(pd);
	errno = 0;
	/* Remote writing without local writing is refused (ibv_reg_mr(3)). */
	DEMAND(!ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	DEMAND(mr && cq && qp);

	struct ibv_sge place = {.addr = (uintptr_t)memory, .length = 100, .lkey = mr->lkey};
	struct ibv_send_wr *bad, second = {.wr_id = 8, .sg_list = &place, .num_sge = 1, .opcode = IBV_WR_SEND},
		first = {.wr_id = 7, .sg_list = &place, .num_sge = 1, .opcode = IBV_WR_SEND, .next = &second};
	/* It is in RESET. */
	DEMAND(ibv_post_send(qp, &first, &bad) == EINVAL && bad == &first);

	struct ibv_port_attr port;
	union ibv_gid gid;
	DEMAND(!ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 0, &gid));
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	DEMAND(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.ah_attr = {.is_global = 1, .port_num = 1, .dlid = port.lid, .grh = {.dgid = gid, .hop_limit = 1}},
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
	};
	DEMAND(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	DEMAND(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC));

	struct ibv_sge room = {.addr = (uintptr_t)memory + 4096, .length = 4096, .lkey = mr->lkey};
	struct ibv_recv_wr *bad_receive, receive = {.wr_id = 5, .sg_list = &room, .num_sge = 1};
	DEMAND(!ibv_post_recv(qp, &receive, &bad_receive));
	first.next = NULL;
	first.send_flags = IBV_SEND_SIGNALED;
	DEMAND(!ibv_post_send(qp, &first, &bad));
	struct ibv_wc done[2];
	for (int found = 0; found < 2;) {
		errno = 4242;
		int now = ibv_poll_cq(cq, 2 - found, done + found);
		DEMAND(now >= 0 && errno == 4242);
		found += now;
	}
	DEMAND(ibv_dealloc_pd(pd) == EBUSY);
	DEMAND(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
}

int main(int count, char **words)
{
	struct ibv_context *context = opened();
	exchange(context);
	DEMAND(!ibv_close_device(context));

	int killed = count > 1 && !strcmp(words[1], "killed");
	pid_t child = fork();
	DEMAND(child >= 0);
	if (child == 0) {
		context = opened();
		exchange(context);
		if (killed)
			abort();
		exit(ibv_close_device(context));
	}
	int status;
	DEMAND(waitpid(child, &status, 0) == child);
	DEMAND(killed ? WIFSIGNALED(status) : status == 0);
	if (killed) {
		/* The next process removes the remains of the killed one. */
		context = opened();
		exchange(context);
		ibv_close_device(context);
	}
	return 0;
}
