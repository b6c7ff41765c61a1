/* A queue pair that went through RESET is another connection: packets of the old one are no part of it.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 10.3.1.1 (Reset: everything outstanding is discarded), 9.7.2 (a
 * request whose PSN is not the expected one nor a duplicate's is not executed), 12.9.8.4 (TimeWait: packets of an old
 * connection); ibv_modify_qp(3). */

#include "contract.h"

#define TRIES 200
#define SHORT_LENGTH 256
#define LONG_LENGTH (16 * PAGE)
#define OLD 0x0d
#define OVERWRITTEN 0x0e
#define NEW 0xe7

/* `length` bytes are sent without a receive to take them; both ends are reset and connected again
 * with other packet sequence numbers, and the sender fills its buffer anew. The first message that
 * arrives then is the first that is posted then. */
static void a_message_from_before_reset(uint32_t length)
{
	struct settings settings = endpoint_defaults();
	struct pair pair = pair_open(settings);
	uint8_t *from = private_pages(2 * length);
	uint8_t *into = private_pages(length);
	struct ibv_mr *source = region(&pair.one, from, 2 * length, ALL_ACCESS);
	struct ibv_mr *target = region(&pair.other, into, length, ALL_ACCESS);
	unsigned arrived = 0, overwritten = 0;
	for (uint32_t attempt = 0; attempt < TRIES; attempt++) {
		memset(from, OLD, length);
		memset(from + length, NEW, length);
		post_send(&pair.one, 1, piece_of(source, 0, length));
		pair_reset(&pair);
		memset(from, OVERWRITTEN, length);
		memset(into, 0, length);
		post_receive(&pair.other, 2, piece_of(target, 0, length));
		pair_connect(&pair, 0x10000 + 0x1000 * attempt);
		post_send(&pair.one, 3, piece_of(source, length, length));
		expect(&pair.other, 2, IBV_WC_SUCCESS);
		if (into[0] == NEW && into[length - 1] == NEW) {
			expect(&pair.one, 3, IBV_WC_SUCCESS);
		} else {
			arrived++;
			overwritten += into[0] == OVERWRITTEN;
		}
		/* Packets in flight must not meet the next attempt. */
		pair_reset(&pair);
		pair_connect(&pair, 0x500000 + 0x1000 * attempt);
		expect_none(&pair.one);
		expect_none(&pair.other);
	}
	if (arrived != 0)
		check_failed(__FILE__, __LINE__,
			     "in %u of %u tries the message of an old connection arrived, "
			     "%u times with the bytes that overwrote it",
			     arrived, TRIES, overwritten);
	CHECK_CALL(ibv_dereg_mr(source));
	CHECK_CALL(ibv_dereg_mr(target));
	pair_close(&pair);
}

static void a_short_message_from_before_reset(void)
{
	a_message_from_before_reset(SHORT_LENGTH);
}

static void a_long_message_from_before_reset(void)
{
	a_message_from_before_reset(LONG_LENGTH);
}

const struct test tests[] = {
	{ "a_short_message_from_before_reset", a_short_message_from_before_reset },
	{ "a_long_message_from_before_reset", a_long_message_from_before_reset },
	{ 0 },
};
