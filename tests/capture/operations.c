/* Posts every operation of every transport once or twice between two processes, for the capture tests.
 *
 *   local    both processes on this host
 *   answer   the responder, on port PORT of this host
 *   ask      the requester, which connects to the host PEER
 *
 * GID_INDEX, where it is set, selects addressing by GID, and the index. Each message is either longer than three
 * packets, so that there are first, middle and last packets, or short. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define PORT 18515
#define MTU 1024
#define LONG (3 * MTU + 33)
#define SHORT 33
#define ROOM 8192
#define SEED 7
#define KEY 0x11111111
#define IMMEDIATE 0x12345678
/* Newer than some headers. */
#define ACCESS_FLUSH_GLOBAL (1 << 8)
#define OPCODE_FLUSH 14
#define OPCODE_ATOMIC_WRITE 15

enum { RC, UC, UD, XRC, KINDS };

/* The data that both sides exchange to connect. */
struct card {
	uint32_t numbers[KINDS];
	union ibv_gid gid;
	uint16_t lid;
	struct window memory;
	uint32_t bound; /* key of a window, to be invalidated */
	uint32_t srq;
};

struct side {
	struct endpoint base; /* device, domain, completion queue; its queue pair is RC */
	struct endpoint ends[KINDS];
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_mw *window;
	uint8_t *memory;
	struct card ours, theirs;
	bool asks;
	int gid_index; /* -1 for routes by LID */
};

static void open_xrc(struct side *side)
{
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT
	};
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_SEND, .sq_sig_all = 1 };
	struct endpoint *end = &side->ends[XRC];
	*end = side->base;
	if (side->asks) {
		init.comp_mask = IBV_QP_INIT_ATTR_PD;
		init.pd = side->base.pd;
		init.send_cq = side->base.cq;
		init.cap = (struct ibv_qp_cap){ .max_send_wr = 16, .max_send_sge = 1 };
		end->qp = ibv_create_qp_ex(side->base.context, &init);
		CHECK_POINTER(end->qp);
		return;
	}
	struct ibv_xrcd *xrcd = ibv_open_xrcd(side->base.context, &domain);
	CHECK_POINTER(xrcd);
	struct ibv_srq_init_attr_ex queue = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = xrcd,
		.cq = side->base.cq,
		.pd = side->base.pd,
	};
	side->srq = ibv_create_srq_ex(side->base.context, &queue);
	CHECK_POINTER(side->srq);
	CHECK_CALL(ibv_get_srq_num(side->srq, &side->ours.srq));
	init.qp_type = IBV_QPT_XRC_RECV;
	init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	init.xrcd = xrcd;
	end->qp = ibv_create_qp_ex(side->base.context, &init);
	CHECK_POINTER(end->qp);
	end->settings.srq = side->srq;
}

/* RESET or INIT to ready-to-send, as the kind asks. */
static void connect_end(struct side *side, int kind)
{
	struct ibv_qp *qp = side->ends[kind].qp;
	bool reliable = kind == RC || kind == XRC;
	bool receives = kind != XRC || !side->asks, sends = kind != XRC || side->asks;
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = KEY,
					  .qp_access_flags = ALL_ACCESS | ACCESS_FLUSH_GLOBAL };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	CHECK_CALL(ibv_modify_qp(qp, &attributes,
				 mask | (kind == UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	attributes = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = side->theirs.numbers[kind],
		.rq_psn = side->theirs.numbers[kind],
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = side->theirs.lid, .port_num = 1 },
	};
	if (side->gid_index >= 0) {
		attributes.ah_attr.is_global = 1;
		attributes.ah_attr.grh.dgid = side->theirs.gid;
		attributes.ah_attr.grh.sgid_index = (uint8_t)side->gid_index;
		attributes.ah_attr.grh.hop_limit = 64;
	}
	mask = IBV_QP_STATE;
	if (kind != UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (reliable && receives)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_CALL(ibv_modify_qp(qp, &attributes, mask));
	if (!sends)
		return;
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
					   .sq_psn = side->ours.numbers[kind],
					   .timeout = 18,
					   .retry_cnt = 6,
					   .rnr_retry = 7,
					   .max_rd_atomic = 4 };
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (reliable)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK_CALL(ibv_modify_qp(qp, &attributes, mask));
}

static struct ibv_qp *queue_pair(struct side *side, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = side->base.cq,
		.recv_cq = side->base.cq,
		.qp_type = type,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(side->base.pd, &init);
	CHECK_POINTER(qp);
	return qp;
}

