/* The requester's status when the responder refuses: keys, bounds, domains, rights, alignment.
 *
 * Source: InfiniBand Architecture Specification, volume 1, 9.7.5 (responder's error classes) and
 * 10.7 (completion statuses); man ibv_post_send(3), ibv_poll_cq(3). */

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

/* Long enough that every path moves it in several parts. */
#define LENGTH (256 * 1024)
#define SEED 1
#define WRONG_KEY_BITS 0x5a5a00

/* How the responder's side is set up; the child inherits it. */
static struct {
	int region_access;
	int qp_access;
	bool other_domain;
} responder;

/* Registers memory, sends its address, and checks at the end that it is unchanged. */
static void respond(struct peer *parent)
{
	struct settings settings = endpoint_defaults();
	settings.access = responder.qp_access;
	struct endpoint endpoint = endpoint_open(settings);
	void *memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(memory);
	pattern_fill(memory, LENGTH, SEED);

	struct ibv_pd *domain = endpoint.pd;
	if (responder.other_domain) {
		domain = ibv_alloc_pd(endpoint.context);
		CHECK_POINTER(domain);
	}
	struct ibv_mr *mr = ibv_reg_mr(domain, memory, LENGTH, responder.region_access);
	CHECK_POINTER(mr);
	struct window window = region_window(mr);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);
	peer_meet(parent);
	pattern_check(memory, LENGTH, SEED);
	CHECK_CALL(ibv_dereg_mr(mr));
	if (responder.other_domain)
		CHECK_CALL(ibv_dealloc_pd(domain));
	endpoint_close(&endpoint);
}

enum operation { WRITE, READ, FETCH_ADD, COMPARE_SWAP };

/* A requester with its own buffer, connected to a responder. */
struct requester {
	struct peer peer;
	struct endpoint endpoint;
	struct ibv_mr *mr;
	struct window window;
};

