/* Posts six requests, of which a rule lets one fail, and prints the completions, states and events of both sides:
 *
 *     requests OPERATION post|wr plain|extended
 *
 * OPERATION is send, write, write-imm, read, fetch-add, compare-swap or bind. The client is qp1, the server
 * qp2, both in this process.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS 6
#define BYTES 64

struct side {
	struct ibv_cq *cq;
	struct ibv_cq_ex *extended;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	const char *name;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static const char *operation;

static void check(bool right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "requests: %s fails\n", what);
	exit(3);
}

static struct side open_side(const char *name, bool posts, bool plain)
{
	struct side side = { .name = name };
	if (plain) {
		side.cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	} else {
		struct ibv_cq_init_attr_ex attributes = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
		side.extended = ibv_create_cq_ex(context, &attributes);
		check(side.extended != NULL, "ibv_create_cq_ex");
		side.cq = ibv_cq_ex_to_cq(side.extended);
	}
	check(side.cq != NULL, "ibv_create_cq");
	struct ibv_qp_init_attr_ex initial = {
		.send_cq = side.cq, .recv_cq = side.cq, .qp_type = IBV_QPT_RC, .pd = pd, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (posts ? 0 : IBV_QP_INIT_ATTR_SEND_OPS_FLAGS),
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	};
	side.qp = ibv_create_qp_ex(context, &initial);
	check(side.qp != NULL, "ibv_create_qp_ex");
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		  IBV_ACCESS_MW_BIND;
	void *buffer = aligned_alloc(4096, 4096);
	memset(buffer, 0, 4096);
	side.mr = ibv_reg_mr(pd, buffer, 4096, all);
	check(side.mr != NULL, "ibv_reg_mr");
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = all & ~IBV_ACCESS_MW_BIND };
	check(ibv_modify_qp(side.qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "INIT");
	return side;
}

static void connect_side(struct side *side, struct side *other)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	check(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
	check(ibv_query_gid(context, 1, 0, &gid) == 0, "ibv_query_gid");
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other->qp->qp_num, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 1, .ah_attr = { .dlid = port.lid, .port_num = 1 },
	};
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attributes.ah_attr.is_global = 1;
		attributes.ah_attr.grh.dgid = gid;
		attributes.ah_attr.grh.hop_limit = 1;
	}
	check(ibv_modify_qp(side->qp, &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = 4 };
	check(ibv_modify_qp(side->qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

static void post(struct side *side, struct side *other, uint64_t number)
{
	uint32_t length = strstr(operation, "-add") || strstr(operation, "-swap") ? 8 : BYTES;
	struct ibv_sge sge = { (uintptr_t)side->mr->addr, length, side->mr->lkey };
	struct ibv_send_wr request = { .wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	request.wr.rdma.remote_addr = (uintptr_t)other->mr->addr;
	request.wr.rdma.rkey = other->mr->rkey;
	if (strcmp(operation, "write") == 0)
		request.opcode = IBV_WR_RDMA_WRITE;
	else if (strcmp(operation, "write-imm") == 0)
		request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	else if (strcmp(operation, "read") == 0)
		request.opcode = IBV_WR_RDMA_READ;
	else if (strcmp(operation, "fetch-add") == 0)
		request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	else if (strcmp(operation, "compare-swap") == 0)
		request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	if (length == 8) {
		request.wr.atomic.remote_addr = (uintptr_t)other->mr->addr;
		request.wr.atomic.rkey = other->mr->rkey;
	}
	if (strcmp(operation, "bind") == 0) {
		struct ibv_mw *window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		check(window != NULL, "ibv_alloc_mw");
		request.opcode = IBV_WR_BIND_MW;
		request.num_sge = 0;
		request.bind_mw.mw = window;
		request.bind_mw.rkey = ibv_inc_rkey(window->rkey);
		request.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = side->mr, .addr = (uintptr_t)side->mr->addr, .length = BYTES,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ };
	}
	check(ibv_post_send(side->qp, &request, &bad) == 0, "ibv_post_send");
}

static void build(struct ibv_qp_ex *qp, struct side *side, struct side *other, uint64_t number)
{
	uint64_t address = (uintptr_t)other->mr->addr;
	uint32_t key = other->mr->rkey, length = BYTES;
	qp->wr_id = number;
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (strcmp(operation, "send") == 0) {
		ibv_wr_send(qp);
	} else if (strcmp(operation, "write") == 0) {
		ibv_wr_rdma_write(qp, key, address);
	} else if (strcmp(operation, "write-imm") == 0) {
		ibv_wr_rdma_write_imm(qp, key, address, 7);
	} else if (strcmp(operation, "read") == 0) {
		ibv_wr_rdma_read(qp, key, address);
	} else {
		length = 8;
		if (strcmp(operation, "fetch-add") == 0)
			ibv_wr_atomic_fetch_add(qp, key, address, 1);
		else
			ibv_wr_atomic_cmp_swp(qp, key, address, 0, 1);
	}
	ibv_wr_set_sge(qp, side->mr->lkey, (uintptr_t)side->mr->addr, length);
}

/* Returns whether there was a completion, which it prints. */
static bool poll_one(struct side *side)
{
	struct ibv_wc wc;
	if (side->extended) {
		struct ibv_poll_cq_attr attributes = { 0 };
		if (ibv_start_poll(side->extended, &attributes) != 0)
			return false;
		wc.wr_id = side->extended->wr_id;
		wc.status = side->extended->status;
		ibv_end_poll(side->extended);
	} else if (ibv_poll_cq(side->cq, 1, &wc) != 1) {
		return false;
	}
	printf("%s %s %d %d\n", side->name, wc.wr_id < 100 ? "request" : "receive", (int)(wc.wr_id % 100), wc.status);
	return true;
}

