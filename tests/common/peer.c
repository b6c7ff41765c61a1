#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct peer peer_start(void (*body)(struct peer *parent))
{
	int sockets[2];
	CHECK_CALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets));
	pid_t process = fork();
	CHECK(process >= 0);
	if (process > 0) {
		close(sockets[1]);
		return (struct peer){ .socket = sockets[0], .process = process };
	}
	/* The child ends with a parent that fails its checks. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(sockets[0]);
	struct peer parent = { .socket = sockets[1] };
	body(&parent);
	exit(EXIT_SUCCESS);
}

struct peer peer_wait(uint16_t port)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port) };
	CHECK_CALL(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	CHECK_CALL(bind(listener, (struct sockaddr *)&name, sizeof name));
	CHECK_CALL(listen(listener, 1));
	struct peer peer = { .socket = accept(listener, NULL, NULL) };
	CHECK(peer.socket >= 0);
	close(listener);
	return peer;
}

struct peer peer_call(const char *address, uint16_t port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port) };
	CHECK_POINTER(address);
	CHECK_EQUAL(inet_pton(AF_INET, address, &name.sin_addr), 1);
	struct peer peer = { .socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	CHECK_CALL(connect(peer.socket, (struct sockaddr *)&name, sizeof name));
	return peer;
}

void peer_tell(struct peer *peer, const void *what, size_t length)
{
	const char *bytes = what;
	while (length > 0) {
		ssize_t done = send(peer->socket, bytes, length, MSG_NOSIGNAL);
		if (done < 0 && errno == EINTR)
			continue;
		CHECK(done > 0);
		bytes += done;
		length -= (size_t)done;
	}
}

void peer_hear(struct peer *peer, void *what, size_t length)
{
	char *bytes = what;
	while (length > 0) {
		ssize_t done = recv(peer->socket, bytes, length, 0);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			check_failed(__FILE__, __LINE__, "the other process has ended");
		bytes += done;
		length -= (size_t)done;
	}
}

bool peer_called(const struct peer *peer)
{
	struct pollfd channel = { .fd = peer->socket, .events = POLLIN };
	return poll(&channel, 1, 0) == 1;
}

void peer_meet(struct peer *peer)
{
	char byte = 'm';
	peer_tell(peer, &byte, 1);
	peer_hear(peer, &byte, 1);
}

void peer_connect(struct peer *peer, struct endpoint *endpoint)
{
	struct address ours = endpoint_address(endpoint), theirs;
	peer_tell(peer, &ours, sizeof ours);
	peer_hear(peer, &theirs, sizeof theirs);
	endpoint_connect(endpoint, theirs);
	peer_meet(peer);
}

static int wait_for(pid_t process)
{
	int status;
	while (waitpid(process, &status, 0) < 0)
		CHECK_EQUAL(errno, EINTR);
	return status;
}

void peer_end(struct peer *peer)
{
	int status = wait_for(peer->process);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		check_failed(__FILE__, __LINE__, "the other process ended with status 0x%x", status);
	close(peer->socket);
}

void peer_kill(struct peer *peer)
{
	/* It may have been killed already; until it is waited for, its number is its own. */
	CHECK_CALL(kill(peer->process, SIGKILL));
	wait_for(peer->process);
	close(peer->socket);
}
