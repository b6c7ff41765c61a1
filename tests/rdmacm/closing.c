/* A channel that one thread closes while another takes its events (rdma_get_cm_event(3),
 * rdma_destroy_event_channel(3)), as rping does at its end. On hardware the waiting thread goes on waiting, and a
 * thread that calls after the close gets EBADF. Neither ever gets an event that was not sent. */
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* Tries, each with its own channel. */
enum { TRIES = 20 };

struct taker {
	struct rdma_event_channel *channel;
	pthread_t thread;
	/* The first event is taken and acknowledged. */
	atomic_bool has_first;
	/* The call after it has come back, with this result and errno. */
	atomic_bool is_back;
	int result, error;
};

static void nap(uint64_t nanoseconds)
{
	struct timespec time = { .tv_sec = 0, .tv_nsec = (long)nanoseconds };
	nanosleep(&time, NULL);
}

/* Takes an event, waits for a moment, and asks for the next. */
static void *take(void *argument)
{
	struct taker *taker = argument;
	struct rdma_cm_event *event;
	CHECK_CALL(rdma_get_cm_event(taker->channel, &event));
	CHECK_EQUAL(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_CALL(rdma_ack_cm_event(event));
	atomic_store(&taker->has_first, true);
	nap(3 * MILLISECOND);
	taker->result = rdma_get_cm_event(taker->channel, &event);
	taker->error = errno;
	atomic_store(&taker->is_back, true);
	return NULL;
}

/* The thread is on its way back to the channel when the channel is closed. */
static void nobody_gets_what_was_not_sent(void)
{
	static struct taker takers[TRIES];
	struct sockaddr_in address = { .sin_family = AF_INET };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int try = 0; try < TRIES; try++) {
		struct taker *taker = &takers[try];
		struct rdma_cm_id *id;
		CHECK_POINTER(taker->channel = rdma_create_event_channel());
		CHECK_CALL(pthread_create(&taker->thread, NULL, take, taker));
		CHECK_CALL(rdma_create_id(taker->channel, &id, NULL, RDMA_PS_TCP));
		CHECK_CALL(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000));
		while (!atomic_load(&taker->has_first))
			nap(MILLISECOND / 10);
		CHECK_CALL(rdma_destroy_id(id));
		/* The structure is left to the thread, which still uses it. */
		CHECK_CALL(close(taker->channel->fd));
		nap(20 * MILLISECOND);
		if (atomic_load(&taker->is_back)) {
			CHECK_EQUAL(taker->result, -1);
			CHECK_EQUAL(taker->error, EBADF);
		}
	}
}

const struct test tests[] = {
	{ "nobody_gets_what_was_not_sent", nobody_gets_what_was_not_sent },
	{ 0 },
};