int main(int count, char **words)
{
	check(count == 4, "the command line");
	operation = words[1];
	bool posts = strcmp(words[2], "post") == 0, plain = strcmp(words[3], "plain") == 0;
	struct ibv_device **list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	check(context != NULL, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	struct side client = open_side("client", posts, plain), server = open_side("server", posts, plain);
	connect_side(&client, &server);
	connect_side(&server, &client);
	for (int number = 1; number <= REQUESTS; number++) {
		struct ibv_sge sge = { (uintptr_t)server.mr->addr, BYTES, server.mr->lkey };
		struct ibv_recv_wr receive = { .wr_id = 100 + number, .sg_list = &sge, .num_sge = 1 }, *bad;
		check(ibv_post_recv(server.qp, &receive, &bad) == 0, "ibv_post_recv");
	}
	for (int number = 1; number <= REQUESTS; number++) {
		if (posts) {
			post(&client, &server, number);
			continue;
		}
		struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(client.qp);
		ibv_wr_start(qp);
		build(qp, &client, &server, number);
		check(ibv_wr_complete(qp) == 0, "ibv_wr_complete");
	}
	struct timespec start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	int done = 0;
	do {
		done += poll_one(&client);
		clock_gettime(CLOCK_MONOTONIC, &now);
		check(now.tv_sec - start.tv_sec < 30, "each request in 30 s");
	} while (done < REQUESTS);
	/* The server learns of it without the client; a port comes up again in this time. */
	usleep(200000);
	while (poll_one(&server))
		;
	struct ibv_qp_attr attributes;
	struct ibv_qp_init_attr initial;
	check(ibv_query_qp(client.qp, &attributes, IBV_QP_STATE, &initial) == 0, "ibv_query_qp");
	printf("client state %d\n", attributes.qp_state);
	check(ibv_query_qp(server.qp, &attributes, IBV_QP_STATE, &initial) == 0, "ibv_query_qp");
	printf("server state %d\n", attributes.qp_state);
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
	struct ibv_async_event event;
	while (ibv_get_async_event(context, &event) == 0) {
		printf("event %d\n", event.event_type);
		ibv_ack_async_event(&event);
	}
	return 0;
}
