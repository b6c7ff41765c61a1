/* The exported functions in which a thread may block and be cancelled (pthreads(7)), and that the rest
   of the shim needs: `read`, `recvmsg` and `fcntl`. They are C because the unwinding of a cancelled
   thread must not pass through Rust. */
#define _GNU_SOURCE
/* With these the header would replace the names defined here. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#undef fcntl64

/* Defined in reading.rs and copies.rs. */
int verbena_shim_is_too_short(int descriptor, size_t count);
int verbena_shim_copied(int original, int copy);
void verbena_shim_received(struct msghdr *message);
/* Defined in management.rs. */
int verbena_shim_is_datagrams(int descriptor);
ssize_t verbena_shim_take_datagram(int descriptor, void *buffer, size_t count);

/* Reads of this many bytes are long enough for every event. */
#define LONGEST_EVENT 16

/* Not in every header. */
int fcntl64(int descriptor, int command, ...);
ssize_t __read_chk(int descriptor, void *buffer, size_t count, size_t room);

/* The next functions, found before the program runs; with 64-bit file offsets `fcntl64` is `fcntl`. */
static ssize_t (*next_read)(int, void *, size_t);
static ssize_t (*next_read_checked)(int, void *, size_t, size_t);
static ssize_t (*next_recvmsg)(int, struct msghdr *, int);
static int (*next_fcntl)(int, int, ...);

__attribute__((constructor)) static void prepare(void)
{
	next_read = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	next_read_checked = (ssize_t(*)(int, void *, size_t, size_t))dlsym(RTLD_NEXT, "__read_chk");
	next_recvmsg = (ssize_t(*)(int, struct msghdr *, int))dlsym(RTLD_NEXT, "recvmsg");
	next_fcntl = (int (*)(int, int, ...))dlsym(RTLD_NEXT, "fcntl");
}

/* Fails a read as soon as there is an event, or at once if the descriptor does not block. */
static ssize_t refuse(int descriptor)
{
	long flags = syscall(SYS_fcntl, descriptor, F_GETFL);
	struct pollfd wait = { .fd = descriptor, .events = POLLIN };
	int ready = poll(&wait, 1, flags & O_NONBLOCK ? 0 : -1);

	/* After a signal, poll has set errno. */
	if (ready >= 0)
		errno = ready == 0 ? EAGAIN : EINVAL;
	return -1;
}

/* Takes a management datagram, for which a descriptor that blocks waits. */
static ssize_t read_datagram(int descriptor, void *buffer, size_t count)
{
	struct pollfd wait = { .fd = descriptor, .events = POLLIN };

	for (;;) {
		ssize_t result = verbena_shim_take_datagram(descriptor, buffer, count);

		if (result >= 0 || errno != EAGAIN || (syscall(SYS_fcntl, descriptor, F_GETFL) & O_NONBLOCK) != 0)
			return result;
		if (poll(&wait, 1, -1) < 0)
			return -1;
	}
}

ssize_t read(int descriptor, void *buffer, size_t count)
{
	if (verbena_shim_is_datagrams(descriptor))
		return read_datagram(descriptor, buffer, count);
	if (count < LONGEST_EVENT && verbena_shim_is_too_short(descriptor, count))
		return refuse(descriptor);
	if (next_read == NULL)
		return syscall(SYS_read, descriptor, buffer, count);
	return next_read(descriptor, buffer, count);
}

/* `read` of a program compiled with buffer checks; the next function handles an overflow. */
ssize_t __read_chk(int descriptor, void *buffer, size_t count, size_t room)
{
	if (next_read_checked == NULL ||
	    (count <= room && (verbena_shim_is_datagrams(descriptor) || verbena_shim_is_too_short(descriptor, count))))
		return read(descriptor, buffer, count);
	return next_read_checked(descriptor, buffer, count, room);
}

/* The message may bring a channel of the connection manager. */
ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
	ssize_t result = next_recvmsg != NULL ? next_recvmsg(socket, message, flags) : syscall(SYS_recvmsg, socket, message, flags);

	if (result >= 0 && message->msg_controllen > 0)
		verbena_shim_received(message);
	return result;
}

/* An argument of any type is passed on unchanged; commands without one ignore it. */
static int control(int descriptor, int command, void *argument)
{
	int result = next_fcntl != NULL ? next_fcntl(descriptor, command, argument)
					: (int)syscall(SYS_fcntl, descriptor, command, argument);

	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return verbena_shim_copied(descriptor, result);
	return result;
}

int fcntl(int descriptor, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return control(descriptor, command, argument);
}
