/* A connection without requests to the peer, so that only the connection manager can report its end.
 *
 *     idle serve ADDRESS    listens; ends with 0 when its one peer has disconnected
 *     idle wait ADDRESS     connects and waits for ever
 *     idle leave ADDRESS    connects and ends by exit(3), without disconnecting */
#include <arpa/inet.h>
#include <err.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(channel, &event))
		err(1, "rdma_get_cm_event");
	struct rdma_cm_id *id = event->id;
	puts(rdma_event_str(event->event));
	fflush(stdout);
	if (event->event != kind)
		errx(1, "%s expected, status %d", rdma_event_str(kind), event->status);
	rdma_ack_cm_event(event);
	return id;
}

static void make_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	if (rdma_create_qp(id, NULL, &init))
		err(1, "rdma_create_qp");
}

static void serve(struct rdma_event_channel *channel, struct rdma_cm_id *id, struct sockaddr_in *address)
{
	struct rdma_conn_param parameters = { 0 };
	if (rdma_bind_addr(id, (struct sockaddr *)address) || rdma_listen(id, 1))
		err(1, "rdma_listen");
	id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_queue_pair(id);
	if (rdma_accept(id, &parameters))
		err(1, "rdma_accept");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
}

static void ask(struct rdma_event_channel *channel, struct rdma_cm_id *id, struct sockaddr_in *address)
{
	struct rdma_conn_param parameters = { .retry_count = 7, .rnr_retry_count = 7 };
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)address, 2000))
		err(1, "rdma_resolve_addr");
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		err(1, "rdma_resolve_route");
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_queue_pair(id);
	if (rdma_connect(id, &parameters))
		err(1, "rdma_connect");
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		errx(2, "usage: idle serve|wait|leave ADDRESS");
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(7471) };
	if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		errx(2, "%s is no IPv4 address", argv[2]);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		err(1, "rdma_create_id");
	if (!strcmp(argv[1], "serve")) {
		serve(channel, id, &address);
		return 0;
	}
	ask(channel, id, &address);
	if (!strcmp(argv[1], "wait"))
		pause();
	exit(0);
}
