/* Uses a completion queue in one way, and prints how often completions and events came. */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "work.h"

#define MESSAGES 4
#define POLLS 6
#define SIZE 8

static struct endpoint from, to;
static struct ibv_mr *mr;

/* The queue pairs, of which the second may receive into another queue, which is cq2. */
static struct ibv_cq_ex *open_both(bool extended)
{
	from = endpoint_open(endpoint_defaults());
	struct ibv_cq_ex *queue = NULL;
	struct settings settings = endpoint_defaults();
	if (extended) {
		struct ibv_cq_init_attr_ex attributes = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
		queue = ibv_create_cq_ex(from.context, &attributes);
		CHECK_POINTER(queue);
		settings.receive_cq = ibv_cq_ex_to_cq(queue);
	}
	to = endpoint_beside(&from, settings);
	endpoint_connect(&from, endpoint_address(&to));
	endpoint_connect(&to, endpoint_address(&from));
	mr = region(&from, aligned_alloc(4096, 4096), 4096, ALL_ACCESS);
	return queue;
}

static void write_one(uint64_t id)
{
	post_write(&from, id, piece_of(mr, 0, SIZE), (uintptr_t)mr->addr + 64, mr->rkey);
}

/* Completions are there before the polls. */
static void polls(void)
{
	open_both(false);
	for (int number = 0; number < MESSAGES; number++)
		write_one(number);
	usleep(20000);
	printf("polled");
	for (int number = 0; number < POLLS; number++) {
		struct ibv_wc some[8];
		printf(" %d", ibv_poll_cq(from.cq, 8, some));
	}
	printf("\n");
}

static void batches(void)
{
	struct ibv_cq_ex *queue = open_both(true);
	for (int number = 0; number < MESSAGES; number++)
		post_receive(&to, number, piece_of(mr, 64, SIZE));
	for (int number = 0; number < MESSAGES; number++)
		post_send(&from, number, piece_of(mr, 0, SIZE));
	usleep(20000);
	printf("polled");
	for (int number = 0; number < POLLS; number++) {
		struct ibv_poll_cq_attr attributes = { 0 };
		int found = 0;
		if (ibv_start_poll(queue, &attributes) == 0) {
			do
				found++;
			while (ibv_next_poll(queue) == 0);
			ibv_end_poll(queue);
		}
		printf(" %d", found);
	}
	printf("\n");
}

/* Prints whether an event comes in this time. */
static void event_within(int milliseconds)
{
	struct pollfd wait = { .fd = from.channel->fd, .events = POLLIN };
	if (poll(&wait, 1, milliseconds) != 1) {
		printf(" none");
		return;
	}
	struct ibv_cq *queue;
	void *cookie;
	CHECK_CALL(ibv_get_cq_event(from.channel, &queue, &cookie));
	ibv_ack_cq_events(queue, 1);
	printf(" event");
}

static void events(void)
{
	open_both(false);
	printf("came");
	for (int number = 0; number < 2; number++) {
		CHECK_CALL(ibv_req_notify_cq(from.cq, 0));
		write_one(number);
		event_within(60);
		event_within(300);
		struct ibv_wc wc;
		printf(" %d", ibv_poll_cq(from.cq, 1, &wc));
	}
	printf("\n");
}

/* The completion comes before the program sleeps, and the poll before that does not see it. */
static void sleeps(void)
{
	open_both(false);
	CHECK_CALL(ibv_req_notify_cq(from.cq, 0));
	write_one(1);
	event_within(60);
	CHECK_CALL(ibv_req_notify_cq(from.cq, 0));
	struct ibv_wc wc;
	printf(" %d", ibv_poll_cq(from.cq, 1, &wc));
	event_within(60);
	printf(" %d\n", ibv_poll_cq(from.cq, 1, &wc));
}

/* A delayed event of a queue that is destroyed never comes. */
static void destroys(void)
{
	open_both(false);
	struct ibv_cq *queue = ibv_create_cq(from.context, 4, NULL, from.channel, 0);
	CHECK_POINTER(queue);
	struct settings settings = endpoint_defaults();
	settings.receive_cq = queue;
	struct endpoint third = endpoint_beside(&from, settings);
	endpoint_connect(&third, endpoint_address(&to));
	CHECK_CALL(ibv_req_notify_cq(queue, 0));
	post_receive(&third, 1, piece_of(mr, 64, SIZE));
	endpoint_break(&third);
	CHECK_CALL(ibv_destroy_qp(third.qp));
	CHECK_CALL(ibv_destroy_cq(queue));
	printf("came");
	event_within(200);
	printf("\n");
}

static void overrun(void)
{
	open_both(false);
	for (int number = 1; number <= MESSAGES && endpoint_state(&from) == IBV_QPS_RTS; number++) {
		write_one(number);
		usleep(20000);
	}
	struct ibv_wc some[8];
	printf("completions %d state %d events", ibv_poll_cq(from.cq, 8, some), endpoint_state(&from));
	fcntl(from.context->async_fd, F_SETFL, O_NONBLOCK);
	struct ibv_async_event event;
	while (ibv_get_async_event(from.context, &event) == 0) {
		printf(" %s", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	printf("\n");
}

const struct test tests[] = {
	{ "polls", polls },
	{ "batches", batches },
	{ "events", events },
	{ "sleeps", sleeps },
	{ "destroys", destroys },
	{ "overrun", overrun },
	{ 0 },
};
