/* The kinds of operations of `many.c`: how each is posted, and its expected effects at both ends. */

#include <arpa/inet.h>
#include <string.h>

#include "flush.h"
#include "many.h"
#include "work.h"

#define LONGEST 3000
#define DATAGRAM 1024
#define GRH 40
#define WORD 8
/* The immediate of a message of a trail has this bit, the lap, and its place in the trail. */
#define TRAIL (1u << 31)
#define LAPS 0x7fff
#define TRAIL_FAR 0xffff /* and farther */
/* More packets than may overtake one on the wire: an earlier message has arrived or is lost. */
#define TRAIL_SAYS_SO 80

uint64_t background(uint64_t number)
{
	return ~(number / SLOTS);
}

uint8_t *slot_of(const struct end *end, uint64_t number)
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
	struct ibv_sge piece = { (uintptr_t)slot_of(end, number), length, end->mr->lkey };
	struct ibv_send_wr *bad;
	request.wr_id = number;
	request.sg_list = &piece;
	request.num_sge = 1;
	request.qp_type.xrc.remote_srqn = end->theirs.srq;
	CHECK_CALL(ibv_post_send(end->queue.qp, &request, &bad));
}

/* The same with the operation's bytes. */
static void post_bytes(struct end *end, struct ibv_send_wr request, uint64_t number, uint32_t length)
{
	pattern_fill(slot_of(end, number), length, number);
	post_request(end, request, number, length);
}

static void post_message(struct end *end, enum ibv_wr_opcode opcode, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = opcode,
		.imm_data = htonl((uint32_t)number),
		.wr.rdma = { theirs_of(end, number), end->theirs.memory.rkey },
	};
	post_bytes(end, request, number, length_of(number));
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
	post_bytes(end, request, number, length_of(number));
}

static void send_datagram(struct end *end, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htonl((uint32_t)number),
		.wr.ud = { end->ah, end->theirs.number, QUEUE_KEY },
	};
	post_bytes(end, request, number, datagram_of(number));
}

static void read_one(struct end *end, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { theirs_of(end, number), end->theirs.memory.rkey },
	};
	memset(slot_of(end, number), 0, STRIDE);
	post_request(end, request, number, length_of(number));
}

static void add_one(struct end *end, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = { .remote_addr = end->theirs.memory.address, .rkey = end->theirs.memory.rkey, .compare_add = 1 },
	};
	post_request(end, request, number, WORD);
}

static void swap_one(struct end *end, uint64_t number)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = end->theirs.memory.address, .rkey = end->theirs.memory.rkey,
			       .compare_add = number, .swap = number + 1 },
	};
	post_request(end, request, number, WORD);
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

/* Both at once: the flush follows a write that is not acknowledged yet. */
static void write_and_flush(struct end *end, uint64_t number)
{
	uint32_t length = length_of(number);
	pattern_fill(slot_of(end, number), length, number);
	ibv_wr_start(end->posting);
	end->posting->wr_id = number;
	end->posting->wr_flags = 0;
	ibv_wr_rdma_write(end->posting, end->theirs.memory.rkey, theirs_of(end, number));
	ibv_wr_set_sge(end->posting, end->mr->lkey, (uintptr_t)slot_of(end, number), length);
	end->posting->wr_flags = IBV_SEND_SIGNALED;
	flush_of(end->posting)(end->posting, end->theirs.memory.rkey, theirs_of(end, number), length, FLUSH_GLOBAL,
			       FLUSH_RANGE);
	CHECK_CALL(ibv_wr_complete(end->posting));
}

static void post_all(struct end *end, struct ibv_send_wr *requests, int count)
{
	struct ibv_send_wr *bad;
	for (int i = 0; i + 1 < count; i++)
		requests[i].next = &requests[i + 1];
	CHECK_CALL(ibv_post_send(end->queue.qp, requests, &bad));
}