static struct side side_open(struct peer *peer, bool asks)
{
	const char *index = getenv("GID_INDEX");
	struct side side = { .base = endpoint_open(endpoint_defaults()), .asks = asks,
			     .gid_index = index ? atoi(index) : -1 };
	const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	for (int kind = RC; kind <= UD; kind++) {
		side.ends[kind] = side.base;
		side.ends[kind].qp = queue_pair(&side, types[kind]);
	}
	open_xrc(&side);
	side.memory = aligned_alloc(4096, ROOM);
	CHECK_POINTER(side.memory);
	memset(side.memory, 0, ROOM);
	side.mr = region(&side.base, side.memory, ROOM,
			 ALL_ACCESS | IBV_ACCESS_MW_BIND | ACCESS_FLUSH_GLOBAL);
	side.window = ibv_alloc_mw(side.base.pd, IBV_MW_TYPE_2);
	CHECK_POINTER(side.window);
	side.ours.bound = ibv_inc_rkey(side.window->rkey);
	side.ours.memory = region_window(side.mr);
	side.ours.lid = side.base.lid;
	CHECK_CALL(ibv_query_gid(side.base.context, 1, side.gid_index < 0 ? 0 : side.gid_index,
				 &side.ours.gid));
	for (int kind = 0; kind < KINDS; kind++)
		side.ours.numbers[kind] = side.ends[kind].qp->qp_num;
	peer_tell(peer, &side.ours, sizeof side.ours);
	peer_hear(peer, &side.theirs, sizeof side.theirs);
	for (int kind = 0; kind < KINDS; kind++)
		connect_end(&side, kind);
	peer_meet(peer);
	return side;
}

/* Returns a request of an opcode with the fields that every opcode needs. */
static struct ibv_send_wr request(struct side *side, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr = { .opcode = opcode, .imm_data = htonl(IMMEDIATE) };
	wr.wr.rdma.remote_addr = side->theirs.memory.address;
	wr.wr.rdma.rkey = side->theirs.memory.rkey;
	wr.qp_type.xrc.remote_srqn = side->theirs.srq;
	return wr;
}

static void run_request(struct side *side, int kind, struct ibv_send_wr wr, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)side->memory, length, side->mr->lkey };
	struct ibv_send_wr *bad = NULL;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	CHECK_CALL(ibv_post_send(side->ends[kind].qp, &wr, &bad));
	expect(&side->ends[kind], 0, IBV_WC_SUCCESS);
}

static void run_plain(struct side *side, int kind, enum ibv_wr_opcode opcode, uint32_t length)
{
	run_request(side, kind, request(side, opcode), length);
}

static void run_atomic(struct side *side, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr wr = request(side, opcode);
	wr.wr.atomic.remote_addr = side->theirs.memory.address;
	wr.wr.atomic.rkey = side->theirs.memory.rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	run_request(side, RC, wr, 8);
}

static void run_datagram(struct side *side, enum ibv_wr_opcode opcode)
{
	struct ibv_ah_attr attributes = { .dlid = side->theirs.lid, .port_num = 1 };
	if (side->gid_index >= 0) {
		attributes.is_global = 1;
		attributes.grh.dgid = side->theirs.gid;
		attributes.grh.sgid_index = (uint8_t)side->gid_index;
		attributes.grh.hop_limit = 64;
	}
	struct ibv_ah *ah = ibv_create_ah(side->base.pd, &attributes);
	CHECK_POINTER(ah);
	struct ibv_send_wr wr = request(side, opcode);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = side->theirs.numbers[UD];
	wr.wr.ud.remote_qkey = KEY;
	run_request(side, UD, wr, SHORT);
	CHECK_CALL(ibv_destroy_ah(ah));
}

static void post_receives(struct side *side, int kind, int count)
{
	for (int i = 0; i < count; i++)
		post_receive(&side->ends[kind], (uint64_t)kind, piece_of(side->mr, 4096, 4096));
}

static void expect_receives(struct side *side, int count)
{
	for (int i = 0; i < count; i++)
		CHECK_EQUAL(completion(&side->base).status, IBV_WC_SUCCESS);
}

static void answering(struct peer *peer)
{
	struct side side = side_open(peer, false);
	post_receives(&side, RC, 5);
	post_receives(&side, UC, 4);
	post_receives(&side, UD, 2);
	post_receives(&side, XRC, 2);
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = side.window,
			     .rkey = side.ours.bound,
			     .bind_info = { .mr = side.mr, .addr = side.ours.memory.address,
					    .length = ROOM, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } },
	};
	struct ibv_send_wr *bad = NULL;
	CHECK_CALL(ibv_post_send(side.ends[RC].qp, &bind, &bad));
	expect(&side.ends[RC], 0, IBV_WC_SUCCESS);
	peer_meet(peer);
	expect_receives(&side, 5 + 4 + 2 + 2);
	/* The peer has sent once more, and found no receive. */
	peer_meet(peer);
	usleep(200000);
	post_receives(&side, RC, 1);
	expect_receives(&side, 1);
	peer_meet(peer);
}

