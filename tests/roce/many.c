/* Very many operations of one kind between two hosts, with any faults of the network.
 *
 *   asks      posts COUNT operations of KIND to the process at PEER
 *   answers   is their target
 *
 * Operations come in laps: one for each slot of the target's memory. Everything about an operation follows from its
 * number: slot, length, bytes, immediate. After each lap the two meet, and the target checks every byte of every slot:
 * the operation's data, and behind them the bytes that the target put there before the lap, so that lost, duplicated,
 * late or misplaced data are seen. Completions must come in order, one for each operation, at both ends. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flush.h"
#include "many.h"

#define PORT 18515
#define PSN 0xffff00 /* passes zero soon */
#define TIMEOUT 14   /* 67 ms, eight times: a process that waits so long for a processor is not dead */
#define DEPTH 32
#define TIME_LIMIT (120 * SECOND)

/* The queue pair of an end, of a type, in RESET. */
static void open_queue(struct end *end, const struct kind *kind, enum ibv_qp_type type)
{
	struct endpoint *queue = &end->queue;
	queue->settings.type = type;
	queue->cq = ibv_create_cq(queue->context, 3 * SLOTS + DEPTH, NULL, NULL, 0);
	CHECK_POINTER(queue->cq);
	struct ibv_qp_init_attr_ex init = { .qp_type = type, .sq_sig_all = !(kind->completes_once && end->is == ASKING) };
	if (type == IBV_QPT_XRC_RECV) {
		init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		init.xrcd = xrc_domain(queue);
		queue->settings.srq = xrc_queue(queue, init.xrcd, queue->cq, SLOTS);
	} else {
		init.comp_mask = IBV_QP_INIT_ATTR_PD | (kind->posts ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0);
		init.pd = queue->pd;
		init.send_cq = init.recv_cq = queue->cq;
		init.send_ops_flags = kind->posts;
		init.cap = (struct ibv_qp_cap){ .max_send_wr = SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1,
						.max_recv_sge = 1 };
	}
	queue->qp = ibv_create_qp_ex(queue->context, &init);
	CHECK_POINTER(queue->qp);
	end->posting = kind->posts ? ibv_qp_to_qp_ex(queue->qp) : NULL;
}

static struct ibv_ah *way_to(struct end *end)
{
	struct ibv_ah_attr attributes = { .is_global = 1, .port_num = 1,
					  .grh = { .dgid = end->theirs.gid, .sgid_index = gid_index(), .hop_limit = 64 } };
	struct ibv_ah *ah = ibv_create_ah(end->queue.pd, &attributes);
	CHECK_POINTER(ah);
	return ah;
}

/* Windows, and the keys that their first binding will give them. */
static void open_windows(struct end *end, uint32_t *keys)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		end->windows[i] = ibv_alloc_mw(end->queue.pd, IBV_MW_TYPE_2);
		CHECK_POINTER(end->windows[i]);
		keys[i] = ibv_inc_rkey(end->windows[i]->rkey);
	}
}

/* A queue pair of a type, ready to send, or to receive where it never sends. */
static void open_end(struct end *end, const struct kind *kind, enum ibv_qp_type type)
{
	const char *count = getenv("COUNT");
	CHECK_POINTER(count);
	end->count = strtoull(count, NULL, 10);
	end->queue = endpoint_open(endpoint_defaults());
	open_queue(end, kind, type);
	end->memory = aligned_alloc(4096, SLOTS * STRIDE);
	CHECK_POINTER(end->memory);
	memset(end->memory, 0, SLOTS * STRIDE);
	end->mr = region(&end->queue, end->memory, SLOTS * STRIDE, ALL_ACCESS | IBV_ACCESS_MW_BIND | ACCESS_FLUSH_GLOBAL);
	struct card ours = { .number = end->queue.qp->qp_num, .memory = region_window(end->mr) };
	if (kind->has_windows == end->is)
		open_windows(end, ours.keys);
	if (end->queue.settings.srq)
		CHECK_CALL(ibv_get_srq_num(end->queue.settings.srq, &ours.srq));
	CHECK_CALL(ibv_query_gid(end->queue.context, 1, gid_index(), &ours.gid));
	peer_tell(&end->peer, &ours, sizeof ours);
	peer_hear(&end->peer, &end->theirs, sizeof end->theirs);
	connect_by_gid(&end->queue, end->theirs.gid, end->theirs.number, PSN, TIMEOUT);
	if (type == IBV_QPT_UD)
		end->ah = way_to(end);
}

/* The next completion, if there is one: a good one. */
static bool next(struct end *end, struct ibv_wc *wc)
{
	int count = ibv_poll_cq(end->queue.cq, 1, wc);
	CHECK(count >= 0);
	if (count == 1 && wc->status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__, "operation %llu: %s", (unsigned long long)wc->wr_id,
			     ibv_wc_status_str(wc->status));
	return count == 1;
}

static void check_time(uint64_t *last, uint64_t number)
{
	if (now() > *last + TIME_LIMIT)
		check_failed(__FILE__, __LINE__, "operation %llu does not complete", (unsigned long long)number);
}