/* Ends the window's use in the lap before, binds it to the slot, and sends its key. */
static void bind_and_tell(struct end *end, uint64_t number)
{
	struct ibv_mw *window = end->windows[number % SLOTS];
	struct ibv_mw_bind_info slot = { .mr = end->mr, .addr = (uintptr_t)slot_of(end, number),
					 .length = length_of(number), .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	uint32_t key = ibv_inc_rkey(window->rkey);
	struct ibv_send_wr requests[] = {
		{ .wr_id = number, .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = window->rkey },
		{ .wr_id = number, .opcode = IBV_WR_BIND_MW, .bind_mw = { window, key, slot } },
		{ .wr_id = number, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(key),
		  .send_flags = IBV_SEND_SIGNALED },
	};
	pattern_fill(slot_of(end, number), STRIDE, number);
	bool is_bound = number >= SLOTS;
	post_all(end, is_bound ? requests : requests + 1, is_bound ? 3 : 2);
	window->rkey = key;
}

void post_trail(struct end *end, uint64_t lap, uint32_t index)
{
	uint32_t place = index < TRAIL_FAR ? index : TRAIL_FAR;
	struct ibv_send_wr request = {
		.wr_id = index,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(TRAIL | (uint32_t)(lap & LAPS) << 16 | place),
		.wr.rdma = { end->theirs.memory.address, end->theirs.memory.rkey },
	};
	post_all(end, &request, 1);
}

/* The returned data. */

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

/* The received data. */

void receive_into_slot(struct end *end, uint64_t number)
{
	post_receive(&end->queue, number, piece_of(end->mr, number % SLOTS * STRIDE, STRIDE));
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

/* Whole: a first packet begins a message with any number (specification, 9.8), so a network that duplicates or
 * reorders packets duplicates or reorders messages. */
static void arrived_unreliably(struct end *end, const struct ibv_wc *wc)
{
	uint32_t number = ntohl(wc->imm_data);
	CHECK(number < end->count);
	CHECK_EQUAL(wc->byte_len, length_of(number));
	check_bytes(slot_of(end, wc->wr_id), 0, wc->byte_len, number, number);
	end->received = number > end->received ? number : end->received;
}

/* Reads the slot by the received key; the operation is complete with the read. */
static void arrived_key(struct end *end, const struct ibv_wc *wc)
{
	uint64_t number = wc->wr_id;
	if (wc->opcode == IBV_WC_RECV) {
		CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
		CHECK_EQUAL(number, end->heard++);
		CHECK_EQUAL(wc->byte_len, 0);
		uint32_t key = ntohl(wc->imm_data);
		CHECK_EQUAL(key, key_of(end->theirs.keys[number % SLOTS], number));
		post_read(&end->queue, number, piece_of(end->mr, number % SLOTS * STRIDE, length_of(number)),
			  theirs_of(end, number), key);
		return;
	}
	CHECK_EQUAL(wc->opcode, IBV_WC_RDMA_READ);
	CHECK_EQUAL(number, end->received++);
}

/* Whether the message is of the trail; once enough of a lap's trail has arrived, no more messages of the lap will. */
static bool heard_trail(struct end *end, const struct ibv_wc *wc)
{
	uint32_t said = ntohl(wc->imm_data);
	CHECK_EQUAL(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK(wc->wc_flags & IBV_WC_WITH_IMM);
	if (!(said & TRAIL))
		return false;
	CHECK_EQUAL(wc->byte_len, 0);
	if ((said >> 16 & LAPS) == (end->lap & LAPS) && (said & TRAIL_FAR) >= TRAIL_SAYS_SO)
		end->silent = end->lap + 1;
	return true;
}

static void arrived_trail(struct end *end, const struct ibv_wc *wc)
{
	CHECK(heard_trail(end, wc));
}

/* Whole, and of this lap: no message of another is in flight. */
static void arrived_by_lossy_write(struct end *end, const struct ibv_wc *wc)
{
	if (heard_trail(end, wc))
		return;
	uint32_t number = ntohl(wc->imm_data);
	CHECK_EQUAL(number / SLOTS, end->lap);
	CHECK_EQUAL(wc->byte_len, length_of(number));
	check_bytes(slot_of(end, number), 0, wc->byte_len, number, number);
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

/* The expected number after a lap. */

static void left_so_many(const struct end *end, uint64_t number, uint32_t length)
{
	check_bytes(slot_of(end, number), 0, length, number, number);
	check_bytes(slot_of(end, number), length, STRIDE, background(number), number);
}

static void left_bytes(struct end *end, uint64_t number)
{
	left_so_many(end, number, length_of(number));
}

static void left_word(struct end *end, uint64_t number)
{
	left_so_many(end, number, WORD);
}

static void left_background(struct end *end, uint64_t number)
{
	left_so_many(end, number, 0);
}

/* The message's packets have arrived from the first one on, each whole, up to one that was lost; none after it has. */
static void left_packets(struct end *end, uint64_t number)
{
	uint32_t length = length_of(number), there = 0;
	while (there < length) {
		uint32_t behind = there + PATH_MTU < length ? there + PATH_MTU : length;
		uint32_t at = there;
		while (at < behind && slot_of(end, number)[at] == pattern(number, at))
			at++;
		if (at < behind)
			break;
		there = behind;
	}
	left_so_many(end, number, there);
	if (there == length)
		end->received++;
}


static const struct kind kinds[] = {
	{ .name = "write", .type = IBV_QPT_RC, .post = write_one, .completes = IBV_WC_RDMA_WRITE,
	  .left = left_bytes },
	{ .name = "write with immediate", .type = IBV_QPT_RC, .post = write_with_immediate,
	  .completes = IBV_WC_RDMA_WRITE, .arrived = arrived_by_write, .left = left_bytes },
	{ .name = "send", .type = IBV_QPT_RC, .post = send_one, .completes = IBV_WC_SEND,
	  .arrived = arrived_send, .left = left_bytes },
	{ .name = "send with immediate", .type = IBV_QPT_RC, .post = send_with_immediate,
	  .completes = IBV_WC_SEND, .arrived = arrived_with_immediate, .left = left_bytes },
	{ .name = "send with invalidate", .type = IBV_QPT_RC, .post = send_with_invalidate,
	  .completes = IBV_WC_SEND, .arrived = arrived_with_invalidate, .left = left_bytes,
	  .has_windows = ANSWERING },
	{ .name = "read", .type = IBV_QPT_RC, .post = read_one, .completes = IBV_WC_RDMA_READ,
	  .returned = returned_slot, .left = left_background },
	{ .name = "fetch and add", .type = IBV_QPT_RC, .post = add_one, .completes = IBV_WC_FETCH_ADD,
	  .returned = returned_number },
	{ .name = "compare and swap", .type = IBV_QPT_RC, .post = swap_one, .completes = IBV_WC_COMP_SWAP,
	  .returned = returned_number },
	{ .name = "atomic write", .type = IBV_QPT_RC, .post = write_atomically, .completes = IBV_WC_ATOMIC_WRITE,
	  .left = left_word, .posts = IBV_QP_EX_WITH_ATOMIC_WRITE },
	{ .name = "flush", .type = IBV_QPT_RC, .post = write_and_flush, .completes = WC_FLUSH,
	  .left = left_bytes, .posts = IBV_QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_FLUSH, .completes_once = true },
	{ .name = "window bind", .type = IBV_QPT_RC, .post = bind_and_tell, .completes = IBV_WC_SEND,
	  .arrived = arrived_key, .left = left_bytes, .has_windows = ASKING, .completes_once = true },
	{ .name = "write with immediate over XRC", .type = IBV_QPT_XRC_SEND, .post = write_with_immediate,
	  .completes = IBV_WC_RDMA_WRITE, .arrived = arrived_by_write, .left = left_bytes },
	{ .name = "send over XRC", .type = IBV_QPT_XRC_SEND, .post = send_one, .completes = IBV_WC_SEND,
	  .arrived = arrived_send, .left = left_bytes },
	{ .name = "read over XRC", .type = IBV_QPT_XRC_SEND, .post = read_one, .completes = IBV_WC_RDMA_READ,
	  .returned = returned_slot, .left = left_background },
	{ .name = "fetch and add over XRC", .type = IBV_QPT_XRC_SEND, .post = add_one,
	  .completes = IBV_WC_FETCH_ADD, .returned = returned_number },
	{ .name = "write over UC", .type = IBV_QPT_UC, .post = write_one, .completes = IBV_WC_RDMA_WRITE,
	  .arrived = arrived_trail, .left = left_packets, .loses = true },
	{ .name = "write with immediate over UC", .type = IBV_QPT_UC, .post = write_with_immediate,
	  .completes = IBV_WC_RDMA_WRITE, .arrived = arrived_by_lossy_write, .left = left_packets, .loses = true },
	{ .name = "send over UC", .type = IBV_QPT_UC, .post = send_with_immediate, .completes = IBV_WC_SEND,
	  .arrived = arrived_unreliably, .loses = true },
	{ .name = "send over UD", .type = IBV_QPT_UD, .post = send_datagram, .completes = IBV_WC_SEND,
	  .arrived = arrived_datagram, .loses = true },
};

const struct kind *kind_of(const char *name)
{
	CHECK_POINTER(name);
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	check_failed(__FILE__, __LINE__, "there is no kind '%s'", name);
}

bool changes_memory(const struct kind *kind)
{
	return kind->left == left_bytes || kind->left == left_word || kind->left == left_packets;
}

bool ends_with_a_trail(const struct kind *kind)
{
	return kind->left == left_packets;
}
