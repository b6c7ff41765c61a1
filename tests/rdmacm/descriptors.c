/* The descriptor of an event channel (rdma_create_event_channel(3)) behaves as the kernel's: the table of descriptor.h. */

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

#include "check.h"
#include "descriptor.h"

static struct rdma_event_channel *channel;

/* Each identifier that resolves an address has an event. */
static void resolve(void)
{
	struct rdma_cm_id *id;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7471), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	CHECK_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK_CALL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
}

static int take(void)
{
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(channel, &event) != 0)
		return -1;
	CHECK_EQUAL(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_CALL(rdma_ack_cm_event(event));
	return 0;
}

static void an_event_channel_behaves_as_the_kernel_s(void)
{
	alarm(60);
	channel = rdma_create_event_channel();
	CHECK_POINTER(channel);
	behaves_as_the_kernel_s(&(struct descriptor){ "event channel", channel->fd, O_RDWR, resolve, take, 0 });
}

const struct test tests[] = {
	{ "an_event_channel_behaves_as_the_kernel_s", an_event_channel_behaves_as_the_kernel_s },
	{ 0 },
};