static void run_lap(struct end *end, const struct kind *kind, uint64_t first, uint64_t behind)
{
	uint64_t last = now();
	for (uint64_t posted = first, done = first; done < behind;) {
		for (; posted < behind && posted < done + DEPTH; posted++)
			kind->post(end, posted);
		struct ibv_wc wc;
		if (!next(end, &wc)) {
			check_time(&last, done);
			continue;
		}
		CHECK_EQUAL(wc.wr_id, done);
		CHECK_EQUAL(wc.opcode, kind->completes);
		if (kind->returned)
			kind->returned(end, done);
		done++;
		last = now();
	}
}

/* Sends messages after a lap until the receiver stops them. */
static void trail(struct end *end)
{
	uint64_t begun = now();
	for (uint32_t index = 0; !peer_called(&end->peer); index++) {
		post_trail(end, end->lap, index);
		struct ibv_wc wc;
		while (!next(end, &wc))
			check_time(&begun, index);
		check_time(&begun, index);
		CHECK_EQUAL(wc.wr_id, index);
	}
}

static void asks(void)
{
	const struct kind *kind = kind_of(getenv("KIND"));
	struct end end = { .is = ASKING, .peer = peer_call(getenv("PEER"), PORT) };
	open_end(&end, kind, kind->type);
	for (uint64_t first = 0; first < end.count; first += SLOTS, end.lap++) {
		uint64_t behind = first + SLOTS < end.count ? first + SLOTS : end.count;
		peer_meet(&end.peer); /* it is ready for the lap */
		run_lap(&end, kind, first, behind);
		if (ends_with_a_trail(kind))
			trail(&end);
		peer_meet(&end.peer); /* all of it has completed here */
	}
	peer_meet(&end.peer);
}

/* The windows of a lap, one further than the last time. */
static void bind_windows(struct end *end)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct ibv_mw_bind_info whole = { .mr = end->mr, .addr = (uintptr_t)end->memory + i * STRIDE,
						  .length = STRIDE, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
		struct ibv_send_wr bind = { .wr_id = i, .opcode = IBV_WR_BIND_MW,
					    .bind_mw = { end->windows[i], ibv_inc_rkey(end->windows[i]->rkey), whole } };
		struct ibv_send_wr *bad;
		CHECK_CALL(ibv_post_send(end->queue.qp, &bind, &bad));
		struct ibv_wc wc;
		while (!next(end, &wc))
			;
		CHECK_EQUAL(wc.opcode, IBV_WC_BIND_MW);
		end->windows[i]->rkey = bind.bind_mw.rkey;
	}
}

/* Receives messages until the requester has its completions, and then the earlier messages. */
static void attend_lap(struct end *end, const struct kind *kind, uint64_t behind)
{
	uint64_t last = now();
	for (bool over = false;;) {
		struct ibv_wc wc;
		if (next(end, &wc)) {
			if (!kind->arrived)
				check_failed(__FILE__, __LINE__, "a receive completes with opcode %d", wc.opcode);
			kind->arrived(end, &wc);
			if (kind->loses)
				receive_into_slot(end, wc.wr_id);
			last = now();
		} else if (ends_with_a_trail(kind)) {
			if (end->silent > end->lap)
				return;
		} else if (!over) {
			over = peer_called(&end->peer);
		} else if (kind->loses || !kind->arrived || end->received == behind) {
			return;
		}
		check_time(&last, end->received);
	}
}

/* Before a lap: fills the slots, and posts receives for all possible messages. A network that loses leaves those of
 * before. */
static void prepare_lap(struct end *end, const struct kind *kind, uint64_t first, uint64_t behind)
{
	bool fills = kind->left && (first == 0 || changes_memory(kind));
	for (uint64_t number = first; number < first + SLOTS && fills; number++)
		pattern_fill(slot_of(end, number), STRIDE, background(first));
	for (uint64_t number = first; number < behind && kind->arrived && !kind->loses; number++)
		receive_into_slot(end, number);
	if (kind->has_windows == ANSWERING)
		bind_windows(end);
}

static void answers(void)
{
	const struct kind *kind = kind_of(getenv("KIND"));
	struct end end = { .is = ANSWERING, .peer = peer_wait(PORT) };
	open_end(&end, kind, kind->type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : kind->type);
	for (uint64_t number = 0; number < SLOTS && kind->loses; number++)
		receive_into_slot(&end, number);
	for (uint64_t first = 0; first < end.count; first += SLOTS, end.lap++) {
		uint64_t behind = first + SLOTS < end.count ? first + SLOTS : end.count;
		prepare_lap(&end, kind, first, behind);
		peer_meet(&end.peer);
		attend_lap(&end, kind, behind);
		peer_meet(&end.peer);
		for (uint64_t number = first; number < behind && kind->left; number++)
			kind->left(&end, changes_memory(kind) ? number : number % SLOTS);
	}
	/* Of a lap that comes while this process waits for its processor the kernel keeps as many packets as a socket's
	 * buffer holds, an eighth or so, and the network takes its share. */
	if (kind->loses && end.received < end.count / 16)
		check_failed(__FILE__, __LINE__, "no more than %llu of %llu messages have arrived",
			     (unsigned long long)end.received, (unsigned long long)end.count);
	peer_meet(&end.peer);
	printf("%llu of %s\n", (unsigned long long)end.count, kind->name);
}

const struct test tests[] = { { "asks", asks }, { "answers", answers }, { 0 } };
