/* Round trips of one byte over TCP, between processes that sleep in read(2).
 *
 * `round_trip serve ADDRESS` answers one connection. `round_trip ask ADDRESS ROUNDS PAUSE` prints the median round trip in
 * nanoseconds; it pauses for so many microseconds before each, so that the processes that carry the packets sleep. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT 18700
#define WARMING 50
#define CHECK(condition)                 \
	do {                             \
		if (!(condition)) {      \
			perror(#condition); \
			exit(2);         \
		}                        \
	} while (0)

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int by_value(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
	return (a > b) - (a < b);
}

static void serve(int listener, const struct sockaddr_in *name)
{
	int on = 1;
	char byte;
	CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
	CHECK(bind(listener, (const struct sockaddr *)name, sizeof *name) == 0 && listen(listener, 1) == 0);
	int peer = accept(listener, NULL, NULL);
	CHECK(peer >= 0 && setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	while (read(peer, &byte, 1) == 1)
		CHECK(write(peer, &byte, 1) == 1);
}

static void ask(const struct sockaddr_in *name, int rounds, useconds_t pause)
{
	int on = 1, made;
	/* The server may not listen yet. */
	for (int tries = 0;; tries++) {
		made = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(made, (const struct sockaddr *)name, sizeof *name) == 0)
			break;
		CHECK(tries < 500);
		close(made);
		usleep(10000);
	}
	CHECK(setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
	uint64_t *times = calloc((size_t)rounds, sizeof *times);
	char byte = 1;
	for (int round = -WARMING; round < rounds; round++) {
		if (pause > 0)
			usleep(pause);
		uint64_t begun = now();
		CHECK(write(made, &byte, 1) == 1 && read(made, &byte, 1) == 1);
		if (round >= 0)
			times[round] = now() - begun;
	}
	qsort(times, (size_t)rounds, sizeof *times, by_value);
	printf("round_trip_ns %llu\n", (unsigned long long)times[rounds / 2]);
}

int main(int count, char **words)
{
	CHECK(count >= 3);
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	CHECK(inet_pton(AF_INET, words[2], &name.sin_addr) == 1);
	if (strcmp(words[1], "serve") == 0)
		serve(socket(AF_INET, SOCK_STREAM, 0), &name);
	else if (count == 5 && atoi(words[3]) > 0)
		ask(&name, atoi(words[3]), (useconds_t)atoi(words[4]));
	else
		return 2;
	return 0;
}
