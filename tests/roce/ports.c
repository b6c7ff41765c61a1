/* Objects and traffic of one port of a device never show on another: checked in every table and by every way of
 * addressing.
 *
 *   tables    the verbs' answers for each port, and for one that does not exist
 *   asks      sends on every port to every address of the process at PEER, connected, by datagrams and to a group
 *   answers   is its target, with queue pairs at every port, and knows which messages must not arrive there
 *
 * With CROSS the two are on one host, where one port reaches another's address; without it each port is at a network of
 * its own. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "between.h"
#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define PORTS 2
#define TCP 18515
#define PSN 77
#define DEPTH 64
#define LENGTH 64
#define GRH 40
/* For requests that are answered, however late: 8 times 0.5 s; for those that are not: twice 1 ms. */
#define PATIENT 17, 7
#define HASTY 8, 1
#define GROUP "::ffff:239.5.6.7"
#define MARK 999 /* that nothing follows */
#define TIME_LIMIT (60 * SECOND)

#define EACH_PORT(port) (int port = 1; port <= PORTS; port++)

struct card {
	union ibv_gid gids[PORTS + 1];
	uint32_t numbers[PORTS + 1];
};

struct end {
	struct peer peer;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint8_t memory[4096];
	struct ibv_mr *mr;
	struct card theirs;
	bool crosses;
};

static const enum ibv_wr_opcode operations[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE };

static union ibv_gid group(void)
{
	union ibv_gid gid;
	CHECK_EQUAL(inet_pton(AF_INET6, GROUP, gid.raw), 1);
	return gid;
}

static struct ibv_qp *queue_pair(struct end *end, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .send_cq = end->cq, .recv_cq = end->cq, .qp_type = type, .sq_sig_all = 1,
					 .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(end->pd, &init);
	CHECK_POINTER(qp);
	return qp;
}

static int initialise(struct ibv_qp *qp, int port)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT, .port_num = (uint8_t)port, .qkey = QUEUE_KEY,
					  .qp_access_flags = ALL_ACCESS };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	return ibv_modify_qp(qp, &attributes, mask | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int receive_from(struct ibv_qp *qp, int port, union ibv_gid gid, uint32_t number)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = number, .rq_psn = PSN,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = (uint8_t)port,
			     .grh = { .dgid = gid, .sgid_index = gid_index(), .hop_limit = 64 } },
	};
	int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attributes, IBV_QP_STATE | (qp->qp_type == IBV_QPT_UD ? 0 : connected));
}

static void send_from(struct ibv_qp *qp, uint8_t timeout, uint8_t retries)
{
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = timeout,
					  .retry_cnt = retries, .rnr_retry = 7, .max_rd_atomic = 1 };
	int connected = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK_CALL(ibv_modify_qp(qp, &attributes,
				 IBV_QP_STATE | IBV_QP_SQ_PSN | (qp->qp_type == IBV_QPT_UD ? 0 : connected)));
}

static struct ibv_wc next(struct end *end)
{
	struct ibv_wc wc;
	for (uint64_t begin = now(); ibv_poll_cq(end->cq, 1, &wc) == 0;)
		CHECK(now() - begin < TIME_LIMIT);
	return wc;
}

static void receive(struct end *end, struct ibv_qp *qp)
{
	struct ibv_sge piece = { (uintptr_t)end->memory, GRH + LENGTH, end->mr->lkey };
	struct ibv_recv_wr request = { .sg_list = &piece, .num_sge = 1 }, *bad;
	CHECK_CALL(ibv_post_recv(qp, &request, &bad));
}

static void open_device(struct end *end)
{
	end->context = device_open();
	end->pd = ibv_alloc_pd(end->context);
	CHECK_POINTER(end->pd);
	end->cq = ibv_create_cq(end->context, 1024, NULL, NULL, 0);
	CHECK_POINTER(end->cq);
	end->mr = ibv_reg_mr(end->pd, end->memory, sizeof end->memory, ALL_ACCESS);
	CHECK_POINTER(end->mr);
	end->crosses = getenv("CROSS") != NULL;
}

/* Exchanges addresses with the peer. */
static void introduce(struct end *end, struct ibv_qp *const qps[PORTS + 1])
{
	struct card ours = { 0 };
	for EACH_PORT (port) {
		CHECK_CALL(ibv_query_gid(end->context, (uint8_t)port, gid_index(), &ours.gids[port]));
		ours.numbers[port] = qps[port]->qp_num;
	}
	peer_tell(&end->peer, &ours, sizeof ours);
	peer_hear(&end->peer, &end->theirs, sizeof end->theirs);
}

