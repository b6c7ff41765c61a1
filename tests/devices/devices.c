/* Two devices on one host: objects and events of one never show on the other, and each port goes down alone.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 4.1.3 (LIDs), 9.7.6.1.3 (retries), 11.6.3.4 (port events);
 * man ibv_get_async_event(3), ibv_query_gid_table(3), rdma_bind_addr(3). */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define LENGTH 4096
#define SEED 7
#define QKEY 0x11111111
#define GRH 40

/* An endpoint of a device, with memory. */
struct end {
	struct endpoint endpoint;
	uint8_t *memory;
	struct ibv_mr *mr;
};

static struct end end_open(int device, struct settings settings)
{
	device_choose(device);
	struct end end = { .endpoint = endpoint_open(settings) };
	end.memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(end.memory);
	memset(end.memory, 0xee, LENGTH);
	end.mr = region(&end.endpoint, end.memory, LENGTH, ALL_ACCESS);
	return end;
}

static void end_close(struct end *end)
{
	CHECK_CALL(ibv_dereg_mr(end->mr));
	endpoint_close(&end->endpoint);
	free(end->memory);
}

static void connect_ends(struct end *one, struct end *other)
{
	endpoint_connect(&one->endpoint, endpoint_address(&other->endpoint));
	endpoint_connect(&other->endpoint, endpoint_address(&one->endpoint));
}

/* `verbena port`, as a user would call it. */
static void set_port(int device, const char *state)
{
	const char *libraries = getenv("LD_LIBRARY_PATH");
	CHECK_POINTER(libraries);
	int first = (int)strcspn(libraries, ":");
	char command[4096];
	CHECK(snprintf(command, sizeof command, "%.*s/../verbena port verbena%d %s > /dev/null", first, libraries, device,
		       state) < (int)sizeof command);
	CHECK_CALL(system(command));
}

static enum ibv_port_state port_state(const struct end *end)
{
	struct ibv_port_attr attributes;
	CHECK_CALL(ibv_query_port(end->endpoint.context, 1, &attributes));
	return attributes.state;
}

static bool has_event(const struct end *end)
{
	struct pollfd entry = { .fd = end->endpoint.context->async_fd, .events = POLLIN };
	return poll(&entry, 1, 0) == 1;
}

static void expect_port_event(const struct end *end, enum ibv_event_type type)
{
	struct ibv_async_event event;
	CHECK(has_event(end));
	CHECK_CALL(ibv_get_async_event(end->endpoint.context, &event));
	CHECK_EQUAL(event.event_type, type);
	CHECK_EQUAL(event.element.port_num, 1);
	ibv_ack_async_event(&event);
}

static void message(struct end *from, struct end *to)
{
	pattern_fill(from->memory, LENGTH, SEED);
	memset(to->memory, 0xee, LENGTH);
	post_receive(&to->endpoint, 1, piece_of(to->mr, 0, LENGTH));
	post_send(&from->endpoint, 2, piece_of(from->mr, 0, LENGTH));
	expect(&from->endpoint, 2, IBV_WC_SUCCESS);
	expect(&to->endpoint, 1, IBV_WC_SUCCESS);
	pattern_check(to->memory, LENGTH, SEED);
}

static void each_device_has_its_own_names(void)
{
	int count;
	struct ibv_device **devices = ibv_get_device_list(&count);
	CHECK_POINTER(devices);
	CHECK_EQUAL(count, 2);
	CHECK(devices[2] == NULL);
	CHECK(ibv_get_device_guid(devices[0]) != ibv_get_device_guid(devices[1]));
	union ibv_gid gids[2];
	uint16_t lids[2];
	for (int i = 0; i < 2; i++) {
		char name[16];
		snprintf(name, sizeof name, "verbena%d", i);
		CHECK(strcmp(ibv_get_device_name(devices[i]), name) == 0);
		struct ibv_context *context = ibv_open_device(devices[i]);
		CHECK_POINTER(context);
		CHECK(context->device == devices[i]);
		struct ibv_device_attr attributes;
		CHECK_CALL(ibv_query_device(context, &attributes));
		CHECK_EQUAL(attributes.node_guid, ibv_get_device_guid(devices[i]));
		CHECK_EQUAL(attributes.phys_port_cnt, 1);
		struct ibv_port_attr port;
		CHECK_CALL(ibv_query_port(context, 1, &port));
		CHECK_EQUAL(ibv_query_port(context, 2, &port), EINVAL);
		lids[i] = port.lid;
		struct ibv_gid_entry entries[16];
		CHECK(ibv_query_gid_table(context, entries, 16, 0) > 0);
		CHECK_EQUAL(entries[0].port_num, 1);
		gids[i] = entries[0].gid;
		CHECK_CALL(ibv_close_device(context));
	}
	CHECK(memcmp(&gids[0], &gids[1], sizeof gids[0]) != 0);
	CHECK(lids[0] == 0 || lids[0] != lids[1]);
	ibv_free_device_list(devices);
}

