/* A completion queue that was armed long ago raises its event, no matter how much the program has polled since.
 *
 * UCX arms the queue of its datagrams once and polls others for hours. An adapter in software leaves the progress to
 * the polling thread where it can; another thread then has to raise the event when polling stops.
 *
 * Sources: ibv_req_notify_cq(3), ibv_get_cq_event(3); InfiniBand Architecture Specification, volume 1, 11.4.2.2 (a
 * queue stays armed until its event). */

#include <stdatomic.h>

#include "contract.h"

/* Memory that the two processes share beside the adapter. */
struct board {
	/* Rounds for which the sender has to send the message that raises the event. */
	_Atomic unsigned wanted;
	/* Rounds of which it has been acknowledged. */
	_Atomic unsigned acknowledged;
	atomic_bool over;
};
static struct board *board;

static void send_nothing(struct endpoint *endpoint, uint64_t id)
{
	struct ibv_send_wr request = { .wr_id = id,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(endpoint->qp, &request, &bad));
}

static void take_nothing(struct endpoint *endpoint)
{
	struct ibv_recv_wr request = { .wr_id = 1 };
	struct ibv_recv_wr *bad;
	CHECK_CALL(ibv_post_recv(endpoint->qp, &request, &bad));
}

/* Sends on one connection without pause, and on the other when requested. */
static void sender(struct peer *parent)
{
	struct settings settings = endpoint_defaults();
	/* Receives are posted one by one: a message that is early waits. */
	settings.rnr_retry = 7;
	struct endpoint busy = endpoint_open(settings);
	struct endpoint idle = endpoint_open(settings);
	peer_connect(parent, &busy);
	peer_connect(parent, &idle);
	unsigned sent = 0;
	bool is_under_way = false;
	while (!atomic_load(&board->over)) {
		if (!is_under_way)
			send_nothing(&busy, 1);
		/* While the receiver sleeps it receives nothing, and this request stays under way. */
		struct ibv_wc wc;
		is_under_way = ibv_poll_cq(busy.cq, 1, &wc) == 0;
		if (!is_under_way)
			CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		if (atomic_load(&board->wanted) != sent) {
			sent++;
			send_nothing(&idle, 2);
			expect(&idle, 2, IBV_WC_SUCCESS);
			atomic_store(&board->acknowledged, sent);
		}
	}
	CHECK_CALL(ibv_destroy_qp(busy.qp));
	CHECK_CALL(ibv_destroy_qp(idle.qp));
}

struct receiver {
	struct peer sender;
	struct endpoint busy, idle;
};

static struct receiver receiver_open(void)
{
	board = (struct board *)shared_pages(PAGE);
	struct receiver receiver = { .sender = peer_start(sender) };
	receiver.busy = endpoint_open(endpoint_defaults());
	receiver.idle = endpoint_open(endpoint_defaults());
	take_nothing(&receiver.busy);
	take_nothing(&receiver.idle);
	peer_connect(&receiver.sender, &receiver.busy);
	peer_connect(&receiver.sender, &receiver.idle);
	CHECK_CALL(ibv_req_notify_cq(receiver.idle.cq, 0));
	return receiver;
}

static void receiver_close(struct receiver *receiver)
{
	atomic_store(&board->over, true);
	peer_end(&receiver->sender);
	endpoint_close(&receiver->busy);
	endpoint_close(&receiver->idle);
}

static void poll_busy(struct receiver *receiver)
{
	struct ibv_wc wc;
	if (ibv_poll_cq(receiver->busy.cq, 1, &wc) == 1) {
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		take_nothing(&receiver->busy);
	}
}

static void poll_busy_for(struct receiver *receiver, uint64_t nanoseconds)
{
	uint64_t end = now() + nanoseconds;
	do
		poll_busy(receiver);
	while (now() < end);
}

/* Takes the event and the completion that it announces, and arms again for the next one. */
static void take_event(struct receiver *receiver)
{
	struct ibv_cq *cq;
	void *context;
	CHECK_CALL(ibv_get_cq_event(receiver->idle.channel, &cq, &context));
	CHECK(cq == receiver->idle.cq);
	ibv_ack_cq_events(cq, 1);
	struct ibv_wc wc;
	CHECK_EQUAL(ibv_poll_cq(cq, 1, &wc), 1);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	take_nothing(&receiver->idle);
	CHECK_CALL(ibv_req_notify_cq(cq, 0));
	CHECK_EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
}

static bool is_event(struct receiver *receiver, int milliseconds)
{
	struct pollfd wait = { .fd = receiver->idle.channel->fd, .events = POLLIN };
	return poll(&wait, 1, milliseconds) == 1;
}