static void destroy(struct ibv_qp *qps[PORTS + 1])
{
	for EACH_PORT (port)
		CHECK_CALL(ibv_destroy_qp(qps[port]));
}

/* A connection of our port `own` to the address of their port `sent_to`, whose queue pair is at `theirs` and is
 * connected to the address of our port `back_to`: messages arrive if the four agree, and else nothing answers. */
struct match {
	int own, sent_to, theirs, back_to;
	enum ibv_wr_opcode operation;
};

static bool agrees(const struct match *match)
{
	return match->sent_to == match->theirs && match->back_to == match->own;
}

static void ask(struct end *end, const struct match *match)
{
	struct ibv_qp *qps[] = { NULL, queue_pair(end, IBV_QPT_RC), queue_pair(end, IBV_QPT_RC) };
	struct ibv_qp *qp = qps[match->own];
	struct window window;
	introduce(end, qps);
	peer_hear(&end->peer, &window, sizeof window);
	CHECK_CALL(initialise(qp, match->own));
	CHECK_CALL(receive_from(qp, match->own, end->theirs.gids[match->sent_to], end->theirs.numbers[match->theirs]));
	if (agrees(match))
		send_from(qp, PATIENT);
	else
		send_from(qp, HASTY);
	peer_meet(&end->peer);
	memset(end->memory, 1, LENGTH);
	struct ibv_sge piece = { (uintptr_t)end->memory, LENGTH, end->mr->lkey };
	struct ibv_send_wr request = { .sg_list = &piece, .num_sge = 1, .opcode = match->operation,
				       .wr.rdma = { window.address, window.rkey } }, *bad;
	CHECK_CALL(ibv_post_send(qp, &request, &bad));
	struct ibv_wc wc = next(end);
	if (wc.status != (agrees(match) ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR))
		check_failed(__FILE__, __LINE__, "from port %d to the address of port %d, whose queue pair is at port %d "
			     "and connected to port %d: %s", match->own, match->sent_to, match->theirs, match->back_to,
			     ibv_wc_status_str(wc.status));
	peer_meet(&end->peer);
	destroy(qps);
}

static void answer(struct end *end, const struct match *match)
{
	struct ibv_qp *qps[] = { NULL, queue_pair(end, IBV_QPT_RC), queue_pair(end, IBV_QPT_RC) };
	struct ibv_qp *qp = qps[match->theirs];
	struct window window = region_window(end->mr);
	introduce(end, qps);
	peer_tell(&end->peer, &window, sizeof window);
	CHECK_CALL(initialise(qp, match->theirs));
	CHECK_CALL(receive_from(qp, match->theirs, end->theirs.gids[match->back_to], end->theirs.numbers[match->own]));
	send_from(qp, HASTY);
	memset(end->memory, 0, sizeof end->memory);
	receive(end, qp);
	peer_meet(&end->peer);
	peer_meet(&end->peer);
	struct ibv_wc wc;
	bool is_send = match->operation == IBV_WR_SEND;
	if (agrees(match) && is_send)
		CHECK_EQUAL(next(end).status, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_poll_cq(end->cq, 1, &wc), 0);
	for (int i = 0; i < LENGTH; i++)
		CHECK_EQUAL(end->memory[i], agrees(match));
	destroy(qps);
}

static void connect_all(struct end *end, void (*play)(struct end *, const struct match *))
{
	for (unsigned which = 0; which < sizeof operations / sizeof *operations; which++)
		for EACH_PORT (own)
			for EACH_PORT (sent_to)
				for EACH_PORT (theirs)
					for EACH_PORT (back_to) {
						struct match match = { own, sent_to, theirs, back_to, operations[which] };
						if (end->crosses || own == sent_to)
							play(end, &match);
					}
}

/* Datagram queue pairs at every port, ready. */
static void open_datagrams(struct end *end, struct ibv_qp *qps[PORTS + 1])
{
	for EACH_PORT (port) {
		qps[port] = queue_pair(end, IBV_QPT_UD);
		CHECK_CALL(initialise(qps[port], port));
		CHECK_CALL(receive_from(qps[port], port, (union ibv_gid){ 0 }, 0));
		send_from(qps[port], HASTY);
	}
}

static struct ibv_ah *handle(struct end *end, int port, union ibv_gid gid)
{
	struct ibv_ah_attr attributes = { .is_global = 1, .port_num = (uint8_t)port,
					  .grh = { .dgid = gid, .sgid_index = gid_index(), .hop_limit = 8 } };
	return ibv_create_ah(end->pd, &attributes);
}