static void messages_pass_between_devices(void)
{
	struct end one = end_open(0, endpoint_defaults()), other = end_open(1, endpoint_defaults());
	connect_ends(&one, &other);
	message(&one, &other);
	message(&other, &one);
	struct ibv_qp_attr attributes;
	struct ibv_qp_init_attr init;
	CHECK_CALL(ibv_query_qp(other.endpoint.qp, &attributes, IBV_QP_PORT | IBV_QP_AV, &init));
	CHECK_EQUAL(attributes.port_num, 1);
	CHECK_EQUAL(attributes.ah_attr.port_num, 1);
	end_close(&one);
	end_close(&other);
}

static void other_process(struct peer *peer)
{
	struct end end = end_open(1, endpoint_defaults());
	peer_connect(peer, &end.endpoint);
	post_receive(&end.endpoint, 1, piece_of(end.mr, 0, LENGTH));
	peer_meet(peer);
	expect(&end.endpoint, 1, IBV_WC_SUCCESS);
	pattern_check(end.memory, LENGTH, SEED);
	peer_meet(peer);
	end_close(&end);
}

static void messages_pass_between_processes(void)
{
	struct peer peer = peer_start(other_process);
	struct end end = end_open(0, endpoint_defaults());
	peer_connect(&peer, &end.endpoint);
	peer_meet(&peer);
	pattern_fill(end.memory, LENGTH, SEED);
	post_send(&end.endpoint, 1, piece_of(end.mr, 0, LENGTH));
	expect(&end.endpoint, 1, IBV_WC_SUCCESS);
	peer_meet(&peer);
	end_close(&end);
	peer_end(&peer);
}

/* The queue pair exists, but not at the port that the address names. */
static void the_wrong_address_reaches_nobody(void)
{
	struct end one = end_open(0, endpoint_defaults()), other = end_open(1, endpoint_defaults());
	struct address mine = endpoint_address(&one.endpoint), wrong = endpoint_address(&other.endpoint);
	wrong.lid = mine.lid;
	wrong.gid = mine.gid;
	endpoint_connect(&one.endpoint, wrong);
	endpoint_connect(&other.endpoint, mine);
	post_send(&one.endpoint, 1, piece_of(one.mr, 0, LENGTH));
	expect(&one.endpoint, 1, IBV_WC_RETRY_EXC_ERR);
	end_close(&one);
	end_close(&other);
}

static struct ibv_ah *way_to(struct end *from, const struct end *to)
{
	struct address address = endpoint_address(&to->endpoint);
	struct ibv_ah_attr where = { .dlid = address.lid, .port_num = 1 };
	if (to->endpoint.port.is_ethernet) {
		where.is_global = 1;
		where.grh = (struct ibv_global_route){ .dgid = address.gid, .sgid_index = from->endpoint.port.gid_index,
						       .hop_limit = 1 };
	}
	struct ibv_ah *ah = ibv_create_ah(from->endpoint.pd, &where);
	CHECK_POINTER(ah);
	return ah;
}

static void post_datagram(struct end *from, struct ibv_ah *ah, uint32_t number)
{
	struct ibv_sge sge = { .addr = (uintptr_t)from->memory, .length = 64, .lkey = from->mr->lkey };
	struct ibv_send_wr request = {
		.wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = ah, .remote_qpn = number, .remote_qkey = QKEY },
	};
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(from->endpoint.qp, &request, &bad));
	expect(&from->endpoint, 3, IBV_WC_SUCCESS);
}

