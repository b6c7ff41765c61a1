/* Queues that change their size while they hold something, and the low-water mark of shared receive queues.
 *
 * Sources: ibv_resize_cq(3), ibv_modify_srq(3), ibv_query_srq(3), ibv_create_srq(3); InfiniBand Architecture Specification,
 * volume 1, 10.2.9.3 (a limit event disarms the limit), 11.2.8.3 (resizing a completion queue keeps its entries). */

#include <errno.h>

#include "contract.h"

#define MESSAGES 48
#define LENGTH 64
/* Completions that a resized queue keeps. */
#define LEFT 8

/* Two connected queue pairs, and memory registered at both. */
struct traffic {
	struct pair pair;
	uint8_t *memory;
	struct ibv_mr *from, *into;
};

static struct traffic traffic_open(void)
{
	struct traffic traffic = { .pair = pair_open(endpoint_defaults()), .memory = private_pages(PAGE) };
	traffic.from = region(&traffic.pair.one, traffic.memory, PAGE, ALL_ACCESS);
	traffic.into = region(&traffic.pair.other, traffic.memory, PAGE, ALL_ACCESS);
	return traffic;
}

static void traffic_close(struct traffic *traffic)
{
	CHECK_CALL(ibv_dereg_mr(traffic->from));
	CHECK_CALL(ibv_dereg_mr(traffic->into));
	pair_close(&traffic->pair);
	CHECK_CALL(munmap(traffic->memory, PAGE));
}

/* Writes with ids from `first` on. Some of them complete before, some while the queue changes: all are counted. */
static void begin_writes(struct traffic *traffic, unsigned first)
{
	for (unsigned id = first; id < first + MESSAGES; id++)
		post_write(&traffic->pair.one, id, piece_of(traffic->from, 0, LENGTH),
			   (uintptr_t)traffic->memory + 2048, traffic->into->rkey);
}

static void completions_outlive_another_size(void)
{
	struct traffic traffic = traffic_open();
	struct ibv_cq *cq = traffic.pair.one.cq;
	static const int sizes[] = { 300, 64, 4096, 60, 1000 };
	unsigned next = 0, polled = 0;
	for (size_t turn = 0; turn < sizeof sizes / sizeof *sizes; turn++) {
		begin_writes(&traffic, next);
		next += MESSAGES;
		CHECK_CALL(ibv_resize_cq(cq, sizes[turn]));
		CHECK(cq->cqe >= sizes[turn]);
		/* In their order, none lost and none twice; some stay for the next turn. */
		while (polled < next - LEFT)
			expect(&traffic.pair.one, polled++, IBV_WC_SUCCESS);
	}
	while (polled < next)
		expect(&traffic.pair.one, polled++, IBV_WC_SUCCESS);
	expect_none(&traffic.pair.one);
	traffic_close(&traffic);
}

static void a_size_that_cannot_be_changes_nothing(void)
{
	struct traffic traffic = traffic_open();
	struct ibv_cq *cq = traffic.pair.one.cq;
	begin_writes(&traffic, 0);
	struct ibv_device_attr device;
	CHECK_CALL(ibv_query_device(traffic.pair.one.context, &device));
	int before = cq->cqe;
	CHECK_EQUAL(ibv_resize_cq(cq, 0), EINVAL);
	CHECK_EQUAL(ibv_resize_cq(cq, -1), EINVAL);
	CHECK_EQUAL(ibv_resize_cq(cq, device.max_cqe + 1), EINVAL);
	CHECK_EQUAL(cq->cqe, before);
	for (unsigned id = 0; id < MESSAGES; id++)
		expect(&traffic.pair.one, id, IBV_WC_SUCCESS);
	traffic_close(&traffic);
}

static struct ibv_srq *shared_queue(struct endpoint *endpoint, uint32_t receives)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = receives, .max_sge = 2 } };
	struct ibv_srq *srq = ibv_create_srq(endpoint->pd, &init);
	CHECK_POINTER(srq);
	CHECK(init.attr.max_wr >= receives);
	return srq;
}

static int post_shared(struct ibv_srq *srq, uint64_t id)
{
	struct ibv_recv_wr receive = { .wr_id = id }, *bad;
	return ibv_post_srq_recv(srq, &receive, &bad);
}