/* Says from where to where a datagram is. */
static enum ibv_wc_status send_datagram(struct end *end, struct ibv_qp *qp, int port, union ibv_gid gid, uint32_t number,
					int words)
{
	struct ibv_ah *ah = handle(end, port, gid);
	CHECK_POINTER(ah);
	struct ibv_sge piece = { (uintptr_t)end->memory, LENGTH, end->mr->lkey };
	struct ibv_send_wr request = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				       .imm_data = htonl((uint32_t)words), .wr.ud = { ah, number, QUEUE_KEY } }, *bad;
	CHECK_CALL(ibv_post_send(qp, &request, &bad));
	enum ibv_wc_status status = next(end).status;
	CHECK_CALL(ibv_destroy_ah(ah));
	return status;
}

/* From each port to each address and each queue pair, and then the last message. */
static void send_datagrams(struct end *end, struct ibv_qp *qps[PORTS + 1])
{
	for EACH_PORT (own)
		for EACH_PORT (sent_to)
			for EACH_PORT (theirs)
				if (end->crosses || own == sent_to)
					CHECK_EQUAL(send_datagram(end, qps[own], own, end->theirs.gids[sent_to],
								  end->theirs.numbers[theirs], sent_to), IBV_WC_SUCCESS);
	for EACH_PORT (port)
		CHECK_EQUAL(send_datagram(end, qps[port], port, end->theirs.gids[port], end->theirs.numbers[port], MARK),
			    IBV_WC_SUCCESS);
}

static void send_to_group(struct end *end, struct ibv_qp *qps[PORTS + 1])
{
	for EACH_PORT (own)
		CHECK_EQUAL(send_datagram(end, qps[own], own, group(), 0xffffff, own), IBV_WC_SUCCESS);
	for EACH_PORT (own)
		CHECK_EQUAL(send_datagram(end, qps[own], own, group(), 0xffffff, MARK), IBV_WC_SUCCESS);
}

/* At each queue pair only the messages for its port, `wanted` times, before the last message. */
static void check_datagrams(struct end *end, struct ibv_qp *qps[PORTS + 1], int wanted)
{
	int seen[PORTS + 1] = { 0 };
	for (int marks = 0; marks < PORTS;) {
		struct ibv_wc wc = next(end);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		int port = wc.qp_num == qps[1]->qp_num ? 1 : 2;
		int words = (int)ntohl(wc.imm_data);
		CHECK_EQUAL(wc.qp_num, qps[port]->qp_num);
		if (words == MARK) {
			marks++;
			continue;
		}
		CHECK_EQUAL(words, port);
		seen[port]++;
	}
	for EACH_PORT (port)
		CHECK_EQUAL(seen[port], wanted);
}

static void test_asks(void)
{
	struct end end = { .peer = peer_call(getenv("PEER"), TCP) };
	struct ibv_qp *qps[PORTS + 1] = { NULL };
	open_device(&end);
	connect_all(&end, ask);
	open_datagrams(&end, qps);
	introduce(&end, qps);
	peer_meet(&end.peer);
	send_datagrams(&end, qps);
	peer_meet(&end.peer);
	peer_meet(&end.peer);
	send_to_group(&end, qps);
	/* A queue pair at one port and an address handle of the other. */
	CHECK_EQUAL(send_datagram(&end, qps[1], 2, end.theirs.gids[2], end.theirs.numbers[2], 0), IBV_WC_LOC_QP_OP_ERR);
	peer_meet(&end.peer);
}

static void test_answers(void)
{
	struct end end = { .peer = peer_wait(TCP) };
	struct ibv_qp *qps[PORTS + 1] = { NULL };
	open_device(&end);
	connect_all(&end, answer);
	open_datagrams(&end, qps);
	introduce(&end, qps);
	for EACH_PORT (port)
		for (int i = 0; i < DEPTH / 2; i++)
			receive(&end, qps[port]);
	peer_meet(&end.peer);
	check_datagrams(&end, qps, end.crosses ? PORTS : 1);
	peer_meet(&end.peer);
	union ibv_gid gid = group();
	for EACH_PORT (port)
		CHECK_CALL(ibv_attach_mcast(qps[port], &gid, 0));
	peer_meet(&end.peer);
	check_datagrams(&end, qps, 1);
	peer_meet(&end.peer);
	struct ibv_wc wc;
	CHECK_EQUAL(ibv_poll_cq(end.cq, 1, &wc), 0);
	/* A queue pair attached at a port stays there. */
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_RESET };
	CHECK_CALL(ibv_modify_qp(qps[1], &attributes, IBV_QP_STATE));
	CHECK_EQUAL(initialise(qps[1], 2), EINVAL);
	CHECK_CALL(initialise(qps[1], 1));
	for EACH_PORT (port)
		CHECK_CALL(ibv_detach_mcast(qps[port], &gid, 0));
	puts("what is of one port shows on no other");
}

