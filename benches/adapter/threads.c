/* Scaling with a second thread that has its own queue pair and completion queue: 8 B writes into a
 * sleeping process, and 8 B messages of each thread to itself. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"
#include "work.h"

#define THREADS 2
#define ROUNDS 20000 /* in a batch */
#define SIZE 8
#define LINE 128

static struct window offered;
static struct endpoint first;
static struct ibv_mr *mr;
static char *memory;

struct worker {
	struct endpoint to_peer;
	/* Two connected queue pairs of this process. */
	struct endpoint asks, answers;
	unsigned number;
};

static struct worker workers[THREADS];

static void offer(struct peer *parent)
{
	struct endpoint one = endpoint_open(endpoint_defaults());
	void *target = aligned_alloc(4096, 4096);
	CHECK_POINTER(target);
	memset(target, 1, 4096);
	struct window window = region_window(region(&one, target, 4096, ALL_ACCESS));
	peer_connect(parent, &one);
	for (unsigned more = 1; more < THREADS; more++) {
		struct endpoint another = endpoint_beside(&one, endpoint_defaults());
		peer_connect(parent, &another);
	}
	peer_tell(parent, &window, sizeof window);
	peer_meet(parent);
}

static void complete(struct endpoint *endpoint)
{
	struct ibv_wc wc;
	while (ibv_poll_cq(endpoint->cq, 1, &wc) == 0)
		;
	if (wc.status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__, "%s", ibv_wc_status_str(wc.status));
}

static void post_inline(struct endpoint *endpoint, unsigned number, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory + number * LINE, .length = SIZE };
	struct ibv_send_wr request = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = offered.address + number * LINE, .rkey = offered.rkey },
	}, *bad;
	if (ibv_post_send(endpoint->qp, &request, &bad) != 0)
		check_failed(__FILE__, __LINE__, "ibv_post_send fails");
}

static void writes(struct worker *worker)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		post_inline(&worker->to_peer, worker->number, IBV_WR_RDMA_WRITE);
		complete(&worker->to_peer);
	}
}

static void messages(struct worker *worker)
{
	struct piece into = piece_of(mr, 2048 + worker->number * LINE, SIZE);
	for (unsigned round = 0; round < ROUNDS; round++) {
		post_receive(&worker->answers, 0, into);
		post_inline(&worker->asks, worker->number, IBV_WR_SEND);
		complete(&worker->asks);
		complete(&worker->asks);
	}
}

/* The next work of the threads: `count` of them work from one barrier to the next. They live as
 * long as the program, as in programs with a queue pair per thread. */
static struct {
	pthread_barrier_t meeting;
	void (*body)(struct worker *);
	unsigned count;
} turn;

static void *work(void *argument)
{
	struct worker *worker = argument;
	pin(worker->number);
	for (;;) {
		pthread_barrier_wait(&turn.meeting);
		if (turn.count == 0)
			return NULL;
		if (worker->number < turn.count)
			turn.body(worker);
		pthread_barrier_wait(&turn.meeting);
	}
}

/* Total operations per second of `count` threads. */
static double rate(void (*body)(struct worker *), unsigned count)
{
	turn.body = body;
	turn.count = count;
	uint64_t start = now();
	pthread_barrier_wait(&turn.meeting);
	pthread_barrier_wait(&turn.meeting);
	return (double)ROUNDS * count / ((double)(now() - start) / 1e9);
}

static struct endpoint with_own_queue(void)
{
	struct endpoint endpoint = first;
	endpoint.cq = ibv_create_cq(first.context, 256, NULL, NULL, 0);
	CHECK_POINTER(endpoint.cq);
	return endpoint_beside(&endpoint, endpoint_defaults());
}

static void two_threads(void)
{
	struct peer peer = peer_start(offer);
	first = endpoint_open(endpoint_defaults());
	memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(memory);
	memset(memory, 0, 4096);
	mr = region(&first, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	for (unsigned thread = 0; thread < THREADS; thread++) {
		struct worker *worker = &workers[thread];
		worker->number = thread;
		worker->to_peer = with_own_queue();
		peer_connect(&peer, &worker->to_peer);
		worker->asks = with_own_queue();
		worker->answers = endpoint_beside(&worker->asks, endpoint_defaults());
		endpoint_connect(&worker->asks, endpoint_address(&worker->answers));
		endpoint_connect(&worker->answers, endpoint_address(&worker->asks));
	}
	peer_hear(&peer, &offered, sizeof offered);
	CHECK_CALL(pthread_barrier_init(&turn.meeting, NULL, THREADS + 1));
	pthread_t threads[THREADS];
	for (unsigned thread = 0; thread < THREADS; thread++)
		CHECK_CALL(pthread_create(&threads[thread], NULL, work, &workers[thread]));
	double one_writes[BATCHES], two_write[BATCHES], one_sends[BATCHES], two_send[BATCHES];
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		one_writes[batch] = rate(writes, 1);
		two_write[batch] = rate(writes, THREADS);
		one_sends[batch] = rate(messages, 1);
		two_send[batch] = rate(messages, THREADS);
	}
	turn.count = 0;
	pthread_barrier_wait(&turn.meeting);
	for (unsigned thread = 0; thread < THREADS; thread++)
		CHECK_CALL(pthread_join(threads[thread], NULL));
	peer_meet(&peer);
	peer_end(&peer);
	print_result("one_thread_writes_per_s", median(one_writes, BATCHES));
	print_result("two_threads_writes_per_s", median(two_write, BATCHES));
	print_result("one_thread_messages_per_s", median(one_sends, BATCHES));
	print_result("two_threads_messages_per_s", median(two_send, BATCHES));
}

const struct test tests[] = {
	{ "threads", two_threads },
	{ 0 },
};
