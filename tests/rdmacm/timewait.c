/* The end of a connection: RDMA_CM_EVENT_TIMEWAIT_EXIT (rdma_get_cm_event(3)) comes to a side that has disconnected
 * itself, once no packet can be in flight any more, and a queue pair's number is not reused before. A peer's disconnect is
 * reported behind the completions that came before it. */
#include "check.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>

/* Nanoseconds of the wait: twice a packet's life, which the path record gives as 4.096 us * 2^life. */
static uint64_t wait_of(struct rdma_cm_id *id)
{
	uint8_t life = id->route.path_rec->packet_life_time;
	return 2 * (UINT64_C(4096) << life);
}

/* The next event, which must be of this kind; gives the identifier that it is of. */
static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct rdma_cm_event *event;
	CHECK_CALL(rdma_get_cm_event(channel, &event));
	struct rdma_cm_id *id = event->id;
	CHECK_EQUAL(event->event, kind);
	CHECK_EQUAL(event->status, 0);
	CHECK_CALL(rdma_ack_cm_event(event));
	return id;
}

struct side {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
};

static void make_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	CHECK_CALL(rdma_create_qp(id, NULL, &init));
}

/* Connects an active and a passive side over `listener`. */
static void connect_sides(struct side *active, struct side *passive, struct rdma_cm_id *listener)
{
	struct rdma_conn_param parameters = { .responder_resources = 1, .initiator_depth = 1 };
	CHECK_POINTER(active->channel = rdma_create_event_channel());
	CHECK_CALL(rdma_create_id(active->channel, &active->id, NULL, RDMA_PS_TCP));
	CHECK_CALL(rdma_resolve_addr(active->id, NULL, rdma_get_local_addr(listener), 1000));
	expect(active->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_CALL(rdma_resolve_route(active->id, 1000));
	expect(active->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_queue_pair(active->id);
	CHECK_CALL(rdma_connect(active->id, &parameters));
	passive->channel = listener->channel;
	passive->id = expect(passive->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_queue_pair(passive->id);
	CHECK_CALL(rdma_accept(passive->id, &parameters));
	expect(active->channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(passive->channel, RDMA_CM_EVENT_ESTABLISHED);
}

static struct rdma_cm_id *listen_somewhere(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	CHECK_POINTER(channel);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_CALL(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	CHECK_CALL(rdma_bind_addr(listener, (struct sockaddr *)&address));
	CHECK_CALL(rdma_listen(listener, 1));
	return listener;
}

static bool has_event(struct rdma_event_channel *channel, int milliseconds)
{
	struct pollfd descriptor = { .fd = channel->fd, .events = POLLIN };
	return poll(&descriptor, 1, milliseconds) > 0;
}

/* Both disconnect, one after the other: each has the event, and not before its wait is over. */
static void each_side_waits(void)
{
	struct rdma_cm_id *listener = listen_somewhere();
	struct side active, passive;
	connect_sides(&active, &passive, listener);
	uint64_t began = now();
	CHECK_CALL(rdma_disconnect(active.id));
	expect(active.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(passive.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(active.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	CHECK(now() - began >= wait_of(active.id));
	/* The other side has not disconnected itself, however long ago its peer has. */
	CHECK(!has_event(passive.channel, 0));
	began = now();
	CHECK_CALL(rdma_disconnect(passive.id));
	CHECK(expect(passive.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT) == passive.id);
	CHECK(now() - began >= wait_of(active.id));
	CHECK(!has_event(active.channel, 0));
}

/* An identifier that is destroyed meanwhile has no event, nor has one that takes its number. */
static void who_is_gone_waits_for_nothing(void)
{
	struct rdma_cm_id *listener = listen_somewhere();
	struct side active, passive;
	connect_sides(&active, &passive, listener);
	CHECK_CALL(rdma_disconnect(active.id));
	expect(active.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(passive.channel, RDMA_CM_EVENT_DISCONNECTED);
	int wait = (int)(wait_of(active.id) / 1000000);
	rdma_destroy_qp(active.id);
	CHECK_CALL(rdma_destroy_id(active.id));
	struct rdma_cm_id *successor;
	CHECK_CALL(rdma_create_id(active.channel, &successor, NULL, RDMA_PS_TCP));
	CHECK(!has_event(active.channel, 2 * wait));
}

/* A number is not reused while packets to it may be in flight. */
static void a_number_rests(void)
{
	struct rdma_cm_id *listener = listen_somewhere();
	struct side active, passive;
	connect_sides(&active, &passive, listener);
	uint64_t wait = wait_of(active.id);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = active.id->send_cq,
		.recv_cq = active.id->recv_cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	uint32_t number = active.id->qp->qp_num;
	CHECK_CALL(rdma_disconnect(active.id));
	uint64_t began = now();
	CHECK_CALL(ibv_destroy_qp(active.id->qp));
	active.id->qp = NULL;
	/* Many more than the numbers that a process has at a time. */
	for (int count = 0; count < 2000; count++) {
		struct ibv_qp *next = ibv_create_qp(passive.id->pd, &init);
		CHECK_POINTER(next);
		CHECK(next->qp_num != number || now() - began >= wait);
		CHECK_CALL(ibv_destroy_qp(next));
	}
}

/* The event of a peer's disconnect, which comes while a completion of a send waits in the queue. Returns whether it waited
 * for the program to take the completion. */
static bool waits_for_the_completion(struct rdma_cm_id *listener)
{
	static char bytes[2][8];
	struct ibv_wc completion;
	struct side active, passive;
	connect_sides(&active, &passive, listener);
	struct ibv_mr *from = rdma_reg_msgs(active.id, bytes[0], sizeof(bytes[0]));
	struct ibv_mr *to = rdma_reg_msgs(passive.id, bytes[1], sizeof(bytes[1]));
	CHECK_POINTER(from);
	CHECK_POINTER(to);
	CHECK_CALL(rdma_post_recv(passive.id, NULL, bytes[1], sizeof(bytes[1]), to));
	CHECK_CALL(rdma_post_send(active.id, NULL, bytes[0], sizeof(bytes[0]), from, IBV_SEND_SIGNALED));
	while (ibv_poll_cq(passive.id->recv_cq, 1, &completion) == 0)
		;
	CHECK_EQUAL(completion.status, IBV_WC_SUCCESS);
	CHECK_CALL(rdma_disconnect(passive.id));
	bool waits = !has_event(active.channel, 20);
	while (ibv_poll_cq(active.id->send_cq, 1, &completion) == 0)
		;
	CHECK_EQUAL(completion.status, IBV_WC_SUCCESS);
	expect(active.channel, RDMA_CM_EVENT_DISCONNECTED);
	expect(passive.channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_CALL(rdma_dereg_mr(from));
	CHECK_CALL(rdma_dereg_mr(to));
	rdma_destroy_qp(active.id);
	rdma_destroy_qp(passive.id);
	CHECK_CALL(rdma_destroy_id(active.id));
	CHECK_CALL(rdma_destroy_id(passive.id));
	rdma_destroy_event_channel(active.channel);
	return waits;
}

/* It waits 100 ms at most, so a busy machine may need more than one attempt. */
static void a_disconnect_waits_for_completions(void)
{
	struct rdma_cm_id *listener = listen_somewhere();
	int attempts = 20;
	while (!waits_for_the_completion(listener))
		CHECK(--attempts > 0);
}

const struct test tests[] = {
	{ "a_disconnect_waits_for_completions", a_disconnect_waits_for_completions },
	{ "each_side_waits", each_side_waits },
	{ "who_is_gone_waits_for_nothing", who_is_gone_waits_for_nothing },
	{ "a_number_rests", a_number_rests },
	{ 0 },
};
