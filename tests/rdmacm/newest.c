/* Commands of the newest librdmacm (rdma_resolve_addrinfo, rdma_query_addrinfo, rdma_write_cm_event; RDMACM_1.4), written as it writes
 * them: that of this machine may lack the calls. Layouts, values and answers: <rdma/rdma_user_cm.h>, and drivers/infiniband/core/ucma.c,
 * cma.c and sa_query.c of Linux 6.17. */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { CREATE_ID = 0, DESTROY_ID = 1, BIND_IP = 2, GET_EVENT = 12, QUERY = 19, RESOLVE_IB_SERVICE = 23, WRITE_CM_EVENT = 24 };
enum { ADDRINFO_ERROR = 17, USER = 18, INTERNAL = 19 };
enum { QUERY_ADDR = 0, QUERY_IB_SERVICE = 3, BY_ID = 1, BY_NAME = 2 };

struct header { uint32_t cmd; uint16_t in, out; };

struct event {
	uint64_t uid;
	uint32_t id, event, status;
	uint32_t argument[2];
	uint8_t rest[296];
	uint32_t reserved, ece[2];
};

static int fd;

/* Writes a command: 0 or the error. */
static int command(uint32_t code, const void *body, size_t length, size_t room)
{
	uint8_t bytes[512];
	struct header header = { code, (uint16_t)length, (uint16_t)room };
	memcpy(bytes, &header, sizeof header);
	memcpy(bytes + sizeof header, body, length);
	ssize_t written = write(fd, bytes, sizeof header + length);
	if (written < 0)
		return errno;
	CHECK_EQUAL(written, (ssize_t)(sizeof header + length));
	return 0;
}

static uint32_t create(uint64_t uid)
{
	uint32_t id = 0;
	struct { uint64_t uid, response; uint16_t space; uint8_t kind, reserved[5]; } body = { uid, (uintptr_t)&id, RDMA_PS_TCP, 0, { 0 } };
	CHECK_EQUAL(command(CREATE_ID, &body, sizeof body, sizeof id), 0);
	return id;
}

static uint32_t destroy(uint32_t id)
{
	uint32_t reported = 0;
	struct { uint64_t response; uint32_t id, reserved; } body = { (uintptr_t)&reported, id, 0 };
	CHECK_EQUAL(command(DESTROY_ID, &body, sizeof body, sizeof reported), 0);
	return reported;
}

static void bind_to(uint32_t id, in_addr_t address)
{
	struct { uint64_t response; uint8_t address[28]; uint32_t id; } body = { 0, { 0 }, id };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr = { htonl(address) } };
	memcpy(body.address, &to, sizeof to);
	CHECK_EQUAL(command(BIND_IP, &body, sizeof body, 0), 0);
}

static struct event next(void)
{
	struct event event;
	uint64_t response = (uintptr_t)&event;
	CHECK_EQUAL(sizeof event, 336);
	CHECK_EQUAL(command(GET_EVENT, &response, sizeof response, sizeof event), 0);
	return event;
}

static int write_event(uint32_t id, uint32_t kind, int32_t status, uint64_t argument)
{
	/* The union at the end has space for the parameters of a connection. */
	struct { uint32_t id, reserved, event, status; uint64_t argument; uint8_t rest[296]; } body =
		{ id, 0, kind, (uint32_t)status, argument, { 0 } };
	return command(WRITE_CM_EVENT, &body, sizeof body, 0);
}

static int resolve(uint32_t id, uint32_t flags, const char *name)
{
	struct { uint32_t id; uint64_t service; char name[64]; uint32_t flags, reserved; } body = { id, 0x1234, "", flags, 0 };
	strncpy(body.name, name, sizeof body.name - 1);
	return command(RESOLVE_IB_SERVICE, &body, sizeof body, 0);
}

static int query(uint32_t id, uint32_t option, size_t room)
{
	uint8_t answer[512];
	struct { uint64_t response; uint32_t id, option; } body = { (uintptr_t)answer, id, option };
	return command(QUERY, &body, sizeof body, room);
}

static int is_readable(void)
{
	struct pollfd entry = { .fd = fd, .events = POLLIN };
	return poll(&entry, 1, 0);
}

static void begin(void)
{
	alarm(60);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	CHECK_POINTER(channel);
	fd = channel->fd;
}

static void events_of_the_program_come_in_order(void)
{
	begin();
	uint32_t one = create(0x1111), other = create(0x2222);
	CHECK_EQUAL(write_event(one, USER, 7, UINT64_C(0x123456789abcdef0)), 0);
	CHECK_EQUAL(write_event(other, INTERNAL, -ENOENT, 16), 0);
	CHECK_EQUAL(write_event(one, USER, 0, 0), 0);
	static const struct { uint64_t uid; uint32_t event; int32_t status; uint64_t argument; } expected[] = {
		{ 0x1111, USER, 7, UINT64_C(0x123456789abcdef0) },
		{ 0x2222, INTERNAL, -ENOENT, 16 },
		{ 0x1111, USER, 0, 0 },
	};
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		CHECK_EQUAL(is_readable(), 1);
		struct event event = next();
		uint64_t argument;
		memcpy(&argument, event.argument, sizeof argument);
		CHECK_EQUAL(event.uid, expected[i].uid);
		CHECK_EQUAL(event.id, expected[i].uid == 0x1111 ? one : other);
		CHECK_EQUAL(event.event, expected[i].event);
		CHECK_EQUAL((int32_t)event.status, expected[i].status);
		CHECK_EQUAL(argument, expected[i].argument);
	}
	CHECK_EQUAL(is_readable(), 0);
	/* They are counted, and those that were not taken go with their identifier. */
	CHECK_EQUAL(write_event(one, USER, 0, 1), 0);
	CHECK_EQUAL(destroy(one), 2);
	CHECK_EQUAL(is_readable(), 0);
	CHECK_EQUAL(destroy(other), 1);
}

