/* XRC: one connection to a host reaches the shared receive queues of several processes there.
 *
 *   sender ---- XRC_SEND == XRC_RECV ---- owner     SRQ 0
 *                             |
 *                             the same domain, opened by file
 *                             |
 *                           lodger                  SRQ 1
 *
 * Source: man ibv_open_xrcd(3), ibv_create_srq_ex(3), ibv_open_qp(3), ibv_post_send(3); InfiniBand
 * Architecture Specification, volume 1, Annex A14. */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define LENGTH 8192
#define MESSAGES 50
#define SEED 100
#define FILE_NAME "xrc-domain"

/* A process that receives: its part of the domain, its own shared receive queue. */
struct host {
	struct endpoint endpoint; /* device and completion queue; its RC queue pair is not used */
	struct ibv_xrcd *domain;
	struct ibv_srq *srq;
	uint32_t srq_number;
	uint8_t *memory;
	struct ibv_mr *mr;
};

static struct host host_open(void)
{
	struct host host = { .endpoint = endpoint_open(endpoint_defaults()) };
	int file = open(FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(file >= 0);
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file,
		.oflags = O_CREAT,
	};
	host.domain = ibv_open_xrcd(host.endpoint.context, &domain);
	CHECK_POINTER(host.domain);
	close(file);

	struct ibv_srq_init_attr_ex queue = {
		.attr = { .max_wr = 2 * MESSAGES, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = host.domain,
		.cq = host.endpoint.cq,
		.pd = host.endpoint.pd,
	};
	host.srq = ibv_create_srq_ex(host.endpoint.context, &queue);
	CHECK_POINTER(host.srq);
	CHECK_CALL(ibv_get_srq_num(host.srq, &host.srq_number));
	host.endpoint.settings.srq = host.srq;
	host.memory = aligned_alloc(4096, MESSAGES * LENGTH);
	CHECK_POINTER(host.memory);
	memset(host.memory, 0, MESSAGES * LENGTH);
	host.mr = region(&host.endpoint, host.memory, MESSAGES * LENGTH, ALL_ACCESS);
	for (uint64_t slot = 0; slot < MESSAGES; slot++)
		post_receive(&host.endpoint, slot, piece_of(host.mr, slot * LENGTH, LENGTH));
	return host;
}

static void host_close(struct host *host)
{
	CHECK_CALL(ibv_destroy_srq(host->srq));
	CHECK_CALL(ibv_close_xrcd(host->domain));
	CHECK_CALL(ibv_dereg_mr(host->mr));
	endpoint_close(&host->endpoint);
}

/* Takes all messages, in order, each with its own pattern. */
static void host_receive(struct host *host, uint64_t seed)
{
	for (uint64_t number = 0; number < MESSAGES; number++) {
		struct ibv_wc wc = completion(&host->endpoint);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
		CHECK_EQUAL(wc.wr_id, number);
		CHECK_EQUAL(wc.byte_len, LENGTH - number);
		pattern_check(host->memory + number * LENGTH, wc.byte_len, seed + number);
	}
}

/* From INIT to ready-to-receive, and for the sender to ready-to-send. */
static void connect_xrc(struct ibv_qp *qp, struct address peer, bool sends)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ALL_ACCESS & ~IBV_ACCESS_LOCAL_WRITE,
	};
	CHECK_CALL(ibv_modify_qp(qp, &init,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_2048,
		.dest_qp_num = peer.qp_number,
		.rq_psn = peer.psn,
		.ah_attr = { .dlid = peer.lid, .port_num = 1 },
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (!sends)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_CALL(ibv_modify_qp(qp, &receive, mask));
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = qp->qp_num & 0xffffff,
		.timeout = 12,
		.retry_cnt = 5,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (sends)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	if (sends)
		CHECK_CALL(ibv_modify_qp(qp, &send, mask));
}

/* The data that the receiving side sends. */
struct offer {
	struct address address;
	struct window window;
	uint32_t srq_number;
};

static void be_the_owner(struct peer *parent)
{
	struct host host = host_open();
	struct ibv_qp_init_attr_ex attributes = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = host.domain,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(host.endpoint.context, &attributes);
	CHECK_POINTER(qp);
	struct offer offer = {
		.address = { .qp_number = qp->qp_num,
			     .psn = qp->qp_num & 0xffffff,
			     .lid = host.endpoint.lid },
		.window = region_window(host.mr),
		.srq_number = host.srq_number,
	};
	struct address sender;
	peer_tell(parent, &offer, sizeof offer);
	peer_hear(parent, &sender, sizeof sender);
	connect_xrc(qp, sender, false);
	peer_meet(parent);
	host_receive(&host, SEED);
	peer_meet(parent);
	/* One-sided operations came after the messages. */
	peer_meet(parent);
	pattern_check(host.memory, LENGTH, SEED + 999);
	CHECK_CALL(ibv_destroy_qp(qp));
	host_close(&host);
}

static void be_the_lodger(struct peer *parent)
{
	struct host host = host_open();
	peer_tell(parent, &host.srq_number, sizeof host.srq_number);
	host_receive(&host, SEED + 500);
	peer_meet(parent);
	host_close(&host);
}

static void send_to(struct endpoint *sender, struct ibv_mr *mr, uint64_t seed, uint64_t number,
		    uint32_t srq_number)
{
	pattern_fill(mr->addr, LENGTH - number, seed + number);
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr,
		.length = (uint32_t)(LENGTH - number),
		.lkey = mr->lkey,
	};
	struct ibv_send_wr request = {
		.wr_id = number,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.qp_type.xrc.remote_srqn = srq_number,
	};
	struct ibv_send_wr *bad = NULL;
	CHECK_CALL(ibv_post_send(sender->qp, &request, &bad));
	expect(sender, number, IBV_WC_SUCCESS);
}

