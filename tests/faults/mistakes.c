// A program that sends, writes and reads between two queue pairs, and ends every failure with exit code 1 after it has
// given everything back. With a number it has one mistake:
//
//   mistakes [0..11]
//
// Exit codes: 0 success, 1 a failure that was handled, 2 a wrong result.

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MESSAGES = 8, SIZE = 512, SECONDS = 20 };

enum mistake {
	NONE,
	REGION_NOT_CHECKED,     // 1: crash
	QUEUE_LEAKED,           // 2: the completion queue is left where the queue pair fails
	RETRIED_FOREVER,        // 3: tries again without end
	FLUSH_IGNORED,          // 4: waits for the end of a request that was flushed
	FLUSH_UNEXPECTED,       // 5: aborts at a flushed request
	POST_NOT_CHECKED,       // 6: waits for the end of a request that was refused
	REPOSTED,               // 7: posts again to a queue pair in the error state, without end
	EVENT_UNEXPECTED,       // 8: aborts at an event of the port
	PAIR_LEAKED,            // 9: leaves a queue pair that cannot be connected
	ENDED_TWICE,            // 10: destroys the region twice after an access error
	FATAL_IGNORED,          // 11: waits for the end of a request of an adapter that has failed
};

static enum mistake mistake;

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct side sides[2];
static char *memory;
static int has_failed;

static int failed(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	return 1;
}

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

// Takes asynchronous events. Those of an adapter or a completion queue that has failed are failures.
static void take_events(void)
{
	struct ibv_async_event event;
	while (ibv_get_async_event(context, &event) == 0) {
		printf("event %s\n", ibv_event_type_str(event.event_type));
		if (mistake == EVENT_UNEXPECTED && event.event_type >= IBV_EVENT_PORT_ACTIVE && event.event_type != IBV_EVENT_COMM_EST)
			abort();
		if (event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR)
			has_failed = 1;
		ibv_ack_async_event(&event);
	}
}

static int make(struct side *side)
{
	side->cq = ibv_create_cq(context, 4 * MESSAGES, NULL, NULL, 0);
	if (!side->cq)
		return failed("ibv_create_cq");
	struct ibv_qp_init_attr attr = {
		.send_cq = side->cq, .recv_cq = side->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = {.max_send_wr = MESSAGES, .max_recv_wr = MESSAGES, .max_send_sge = 1, .max_recv_sge = 1},
	};
	side->qp = ibv_create_qp(pd, &attr);
	if (!side->qp) {
		failed("ibv_create_qp");
		if (mistake == QUEUE_LEAKED)
			side->cq = NULL;
		return 1;
	}
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int error = ibv_modify_qp(side->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return error ? errno = error, failed("ibv_modify_qp to INIT") : 0;
}

static int join(struct side *side, struct side *other, struct ibv_port_attr *port, union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other->qp->qp_num, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.dlid = port->lid, .port_num = 1, .is_global = port->link_layer == IBV_LINK_LAYER_ETHERNET,
		            .grh = {.dgid = *gid, .hop_limit = 4}},
	};
	int error = ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error) {
		if (mistake == PAIR_LEAKED)
			side->qp = NULL;
		return errno = error, failed("ibv_modify_qp to RTR");
	}
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 8;
	attr.retry_cnt = 3;
	attr.rnr_retry = 3;
	attr.max_rd_atomic = 4;
	error = ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                      IBV_QP_MAX_QP_RD_ATOMIC);
	return error ? errno = error, failed("ibv_modify_qp to RTS") : 0;
}

