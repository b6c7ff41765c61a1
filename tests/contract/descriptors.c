/* Descriptors of completion channels and of asynchronous events behave as the kernel's: the table of descriptor.h. */

#include "contract.h"
#include "descriptor.h"

static struct endpoint endpoint;

static void again(void)
{
	to_state(endpoint.qp, IBV_QPS_RESET);
	to_init(&endpoint, ALL_ACCESS);
}

/* A flushed receive raises the event for which the queue is armed. */
static void complete(void)
{
	struct ibv_recv_wr receive = { 0 }, *bad;
	struct ibv_wc completion;
	CHECK_CALL(ibv_req_notify_cq(endpoint.cq, 0));
	CHECK_CALL(ibv_post_recv(endpoint.qp, &receive, &bad));
	endpoint_break(&endpoint);
	while (ibv_poll_cq(endpoint.cq, 1, &completion) == 0)
		;
	CHECK_EQUAL(completion.status, IBV_WC_WR_FLUSH_ERR);
	again();
}

static int take_completion(void)
{
	struct ibv_cq *queue = NULL;
	void *context;
	if (ibv_get_cq_event(endpoint.channel, &queue, &context) != 0)
		return -1;
	CHECK(queue == endpoint.cq);
	ibv_ack_cq_events(queue, 1);
	return 0;
}

static void a_completion_channel_behaves_as_the_kernel_s(void)
{
	hang_after(60);
	endpoint = endpoint_open(endpoint_defaults());
	behaves_as_the_kernel_s(&(struct descriptor){ "completion channel", endpoint.channel->fd, O_RDONLY, complete,
						      take_completion, 8 });
}

/* A queue pair with a shared receive queue raises an event when it has taken its last receive. */
static void break_down(void)
{
	endpoint_break(&endpoint);
	again();
}

static int take_asynchronous(void)
{
	struct ibv_async_event event;
	if (ibv_get_async_event(endpoint.context, &event) != 0)
		return -1;
	CHECK_EQUAL(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(event.element.qp == endpoint.qp);
	ibv_ack_async_event(&event);
	return 0;
}

static void asynchronous_events_behave_as_the_kernel_s(void)
{
	hang_after(60);
	struct endpoint first = endpoint_open(endpoint_defaults());
	struct ibv_srq_init_attr attributes = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct settings settings = endpoint_defaults();
	settings.srq = ibv_create_srq(first.pd, &attributes);
	CHECK_POINTER(settings.srq);
	endpoint = endpoint_beside(&first, settings);
	behaves_as_the_kernel_s(&(struct descriptor){ "asynchronous events", endpoint.context->async_fd, O_RDONLY, break_down,
						      take_asynchronous, 16 });
}

/* More events than the pipe behind a descriptor holds: none is lost, and the descriptor is readable until the last. */
static void many_events_wait(void)
{
	enum { MANY = 2000 };
	hang_after(60);
	endpoint = endpoint_open(endpoint_defaults());
	for (int events = 0; events < MANY; events++)
		complete();
	for (int events = 0; events < MANY; events++) {
		CHECK_EQUAL(poll_mask(endpoint.channel->fd), READABLE);
		CHECK_EQUAL(take_completion(), 0);
	}
	CHECK_EQUAL(poll_mask(endpoint.channel->fd), 0);
	/* Events that were not read are dropped with their queue. */
	complete();
	complete();
	CHECK_CALL(ibv_destroy_qp(endpoint.qp));
	CHECK_CALL(ibv_destroy_cq(endpoint.cq));
	CHECK_EQUAL(poll_mask(endpoint.channel->fd), 0);
}

/* A daemon may close descriptors that are not its own: no signal ends it then. */
static void a_closed_channel_raises_no_signal(void)
{
	hang_after(60);
	endpoint = endpoint_open(endpoint_defaults());
	CHECK_CALL(close(endpoint.channel->fd));
	complete();
	complete();
}

const struct test tests[] = {
	{ "a_completion_channel_behaves_as_the_kernel_s", a_completion_channel_behaves_as_the_kernel_s },
	{ "asynchronous_events_behave_as_the_kernel_s", asynchronous_events_behave_as_the_kernel_s },
	{ "many_events_wait", many_events_wait },
	{ "a_closed_channel_raises_no_signal", a_closed_channel_raises_no_signal },
	{ 0 },
};
