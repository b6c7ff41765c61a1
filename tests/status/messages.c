/* The statuses at both sides of a message when the receiver is not ready, too small, forbidden, ended or never there,
 * and the completions of work that is still queued.
 *
 * Source: InfiniBand Architecture Specification, volume 1, 9.7.5.2.8 (RNR NAK), 9.7.6.1 (transport timer), 10.3.1
 * (error state), 11.6.2 (completion statuses). */

#include <stdlib.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define LENGTH 4096
#define SEED 7

static struct ibv_mr *buffer(struct endpoint *endpoint, uint64_t seed, int access)
{
	void *memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(memory);
	pattern_fill(memory, LENGTH, seed);
	return region(endpoint, memory, LENGTH, access);
}

/* A peer that connects and then only waits. */
static void idle(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	peer_connect(parent, &endpoint);
	peer_meet(parent);
	endpoint_close(&endpoint);
}

static struct endpoint connected(struct peer *peer, void (*body)(struct peer *),
				 struct settings settings)
{
	*peer = peer_start(body);
	struct endpoint endpoint = endpoint_open(settings);
	peer_connect(peer, &endpoint);
	return endpoint;
}

static void rnr_exceeded(uint8_t retries)
{
	struct settings settings = endpoint_defaults();
	settings.rnr_retry = retries;
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, settings);
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	post_send(&endpoint, 1, piece_of(mr, 0, 64));
	expect(&endpoint, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK_EQUAL(endpoint_state(&endpoint), IBV_QPS_ERR);
	peer_meet(&peer);
	peer_end(&peer);
}

static void rnr_at_once(void)
{
	rnr_exceeded(0);
}

static void rnr_after_retries(void)
{
	rnr_exceeded(3);
}

/* Posts its receive only after the sender has been waiting for it. */
static void late(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED + 1, IBV_ACCESS_LOCAL_WRITE);
	peer_connect(parent, &endpoint);
	peer_meet(parent);
	/* Long against the RNR timer of 10 us, so that several retries come first. */
	uint64_t start = now();
	while (now() - start < 20 * MILLISECOND)
		;
	post_receive(&endpoint, 9, piece_of(mr, 0, LENGTH));
	struct ibv_wc wc = completion(&endpoint);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.byte_len, 64);
	pattern_check(mr->addr, 64, SEED);
	peer_meet(parent);
	endpoint_break(&endpoint);
}

static void rnr_for_ever_waits(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, late, endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	post_send(&endpoint, 1, piece_of(mr, 0, 64));
	peer_meet(&peer);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	peer_meet(&peer);
	peer_end(&peer);
}

/* Ready to send to a number without a queue pair. */
static struct endpoint to_nobody(uint32_t qp_number, uint16_t lid)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct address nobody = endpoint_address(&endpoint);
	nobody.qp_number = qp_number;
	if (lid != 0)
		nobody.lid = lid;
	endpoint_connect(&endpoint, nobody);
	return endpoint;
}

