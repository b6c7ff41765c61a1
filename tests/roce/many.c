/* Very many operations of one kind between two hosts, whatever the network does to the packets.
 *
 *   asks      posts COUNT operations of KIND to the process at PEER
 *   answers   is their target
 *
 * Operations come in laps: one for each slot of the target's memory. Everything about an operation follows from its
 * number: slot, length, bytes, immediate. After each lap the two meet, and the target looks at every byte of every slot:
 * what the operation says, and behind it what the target put there before the lap, so that what was lost, doubled, late
 * or misplaced is seen. Completions must come in order, one for each operation, at both ends. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "between.h"
#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define PORT 18515
#define PSN 0xffff00 /* passes zero soon */
#define TIMEOUT 12   /* 17 ms */
#define SLOTS 256
#define STRIDE 4096
#define LONGEST 3000
#define DATAGRAM 1024
#define GRH 40
#define DEPTH 32
#define WORD 8
#define PATIENCE (120 * SECOND)

/* What one end knows of the other. */
struct card {
	union ibv_gid gid;
	uint32_t number;
	struct window memory;
	uint32_t keys[SLOTS]; /* of windows that are to be invalidated */
};

struct end {
	struct peer peer;
	struct endpoint queue;
	struct ibv_qp_ex *posting;
	uint8_t *memory;
	struct ibv_mr *mr;
	struct ibv_mw *windows[SLOTS];
	struct ibv_ah *ah;
	struct card theirs;
	uint64_t count;
	uint64_t received; /* the number of the next receive, or of the last message of a network that loses */
};

struct kind {
	const char *name;
	enum ibv_qp_type type;
	/* Posts operation `number`. */
	void (*post)(struct end *end, uint64_t number);
	/* Looks at what has come back to the one who asks. */
	void (*returned)(struct end *end, uint64_t number);
	/* Looks at a receive of the target. */
	void (*arrived)(struct end *end, const struct ibv_wc *wc);
	/* Looks at a slot of the target after the lap, in which operation `number` was for it. */
	void (*left)(const struct end *end, uint64_t number);
	/* That one may be lost. */
	bool loses;
};

static uint64_t background(uint64_t number)
{
	return ~(number / SLOTS);
}

static uint8_t *slot_of(const struct end *end, uint64_t number)
{
	return end->memory + number % SLOTS * STRIDE;
}

static uint64_t theirs_of(const struct end *end, uint64_t number)
{
	return end->theirs.memory.address + number % SLOTS * STRIDE;
}

/* Mostly short ones, some of several packets. */
static uint32_t length_of(uint64_t number)
{
	uint32_t mixed = (uint32_t)(number * 2654435761u) >> 8;
	return 1 + mixed / 16 % (mixed % 16 < 11 ? 200 : mixed % 16 < 14 ? 1100 : LONGEST);
}

static uint32_t datagram_of(uint64_t number)
{
	return 1 + length_of(number) % DATAGRAM;
}

static void check_bytes(const uint8_t *bytes, uint64_t from, uint64_t to, uint64_t seed, uint64_t number)
{
	for (uint64_t at = from; at < to; at++)
		if (bytes[at] != pattern(seed, at))
			check_failed(__FILE__, __LINE__, "byte %llu of operation %llu is wrong", (unsigned long long)at,
				     (unsigned long long)number);
}

/* Posting. */

static void post_request(struct end *end, struct ibv_send_wr request, uint64_t number, uint32_t length)
{
	pattern_fill(slot_of(end, number), length, number);
	struct ibv_sge piece = { (uintptr_t)slot_of(end, number), length, end->mr->lkey };
	struct ibv_send_wr *bad;
	request.wr_id = number;
	request.sg_list = &piece;
	request.num_sge = 1;
	CHECK_CALL(ibv_post_send(end->queue.qp, &request, &bad));
}

static void post_message(struct end *end, enum ibv_wr_opcode opcode, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = opcode,
		.imm_data = htonl((uint32_t)number),
		.wr.rdma = { theirs_of(end, number), end->theirs.memory.rkey },
	};
	post_request(end, request, number, length_of(number));
}

static void write_one(struct end *end, uint64_t number)
{
	post_message(end, IBV_WR_RDMA_WRITE, number);
}

static void write_with_immediate(struct end *end, uint64_t number)
{
	post_message(end, IBV_WR_RDMA_WRITE_WITH_IMM, number);
}

static void send_one(struct end *end, uint64_t number)
{
	post_message(end, IBV_WR_SEND, number);
}