/* One-sided requests name a shared receive queue too: its protection domain is the one that the key
 * must belong to. */
static void one_sided(struct endpoint *sender, const struct offer *offer, enum ibv_wr_opcode opcode,
		      struct ibv_mr *mr)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr,
		.length = LENGTH,
		.lkey = mr->lkey,
	};
	struct ibv_send_wr request = {
		.wr_id = 1000,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { .remote_addr = offer->window.address, .rkey = offer->window.rkey },
		.qp_type.xrc.remote_srqn = offer->srq_number,
	};
	struct ibv_send_wr *bad = NULL;
	CHECK_CALL(ibv_post_send(sender->qp, &request, &bad));
	expect(sender, 1000, IBV_WC_SUCCESS);
}

static void two_processes_behind_one_connection(void)
{
	struct peer owner = peer_start(be_the_owner);
	struct offer offer;
	peer_hear(&owner, &offer, sizeof offer);
	/* Only now: it opens the domain that the owner has made. */
	struct peer lodger = peer_start(be_the_lodger);
	uint32_t lodger_srq;
	peer_hear(&lodger, &lodger_srq, sizeof lodger_srq);
	CHECK(lodger_srq != offer.srq_number);

	struct endpoint sender = endpoint_open(endpoint_defaults());
	CHECK_CALL(ibv_destroy_qp(sender.qp));
	struct ibv_qp_init_attr_ex attributes = {
		.send_cq = sender.cq,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = sender.pd,
	};
	sender.qp = ibv_create_qp_ex(sender.context, &attributes);
	CHECK_POINTER(sender.qp);
	struct address own = endpoint_address(&sender);
	peer_tell(&owner, &own, sizeof own);
	connect_xrc(sender.qp, offer.address, true);
	peer_meet(&owner);

	uint8_t *memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(memory);
	struct ibv_mr *mr = region(&sender, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	/* In turn to the one and to the other. */
	for (uint64_t number = 0; number < MESSAGES; number++) {
		send_to(&sender, mr, SEED, number, offer.srq_number);
		send_to(&sender, mr, SEED + 500, number, lodger_srq);
	}
	peer_meet(&owner);
	peer_meet(&lodger);
	peer_end(&lodger);

	pattern_fill(memory, LENGTH, SEED + 999);
	one_sided(&sender, &offer, IBV_WR_RDMA_WRITE, mr);
	memset(memory, 0, LENGTH);
	one_sided(&sender, &offer, IBV_WR_RDMA_READ, mr);
	pattern_check(memory, LENGTH, SEED + 999);
	peer_meet(&owner);
	peer_end(&owner);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&sender);
	unlink(FILE_NAME);
}

const struct test tests[] = {
	{ "two_processes_behind_one_connection", two_processes_behind_one_connection },
	{ 0 },
};