static void a_shared_queue_holds_what_it_says(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_srq *srq = shared_queue(&endpoint, 10);
	struct ibv_srq_attr attributes;
	CHECK_CALL(ibv_query_srq(srq, &attributes));
	CHECK(attributes.max_wr >= 10);
	CHECK(attributes.max_sge >= 2);
	CHECK_EQUAL(attributes.srq_limit, 0);
	uint32_t size = attributes.max_wr;
	for (uint32_t id = 0; id < size; id++)
		CHECK_CALL(post_shared(srq, id));
	CHECK_EQUAL(post_shared(srq, size), ENOMEM);

	struct ibv_device_attr device;
	CHECK_CALL(ibv_query_device(endpoint.context, &device));
	if (device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) {
		attributes.max_wr = 2 * size;
		CHECK_CALL(ibv_modify_srq(srq, &attributes, IBV_SRQ_MAX_WR));
		CHECK_CALL(ibv_query_srq(srq, &attributes));
		CHECK(attributes.max_wr >= 2 * size);
		for (uint32_t id = size; id < attributes.max_wr; id++)
			CHECK_CALL(post_shared(srq, id));
		CHECK_EQUAL(post_shared(srq, size), ENOMEM);
		/* Smaller than the number of posted receives, or larger than the device's limit: nothing is changed. */
		struct ibv_srq_attr wrong = { .max_wr = size - 1, .srq_limit = 1 };
		CHECK(ibv_modify_srq(srq, &wrong, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0);
		wrong.max_wr = (uint32_t)device.max_srq_wr + 1;
		CHECK_EQUAL(ibv_modify_srq(srq, &wrong, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
		struct ibv_srq_attr after;
		CHECK_CALL(ibv_query_srq(srq, &after));
		CHECK_EQUAL(after.max_wr, attributes.max_wr);
		CHECK_EQUAL(after.srq_limit, 0);
	}
	CHECK_EQUAL(ibv_modify_srq(srq, &attributes, 1 << 7), EINVAL);
	CHECK_CALL(ibv_destroy_srq(srq));
	endpoint_close(&endpoint);
}

static void a_limit_is_told_once(void)
{
	struct endpoint sender = endpoint_open(endpoint_defaults());
	struct settings settings = endpoint_defaults();
	struct endpoint first = endpoint_open(settings);
	struct ibv_srq *srq = shared_queue(&first, 16);
	settings.srq = srq;
	struct endpoint receiver = endpoint_beside(&first, settings);
	endpoint_connect(&receiver, endpoint_address(&sender));
	endpoint_connect(&sender, endpoint_address(&receiver));
	for (uint64_t id = 0; id < 8; id++)
		CHECK_CALL(post_shared(srq, id));

	struct ibv_srq_attr armed = { .srq_limit = 6 };
	enum ibv_event_type event;
	CHECK_CALL(ibv_modify_srq(srq, &armed, IBV_SRQ_LIMIT));
	CHECK_CALL(ibv_query_srq(srq, &armed));
	CHECK_EQUAL(armed.srq_limit, 6);
	struct piece nothing = { 0 };
	for (uint64_t id = 0; id < 2; id++) {
		post_send(&sender, id, nothing);
		expect(&sender, id, IBV_WC_SUCCESS);
		expect(&receiver, id, IBV_WC_SUCCESS);
	}
	/* Six are not fewer than six. */
	CHECK(!event_within(receiver.context, 0, &event));
	post_send(&sender, 2, nothing);
	expect(&sender, 2, IBV_WC_SUCCESS);
	expect(&receiver, 2, IBV_WC_SUCCESS);
	expect_event(receiver.context, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK_CALL(ibv_query_srq(srq, &armed));
	CHECK_EQUAL(armed.srq_limit, 0);
	for (uint64_t id = 3; id < 6; id++) {
		post_send(&sender, id, nothing);
		expect(&sender, id, IBV_WC_SUCCESS);
		expect(&receiver, id, IBV_WC_SUCCESS);
	}
	CHECK(!event_within(receiver.context, 0, &event));
	CHECK_CALL(ibv_destroy_qp(receiver.qp));
	CHECK_CALL(ibv_destroy_srq(srq));
	endpoint_close(&first);
	endpoint_close(&sender);
}

const struct test tests[] = {
	{ "completions_outlive_another_size", completions_outlive_another_size },
	{ "a_size_that_cannot_be_changes_nothing", a_size_that_cannot_be_changes_nothing },
	{ "a_shared_queue_holds_what_it_says", a_shared_queue_holds_what_it_says },
	{ "a_limit_is_told_once", a_limit_is_told_once },
	{ 0 },
};
