/* The rules of binding a port: RDMA_OPTION_ID_AFONLY, wildcard addresses, and which error refuses (the kernel's
 * cma_check_port and rdma_bind_addr, drivers/infiniband/core/cma.c; rdma_set_option(3), rdma_bind_addr(3)).
 *
 * In the kernel an IPv4 identifier is of its family alone unless the option says otherwise, an IPv6 one if the option
 * says so or net.ipv6.bindv6only is set. Two that are both so share a port. Else a wildcard address, or a loopback one,
 * conflicts with EADDRNOTAVAIL, the same address with EADDRINUSE. */

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define PORT "7483"
enum { DEFAULT = -1, SHARED = 0, ONLY = 1 };

static struct rdma_event_channel *channel;

static struct rdma_cm_id *identifier(void)
{
	struct rdma_cm_id *id;
	if (channel == NULL)
		channel = rdma_create_event_channel();
	CHECK_POINTER(channel);
	CHECK_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

static struct sockaddr_storage address(const char *text)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *found;
	struct sockaddr_storage storage = { 0 };
	CHECK_CALL(getaddrinfo(text, PORT, &hints, &found));
	memcpy(&storage, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return storage;
}

static int option(struct rdma_cm_id *id, int only)
{
	return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only) == 0 ? 0 : errno;
}

/* Binds, and gives the error. */
static int bind_to(struct rdma_cm_id *id, const char *text, int only)
{
	struct sockaddr_storage where = address(text);
	if (only != DEFAULT)
		CHECK_EQUAL(option(id, only), 0);
	return rdma_bind_addr(id, (struct sockaddr *)&where) == 0 ? 0 : errno;
}

/* Returns an address of this host outside of loopback; NULL where there is none. */
static const char *own_address(void)
{
	static char text[64];
	struct ifaddrs *all;
	CHECK_CALL(getifaddrs(&all));
	for (struct ifaddrs *at = all; at != NULL; at = at->ifa_next)
		if (at->ifa_addr != NULL && at->ifa_addr->sa_family == AF_INET && !(at->ifa_flags & IFF_LOOPBACK))
			inet_ntop(AF_INET, &((struct sockaddr_in *)at->ifa_addr)->sin_addr, text, sizeof text);
	freeifaddrs(all);
	return text[0] != '\0' ? text : NULL;
}

static bool has_ipv6(void)
{
	struct rdma_cm_id *id = identifier();
	int error = bind_to(id, "::1", DEFAULT);
	CHECK_CALL(rdma_destroy_id(id));
	return error == 0;
}

static void whoever_comes_second_is_refused_as_by_a_kernel(void)
{
	const char *own = own_address();
	if (!has_ipv6())
		check_skip("no IPv6 address");
	const struct {
		const char *first;
		int first_only;
		const char *second;
		int second_only;
		int error;
	} rows[] = {
		{ "0.0.0.0", DEFAULT, "0.0.0.0", DEFAULT, EADDRNOTAVAIL },
		{ "127.0.0.1", DEFAULT, "0.0.0.0", DEFAULT, EADDRNOTAVAIL },
		{ "0.0.0.0", DEFAULT, "127.0.0.1", DEFAULT, EADDRNOTAVAIL },
		{ "127.0.0.1", DEFAULT, "127.0.0.1", DEFAULT, EADDRNOTAVAIL },
		{ "::", DEFAULT, "::", DEFAULT, EADDRNOTAVAIL },
		{ "::", DEFAULT, "::1", DEFAULT, EADDRNOTAVAIL },
		/* A listener at [::] takes both families. */
		{ "0.0.0.0", DEFAULT, "::", DEFAULT, EADDRNOTAVAIL },
		{ "::", DEFAULT, "0.0.0.0", DEFAULT, EADDRNOTAVAIL },
		{ "127.0.0.1", DEFAULT, "::", DEFAULT, EADDRNOTAVAIL },
		{ "0.0.0.0", DEFAULT, "::", SHARED, EADDRNOTAVAIL },
		/* Unless the option restricts it to its family. */
		{ "0.0.0.0", DEFAULT, "::", ONLY, 0 },
		{ "::", ONLY, "0.0.0.0", DEFAULT, 0 },
		{ "::", ONLY, "127.0.0.1", DEFAULT, 0 },
		{ "::1", ONLY, "0.0.0.0", DEFAULT, 0 },
		{ "0.0.0.0", SHARED, "::", ONLY, EADDRNOTAVAIL },
		{ "::", ONLY, "::1", ONLY, EADDRNOTAVAIL },
		{ "::", ONLY, "::", ONLY, EADDRNOTAVAIL },
		/* Addresses of other hosts' networks. */
		{ own, DEFAULT, own, DEFAULT, EADDRINUSE },
		{ own, DEFAULT, "0.0.0.0", DEFAULT, EADDRNOTAVAIL },
		{ own, DEFAULT, "::", ONLY, 0 },
	};
	for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
		if (rows[row].first == NULL)
			continue;
		struct rdma_cm_id *first = identifier(), *second = identifier();
		CHECK_EQUAL(bind_to(first, rows[row].first, rows[row].first_only), 0);
		int error = bind_to(second, rows[row].second, rows[row].second_only);
		if (error != rows[row].error)
			check_failed(__FILE__, __LINE__, "%s after %s (row %zu) gives %d and not %d", rows[row].second,
				     rows[row].first, row, error, rows[row].error);
		CHECK_CALL(rdma_destroy_id(first));
		CHECK_CALL(rdma_destroy_id(second));
	}
}

