/* A second process, and a channel to talk to it beside the adapter. */
#ifndef VERBENA_TESTS_PEER_H
#define VERBENA_TESTS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "endpoint.h"

/* One end of the channel between two processes. */
struct peer {
	int socket;
	pid_t process; /* in the parent: the child; in the child: 0 */
};

/* Starts a child that runs `body` with its end of the channel and then exits. Call it before the
 * device is opened. */
struct peer peer_start(void (*body)(struct peer *parent));

/* A process of another host: waits for one that calls at a TCP port, or calls the one at an IPv4 address. */
struct peer peer_wait(uint16_t port);
struct peer peer_call(const char *address, uint16_t port);

/* Sends and receives exactly `length` bytes; a channel that closes early fails the test. */
void peer_tell(struct peer *peer, const void *what, size_t length);
void peer_hear(struct peer *peer, void *what, size_t length);

/* Whether there is something to receive, or the channel has closed. */
bool peer_called(const struct peer *peer);

/* A barrier: a byte each way. */
void peer_meet(struct peer *peer);

/* Exchanges addresses and connects. */
void peer_connect(struct peer *peer, struct endpoint *endpoint);

/* Waits for the child and checks that it ended well. */
void peer_end(struct peer *peer);

/* Ends the child at once, as a crash would, and waits for it. */
void peer_kill(struct peer *peer);

#endif
