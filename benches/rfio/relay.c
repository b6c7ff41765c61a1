/* Joins two network namespaces by a link of a given delay and rate, for kernels without netem.
 *
 * relay PID INTERFACE PID INTERFACE DELAY_US BITS_PER_S QUEUE_BYTES
 *
  * Creates a TUN interface in the network namespace of each process and forwards packets between them. A packet leaves after
  * the earlier ones at the given rate, and is delivered after the delay. A packet that would wait behind more than
  * QUEUE_BYTES is dropped, as by a router. Prints "carrying" when both interfaces exist. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* Packets in flight, bytes of the largest, and number of packets received before due ones are delivered. */
enum { SLOTS = 16384, LARGEST = 2048, AT_ONCE = 32 };

struct packet {
	uint64_t due;
	ssize_t length;
	unsigned char bytes[LARGEST];
};

struct direction {
	int from, to;
	uint64_t delay, rate, queue;
	struct packet *ring;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + time.tv_nsec;
}

/* Creates a TUN interface in a process's network namespace; this process stays in that namespace. */
static int interface_of(const char *process, const char *name)
{
	char path[64];
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	snprintf(path, sizeof path, "/proc/%s/ns/net", process);
	int namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0 || setns(namespace, CLONE_NEWNET))
		fail(path);
	close(namespace);
	int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		fail("/dev/net/tun");
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	if (ioctl(file, TUNSETIFF, &request))
		fail(name);
	return file;
}

static void *carry(void *argument)
{
	struct direction *way = argument;
	uint64_t head = 0, tail = 0, free_at = 0;
	/* Timers fire on time and not 50 us later. */
	prctl(PR_SET_TIMERSLACK, 1);
	for (;;) {
		uint64_t time = now();
		while (head != tail && way->ring[head % SLOTS].due <= time) {
			struct packet *packet = &way->ring[head++ % SLOTS];
			/* An interface that is down or full drops the packet. */
			if (write(way->to, packet->bytes, packet->length) < 0 && errno != EAGAIN && errno != EIO)
				fail("write");
		}
		for (int taken = 0; taken < AT_ONCE && tail - head < SLOTS; taken++) {
			struct packet *packet = &way->ring[tail % SLOTS];
			packet->length = read(way->from, packet->bytes, LARGEST);
			if (packet->length < 0) {
				if (errno != EAGAIN && errno != EIO)
					fail("read");
				break;
			}
			time = now();
			if (free_at < time)
				free_at = time;
			if ((free_at - time) * way->rate / 8000000000u > way->queue)
				continue;
			free_at += (uint64_t)packet->length * 8000000000u / way->rate;
			packet->due = free_at + way->delay;
			tail++;
		}
		struct pollfd events = { .fd = way->from, .events = tail - head < SLOTS ? POLLIN : 0 };
		struct timespec wait = { 1, 0 };
		if (head != tail) {
			uint64_t due = way->ring[head % SLOTS].due;
			time = now();
			due = due > time ? due - time : 0;
			wait.tv_sec = due / 1000000000u;
			wait.tv_nsec = due % 1000000000u;
		}
		ppoll(&events, 1, &wait, NULL);
	}
	return NULL;
}

int main(int count, char **words)
{
	if (count != 8) {
		fprintf(stderr, "usage: relay PID INTERFACE PID INTERFACE DELAY_US BITS_PER_S QUEUE_BYTES\n");
		return 2;
	}
	int one = interface_of(words[1], words[2]), other = interface_of(words[3], words[4]);
	struct direction ways[2] = { { .from = one, .to = other }, { .from = other, .to = one } };
	pthread_t thread;
	for (int i = 0; i < 2; i++) {
		ways[i].delay = strtoull(words[5], NULL, 10) * 1000;
		ways[i].rate = strtoull(words[6], NULL, 10);
		ways[i].queue = strtoull(words[7], NULL, 10);
		ways[i].ring = calloc(SLOTS, sizeof *ways[i].ring);
		if (!ways[i].ring || ways[i].rate == 0)
			fail("memory or rate");
	}
	if (pthread_create(&thread, NULL, carry, &ways[0]))
		fail("thread");
	printf("carrying\n");
	fflush(stdout);
	carry(&ways[1]);
}
