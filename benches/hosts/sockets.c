/* Lower bounds of messages between two hosts: round trips of 64 B over the kernel's sockets, without the adapter.
 *
 * The server replies forever. The client sends requests to the address in PEER, and prints half of the median round trip in
 * nanoseconds. For UDP and TCP both sides poll; for sleeping UDP both sides sleep in recv(2). */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define PORT 18600
#define SIZE 64
#define WARMING 1000
#define ROUNDS 20000

struct way {
	const char *figure;
	int type, flags;
};

static const struct way udp = { "udp_ping_pong_ns", SOCK_DGRAM, MSG_DONTWAIT };
static const struct way tcp = { "tcp_ping_pong_ns", SOCK_STREAM, MSG_DONTWAIT };
static const struct way sleeping = { "udp_sleeping_ns", SOCK_DGRAM, 0 };

static void take(int socket, const struct way *way, char *bytes, struct sockaddr_in *from)
{
	for (ssize_t had = 0; had < SIZE;) {
		socklen_t length = sizeof *from;
		ssize_t count = recvfrom(socket, bytes + had, (size_t)(SIZE - had), way->flags,
					 (struct sockaddr *)from, &length);
		if (count == 0)
			exit(0);
		if (count > 0)
			had += count;
	}
}

static void give(int socket, const struct way *way, const char *bytes, const struct sockaddr_in *to)
{
	/* A connected socket has its peer's address. */
	bool is_connected = way->type == SOCK_STREAM;
	CHECK_EQUAL(sendto(socket, bytes, SIZE, 0, is_connected ? NULL : (const struct sockaddr *)to,
			   is_connected ? 0 : sizeof *to),
		    SIZE);
}

static int open_socket(const struct way *way)
{
	int made = socket(AF_INET, way->type, 0), on = 1;
	CHECK(made >= 0);
	if (way->type == SOCK_STREAM)
		CHECK_CALL(setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
	CHECK_CALL(setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	return made;
}

static void answer(const struct way *way)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int bound = open_socket(way);
	CHECK_CALL(bind(bound, (struct sockaddr *)&name, sizeof name));
	if (way->type == SOCK_STREAM) {
		CHECK_CALL(listen(bound, 1));
		bound = accept(bound, NULL, NULL);
		CHECK(bound >= 0);
	}
	char bytes[SIZE];
	for (;;) {
		struct sockaddr_in from;
		take(bound, way, bytes, &from);
		give(bound, way, bytes, &from);
	}
}

static int by_value(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
	return (a > b) - (a < b);
}

static void ask(const struct way *way)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	CHECK_EQUAL(inet_pton(AF_INET, getenv("PEER"), &name.sin_addr), 1);
	int made = open_socket(way);
	if (way->type == SOCK_STREAM)
		CHECK_CALL(connect(made, (struct sockaddr *)&name, sizeof name));
	static uint64_t times[ROUNDS];
	char bytes[SIZE] = { 0 };
	for (int round = -WARMING; round < ROUNDS; round++) {
		struct sockaddr_in from;
		uint64_t begun = now();
		give(made, way, bytes, &name);
		take(made, way, bytes, &from);
		if (round >= 0)
			times[round] = now() - begun;
	}
	qsort(times, ROUNDS, sizeof times[0], by_value);
	printf("%s %.1f\n", way->figure, (double)times[ROUNDS / 2] / 2);
}

static void answer_udp(void) { answer(&udp); }
static void answer_tcp(void) { answer(&tcp); }
static void answer_sleeping(void) { answer(&sleeping); }
static void ask_udp(void) { ask(&udp); }
static void ask_tcp(void) { ask(&tcp); }
static void ask_sleeping(void) { ask(&sleeping); }

const struct test tests[] = {
	{ "answer udp", answer_udp },
	{ "answer tcp", answer_tcp },
	{ "answer sleeping", answer_sleeping },
	{ "ask udp", ask_udp },
	{ "ask tcp", ask_tcp },
	{ "ask sleeping", ask_sleeping },
	{ 0 },
};