static void send_with_immediate(struct end *end, uint64_t number)
{
	post_message(end, IBV_WR_SEND_WITH_IMM, number);
}

/* Each lap the windows are bound again, and with each binding a key is one further. */
static uint32_t key_of(uint32_t first, uint64_t number)
{
	return (first & ~0xffu) | ((first + (uint32_t)(number / SLOTS)) & 0xff);
}

static void send_with_invalidate(struct end *end, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_SEND_WITH_INV,
		.invalidate_rkey = key_of(end->theirs.keys[number % SLOTS], number),
	};
	post_request(end, request, number, length_of(number));
}

static void send_datagram(struct end *end, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl((uint32_t)number),
		.wr.ud = { end->ah, end->theirs.number, QUEUE_KEY },
	};
	post_request(end, request, number, datagram_of(number));
}

static void read_one(struct end *end, uint64_t number)
{
	memset(slot_of(end, number), 0, STRIDE);
	post_read(&end->queue, number, piece_of(end->mr, number % SLOTS * STRIDE, length_of(number)),
		  theirs_of(end, number), end->theirs.memory.rkey);
}

static void add_one(struct end *end, uint64_t number)
{
	post_fetch_add(&end->queue, number, piece_of(end->mr, number % SLOTS * STRIDE, WORD),
		       end->theirs.memory.address, end->theirs.memory.rkey, 1);
}

static void swap_one(struct end *end, uint64_t number)
{
	post_compare_swap(&end->queue, number, piece_of(end->mr, number % SLOTS * STRIDE, WORD),
			  end->theirs.memory.address, end->theirs.memory.rkey, number, number + 1);
}

static void write_atomically(struct end *end, uint64_t number)
{
	uint8_t word[WORD];
	pattern_fill(word, WORD, number);
	ibv_wr_start(end->posting);
	end->posting->wr_id = number;
	end->posting->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(end->posting, end->theirs.memory.rkey, theirs_of(end, number), word);
	CHECK_CALL(ibv_wr_complete(end->posting));
}

/* What has come back. */

static void returned_nothing(struct end *end, uint64_t number)
{
	(void)end;
	(void)number;
}

/* The target's memory is as it was before the first lap. */
static void returned_slot(struct end *end, uint64_t number)
{
	uint32_t length = length_of(number);
	check_bytes(slot_of(end, number), 0, length, background(0), number);
	for (uint32_t at = length; at < STRIDE; at++)
		CHECK_EQUAL(slot_of(end, number)[at], 0);
}

static void returned_number(struct end *end, uint64_t number)
{
	uint64_t found;
	memcpy(&found, slot_of(end, number), WORD);
	CHECK_EQUAL(found, number);
}

/* What has arrived. */

static void receive_into_slot(struct end *end, uint64_t number)
{
	post_receive(&end->queue, number, piece_of(end->mr, number % SLOTS * STRIDE, STRIDE));
}

static void arrived_nothing(struct end *end, const struct ibv_wc *wc)
{
	(void)end;
	check_failed(__FILE__, __LINE__, "a receive completes with opcode %d", wc->opcode);
}

/* The next one, in its slot. */
static void check_receive(struct end *end, const struct ibv_wc *wc, enum ibv_wc_opcode opcode)
{
	CHECK_EQUAL(wc->opcode, opcode);
	CHECK_EQUAL(wc->wr_id, end->received);
	CHECK_EQUAL(wc->byte_len, length_of(end->received));
	check_bytes(slot_of(end, end->received), 0, wc->byte_len, end->received, end->received);
	end->received++;
}

static void arrived_send(struct end *end, const struct ibv_wc *wc)
{
	CHECK_EQUAL(wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV), 0);
	check_receive(end, wc, IBV_WC_RECV);
}

static void arrived_with_immediate(struct end *end, const struct ibv_wc *wc)
{
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQUAL(ntohl(wc->imm_data), (uint32_t)end->received);
	check_receive(end, wc, IBV_WC_RECV);
}

static void arrived_by_write(struct end *end, const struct ibv_wc *wc)
{
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQUAL(ntohl(wc->imm_data), (uint32_t)end->received);
	check_receive(end, wc, IBV_WC_RECV_RDMA_WITH_IMM);
}

static void arrived_with_invalidate(struct end *end, const struct ibv_wc *wc)
{
	CHECK(wc->wc_flags & IBV_WC_WITH_INV);
	CHECK_EQUAL(wc->invalidated_rkey, end->windows[end->received % SLOTS]->rkey);
	check_receive(end, wc, IBV_WC_RECV);
}

