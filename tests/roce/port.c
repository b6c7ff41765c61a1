/* Prints the port's state at each event, as the verbs and as sysfs have it. Runs until it is killed. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"

static void print_file(const char *name)
{
	char path[128], text[128];
	snprintf(path, sizeof path, "/sys/class/infiniband/verbena0/ports/1/%s", name);
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text);
	if (fd >= 0)
		close(fd);
	printf(" %.*s", length > 0 ? (int)strcspn(text, "\n") : 1, length > 0 ? text : "-");
}

static void print_port(struct ibv_context *context, const char *why)
{
	struct ibv_port_attr port;
	CHECK_CALL(ibv_query_port(context, 1, &port));
	printf("%s: state %d, sysfs", why, port.state);
	print_file("state");
	print_file("gids/3");
	for (int i = 0; i < port.gid_tbl_len; i++) {
		struct ibv_gid_entry entry;
		char text[INET6_ADDRSTRLEN];
		if (ibv_query_gid_ex(context, 1, i, &entry, 0) == 0)
			printf(", %d %s", i, inet_ntop(AF_INET6, entry.gid.raw, text, sizeof text));
	}
	puts(".");
	fflush(stdout);
}

static void test_watch(void)
{
	struct ibv_context *context = device_open();
	struct ibv_async_event event;
	print_port(context, "begin");
	while (ibv_get_async_event(context, &event) == 0) {
		CHECK_EQUAL(event.element.port_num, 1);
		print_port(context, ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}

const struct test tests[] = { { "watch", test_watch }, { NULL, NULL } };
