/* Connects to a listener in this process, with an argument also joins a group, and makes a call again whose event says that it has failed. Prints the events.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static void check(bool right, const char *call)
{
	if (right)
		return;
	perror(call);
	exit(3);
}

/* Takes an event of the client, prints it, and returns whether it says success. */
static bool success(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
	bool is_wanted = event->event == wanted && event->status == 0;
	printf("%s %d\n", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	return is_wanted;
}

static void begin(enum rdma_port_space space, struct sockaddr_in *to)
{
	check(rdma_create_id(channel, &id, NULL, space) == 0, "rdma_create_id");
	do
		check(rdma_resolve_addr(id, NULL, (struct sockaddr *)to, 1000) == 0, "rdma_resolve_addr");
	while (!success(RDMA_CM_EVENT_ADDR_RESOLVED));
}

int main(int count, char **words)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *incoming = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	channel = rdma_create_event_channel();
	check(incoming && channel, "rdma_create_event_channel");
	check(rdma_create_id(incoming, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
	check(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0 && rdma_listen(listener, 4) == 0, "rdma_listen");
	address.sin_port = rdma_get_src_port(listener);
	bool asked;
	do {
		begin(RDMA_PS_TCP, &address);
		do
			check(rdma_resolve_route(id, 1000) == 0, "rdma_resolve_route");
		while (!success(RDMA_CM_EVENT_ROUTE_RESOLVED));
		struct ibv_qp_init_attr initial = { .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
		check(rdma_create_qp(id, NULL, &initial) == 0, "rdma_create_qp");
		struct rdma_conn_param parameters = { .responder_resources = 1, .initiator_depth = 1 };
		check(rdma_connect(id, &parameters) == 0, "rdma_connect");
		/* A planted event is there at once; else the listener has a request, which it rejects. */
		struct rdma_cm_event *event;
		fd_set both;
		FD_ZERO(&both);
		FD_SET(channel->fd, &both);
		FD_SET(incoming->fd, &both);
		check(select(1 + (channel->fd > incoming->fd ? channel->fd : incoming->fd), &both, NULL, NULL, NULL) > 0, "select");
		asked = FD_ISSET(incoming->fd, &both);
		if (asked) {
			check(rdma_get_cm_event(incoming, &event) == 0, "rdma_get_cm_event");
			check(event->event == RDMA_CM_EVENT_CONNECT_REQUEST, "RDMA_CM_EVENT_CONNECT_REQUEST");
			struct rdma_cm_id *request = event->id;
			rdma_ack_cm_event(event);
			check(rdma_reject(request, NULL, 0) == 0, "rdma_reject");
			check(rdma_destroy_id(request) == 0, "rdma_destroy_id");
		}
		success(RDMA_CM_EVENT_ESTABLISHED);
		rdma_destroy_qp(id);
		check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
	} while (!asked);
	if (count < 2 || strcmp(words[1], "group") != 0)
		return 0;
	struct sockaddr_in group = { .sin_family = AF_INET };
	inet_pton(AF_INET, "239.1.2.3", &group.sin_addr);
	begin(RDMA_PS_UDP, &address);
	do
		check(rdma_join_multicast(id, (struct sockaddr *)&group, NULL) == 0, "rdma_join_multicast");
	while (!success(RDMA_CM_EVENT_MULTICAST_JOIN) && rdma_leave_multicast(id, (struct sockaddr *)&group) == 0);
	check(rdma_destroy_id(id) == 0 && rdma_destroy_id(listener) == 0, "rdma_destroy_id");
	return 0;
}
