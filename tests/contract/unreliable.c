/* A message on an unreliable service that cannot be received is dropped, and nothing else is lost with it.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 9.8.2 (unreliable connection: a message without a receive
 * is dropped, and the next one that begins is taken), 9.8.3 (unreliable datagram), 9.9.3.1.4 (responder fault class D:
 * silently dropped, the receive queue does not move), table 59 (length errors of UC and UD are of class D). */

#include "contract.h"

#define LENGTH 512
#define SEED 40
/* Bytes of a datagram's buffer in front of its data (ibv_post_recv(3)). */
#define ROUTE 40

static struct pair open_pair(void)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UC;
	return pair_open(settings);
}

/* A message without a receive is dropped; the next one has one, and arrives. */
static void a_message_after_one_without_a_receive(void)
{
	struct pair pair = open_pair();
	uint8_t *from = private_pages(PAGE), *into = private_pages(PAGE);
	struct ibv_mr *source = region(&pair.one, from, PAGE, ALL_ACCESS);
	struct ibv_mr *target = region(&pair.other, into, PAGE, ALL_ACCESS);
	post_send(&pair.one, 1, piece_of(source, 0, LENGTH));
	expect(&pair.one, 1, IBV_WC_SUCCESS);
	expect_silence(&pair.other, 50);
	for (uint64_t number = 2; number < 12; number++) {
		pattern_fill(from, LENGTH, SEED + number);
		post_receive(&pair.other, number, piece_of(target, 0, LENGTH));
		post_send(&pair.one, number, piece_of(source, 0, LENGTH));
		expect(&pair.one, number, IBV_WC_SUCCESS);
		expect(&pair.other, number, IBV_WC_SUCCESS);
		pattern_check(into, LENGTH, SEED + number);
	}
	CHECK_CALL(ibv_dereg_mr(source));
	CHECK_CALL(ibv_dereg_mr(target));
	pair_close(&pair);
}

/* The same for the notice of a write with immediate data, and for messages of many packets. */
static void a_long_message_after_one_without_a_receive(void)
{
	enum { LONG = 40 * 4096 };
	struct pair pair = open_pair();
	uint8_t *from = private_pages(LONG), *into = private_pages(LONG);
	struct ibv_mr *source = region(&pair.one, from, LONG, ALL_ACCESS);
	struct ibv_mr *target = region(&pair.other, into, LONG, ALL_ACCESS);
	post_send(&pair.one, 1, piece_of(source, 0, LONG));
	expect(&pair.one, 1, IBV_WC_SUCCESS);
	expect_silence(&pair.other, 50);
	pattern_fill(from, LONG, SEED);
	post_receive(&pair.other, 2, piece_of(target, 0, LONG));
	post_send(&pair.one, 2, piece_of(source, 0, LONG));
	expect(&pair.one, 2, IBV_WC_SUCCESS);
	expect(&pair.other, 2, IBV_WC_SUCCESS);
	pattern_check(into, LONG, SEED);
	CHECK_CALL(ibv_dereg_mr(source));
	CHECK_CALL(ibv_dereg_mr(target));
	pair_close(&pair);
}

/* A message that is too long for the receive is dropped: the receive stays for the next. */
static void a_message_too_long_leaves_the_receive(void)
{
	struct pair pair = open_pair();
	uint8_t *from = private_pages(PAGE), *into = private_pages(PAGE);
	struct ibv_mr *source = region(&pair.one, from, PAGE, ALL_ACCESS);
	struct ibv_mr *target = region(&pair.other, into, PAGE, ALL_ACCESS);
	post_receive(&pair.other, 1, piece_of(target, 0, LENGTH));
	post_send(&pair.one, 2, piece_of(source, 0, LENGTH + 1));
	expect(&pair.one, 2, IBV_WC_SUCCESS);
	expect_silence(&pair.other, 50);
	CHECK_EQUAL(endpoint_state(&pair.other), IBV_QPS_RTS);
	pattern_fill(from, LENGTH, SEED);
	post_send(&pair.one, 3, piece_of(source, 0, LENGTH));
	expect(&pair.one, 3, IBV_WC_SUCCESS);
	expect(&pair.other, 1, IBV_WC_SUCCESS);
	pattern_check(into, LENGTH, SEED);
	CHECK_CALL(ibv_dereg_mr(source));
	CHECK_CALL(ibv_dereg_mr(target));
	pair_close(&pair);
}

static void send_datagram(struct endpoint *endpoint, struct ibv_ah *to, uint32_t number,
			  struct piece from, uint64_t id)
{
	struct ibv_sge sge = { .addr = (uint64_t)(uintptr_t)from.address,
			       .length = from.length,
			       .lkey = from.lkey };
	struct ibv_send_wr request = {
		.wr_id = id,
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = { .ah = to, .remote_qpn = number, .remote_qkey = 0x11111111 },
	};
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(endpoint->qp, &request, &bad));
	expect(endpoint, id, IBV_WC_SUCCESS);
}

static void a_datagram_too_long_leaves_the_receive(void)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UD;
	struct endpoint one = endpoint_open(settings), other = endpoint_open(settings);
	endpoint_connect(&one, endpoint_address(&other));
	endpoint_connect(&other, endpoint_address(&one));
	uint8_t *from = private_pages(PAGE), *into = private_pages(PAGE);
	struct ibv_mr *source = region(&one, from, PAGE, ALL_ACCESS);
	struct ibv_mr *target = region(&other, into, PAGE, ALL_ACCESS);
	struct ibv_ah_attr path = { .dlid = other.lid, .port_num = 1 };
	struct ibv_ah *to = ibv_create_ah(one.pd, &path);
	CHECK_POINTER(to);
	post_receive(&other, 1, piece_of(target, 0, ROUTE + LENGTH));
	send_datagram(&one, to, other.qp->qp_num, piece_of(source, 0, LENGTH + 1), 2);
	expect_silence(&other, 50);
	CHECK_EQUAL(endpoint_state(&other), IBV_QPS_RTS);
	pattern_fill(from, LENGTH, SEED);
	send_datagram(&one, to, other.qp->qp_num, piece_of(source, 0, LENGTH), 3);
	expect(&other, 1, IBV_WC_SUCCESS);
	pattern_check(into + ROUTE, LENGTH, SEED);
	CHECK_CALL(ibv_destroy_ah(to));
	CHECK_CALL(ibv_dereg_mr(source));
	CHECK_CALL(ibv_dereg_mr(target));
	endpoint_close(&one);
	endpoint_close(&other);
}

const struct test tests[] = {
	{ "a_message_after_one_without_a_receive", a_message_after_one_without_a_receive },
	{ "a_long_message_after_one_without_a_receive",
	  a_long_message_after_one_without_a_receive },
	{ "a_message_too_long_leaves_the_receive", a_message_too_long_leaves_the_receive },
	{ "a_datagram_too_long_leaves_the_receive", a_datagram_too_long_leaves_the_receive },
	{ 0 },
};