/* How long another queue is polled after arming, in microseconds: from hardly at all to so long that the adapter's own
 * thread has left all progress to the polling thread. */
static const unsigned lengths[] = { 0, 20, 100, 400, 1500, 6000, 25000 };
enum { LENGTHS = sizeof lengths / sizeof *lengths, ROUNDS = 10 * LENGTHS };

static void an_event_comes_when_polling_has_stopped(void)
{
	struct receiver receiver = receiver_open();
	for (unsigned round = 0; round < ROUNDS; round++) {
		poll_busy_for(&receiver, 1000 * (uint64_t)lengths[round % LENGTHS]);
		CHECK(!is_event(&receiver, 0));
		atomic_fetch_add(&board->wanted, 1);
		if (!is_event(&receiver, 10000))
			check_failed(__FILE__, __LINE__,
				     "no event comes after %u us of polling another queue",
				     lengths[round % LENGTHS]);
		take_event(&receiver);
	}
	receiver_close(&receiver);
}

/* The same, asleep in ibv_get_cq_event. */
static void who_sleeps_for_the_event_is_woken(void)
{
	struct receiver receiver = receiver_open();
	for (unsigned round = 0; round < ROUNDS; round++) {
		poll_busy_for(&receiver, 1000 * (uint64_t)lengths[round % LENGTHS]);
		atomic_fetch_add(&board->wanted, 1);
		take_event(&receiver);
	}
	receiver_close(&receiver);
}

static void an_event_comes_while_another_queue_is_polled(void)
{
	struct receiver receiver = receiver_open();
	for (unsigned round = 0; round < ROUNDS; round++) {
		poll_busy_for(&receiver, 1000 * (uint64_t)lengths[round % LENGTHS]);
		atomic_fetch_add(&board->wanted, 1);
		uint64_t deadline = now() + 10 * SECOND;
		while (!is_event(&receiver, 0)) {
			poll_busy(&receiver);
			if (now() > deadline)
				check_failed(__FILE__, __LINE__, "no event comes while a queue is polled");
		}
		take_event(&receiver);
	}
	receiver_close(&receiver);
}

/* No queue is armed and the polling thread does not return: messages of peers are received nevertheless. */
static void a_message_is_taken_after_polling_has_stopped(void)
{
	struct receiver receiver = receiver_open();
	atomic_fetch_add(&board->wanted, 1);
	CHECK(is_event(&receiver, 10000));
	struct ibv_cq *cq;
	void *context;
	CHECK_CALL(ibv_get_cq_event(receiver.idle.channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct ibv_wc wc;
		CHECK_EQUAL(ibv_poll_cq(receiver.idle.cq, 1, &wc), 1);
		take_nothing(&receiver.idle);
		poll_busy_for(&receiver, 1000 * (uint64_t)lengths[round % LENGTHS]);
		unsigned wanted = atomic_fetch_add(&board->wanted, 1) + 1;
		uint64_t deadline = now() + 10 * SECOND;
		while (atomic_load(&board->acknowledged) != wanted) {
			usleep(100);
			if (now() > deadline)
				check_failed(__FILE__, __LINE__, "a message is not taken");
		}
	}
	receiver_close(&receiver);
}

/* A queue that is armed twice is still armed, and the thread that arms it may be about to sleep. */
static void arming_again_before_the_sleep_changes_nothing(void)
{
	struct receiver receiver = receiver_open();
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct ibv_wc wc;
		poll_busy_for(&receiver, 1000 * (uint64_t)lengths[round % LENGTHS]);
		CHECK_CALL(ibv_req_notify_cq(receiver.idle.cq, 1));
		CHECK_EQUAL(ibv_poll_cq(receiver.idle.cq, 1, &wc), 0);
		atomic_fetch_add(&board->wanted, 1);
		if (!is_event(&receiver, 10000))
			check_failed(__FILE__, __LINE__, "no event comes after arming again");
		take_event(&receiver);
	}
	receiver_close(&receiver);
}

const struct test tests[] = {
	{ "an_event_comes_when_polling_has_stopped", an_event_comes_when_polling_has_stopped },
	{ "who_sleeps_for_the_event_is_woken", who_sleeps_for_the_event_is_woken },
	{ "an_event_comes_while_another_queue_is_polled", an_event_comes_while_another_queue_is_polled },
	{ "a_message_is_taken_after_polling_has_stopped", a_message_is_taken_after_polling_has_stopped },
	{ "arming_again_before_the_sleep_changes_nothing",
	  arming_again_before_the_sleep_changes_nothing },
	{ 0 },
};