static void other_events_are_not_written(void)
{
	begin();
	uint32_t id = create(1);
	for (uint32_t kind = 0; kind < 24; kind++)
		CHECK_EQUAL(write_event(id, kind, 0, 0), kind == USER || kind == INTERNAL ? 0 : EINVAL);
	CHECK_EQUAL(write_event(id + 1000, USER, 0, 0), ENOENT);
	int first = fd;
	fd = rdma_create_event_channel()->fd;
	CHECK_EQUAL(write_event(id, USER, 0, 0), EINVAL);
	fd = first;
	CHECK_EQUAL(destroy(id), 0);
}

static uint32_t written;

static void *writer(void *unused)
{
	(void)unused;
	usleep(50000);
	CHECK_EQUAL(write_event(written, USER, 3, 4), 0);
	return NULL;
}

static void an_event_wakes_a_thread_that_waits(void)
{
	begin();
	written = create(5);
	pthread_t thread;
	CHECK_CALL(pthread_create(&thread, NULL, writer, NULL));
	struct event event = next();
	CHECK_EQUAL(event.event, USER);
	CHECK_EQUAL(event.uid, 5);
	CHECK_CALL(pthread_join(thread, NULL));
	CHECK_EQUAL(destroy(written), 1);
}

/* A port of the adapter is one of Ethernet. */
static int is_ethernet(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	CHECK_POINTER(devices);
	struct ibv_context *context = ibv_open_device(devices[0]);
	struct ibv_port_attr attributes;
	CHECK_POINTER(context);
	CHECK_CALL(ibv_query_port(context, 1, &attributes));
	CHECK_CALL(ibv_close_device(context));
	ibv_free_device_list(devices);
	return attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* Returns an IPv4 address of this host outside of loopback. */
static in_addr_t own_address(void)
{
	struct ifaddrs *all;
	in_addr_t found = 0;
	CHECK_CALL(getifaddrs(&all));
	for (struct ifaddrs *at = all; at != NULL && found == 0; at = at->ifa_next)
		if (at->ifa_addr != NULL && at->ifa_addr->sa_family == AF_INET && !(at->ifa_flags & IFF_LOOPBACK))
			found = ntohl(((struct sockaddr_in *)at->ifa_addr)->sin_addr.s_addr);
	freeifaddrs(all);
	return found;
}

/* Ethernet has no subnet administration to ask (rdma_cap_ib_sa). */
static void no_service_is_looked_for_over_ethernet(void)
{
	if (!is_ethernet())
		check_skip("the port's link is InfiniBand");
	begin();
	uint32_t id = create(0x79);
	bind_to(id, own_address());
	CHECK_EQUAL(resolve(id, BY_NAME, "storage"), EOPNOTSUPP);
	CHECK_EQUAL(is_readable(), 0);
	CHECK_EQUAL(query(id, QUERY_IB_SERVICE, 512), ENODATA);
	CHECK_EQUAL(destroy(id), 0);
}

/* The adapter's subnet has no service records: the same result as a kernel's with an empty table. */
static void no_service_is_found(void)
{
	if (is_ethernet())
		check_skip("the port's link is Ethernet");
	begin();
	uint32_t id = create(0x77);
	CHECK_EQUAL(resolve(id, BY_NAME, "storage"), EINVAL);
	bind_to(id, INADDR_ANY);
	CHECK_EQUAL(resolve(id, BY_NAME, "storage"), EINVAL);
	CHECK_EQUAL(destroy(id), 0);
	id = create(0x78);
	bind_to(id, INADDR_LOOPBACK);
	for (int time = 0; time < 2; time++) {
		CHECK_EQUAL(resolve(id, time ? BY_ID : BY_NAME, "storage"), 0);
		struct event event = next();
		CHECK_EQUAL(event.uid, 0x78);
		CHECK_EQUAL(event.event, ADDRINFO_ERROR);
		CHECK_EQUAL((int32_t)event.status, -ENODATA);
	}
	CHECK_EQUAL(query(id, QUERY_IB_SERVICE, 512), ENODATA);
	CHECK_EQUAL(query(id, QUERY_IB_SERVICE, 7), ENOSPC);
	CHECK_EQUAL(query(id + 1000, QUERY_IB_SERVICE, 512), ENOENT);
	/* The forms of AF_IB addresses, which the adapter does not have. */
	CHECK_EQUAL(query(id, QUERY_ADDR, 512), ENOSYS);
	CHECK_EQUAL(query(id, 77, 512), ENOSYS);
	CHECK_EQUAL(resolve(id + 1000, BY_ID, ""), ENOENT);
	CHECK_EQUAL(destroy(id), 2);
}

const struct test tests[] = {
	{ "events_of_the_program_come_in_order", events_of_the_program_come_in_order },
	{ "other_events_are_not_written", other_events_are_not_written },
	{ "an_event_wakes_a_thread_that_waits", an_event_wakes_a_thread_that_waits },
	{ "no_service_is_found", no_service_is_found },
	{ "no_service_is_looked_for_over_ethernet", no_service_is_looked_for_over_ethernet },
	{ 0 },
};
