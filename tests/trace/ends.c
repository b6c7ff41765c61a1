/* A program whose outcomes are known, with several ways to end, for the counts of coverage. Each process sends ROUNDS
 * messages to itself and receives them, then sends one to a queue pair that is closed to it: RETRY_EXC, and WR_FLUSH for
 * the one behind it.
 *
 *     ends exit | _exit | abort | kill     how the process ends
 *     ends exec                            it becomes "ends exit"
 *     ends fork                            eight children, each killed
 *     ends threads                         eight threads
 *     ends extended                        ibv_wr_* and an extended completion queue instead
 *     ends event                           it fetches an asynchronous event, and leaves another
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 100
#define MANY 8

#define DEMAND(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: not %s (errno %d)\n", __LINE__, #what, errno); \
			exit(1); \
		} \
	} while (0)

static int extended;

struct end {
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
};

static char memory[4096];

static void connect_to(struct end *end, uint32_t peer, uint16_t lid, union ibv_gid gid)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	DEMAND(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.ah_attr = {.is_global = 1, .port_num = 1, .dlid = lid, .grh = {.dgid = gid, .hop_limit = 1}},
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
	};
	DEMAND(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 1, .retry_cnt = 1, .rnr_retry = 7, .max_rd_atomic = 1};
	DEMAND(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct end end_open(struct ibv_context *context, struct ibv_pd *pd)
{
	struct end end = {.mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)};
	struct ibv_cq_init_attr_ex queue = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
	end.cq = ibv_create_cq_ex(context, &queue);
	DEMAND(end.mr && end.cq);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = ibv_cq_ex_to_cq(end.cq),
		.recv_cq = ibv_cq_ex_to_cq(end.cq),
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND,
	};
	end.qp = ibv_create_qp_ex(context, &init);
	DEMAND(end.qp);
	return end;
}

static void end_close(struct end *end)
{
	DEMAND(!ibv_destroy_qp(end->qp) && !ibv_destroy_cq(ibv_cq_ex_to_cq(end->cq)) && !ibv_dereg_mr(end->mr));
}

static void post(struct end *end)
{
	if (extended) {
		struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(end->qp);
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send_imm(qp, 7);
		ibv_wr_set_sge(qp, end->mr->lkey, (uintptr_t)memory, 8);
		DEMAND(!ibv_wr_complete(qp));
		return;
	}
	struct ibv_sge place = {(uintptr_t)memory, 8, end->mr->lkey};
	struct ibv_send_wr *bad, send = {.sg_list = &place, .num_sge = 1, .opcode = IBV_WR_SEND};
	DEMAND(!ibv_post_send(end->qp, &send, &bad));
}

/* The status of the next completion. */
static enum ibv_wc_status next(struct end *end)
{
	if (extended) {
		struct ibv_poll_cq_attr none = {0};
		int found;
		while ((found = ibv_start_poll(end->cq, &none)) == ENOENT)
			;
		DEMAND(!found);
		enum ibv_wc_status status = end->cq->status;
		ibv_end_poll(end->cq);
		return status;
	}
	struct ibv_wc done;
	while (!ibv_poll_cq(ibv_cq_ex_to_cq(end->cq), 1, &done))
		;
	return done.status;
}

static void *exchange(void *given)
{
	struct ibv_context *context = given;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_port_attr port;
	union ibv_gid gid;
	DEMAND(pd && !ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 0, &gid));
	struct end end = end_open(context, pd), lonely = end_open(context, pd), closed = end_open(context, pd);
	connect_to(&end, end.qp->qp_num, port.lid, gid);
	struct ibv_sge room = {(uintptr_t)memory + 64, 64, end.mr->lkey};
	struct ibv_recv_wr *bad, receive = {.sg_list = &room, .num_sge = 1};
	for (int round = 0; round < ROUNDS; round++) {
		DEMAND(!ibv_post_recv(end.qp, &receive, &bad));
		post(&end);
		DEMAND(next(&end) == IBV_WC_SUCCESS && next(&end) == IBV_WC_SUCCESS);
	}
	/* The peer stays in RESET. */
	connect_to(&lonely, closed.qp->qp_num, port.lid, gid);
	post(&lonely);
	post(&lonely);
	DEMAND(next(&lonely) == IBV_WC_RETRY_EXC_ERR && next(&lonely) == IBV_WC_WR_FLUSH_ERR);
	errno = 0;
	DEMAND(!ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	end_close(&end);
	end_close(&lonely);
	end_close(&closed);
	DEMAND(!ibv_dealloc_pd(pd));
	return NULL;
}

/* A queue pair with a shared receive queue that fails: QP_LAST_WQE_REACHED. */
static void last_request(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_srq_init_attr room = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &room);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_send_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	DEMAND(pd && cq && srq && qp);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	DEMAND(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_ERR;
	DEMAND(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

static struct ibv_context *opened(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	DEMAND(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	DEMAND(context);
	ibv_free_device_list(list);
	return context;
}

int main(int count, char **words)
{
	const char *way = count > 1 ? words[1] : "exit";
	if (!strcmp(way, "fork")) {
		pid_t children[MANY];
		for (int at = 0; at < MANY; at++)
			if (!(children[at] = fork())) {
				exchange(opened());
				kill(getpid(), SIGKILL);
			}
		for (int at = 0; at < MANY; at++) {
			int status;
			DEMAND(waitpid(children[at], &status, 0) == children[at] && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		}
		return 0;
	}
	extended = !strcmp(way, "extended");
	struct ibv_context *context = opened();
	if (!strcmp(way, "threads")) {
		pthread_t threads[MANY];
		for (int at = 0; at < MANY; at++)
			DEMAND(!pthread_create(threads + at, NULL, exchange, context));
		for (int at = 0; at < MANY; at++)
			DEMAND(!pthread_join(threads[at], NULL));
	} else {
		exchange(context);
	}
	if (!strcmp(way, "event")) {
		struct ibv_async_event event;
		last_request(context);
		DEMAND(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
		ibv_ack_async_event(&event);
		last_request(context);
	}
	if (!strcmp(way, "exec"))
		execl("/proc/self/exe", words[0], "exit", NULL);
	if (!strcmp(way, "_exit"))
		_exit(0);
	if (!strcmp(way, "abort"))
		abort();
	if (!strcmp(way, "kill"))
		kill(getpid(), SIGKILL);
	return 0;
}
