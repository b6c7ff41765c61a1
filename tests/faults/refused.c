/* Calls that rules may refuse. Prints how often each was called until it succeeded, and with what error it failed:
 *
 *     refused              in this process
 *     refused fork         in a child, after the parent has made each call
 *     refused hang         for ever, if ibv_alloc_pd fails
 *     refused crash        by abort(3), if ibv_alloc_pd fails
 *     refused often        with 100,000 failures of ibv_alloc_pd, if it fails
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 3

static void failed(const char *name, int error)
{
	printf("%s %d\n", name, error);
	fflush(stdout);
}

/* Calls until it succeeds. A pointer is right if it is not NULL. */
#define POINTER(result, name, ...) \
	for (int try = 0; try < TRIES && (errno = 0, !((result) = name(__VA_ARGS__))); try++) \
		failed(#name, errno)
/* 0, or the error's number. */
#define NUMBER(name, ...) \
	for (int error, try = 0; try < TRIES && (error = name(__VA_ARGS__)) != 0; try++) \
		failed(#name, error)
/* 0, or -1 and errno. */
#define MINUS_ONE(name, ...) \
	for (int result, try = 0; try < TRIES && (result = name(__VA_ARGS__)) != 0; try++) \
		failed(#name, result == -1 ? errno : 0)

static void all(const char *way)
{
	struct ibv_device **list;
	struct ibv_context *context;
	POINTER(list, ibv_get_device_list, NULL);
	POINTER(context, ibv_open_device, list[0]);
	struct ibv_pd *pd;
	POINTER(pd, ibv_alloc_pd, context);
	if (strcmp(way, "hang") == 0 && !pd)
		pause();
	if (strcmp(way, "crash") == 0 && !pd)
		abort();
	for (int try = 0; strcmp(way, "often") == 0 && !pd && try < 100000; try++)
		pd = ibv_alloc_pd(context);
	if (!pd)
		exit(2);
	static char buffer[4096];
	struct ibv_mr *mr;
	POINTER(mr, ibv_reg_mr, pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_comp_channel *channel;
	POINTER(channel, ibv_create_comp_channel, context);
	struct ibv_cq *cq;
	POINTER(cq, ibv_create_cq, context, 16, NULL, channel, 0);
	struct ibv_cq_init_attr_ex extended = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq_ex;
	POINTER(cq_ex, ibv_create_cq_ex, context, &extended);
	struct ibv_srq *srq;
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 4, .max_sge = 1 } };
	POINTER(srq, ibv_create_srq, pd, &shared);
	struct ibv_qp *qp;
	struct ibv_qp_init_attr initial = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	POINTER(qp, ibv_create_qp, pd, &initial);
	struct ibv_port_attr port;
	NUMBER(ibv_query_port, context, 1, &port);
	struct ibv_device_attr device;
	NUMBER(ibv_query_device, context, &device);
	union ibv_gid gid;
	MINUS_ONE(ibv_query_gid, context, 1, 0, &gid);
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7 };
	NUMBER(ibv_modify_qp, qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	NUMBER(ibv_req_notify_cq, cq, 0);
	struct ibv_sge places[2] = { { (uintptr_t)buffer, 64, mr->lkey }, { (uintptr_t)buffer, 64, mr->lkey } };
	struct ibv_recv_wr second = { .wr_id = 2, .sg_list = &places[1], .num_sge = 1 };
	struct ibv_recv_wr first = { .wr_id = 1, .next = &second, .sg_list = &places[0], .num_sge = 1 };
	for (int error, try = 0; try < TRIES; try++) {
		struct ibv_recv_wr *bad = NULL;
		if ((error = ibv_post_recv(qp, &first, &bad)) == 0)
			break;
		failed(bad == &first ? "ibv_post_recv" : "bad_wr", error);
	}
	for (int error, try = 0; try < TRIES; try++) {
		struct ibv_recv_wr *bad = NULL;
		if ((error = ibv_post_srq_recv(srq, &first, &bad)) == 0)
			break;
		failed(bad == &first ? "ibv_post_srq_recv" : "bad_wr", error);
	}
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	void *user;
	struct ibv_cq *ready;
	for (int try = 0; try < TRIES && ibv_get_cq_event(channel, &ready, &user) != 0 && errno != EAGAIN; try++)
		failed("ibv_get_cq_event", errno);
	struct rdma_event_channel *events;
	POINTER(events, rdma_create_event_channel, );
	struct rdma_cm_id *id;
	/* librdmacm itself makes these two calls at its start. */
	if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP) != 0)
		exit(3);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (rdma_bind_addr(id, (struct sockaddr *)&address) != 0)
		exit(3);
	MINUS_ONE(rdma_listen, id, 1);
}

int main(int count, char **words)
{
	const char *way = count > 1 ? words[1] : "";
	all(way);
	if (strcmp(way, "fork") == 0) {
		pid_t child = fork();
		if (child == 0) {
			all("");
			exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		return status != 0;
	}
	return 0;
}