static void datagrams_go_to_the_device_that_is_addressed(void)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UD;
	struct end one = end_open(0, settings), other = end_open(1, settings);
	endpoint_connect(&one.endpoint, (struct address){ 0 });
	endpoint_connect(&other.endpoint, (struct address){ 0 });
	struct ibv_ah *right = way_to(&one, &other), *wrong = way_to(&one, &one);
	post_receive(&other.endpoint, 1, piece_of(other.mr, 0, 64 + GRH));
	post_datagram(&one, wrong, other.endpoint.qp->qp_num);
	expect_none(&other.endpoint);
	post_datagram(&one, right, other.endpoint.qp->qp_num);
	struct ibv_wc wc = completion(&other.endpoint);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	if (!one.endpoint.port.is_ethernet)
		CHECK_EQUAL(wc.slid, one.endpoint.lid);
	CHECK_CALL(ibv_destroy_ah(right));
	CHECK_CALL(ibv_destroy_ah(wrong));
	end_close(&one);
	end_close(&other);
}

/* A context imports its own device, not the first. */
static void an_imported_device_is_the_same(void)
{
	device_choose(1);
	struct ibv_context *context = device_open();
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
	CHECK_POINTER(imported);
	CHECK(imported->device == context->device);
	CHECK_CALL(ibv_close_device(imported));
	CHECK_CALL(ibv_close_device(context));
}

static void a_port_goes_down_alone(void)
{
	struct end one = end_open(0, endpoint_defaults()), other = end_open(1, endpoint_defaults());
	if (one.endpoint.port.is_ethernet)
		check_skip("an Ethernet port goes down with its interface");
	connect_ends(&one, &other);
	struct end here = end_open(0, endpoint_defaults()), there = end_open(0, endpoint_defaults());
	connect_ends(&here, &there);
	message(&one, &other);

	set_port(1, "down");
	expect_port_event(&other, IBV_EVENT_PORT_ERR);
	CHECK(!has_event(&one));
	CHECK_EQUAL(port_state(&other), IBV_PORT_DOWN);
	CHECK_EQUAL(port_state(&one), IBV_PORT_ACTIVE);
	/* Traffic to and from the port that is down; other traffic goes on. */
	post_send(&one.endpoint, 1, piece_of(one.mr, 0, LENGTH));
	expect(&one.endpoint, 1, IBV_WC_RETRY_EXC_ERR);
	post_write(&other.endpoint, 2, piece_of(other.mr, 0, LENGTH), (uintptr_t)one.memory, one.mr->rkey);
	expect(&other.endpoint, 2, IBV_WC_RETRY_EXC_ERR);
	message(&here, &there);

	set_port(1, "up");
	expect_port_event(&other, IBV_EVENT_PORT_ACTIVE);
	CHECK_EQUAL(port_state(&other), IBV_PORT_ACTIVE);
	struct end again = end_open(1, endpoint_defaults());
	struct end back = end_open(0, endpoint_defaults());
	connect_ends(&again, &back);
	message(&back, &again);
	end_close(&again);
	end_close(&back);
	end_close(&here);
	end_close(&there);
	end_close(&one);
	end_close(&other);
}

/* Posted while the port is down, and retried until it is up: nothing is lost or duplicated. */
static void what_is_retried_until_the_port_is_up_arrives(void)
{
	struct settings settings = endpoint_defaults();
	settings.timeout = 20; /* 4 s */
	settings.retry_count = 7;
	struct end one = end_open(0, settings), other = end_open(1, settings);
	if (one.endpoint.port.is_ethernet)
		check_skip("an Ethernet port goes down with its interface");
	connect_ends(&one, &other);
	message(&one, &other);
	for (int round = 0; round < 4; round++) {
		struct end *from = round % 2 == 0 ? &one : &other, *to = round % 2 == 0 ? &other : &one;
		set_port(round / 2, "down");
		pattern_fill(from->memory, LENGTH, (uint64_t)round);
		post_receive(&to->endpoint, 1, piece_of(to->mr, 0, LENGTH));
		post_receive(&to->endpoint, 4, piece_of(to->mr, 0, LENGTH));
		post_send(&from->endpoint, 2, piece_of(from->mr, 0, LENGTH));
		expect_none(&from->endpoint);
		expect_none(&to->endpoint);
		set_port(round / 2, "up");
		expect(&from->endpoint, 2, IBV_WC_SUCCESS);
		expect(&to->endpoint, 1, IBV_WC_SUCCESS);
		pattern_check(to->memory, LENGTH, (uint64_t)round);
		expect_none(&to->endpoint);
		post_send(&from->endpoint, 2, piece_of(from->mr, 0, LENGTH));
		expect(&from->endpoint, 2, IBV_WC_SUCCESS);
		expect(&to->endpoint, 4, IBV_WC_SUCCESS);
	}
	end_close(&one);
	end_close(&other);
}

