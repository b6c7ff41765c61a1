/* Checks that an event descriptor behaves as Linux' own: completion channels and asynchronous events
 * (drivers/infiniband/core/uverbs_main.c, uverbs_std_types_*.c) and event channels of the connection manager
 * (ucma.c).
 *
 * In Linux poll returns EPOLLIN | EPOLLRDNORM while events are queued and nothing else ever; each event wakes a
 * waiter; O_NONBLOCK is evaluated by each call; the file is closed on exec; dup, fork and SCM_RIGHTS share it; it
 * cannot seek. */
#ifndef VERBENA_TESTS_DESCRIPTOR_H
#define VERBENA_TESTS_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* A kind of descriptor. */
struct descriptor {
	const char *name;
	int fd;
	int access;            /* O_RDONLY or O_RDWR */
	void (*raise)(void);   /* has one more event wait */
	int (*take)(void);     /* takes one event: 0, or -1 with errno */
	ssize_t record;        /* of a read; 0: read is not for programs */
};

#define EVERYTHING (POLLIN | POLLPRI | POLLOUT | POLLRDHUP | POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND)
#define READABLE (POLLIN | POLLRDNORM)

static inline int poll_mask(int fd)
{
	struct pollfd entry = { .fd = fd, .events = EVERYTHING };
	int ready = poll(&entry, 1, 0);
	CHECK(ready == (entry.revents != 0));
	return entry.revents;
}

static inline void is_empty(const struct descriptor *of)
{
	CHECK_EQUAL(poll_mask(of->fd), 0);
}

static inline void poll_answers_readable_alone(const struct descriptor *of)
{
	is_empty(of);
	of->raise();
	CHECK_EQUAL(poll_mask(of->fd), READABLE);
	of->raise();
	CHECK_EQUAL(poll_mask(of->fd), READABLE);
	CHECK_EQUAL(of->take(), 0);
	CHECK_EQUAL(poll_mask(of->fd), READABLE);
	CHECK_EQUAL(of->take(), 0);
}

static inline void select_never_says_writable(const struct descriptor *of)
{
	for (int events = 0; events < 2; events++) {
		fd_set readable, writable, exceptional;
		FD_ZERO(&readable);
		FD_SET(of->fd, &readable);
		writable = exceptional = readable;
		struct timeval no_time = { 0, 0 };
		CHECK_EQUAL(select(of->fd + 1, &readable, &writable, &exceptional, &no_time), events);
		CHECK_EQUAL(FD_ISSET(of->fd, &readable) != 0, events);
		CHECK(!FD_ISSET(of->fd, &writable) && !FD_ISSET(of->fd, &exceptional));
		if (events == 0)
			of->raise();
	}
	CHECK_EQUAL(of->take(), 0);
}

static inline void its_flags_are_the_kernel_s(const struct descriptor *of)
{
	int flags = fcntl(of->fd, F_GETFL);
	CHECK_EQUAL(flags & O_ACCMODE, of->access);
	CHECK_EQUAL(flags & O_NONBLOCK, 0);
	CHECK_EQUAL(fcntl(of->fd, F_GETFD), FD_CLOEXEC);
}

static inline void it_does_not_seek(const struct descriptor *of)
{
	CHECK_EQUAL(lseek(of->fd, 0, SEEK_SET), -1);
	CHECK_EQUAL(errno, ESPIPE);
	if (of->access == O_RDONLY) {
		CHECK_EQUAL(write(of->fd, "12345678", 8), -1);
		CHECK_EQUAL(errno, EBADF);
	}
}

static inline void is_again(const struct descriptor *of)
{
	CHECK_EQUAL(of->take(), -1);
	CHECK_EQUAL(errno, EAGAIN);
}

static inline void it_blocks_unless_told_otherwise(const struct descriptor *of)
{
	int flags = fcntl(of->fd, F_GETFL), on = 1, off = 0;
	CHECK_CALL(fcntl(of->fd, F_SETFL, flags | O_NONBLOCK));
	is_again(of);
	of->raise();
	CHECK_EQUAL(of->take(), 0);
	is_again(of);
	CHECK_CALL(fcntl(of->fd, F_SETFL, flags));
	CHECK_CALL(ioctl(of->fd, FIONBIO, &on));
	is_again(of);
	/* Flags are the file's, not the number's. */
	int copy = dup(of->fd);
	CHECK_CALL(ioctl(copy, FIONBIO, &off));
	CHECK_EQUAL(fcntl(of->fd, F_GETFL) & O_NONBLOCK, 0);
	CHECK_CALL(close(copy));
}

static inline void a_copy_is_the_same_file(const struct descriptor *of)
{
	int copies[] = { dup(of->fd), fcntl(of->fd, F_DUPFD_CLOEXEC, 100) };
	of->raise();
	for (int i = 0; i < 2; i++) {
		CHECK(copies[i] >= 0);
		CHECK_EQUAL(poll_mask(copies[i]), READABLE);
	}
	CHECK_EQUAL(of->take(), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQUAL(poll_mask(copies[i]), 0);
		CHECK_CALL(close(copies[i]));
	}
	/* Closing a copy leaves the descriptor usable. */
	of->raise();
	CHECK_EQUAL(of->take(), 0);
}

static inline int waiting_at(int epoll)
{
	struct epoll_event events[4];
	int ready = epoll_wait(epoll, events, 4, 0);
	for (int i = 0; i < ready; i++)
		CHECK_EQUAL(events[i].events, EPOLLIN | EPOLLRDNORM);
	return ready;
}

static inline int epoll_of(const struct descriptor *of, uint32_t mode)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event all = { .events = EVERYTHING | mode };
	CHECK(epoll >= 0);
	CHECK_CALL(epoll_ctl(epoll, EPOLL_CTL_ADD, of->fd, &all));
	return epoll;
}