/* Whole: a first packet begins a message whatever its number is (specification, 9.8), so a network that doubles packets or changes
 * their order doubles messages, or changes theirs. */
static void arrived_unreliably(struct end *end, const struct ibv_wc *wc)
{
	uint32_t number = ntohl(wc->imm_data);
	CHECK(number < end->count);
	CHECK_EQUAL(wc->byte_len, length_of(number));
	check_bytes(slot_of(end, wc->wr_id), 0, wc->byte_len, number, number);
	end->received = number > end->received ? number : end->received;
}

/* Whole: a network may double datagrams and change their order. */
static void arrived_datagram(struct end *end, const struct ibv_wc *wc)
{
	uint32_t number = ntohl(wc->imm_data);
	CHECK(number < end->count);
	CHECK_EQUAL(wc->byte_len, GRH + datagram_of(number));
	check_bytes(slot_of(end, wc->wr_id) + GRH, 0, wc->byte_len - GRH, number, number);
	end->received = number > end->received ? number : end->received;
}

/* What is left after a lap. */

static void left_anything(const struct end *end, uint64_t number)
{
	(void)end;
	(void)number;
}

static void left_so_many(const struct end *end, uint64_t number, uint32_t length)
{
	check_bytes(slot_of(end, number), 0, length, number, number);
	check_bytes(slot_of(end, number), length, STRIDE, background(number), number);
}

static void left_bytes(const struct end *end, uint64_t number)
{
	left_so_many(end, number, length_of(number));
}

static void left_word(const struct end *end, uint64_t number)
{
	left_so_many(end, number, WORD);
}

static void left_background(const struct end *end, uint64_t number)
{
	left_so_many(end, number, 0);
}

static const struct kind kinds[] = {
	{ "write", IBV_QPT_RC, write_one, returned_nothing, arrived_nothing, left_bytes, false },
	{ "write with immediate", IBV_QPT_RC, write_with_immediate, returned_nothing, arrived_by_write, left_bytes,
	  false },
	{ "send", IBV_QPT_RC, send_one, returned_nothing, arrived_send, left_bytes, false },
	{ "send with immediate", IBV_QPT_RC, send_with_immediate, returned_nothing, arrived_with_immediate, left_bytes,
	  false },
	{ "send with invalidate", IBV_QPT_RC, send_with_invalidate, returned_nothing, arrived_with_invalidate,
	  left_bytes, false },
	{ "read", IBV_QPT_RC, read_one, returned_slot, arrived_nothing, left_background, false },
	{ "fetch and add", IBV_QPT_RC, add_one, returned_number, arrived_nothing, left_anything, false },
	{ "compare and swap", IBV_QPT_RC, swap_one, returned_number, arrived_nothing, left_anything, false },
	{ "atomic write", IBV_QPT_RC, write_atomically, returned_nothing, arrived_nothing, left_word, false },
	{ "send over UC", IBV_QPT_UC, send_with_immediate, returned_nothing, arrived_unreliably, left_anything, true },
	{ "send over UD", IBV_QPT_UD, send_datagram, returned_nothing, arrived_datagram, left_anything, true },
};

static const struct kind *wanted_kind(void)
{
	const char *name = getenv("KIND");
	CHECK_POINTER(name);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	check_failed(__FILE__, __LINE__, "there is no kind '%s'", name);
}

