/* The descriptor of an event channel (rdma_create_event_channel(3)) behaves as the kernel's: the table of descriptor.h. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "check.h"
#include "descriptor.h"

static struct rdma_event_channel *channel;

/* Each identifier that resolves an address has an event. */
static void resolve(void)
{
	struct rdma_cm_id *id;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7471), .sin_addr = { htonl(INADDR_LOOPBACK) } };
	CHECK_CALL(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK_CALL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000));
}

static int take(void)
{
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(channel, &event) != 0)
		return -1;
	CHECK_EQUAL(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_CALL(rdma_ack_cm_event(event));
	return 0;
}

static void an_event_channel_behaves_as_the_kernel_s(void)
{
	alarm(60);
	channel = rdma_create_event_channel();
	CHECK_POINTER(channel);
	behaves_as_the_kernel_s(&(struct descriptor){ "event channel", channel->fd, O_RDWR, resolve, take, 0 });
}

/* RDMA_USER_CM_CMD_CREATE_ID of <rdma/rdma_user_cm.h>, as librdmacm writes it; 0 or the error. */
static int create_at(int fd)
{
	uint32_t id;
	struct {
		uint32_t cmd;
		uint16_t in, out;
		uint64_t uid, response;
		uint16_t space;
		uint8_t kind, reserved[5];
	} command = { 0, 24, sizeof id, 1, (uintptr_t)&id, RDMA_PS_TCP, 0, { 0 } };
	ssize_t written = write(fd, &command, sizeof command);
	if (written < 0)
		return errno;
	CHECK_EQUAL(written, (ssize_t)sizeof command);
	return 0;
}

/* Commands go to the file, whichever number it has; and its events come until the last number is closed. */
static void commands_are_taken_at_copies(void)
{
	alarm(60);
	channel = rdma_create_event_channel();
	CHECK_POINTER(channel);
	int original = channel->fd;
	int copies[] = { dup(original), fcntl(original, F_DUPFD_CLOEXEC, 100), dup2(original, 200), dup3(original, 201, O_CLOEXEC) };
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(create_at(copies[i]), 0);
	resolve();
	CHECK_CALL(close(original));
	CHECK_EQUAL(create_at(original), EBADF);
	channel->fd = copies[3];
	CHECK_EQUAL(take(), 0);
	resolve();
	CHECK_EQUAL(take(), 0);
	for (int i = 0; i < 3; i++)
		CHECK_CALL(close(copies[i]));
	resolve();
	CHECK_EQUAL(take(), 0);
	rdma_destroy_event_channel(channel);
}

/* A number that now refers to another file, even without a close of the old one through this library. */
static void another_file_at_its_number_is_written_to(void)
{
	alarm(60);
	for (int way = 0; way < 3; way++) {
		channel = rdma_create_event_channel();
		CHECK_POINTER(channel);
		int fd = channel->fd, ends[2];
		char bytes[8];
		CHECK_CALL(pipe(ends));
		if (way == 0) {
			CHECK_EQUAL(dup2(ends[1], fd), fd);
		} else if (way == 1) {
			CHECK_EQUAL(syscall(SYS_dup3, ends[1], fd, 0), fd);
		} else {
			CHECK_CALL(syscall(SYS_close, fd));
			CHECK_EQUAL(syscall(SYS_fcntl, ends[1], F_DUPFD, fd), fd);
		}
		CHECK_EQUAL(write(fd, "12345678", 8), 8);
		CHECK_EQUAL(read(ends[0], bytes, 8), 8);
		CHECK_CALL(close(fd));
		CHECK_CALL(close(ends[0]));
		CHECK_CALL(close(ends[1]));
	}
}

/* A process that did not open it may wait on it and may not write commands to it: ib_safe_file_access of the kernel. */
static void other_processes_are_refused(void)
{
	alarm(60);
	channel = rdma_create_event_channel();
	CHECK_POINTER(channel);
	int ends[2];
	CHECK_CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	for (int is_sent = 0; is_sent < 2; is_sent++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			if (is_sent)
				CHECK_CALL(close(channel->fd));
			int fd = is_sent ? receive_descriptor(ends[1]) : channel->fd;
			/* Also if the child has opened an event channel itself. */
			for (int time = 0; time < 2; time++) {
				CHECK_EQUAL(create_at(fd), EACCES);
				struct rdma_event_channel *own = rdma_create_event_channel();
				CHECK_POINTER(own);
				CHECK_EQUAL(create_at(own->fd), 0);
			}
			_exit(0);
		}
		if (is_sent)
			send_descriptor(ends[0], channel->fd);
		int status;
		CHECK_EQUAL(waitpid(child, &status, 0), child);
		CHECK_EQUAL(status, 0);
	}
	/* One that comes back to its own process is a copy. */
	send_descriptor(ends[0], channel->fd);
	int back = receive_descriptor(ends[1]);
	CHECK_EQUAL(create_at(back), 0);
	CHECK_CALL(close(channel->fd));
	CHECK_EQUAL(create_at(back), 0);
	channel->fd = back;
	resolve();
	CHECK_EQUAL(take(), 0);
	rdma_destroy_event_channel(channel);
}

const struct test tests[] = {
	{ "commands_are_taken_at_copies", commands_are_taken_at_copies },
	{ "another_file_at_its_number_is_written_to", another_file_at_its_number_is_written_to },
	{ "other_processes_are_refused", other_processes_are_refused },
	{ "an_event_channel_behaves_as_the_kernel_s", an_event_channel_behaves_as_the_kernel_s },
	{ 0 },
};