static struct requester request_from(int region_access, int qp_access, bool other_domain)
{
	responder.region_access = region_access;
	responder.qp_access = qp_access;
	responder.other_domain = other_domain;
	struct requester requester = { .peer = peer_start(respond) };
	requester.endpoint = endpoint_open(endpoint_defaults());
	void *memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(memory);
	pattern_fill(memory, LENGTH, SEED + 1);
	requester.mr = region(&requester.endpoint, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	peer_connect(&requester.peer, &requester.endpoint);
	peer_hear(&requester.peer, &requester.window, sizeof requester.window);
	return requester;
}

static void post_operation(struct requester *requester, enum operation operation, uint64_t address,
			   uint32_t length, uint32_t rkey)
{
	struct endpoint *endpoint = &requester->endpoint;
	struct piece piece = piece_of(requester->mr, 0, length);
	switch (operation) {
	case WRITE:
		post_write(endpoint, 1, piece, address, rkey);
		break;
	case READ:
		post_read(endpoint, 1, piece, address, rkey);
		break;
	case FETCH_ADD:
		post_fetch_add(endpoint, 1, piece_of(requester->mr, 0, 8), address, rkey, 1);
		break;
	case COMPARE_SWAP:
		post_compare_swap(endpoint, 1, piece_of(requester->mr, 0, 8), address, rkey, 0, 1);
		break;
	}
}

/* The operation completes with `status`, the queue pair is in the error state, later requests are
 * flushed, and neither side's memory has changed. */
static void refused(struct requester *requester, enum ibv_wc_status status)
{
	struct endpoint *endpoint = &requester->endpoint;
	expect(endpoint, 1, status);
	CHECK_EQUAL(endpoint_state(endpoint), IBV_QPS_ERR);
	post_write(endpoint, 2, piece_of(requester->mr, 0, 8), requester->window.address,
		   requester->window.rkey);
	expect(endpoint, 2, IBV_WC_WR_FLUSH_ERR);
	expect_none(endpoint);
	pattern_check(requester->mr->addr, LENGTH, SEED + 1);
	peer_meet(&requester->peer);
	peer_end(&requester->peer);
	CHECK_CALL(ibv_dereg_mr(requester->mr));
	endpoint_close(endpoint);
}

static void wrong_key(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, false);
	post_operation(&requester, operation, requester.window.address, 64,
		       requester.window.rkey ^ WRONG_KEY_BITS);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

/* The low eight bits of a key are the consumer's part: they must match too. */
static void wrong_key_low_bits(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, false);
	post_operation(&requester, operation, requester.window.address, 64,
		       requester.window.rkey ^ 0x01);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

static void bound_exceeded(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, false);
	uint64_t end = requester.window.address + requester.window.length;
	bool atomic = operation == FETCH_ADD || operation == COMPARE_SWAP;
	post_operation(&requester, operation, atomic ? end : end - 63, 64, requester.window.rkey);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

/* All of a request is allowed, or none of it: bytes before the bound are not moved either. */
static void last_byte_out_of_bounds(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, false);
	post_operation(&requester, operation, requester.window.address + 1, LENGTH, requester.window.rkey);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

static void before_the_region(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, false);
	post_operation(&requester, operation, requester.window.address - 8, 64,
		       requester.window.rkey);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

static void address_wraps(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, false);
	post_operation(&requester, operation, UINT64_MAX - 7, 64, requester.window.rkey);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

static void domain_mismatch(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, true);
	post_operation(&requester, operation, requester.window.address, 64, requester.window.rkey);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

/* The right that an operation needs, of the region and of the queue pair. */
static int right(enum operation operation)
{
	switch (operation) {
	case WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case READ:
		return IBV_ACCESS_REMOTE_READ;
	default:
		return IBV_ACCESS_REMOTE_ATOMIC;
	}
}

static void region_without_right(enum operation operation)
{
	struct requester requester =
		request_from(ALL_ACCESS & ~right(operation), ALL_ACCESS, false);
	post_operation(&requester, operation, requester.window.address, 64, requester.window.rkey);
	refused(&requester, IBV_WC_REM_ACCESS_ERR);
}

/* Table 58 of the specification: a request that the queue pair does not permit is an invalid
 * request, for any key. */
static void queue_pair_without_right(enum operation operation)
{
	struct requester requester =
		request_from(ALL_ACCESS, ALL_ACCESS & ~right(operation), false);
	post_operation(&requester, operation, requester.window.address, 64, requester.window.rkey);
	refused(&requester, IBV_WC_REM_INV_REQ_ERR);
}

static void atomic_misaligned(enum operation operation)
{
	struct requester requester = request_from(ALL_ACCESS, ALL_ACCESS, false);
	post_operation(&requester, operation, requester.window.address + 4, 8,
		       requester.window.rkey);
	refused(&requester, IBV_WC_REM_INV_REQ_ERR);
}

/* A request of no bytes accesses nothing, so its key is not checked. */
static void zero_length(enum operation operation)
{
	struct requester requester = request_from(0, ALL_ACCESS, false);
	post_operation(&requester, operation, 0, 0, 0);
	expect(&requester.endpoint, 1, IBV_WC_SUCCESS);
	pattern_check(requester.mr->addr, LENGTH, SEED + 1);
	peer_meet(&requester.peer);
	peer_end(&requester.peer);
	CHECK_CALL(ibv_dereg_mr(requester.mr));
	endpoint_close(&requester.endpoint);
}

#define ON(function, operation, suffix)                    \
	static void function##_##suffix(void)              \
	{                                                  \
		function(operation);                       \
	}
#define ON_RDMA(function) ON(function, WRITE, write) ON(function, READ, read)
#define ON_ATOMIC(function) \
	ON(function, FETCH_ADD, fetch_add) ON(function, COMPARE_SWAP, compare_swap)

ON_RDMA(wrong_key) ON_ATOMIC(wrong_key)
ON_RDMA(wrong_key_low_bits)
ON_RDMA(bound_exceeded) ON_ATOMIC(bound_exceeded)
ON_RDMA(last_byte_out_of_bounds)
ON_RDMA(before_the_region)
ON_RDMA(address_wraps)
ON_RDMA(domain_mismatch) ON_ATOMIC(domain_mismatch)
ON_RDMA(region_without_right) ON_ATOMIC(region_without_right)
ON_RDMA(queue_pair_without_right) ON_ATOMIC(queue_pair_without_right)
ON_ATOMIC(atomic_misaligned)
ON_RDMA(zero_length)

#define RDMA_ROWS(function)                                 \
	{ #function " write", function##_write },           \
	{ #function " read", function##_read }
#define ATOMIC_ROWS(function)                               \
	{ #function " fetch_add", function##_fetch_add },   \
	{ #function " compare_swap", function##_compare_swap }

const struct test tests[] = {
	RDMA_ROWS(wrong_key),
	ATOMIC_ROWS(wrong_key),
	RDMA_ROWS(wrong_key_low_bits),
	RDMA_ROWS(bound_exceeded),
	ATOMIC_ROWS(bound_exceeded),
	RDMA_ROWS(last_byte_out_of_bounds),
	RDMA_ROWS(before_the_region),
	RDMA_ROWS(address_wraps),
	RDMA_ROWS(domain_mismatch),
	ATOMIC_ROWS(domain_mismatch),
	RDMA_ROWS(region_without_right),
	ATOMIC_ROWS(region_without_right),
	RDMA_ROWS(queue_pair_without_right),
	ATOMIC_ROWS(queue_pair_without_right),
	ATOMIC_ROWS(atomic_misaligned),
	RDMA_ROWS(zero_length),
	{ 0 },
};