static void a_port_that_is_down_loses_datagrams(void)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UD;
	struct end one = end_open(0, settings), other = end_open(1, settings);
	if (one.endpoint.port.is_ethernet)
		check_skip("an Ethernet port goes down with its interface");
	endpoint_connect(&one.endpoint, (struct address){ 0 });
	endpoint_connect(&other.endpoint, (struct address){ 0 });
	struct ibv_ah *way = way_to(&one, &other);
	post_receive(&other.endpoint, 1, piece_of(other.mr, 0, 64 + GRH));
	for (int device = 0; device < 2; device++) {
		set_port(device, "down");
		post_datagram(&one, way, other.endpoint.qp->qp_num);
		expect_none(&other.endpoint);
		set_port(device, "up");
	}
	post_datagram(&one, way, other.endpoint.qp->qp_num);
	expect(&other.endpoint, 1, IBV_WC_SUCCESS);
	CHECK_CALL(ibv_destroy_ah(way));
	end_close(&one);
	end_close(&other);
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	CHECK_CALL(rdma_get_cm_event(channel, &event));
	return event;
}

/* Resolves an address and gives the event; the identifier stays. */
static enum rdma_cm_event_type resolve(struct rdma_event_channel *channel, struct rdma_cm_id *id, const char *address)
{
	struct sockaddr_in there = { .sin_family = AF_INET, .sin_port = htons(7471) };
	CHECK_EQUAL(inet_pton(AF_INET, address, &there.sin_addr), 1);
	CHECK_CALL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 2000));
	struct rdma_cm_event *event = next_event(channel);
	enum rdma_cm_event_type type = event->event;
	CHECK_CALL(rdma_ack_cm_event(event));
	return type;
}

/* 127.0.0.K stands for the K-th device. */
static void the_connection_manager_chooses_by_address(void)
{
	device_choose(0);
	struct ibv_context *context = device_open();
	struct ibv_port_attr port;
	CHECK_CALL(ibv_query_port(context, 1, &port));
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		check_skip("over Ethernet the GIDs are the addresses");
	CHECK_CALL(ibv_close_device(context));
	struct rdma_event_channel *channel = rdma_create_event_channel();
	CHECK_POINTER(channel);
	for (int device = 0; device < 2; device++) {
		char name[16], address[32];
		snprintf(name, sizeof name, "verbena%d", device);
		snprintf(address, sizeof address, "127.0.0.%d", device + 1);
		struct rdma_cm_id *id;
		CHECK_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		struct sockaddr_in own = { .sin_family = AF_INET };
		CHECK_EQUAL(inet_pton(AF_INET, address, &own.sin_addr), 1);
		CHECK_CALL(rdma_bind_addr(id, (struct sockaddr *)&own));
		CHECK_POINTER(id->verbs);
		CHECK(strcmp(ibv_get_device_name(id->verbs->device), name) == 0);
		CHECK_EQUAL(id->port_num, 1);
		CHECK_CALL(rdma_destroy_id(id));
	}
	/* A device that is down cannot be reached. */
	device_choose(1);
	struct ibv_context *other = device_open();
	struct rdma_cm_id *id;
	set_port(1, "down");
	CHECK_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK_EQUAL(resolve(channel, id, "127.0.0.2"), RDMA_CM_EVENT_ADDR_ERROR);
	CHECK_CALL(rdma_destroy_id(id));
	set_port(1, "up");
	CHECK_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK_EQUAL(resolve(channel, id, "127.0.0.2"), RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_CALL(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	CHECK_CALL(ibv_close_device(other));
}

const struct test tests[] = {
	{ "each device has its own names", each_device_has_its_own_names },
	{ "messages pass between devices", messages_pass_between_devices },
	{ "messages pass between processes", messages_pass_between_processes },
	{ "the wrong address reaches nobody", the_wrong_address_reaches_nobody },
	{ "datagrams go to the device that is addressed", datagrams_go_to_the_device_that_is_addressed },
	{ "an imported device is the same", an_imported_device_is_the_same },
	{ "a port goes down alone", a_port_goes_down_alone },
	{ "what is retried until the port is up arrives", what_is_retried_until_the_port_is_up_arrives },
	{ "a port that is down loses datagrams", a_port_that_is_down_loses_datagrams },
	{ "the connection manager chooses by address", the_connection_manager_chooses_by_address },
	{ 0 },
};