static void asking(struct peer *peer)
{
	struct side side = side_open(peer, true);
	pattern_fill(side.memory, ROOM, SEED);
	peer_meet(peer);
	run_plain(&side, RC, IBV_WR_SEND, SHORT);
	run_plain(&side, RC, IBV_WR_SEND, LONG);
	run_plain(&side, RC, IBV_WR_SEND_WITH_IMM, LONG);
	struct ibv_send_wr invalidate = request(&side, IBV_WR_SEND_WITH_INV);
	invalidate.invalidate_rkey = side.theirs.bound;
	run_request(&side, RC, invalidate, SHORT);
	run_plain(&side, RC, IBV_WR_RDMA_WRITE, LONG);
	run_plain(&side, RC, IBV_WR_RDMA_WRITE, SHORT);
	run_plain(&side, RC, IBV_WR_RDMA_WRITE_WITH_IMM, LONG);
	run_plain(&side, RC, IBV_WR_RDMA_READ, LONG);
	run_plain(&side, RC, IBV_WR_RDMA_READ, SHORT);
	pattern_check(side.memory, LONG, SEED);
	run_plain(&side, RC, (enum ibv_wr_opcode)OPCODE_ATOMIC_WRITE, 8);
	run_plain(&side, RC, (enum ibv_wr_opcode)OPCODE_FLUSH, 8);
	run_atomic(&side, IBV_WR_ATOMIC_FETCH_AND_ADD, 5, 0);
	uint64_t found;
	memcpy(&found, side.memory, sizeof found);
	run_atomic(&side, IBV_WR_ATOMIC_CMP_AND_SWP, found + 5, 1);
	pattern_fill(side.memory, ROOM, SEED);
	run_plain(&side, UC, IBV_WR_SEND, LONG);
	run_plain(&side, UC, IBV_WR_SEND_WITH_IMM, SHORT);
	run_plain(&side, UC, IBV_WR_SEND_WITH_IMM, LONG);
	run_plain(&side, UC, IBV_WR_RDMA_WRITE, LONG);
	run_plain(&side, UC, IBV_WR_RDMA_WRITE_WITH_IMM, SHORT);
	run_datagram(&side, IBV_WR_SEND);
	run_datagram(&side, IBV_WR_SEND_WITH_IMM);
	run_plain(&side, XRC, IBV_WR_SEND, LONG);
	run_plain(&side, XRC, IBV_WR_RDMA_WRITE, LONG);
	run_plain(&side, XRC, IBV_WR_RDMA_WRITE_WITH_IMM, SHORT);
	run_plain(&side, XRC, IBV_WR_RDMA_READ, LONG);
	/* This send finds no receive. */
	struct ibv_send_wr last = request(&side, IBV_WR_SEND), *bad = NULL;
	struct ibv_sge sge = { (uintptr_t)side.memory, LONG, side.mr->lkey };
	last.sg_list = &sge;
	last.num_sge = 1;
	CHECK_CALL(ibv_post_send(side.ends[RC].qp, &last, &bad));
	peer_meet(peer);
	expect(&side.ends[RC], 0, IBV_WC_SUCCESS);
	/* This key belongs to no region. */
	struct ibv_send_wr wrong = request(&side, IBV_WR_RDMA_READ);
	wrong.wr.rdma.rkey ^= 0xffffff00;
	sge.length = SHORT;
	wrong.sg_list = &sge;
	wrong.num_sge = 1;
	CHECK_CALL(ibv_post_send(side.ends[RC].qp, &wrong, &bad));
	expect(&side.ends[RC], 0, IBV_WC_REM_ACCESS_ERR);
	peer_meet(peer);
}

static void local(void)
{
	struct peer peer = peer_start(answering);
	asking(&peer);
	peer_end(&peer);
}

static void answer(void)
{
	struct peer peer = peer_wait(PORT);
	answering(&peer);
}

static void ask(void)
{
	struct peer peer = peer_call(getenv("PEER"), PORT);
	asking(&peer);
}

const struct test tests[] = {
	{ "local", local },
	{ "answer", answer },
	{ "ask", ask },
	{ NULL, NULL },
};