static void retries_exceeded_to(struct endpoint *endpoint)
{
	struct ibv_mr *mr = buffer(endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	post_send(endpoint, 1, piece_of(mr, 0, 64));
	expect(endpoint, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQUAL(endpoint_state(endpoint), IBV_QPS_ERR);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(endpoint);
}

static void no_such_queue_pair(void)
{
	struct endpoint endpoint = to_nobody(0xabcdef, 0);
	retries_exceeded_to(&endpoint);
}

static void no_such_lid(void)
{
	struct endpoint endpoint = to_nobody(0xabcdef, 0xbff0);
	retries_exceeded_to(&endpoint);
}

static void dead_peer(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, endpoint_defaults());
	peer_kill(&peer);
	retries_exceeded_to(&endpoint);
}

/* The peer dies while work is under way: every request completes, the first with retry exceeded
 * or done, the rest flushed. */
static void peer_dies_under_load(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	for (uint64_t id = 0; id < 32; id++)
		post_send(&endpoint, id, piece_of(mr, 0, LENGTH));
	peer_kill(&peer);
	expect(&endpoint, 0, IBV_WC_RETRY_EXC_ERR);
	for (uint64_t id = 1; id < 32; id++)
		expect(&endpoint, id, IBV_WC_WR_FLUSH_ERR);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

/* A dead peer gets as much time as one that does not answer, not less: a program that has all its messages ends, and
 * its peer, whose last requests are not acknowledged, has until then to end likewise. */
static void dead_peer_has_its_time(void)
{
	struct settings settings = endpoint_defaults();
	settings.timeout = 14;
	settings.retry_count = 3;
	uint64_t timeout_ns = 4 * (UINT64_C(4096) << settings.timeout);
	for (int posted_before = 0; posted_before < 2; posted_before++) {
		struct peer peer;
		struct endpoint endpoint = connected(&peer, idle, settings);
		struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
		if (posted_before)
			post_send(&endpoint, 1, piece_of(mr, 0, LENGTH));
		uint64_t start = now();
		peer_kill(&peer);
		if (!posted_before)
			post_send(&endpoint, 1, piece_of(mr, 0, LENGTH));
		expect(&endpoint, 1, IBV_WC_RETRY_EXC_ERR);
		uint64_t waited = now() - start;
		CHECK(waited >= timeout_ns);
		CHECK_CALL(ibv_dereg_mr(mr));
		endpoint_close(&endpoint);
	}
}

static void local_key_wrong(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	struct piece piece = piece_of(mr, 0, 128);
	piece.lkey ^= 0x5a5a00;
	post_send(&endpoint, 1, piece);
	expect(&endpoint, 1, IBV_WC_LOC_PROT_ERR);
	CHECK_EQUAL(endpoint_state(&endpoint), IBV_QPS_ERR);
	peer_meet(&peer);
	peer_end(&peer);
}

static void local_bound_exceeded(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	post_send(&endpoint, 1, piece_of(mr, LENGTH - 64, 65));
	expect(&endpoint, 1, IBV_WC_LOC_PROT_ERR);
	peer_meet(&peer);
	peer_end(&peer);
}

static void local_domain_mismatch(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, endpoint_defaults());
	struct ibv_pd *other = ibv_alloc_pd(endpoint.context);
	CHECK_POINTER(other);
	void *memory = aligned_alloc(4096, LENGTH);
	struct ibv_mr *mr = ibv_reg_mr(other, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	CHECK_POINTER(mr);
	post_send(&endpoint, 1, piece_of(mr, 0, 128));
	expect(&endpoint, 1, IBV_WC_LOC_PROT_ERR);
	peer_meet(&peer);
	peer_end(&peer);
}

/* Offers its parent readable memory. */
static void readable(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED + 1, ALL_ACCESS);
	struct window window = region_window(mr);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);
	peer_meet(parent);
}

static void read_into_unwritable(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, readable, endpoint_defaults());
	struct window window;
	peer_hear(&peer, &window, sizeof window);
	struct ibv_mr *mr = buffer(&endpoint, SEED, 0);
	post_read(&endpoint, 1, piece_of(mr, 0, 64), window.address, window.rkey);
	expect(&endpoint, 1, IBV_WC_LOC_PROT_ERR);
	pattern_check(mr->addr, LENGTH, SEED);
	peer_meet(&peer);
	peer_end(&peer);
}

/* Receives into a buffer smaller than the message. */
static void small_receiver(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED + 1, IBV_ACCESS_LOCAL_WRITE);
	post_receive(&endpoint, 5, piece_of(mr, 0, 63));
	post_receive(&endpoint, 6, piece_of(mr, 0, 63));
	peer_connect(parent, &endpoint);
	expect(&endpoint, 5, IBV_WC_LOC_LEN_ERR);
	expect(&endpoint, 6, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQUAL(endpoint_state(&endpoint), IBV_QPS_ERR);
	for (uint64_t position = 63; position < LENGTH; position++)
		CHECK_EQUAL(((uint8_t *)mr->addr)[position], pattern(SEED + 1, position));
	peer_meet(parent);
}

static void receive_too_small(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, small_receiver, endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	post_send(&endpoint, 1, piece_of(mr, 0, 64));
	expect(&endpoint, 1, IBV_WC_REM_INV_REQ_ERR);
	peer_meet(&peer);
	peer_end(&peer);
}

/* Receives into memory that it may not write. */
static void forbidden_receiver(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED + 1, 0);
	post_receive(&endpoint, 5, piece_of(mr, 0, 64));
	peer_connect(parent, &endpoint);
	expect(&endpoint, 5, IBV_WC_LOC_PROT_ERR);
	pattern_check(mr->addr, LENGTH, SEED + 1);
	peer_meet(parent);
}