static void check_tables(struct end *end)
{
	struct ibv_gid_entry entries[64];
	ssize_t count = ibv_query_gid_table(end->context, entries, 64, 0);
	CHECK(count > 0);
	ssize_t found = 0;
	for EACH_PORT (port) {
		struct ibv_port_attr attributes;
		CHECK_CALL(ibv_query_port(end->context, (uint8_t)port, &attributes));
		CHECK_EQUAL(attributes.state, IBV_PORT_ACTIVE);
		uint16_t key;
		CHECK_CALL(ibv_query_pkey(end->context, (uint8_t)port, 0, &key));
		for (int index = 0; index < attributes.gid_tbl_len; index++) {
			struct ibv_gid_entry entry;
			if (ibv_query_gid_ex(end->context, (uint32_t)port, (uint32_t)index, &entry, 0) != 0)
				continue;
			CHECK_EQUAL(entry.port_num, port);
			CHECK_EQUAL(entry.gid_index, index);
			CHECK_EQUAL(memcmp(&entry, &entries[found++], sizeof entry), 0);
			/* No other port has it, nor its interface. */
			for (ssize_t i = 0; i < count; i++) {
				bool same = entries[i].port_num == (uint32_t)port;
				CHECK_EQUAL(entries[i].ndev_ifindex == entry.ndev_ifindex, same);
				CHECK(same || memcmp(&entries[i].gid, &entry.gid, sizeof entry.gid) != 0);
			}
		}
	}
	CHECK_EQUAL(found, count);
}

static void check_refused(struct end *end, int port)
{
	struct ibv_port_attr attributes;
	union ibv_gid gid;
	uint16_t key;
	CHECK_EQUAL(ibv_query_port(end->context, (uint8_t)port, &attributes), EINVAL);
	CHECK_EQUAL(ibv_query_gid(end->context, (uint8_t)port, 0, &gid), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_EQUAL(ibv_query_pkey(end->context, (uint8_t)port, 0, &key), -1);
	CHECK_EQUAL(errno, EINVAL);
	CHECK_CALL(ibv_query_gid(end->context, 1, gid_index(), &gid));
	errno = 0;
	CHECK(handle(end, port, gid) == NULL);
	CHECK_EQUAL(errno, EINVAL);
	struct ibv_qp *qp = queue_pair(end, IBV_QPT_RC);
	CHECK_EQUAL(initialise(qp, port), EINVAL);
	CHECK_CALL(initialise(qp, 1));
	CHECK_EQUAL(receive_from(qp, port, gid, qp->qp_num), EINVAL);
	/* An address vector of the device's, but not of the queue pair's port. */
	CHECK_EQUAL(receive_from(qp, 2, gid, qp->qp_num), EINVAL);
	CHECK_CALL(receive_from(qp, 1, gid, qp->qp_num));
	struct ibv_qp_attr alternative = { .qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 8, .retry_cnt = 1,
					   .rnr_retry = 7, .max_rd_atomic = 1, .alt_port_num = (uint8_t)port,
					   .alt_ah_attr = { .is_global = 1, .port_num = (uint8_t)port, .grh.dgid = gid } };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		   IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ALT_PATH;
	CHECK_EQUAL(ibv_modify_qp(qp, &alternative, mask), EINVAL);
	alternative.alt_port_num = alternative.alt_ah_attr.port_num = 2;
	CHECK_CALL(ibv_modify_qp(qp, &alternative, mask));
	CHECK_CALL(ibv_destroy_qp(qp));
}

static void test_tables(void)
{
	struct end end = { 0 };
	struct ibv_device_attr device;
	open_device(&end);
	CHECK_CALL(ibv_query_device(end.context, &device));
	CHECK_EQUAL(device.phys_port_cnt, PORTS);
	check_tables(&end);
	check_refused(&end, 0);
	check_refused(&end, PORTS + 1);
	check_refused(&end, 255);
	/* The port of the group is not known yet. */
	struct ibv_qp *qp = queue_pair(&end, IBV_QPT_UD);
	union ibv_gid gid = group();
	CHECK_EQUAL(ibv_attach_mcast(qp, &gid, 0), EINVAL);
}

const struct test tests[] = {
	{ "tables", test_tables }, { "asks", test_asks }, { "answers", test_answers }, { NULL, NULL }
};