static void nobody_else_s_address_is_had(void)
{
	struct rdma_cm_id *id = identifier();
	CHECK_EQUAL(bind_to(id, "192.0.2.1", DEFAULT), EADDRNOTAVAIL);
}

static void an_option_has_its_time_and_its_length(void)
{
	struct rdma_cm_id *id = identifier(), *other = identifier();
	char byte = 1;
	CHECK_EQUAL(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &byte, sizeof byte), -1);
	CHECK_EQUAL(errno, EINVAL);
	/* The option of a bound identifier can be changed. */
	CHECK_EQUAL(bind_to(id, "::", DEFAULT), 0);
	CHECK_EQUAL(option(id, ONLY), 0);
	CHECK_EQUAL(bind_to(other, "0.0.0.0", DEFAULT), 0);
	CHECK_CALL(rdma_listen(id, 1));
	CHECK_EQUAL(option(id, SHARED), EINVAL);
}

/* As an iSER target does: a listener for each family at one port, and each gets the connections of its family. */
static void each_family_has_its_listener(void)
{
	alarm(30);
	if (!has_ipv6())
		check_skip("no IPv6 address");
	struct rdma_cm_id *four = identifier(), *six = identifier();
	CHECK_EQUAL(bind_to(four, "0.0.0.0", DEFAULT), 0);
	CHECK_EQUAL(bind_to(six, "::", ONLY), 0);
	CHECK_CALL(rdma_listen(four, 4));
	CHECK_CALL(rdma_listen(six, 4));
	static const char *const towards[] = { "127.0.0.1", "::1" };
	for (int at = 0; at < 2; at++) {
		struct rdma_cm_id *client = identifier();
		struct sockaddr_storage where = address(towards[at]);
		struct rdma_conn_param parameters = { .responder_resources = 1, .initiator_depth = 1, .qp_num = 17 };
		struct rdma_cm_event *event;
		CHECK_CALL(rdma_resolve_addr(client, NULL, (struct sockaddr *)&where, 2000));
		for (bool requested = false; !requested;) {
			CHECK_CALL(rdma_get_cm_event(channel, &event));
			switch (event->event) {
			case RDMA_CM_EVENT_ADDR_RESOLVED:
				CHECK_CALL(rdma_resolve_route(client, 2000));
				break;
			case RDMA_CM_EVENT_ROUTE_RESOLVED:
				CHECK_CALL(rdma_connect(client, &parameters));
				break;
			default:
				CHECK_EQUAL(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
				CHECK(event->listen_id == (at == 0 ? four : six));
				requested = true;
			}
			CHECK_CALL(rdma_ack_cm_event(event));
		}
	}
}

const struct test tests[] = {
	{ "whoever_comes_second_is_refused_as_by_a_kernel", whoever_comes_second_is_refused_as_by_a_kernel },
	{ "nobody_else_s_address_is_had", nobody_else_s_address_is_had },
	{ "an_option_has_its_time_and_its_length", an_option_has_its_time_and_its_length },
	{ "each_family_has_its_listener", each_family_has_its_listener },
	{ 0 },
};