static void receive_forbidden(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, forbidden_receiver, endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	post_send(&endpoint, 1, piece_of(mr, 0, 64));
	expect(&endpoint, 1, IBV_WC_REM_OP_ERR);
	peer_meet(&peer);
	peer_end(&peer);
}

/* Receives are flushed in the order in which they were posted, then nothing more comes. */
static void flush_receives(void)
{
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, endpoint_defaults());
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	for (uint64_t id = 0; id < 20; id++)
		post_receive(&endpoint, id, piece_of(mr, 0, 64));
	endpoint_break(&endpoint);
	for (uint64_t id = 0; id < 20; id++)
		expect(&endpoint, id, IBV_WC_WR_FLUSH_ERR);
	expect_none(&endpoint);
	/* Posting in the error state is allowed and flushes at once. */
	post_receive(&endpoint, 100, piece_of(mr, 0, 64));
	expect(&endpoint, 100, IBV_WC_WR_FLUSH_ERR);
	post_send(&endpoint, 101, piece_of(mr, 0, 64));
	expect(&endpoint, 101, IBV_WC_WR_FLUSH_ERR);
	peer_meet(&peer);
	peer_end(&peer);
}

/* Unsignalled requests are flushed with a completion each: errors are always told. */
static void flush_unsignalled(void)
{
	struct settings settings = endpoint_defaults();
	settings.unsignaled = true;
	struct peer peer;
	struct endpoint endpoint = connected(&peer, idle, settings);
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	/* No receive is posted and the retries never end: these stay queued. */
	for (uint64_t id = 0; id < 10; id++)
		post_send(&endpoint, id, piece_of(mr, 0, 64));
	expect_none(&endpoint);
	endpoint_break(&endpoint);
	for (uint64_t id = 0; id < 10; id++)
		expect(&endpoint, id, IBV_WC_WR_FLUSH_ERR);
	expect_none(&endpoint);
	peer_meet(&peer);
	peer_end(&peer);
}

/* UC has no acknowledgement: the writer gets no error, and the memory stays as it was. */
static void uc_responder(struct peer *parent)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UC;
	settings.access = IBV_ACCESS_REMOTE_WRITE;
	struct endpoint endpoint = endpoint_open(settings);
	struct ibv_mr *mr = buffer(&endpoint, SEED + 1, IBV_ACCESS_LOCAL_WRITE);
	struct window window = region_window(mr);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);
	peer_meet(parent);
	pattern_check(mr->addr, LENGTH, SEED + 1);
}

static void uc_write_forbidden(void)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UC;
	settings.access = IBV_ACCESS_REMOTE_WRITE;
	struct peer peer;
	struct endpoint endpoint = connected(&peer, uc_responder, settings);
	struct window window;
	peer_hear(&peer, &window, sizeof window);
	struct ibv_mr *mr = buffer(&endpoint, SEED, IBV_ACCESS_LOCAL_WRITE);
	post_write(&endpoint, 1, piece_of(mr, 0, 64), window.address, window.rkey);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(endpoint_state(&endpoint), IBV_QPS_RTS);
	peer_meet(&peer);
	peer_end(&peer);
}

const struct test tests[] = {
	{ "rnr_at_once", rnr_at_once },
	{ "rnr_after_retries", rnr_after_retries },
	{ "rnr_for_ever_waits", rnr_for_ever_waits },
	{ "no_such_queue_pair", no_such_queue_pair },
	{ "no_such_lid", no_such_lid },
	{ "dead_peer", dead_peer },
	{ "peer_dies_under_load", peer_dies_under_load },
	{ "dead_peer_has_its_time", dead_peer_has_its_time },
	{ "local_key_wrong", local_key_wrong },
	{ "local_bound_exceeded", local_bound_exceeded },
	{ "local_domain_mismatch", local_domain_mismatch },
	{ "read_into_unwritable", read_into_unwritable },
	{ "receive_too_small", receive_too_small },
	{ "receive_forbidden", receive_forbidden },
	{ "flush_receives", flush_receives },
	{ "flush_unsignalled", flush_unsignalled },
	{ "uc_write_forbidden", uc_write_forbidden },
	{ 0 },
};