static void open_queue(struct end *end, const struct kind *kind)
{
	end->queue.settings.type = kind->type;
	end->queue.cq = ibv_create_cq(end->queue.context, 2 * SLOTS + DEPTH, NULL, NULL, 0);
	CHECK_POINTER(end->queue.cq);
	bool is_atomic_write = kind->post == write_atomically;
	struct ibv_qp_init_attr_ex init = {
		.qp_type = kind->type,
		.sq_sig_all = 1,
		.send_cq = end->queue.cq,
		.recv_cq = end->queue.cq,
		.cap = { .max_send_wr = SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | (is_atomic_write ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = end->queue.pd,
		.send_ops_flags = is_atomic_write ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0,
	};
	end->queue.qp = ibv_create_qp_ex(end->queue.context, &init);
	CHECK_POINTER(end->queue.qp);
	end->posting = is_atomic_write ? ibv_qp_to_qp_ex(end->queue.qp) : NULL;
}

static struct ibv_ah *way_to(struct end *end)
{
	struct ibv_ah_attr attributes = { .is_global = 1, .port_num = 1,
					  .grh = { .dgid = end->theirs.gid, .sgid_index = GID_INDEX, .hop_limit = 64 } };
	struct ibv_ah *ah = ibv_create_ah(end->queue.pd, &attributes);
	CHECK_POINTER(ah);
	return ah;
}

/* Both ends: a queue pair in ready-to-send. */
static void open_end(struct end *end, const struct kind *kind)
{
	const char *count = getenv("COUNT");
	CHECK_POINTER(count);
	end->count = strtoull(count, NULL, 10);
	end->queue = endpoint_open(endpoint_defaults());
	open_queue(end, kind);
	end->memory = aligned_alloc(4096, SLOTS * STRIDE);
	CHECK_POINTER(end->memory);
	memset(end->memory, 0, SLOTS * STRIDE);
	end->mr = region(&end->queue, end->memory, SLOTS * STRIDE, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	struct card ours = { .number = end->queue.qp->qp_num, .memory = region_window(end->mr) };
	for (unsigned i = 0; i < SLOTS && kind->post == send_with_invalidate; i++) {
		end->windows[i] = ibv_alloc_mw(end->queue.pd, IBV_MW_TYPE_2);
		CHECK_POINTER(end->windows[i]);
		ours.keys[i] = ibv_inc_rkey(end->windows[i]->rkey);
	}
	CHECK_CALL(ibv_query_gid(end->queue.context, 1, GID_INDEX, &ours.gid));
	peer_tell(&end->peer, &ours, sizeof ours);
	peer_hear(&end->peer, &end->theirs, sizeof end->theirs);
	connect_by_gid(&end->queue, end->theirs.gid, end->theirs.number, PSN, TIMEOUT);
	if (kind->type == IBV_QPT_UD)
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
	if (now() > *last + PATIENCE)
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
		kind->returned(end, done++);
		last = now();
	}
}

static void asks(void)
{
	const struct kind *kind = wanted_kind();
	struct end end = { .peer = peer_call(getenv("PEER"), PORT) };
	open_end(&end, kind);
	for (uint64_t first = 0; first < end.count; first += SLOTS) {
		uint64_t behind = first + SLOTS < end.count ? first + SLOTS : end.count;
		peer_meet(&end.peer); /* it is ready for the lap */
		run_lap(&end, kind, first, behind);
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

/* Receives what comes until the other has had its completions, and then what came before. */
static void attend_lap(struct end *end, const struct kind *kind, uint64_t behind)
{
	uint64_t last = now();
	for (bool over = false;;) {
		struct ibv_wc wc;
		if (next(end, &wc)) {
			kind->arrived(end, &wc);
			if (kind->loses)
				receive_into_slot(end, wc.wr_id);
			last = now();
		} else if (!over) {
			over = peer_called(&end->peer);
		} else if (kind->loses || kind->arrived == arrived_nothing || end->received == behind) {
			return;
		}
		check_time(&last, end->received);
	}
}

static void answers(void)
{
	const struct kind *kind = wanted_kind();
	struct end end = { .peer = peer_wait(PORT) };
	open_end(&end, kind);
	bool receives = kind->arrived != arrived_nothing;
	for (uint64_t number = 0; number < SLOTS && kind->loses; number++)
		receive_into_slot(&end, number);
	for (uint64_t first = 0; first < end.count; first += SLOTS) {
		uint64_t behind = first + SLOTS < end.count ? first + SLOTS : end.count;
		bool changes = kind->left == left_bytes || kind->left == left_word;
		if (first == 0 || changes)
			for (uint64_t number = first; number < first + SLOTS && kind->left != left_anything; number++)
				pattern_fill(slot_of(&end, number), STRIDE, background(first));
		for (uint64_t number = first; number < behind && receives && !kind->loses; number++)
			receive_into_slot(&end, number);
		if (kind->post == send_with_invalidate)
			bind_windows(&end);
		peer_meet(&end.peer);
		attend_lap(&end, kind, behind);
		peer_meet(&end.peer);
		for (uint64_t number = first; number < behind; number++)
			kind->left(&end, changes ? number : number % SLOTS);
	}
	if (kind->loses && end.received < end.count / 2)
		check_failed(__FILE__, __LINE__, "of %llu messages the last to arrive is number %llu",
			     (unsigned long long)end.count, (unsigned long long)end.received);
	peer_meet(&end.peer);
	printf("%llu of %s\n", (unsigned long long)end.count, kind->name);
}

const struct test tests[] = { { "asks", asks }, { "answers", answers }, { 0 } };