static inline void epoll_by_level_reports_until_it_is_taken(const struct descriptor *of)
{
	int epoll = epoll_of(of, 0);
	CHECK_EQUAL(waiting_at(epoll), 0);
	of->raise();
	CHECK_EQUAL(waiting_at(epoll), 1);
	CHECK_EQUAL(waiting_at(epoll), 1);
	CHECK_EQUAL(of->take(), 0);
	CHECK_EQUAL(waiting_at(epoll), 0);
	CHECK_CALL(close(epoll));
}

static inline void epoll_by_edge_reports_each_event(const struct descriptor *of)
{
	int epoll = epoll_of(of, EPOLLET);
	CHECK_EQUAL(waiting_at(epoll), 0);
	for (int events = 0; events < 5; events++) {
		of->raise();
		CHECK_EQUAL(waiting_at(epoll), 1);
		CHECK_EQUAL(waiting_at(epoll), 0);
	}
	for (int events = 0; events < 5; events++) {
		CHECK_EQUAL(of->take(), 0);
		CHECK_EQUAL(waiting_at(epoll), 0);
	}
	of->raise();
	CHECK_EQUAL(waiting_at(epoll), 1);
	CHECK_EQUAL(of->take(), 0);
	CHECK_CALL(close(epoll));
}

static inline void epoll_once_reports_once(const struct descriptor *of)
{
	int epoll = epoll_of(of, EPOLLONESHOT);
	of->raise();
	CHECK_EQUAL(waiting_at(epoll), 1);
	of->raise();
	CHECK_EQUAL(waiting_at(epoll), 0);
	CHECK_EQUAL(of->take(), 0);
	CHECK_EQUAL(of->take(), 0);
	CHECK_CALL(close(epoll));
}

static inline void a_child_sees_the_events(const struct descriptor *of)
{
	of->raise();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(poll_mask(of->fd) == READABLE ? 0 : 1);
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(of->take(), 0);
	is_empty(of);
}

/* Sends a descriptor over a socket. */
static inline void send_descriptor(int socket, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	char byte = 1;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
	CHECK_EQUAL(sendmsg(socket, &message, 0), 1);
}

/* Receives one. */
static inline int receive_descriptor(int socket)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
	CHECK_EQUAL(recvmsg(socket, &message, 0), 1);
	int received;
	memcpy(&received, CMSG_DATA(&control.header), sizeof received);
	return received;
}

static inline void it_can_be_sent(const struct descriptor *of)
{
	int ends[2];
	CHECK_CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	send_descriptor(ends[0], of->fd);
	int received = receive_descriptor(ends[1]);
	CHECK_EQUAL(poll_mask(received), 0);
	of->raise();
	CHECK_EQUAL(poll_mask(received), READABLE);
	CHECK_EQUAL(of->take(), 0);
	CHECK_EQUAL(poll_mask(received), 0);
	CHECK_CALL(close(received));
	CHECK_CALL(close(ends[0]));
	CHECK_CALL(close(ends[1]));
}

static inline void a_read_is_one_event(const struct descriptor *of)
{
	if (of->record == 0)
		return;
	char bytes[256];
	of->raise();
	of->raise();
	CHECK_EQUAL(read(of->fd, bytes, sizeof bytes), of->record);
	CHECK_EQUAL(poll_mask(of->fd), READABLE);
	CHECK_EQUAL(read(of->fd, bytes, (size_t)of->record), of->record);
	is_empty(of);
}

/* Fewer bytes than an event has are refused when there is one (ib_uverbs_event_read), and it stays. */
static inline void a_shorter_read_is_refused(const struct descriptor *of)
{
	if (of->record == 0)
		return;
	char bytes[256];
	int flags = fcntl(of->fd, F_GETFL), copy = dup(of->fd);
	CHECK(copy >= 0);
	CHECK_CALL(fcntl(of->fd, F_SETFL, flags | O_NONBLOCK));
	CHECK_EQUAL(read(of->fd, bytes, 1), -1);
	CHECK_EQUAL(errno, EAGAIN);
	CHECK_CALL(fcntl(of->fd, F_SETFL, flags));
	of->raise();
	for (ssize_t length = 0; length < of->record; length++) {
		CHECK_EQUAL(read(length % 2 ? copy : of->fd, bytes, (size_t)length), -1);
		CHECK_EQUAL(errno, EINVAL);
	}
	CHECK_EQUAL(poll_mask(of->fd), READABLE);
	CHECK_EQUAL(of->take(), 0);
	is_empty(of);
	CHECK_CALL(close(copy));
	/* Another file under the number of the copy. */
	int ends[2];
	CHECK_CALL(pipe2(ends, O_DIRECT));
	CHECK(ends[0] == copy || ends[1] == copy);
	CHECK_EQUAL(write(ends[1], "1234", 4), 4);
	CHECK_EQUAL(read(ends[0], bytes, 4), 4);
	CHECK_CALL(close(ends[0]));
	CHECK_CALL(close(ends[1]));
}

/* Only the last row has the events that the library still holds. */
static void (*const rows[])(const struct descriptor *) = {
	poll_answers_readable_alone,
	select_never_says_writable,
	its_flags_are_the_kernel_s,
	it_does_not_seek,
	it_blocks_unless_told_otherwise,
	a_copy_is_the_same_file,
	epoll_by_level_reports_until_it_is_taken,
	epoll_by_edge_reports_each_event,
	epoll_once_reports_once,
	a_child_sees_the_events,
	it_can_be_sent,
	a_shorter_read_is_refused,
	a_read_is_one_event,
};

/* Each row of the table. */
static inline void behaves_as_the_kernel_s(const struct descriptor *of)
{
	for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
		rows[row](of);
}

#endif