// Waits for one completion.
static int finish(struct side *side, const char *what)
{
	double end = now() + SECONDS;
	struct ibv_wc wc;
	for (;;) {
		take_events();
		int found = ibv_poll_cq(side->cq, 1, &wc);
		if (found < 0)
			return failed("ibv_poll_cq");
		if (found == 0) {
			if (has_failed && mistake == FATAL_IGNORED)
				end = 1e18;
			else if (has_failed || now() > end)
				return printf("%s: no completion\n", what), 1;
			continue;
		}
		if (wc.status == IBV_WC_SUCCESS)
			return 0;
		printf("%s: %s\n", what, ibv_wc_status_str(wc.status));
		if (wc.status == IBV_WC_WR_FLUSH_ERR && mistake == FLUSH_UNEXPECTED)
			abort();
		if (wc.status == IBV_WC_WR_FLUSH_ERR && mistake == FLUSH_IGNORED)
			end = 1e18;
		else if (wc.status == IBV_WC_REM_ACCESS_ERR && mistake == ENDED_TWICE) {
			ibv_dereg_mr(mr);
			ibv_dereg_mr(mr);
			abort();
		} else
			return 1;
	}
}

static int post(struct side *side, enum ibv_wr_opcode opcode, int number)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory + number * SIZE, .length = SIZE, .lkey = mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.wr.rdma = {.remote_addr = (uintptr_t)memory + (MESSAGES + number) * SIZE, .rkey = mr->rkey},
	}, *bad;
	int error = ibv_post_send(side->qp, &wr, &bad);
	if (error && mistake == POST_NOT_CHECKED)
		for (;;)
			take_events();
	return error ? errno = error, failed("ibv_post_send") : 0;
}

static int work(void)
{
	for (int number = 0; number < MESSAGES; number++) {
		struct ibv_sge sge = {.addr = (uintptr_t)memory + (MESSAGES + number) * SIZE, .length = SIZE, .lkey = mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
		int error = ibv_post_recv(sides[1].qp, &wr, &bad);
		if (error)
			return errno = error, failed("ibv_post_recv");
	}
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	for (int turn = 0; turn < 3; turn++)
		for (int number = 0; number < MESSAGES; number++) {
			memset(memory + number * SIZE, opcodes[turn] == IBV_WR_RDMA_READ ? 0 : 1 + turn * MESSAGES + number, SIZE);
			if (post(&sides[0], opcodes[turn], number))
				return 1;
			while (finish(&sides[0], "request")) {
				if (mistake != REPOSTED)
					return 1;
				post(&sides[0], opcodes[turn], number);
			}
			if (opcodes[turn] == IBV_WR_SEND && finish(&sides[1], "receive"))
				return 1;
			if (memcmp(memory + number * SIZE, memory + (MESSAGES + number) * SIZE, SIZE))
				return printf("wrong data\n"), 2;
		}
	return 0;
}

static int run(void)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
	if (ibv_query_port(context, 1, &port) || ibv_query_gid(context, 1, 0, &gid))
		return failed("query");
	while (!(pd = ibv_alloc_pd(context)))
		if (mistake != RETRIED_FOREVER)
			return failed("ibv_alloc_pd");
	memory = calloc(2 * MESSAGES, SIZE);
	mr = ibv_reg_mr(pd, memory, 2 * MESSAGES * SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr && mistake == REGION_NOT_CHECKED)
		printf("key %u\n", mr->lkey);
	if (!mr)
		return failed("ibv_reg_mr");
	if (make(&sides[0]) || make(&sides[1]))
		return 1;
	if (join(&sides[0], &sides[1], &port, &gid) || join(&sides[1], &sides[0], &port, &gid))
		return 1;
	return work();
}

int main(int argc, char **argv)
{
	mistake = argc > 1 ? atoi(argv[1]) : NONE;
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list)
		return failed("ibv_get_device_list");
	context = list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	if (!context)
		return failed("ibv_open_device");
	int code = run();
	take_events();
	for (int side = 0; side < 2; side++)
		if (sides[side].qp)
			ibv_destroy_qp(sides[side].qp);
	for (int side = 0; side < 2; side++)
		if (sides[side].cq)
			ibv_destroy_cq(sides[side].cq);
	if (mr)
		ibv_dereg_mr(mr);
	if (pd)
		ibv_dealloc_pd(pd);
	ibv_close_device(context);
	free(memory);
	return code;
}
