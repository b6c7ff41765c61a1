/* No wake-up is lost, wherever a thread loses its processor.
 *
 * The thread that posts runs one instruction at a time, and all other processes get ahead of it between any two: an
 * interleaving that a scheduler makes once in a million posts happens in each of these.
 *
 * Sources: ibv_req_notify_cq(3) and ibv_get_cq_event(3) (a completion that comes after the request raises an event),
 * ibv_post_send(3) (a request that was accepted completes); InfiniBand Architecture Specification, volume 1, 11.4.2.2
 * (Request Completion Notification), 10.8.5 (completion). */

#include "trace.h"

/* Memory that the three processes share beside the adapter. */
struct board {
	atomic_bool posted;
	atomic_bool over;
	_Atomic uint32_t arrived;
};
static struct board *board;

#define MESSAGES 6000
#define DEPTH 8192

static struct settings deep(void)
{
	struct settings settings = endpoint_defaults();
	settings.depth = DEPTH;
	settings.unsignaled = true;
	/* The slow ones are not given up. */
	settings.timeout = 18;
	settings.retry_count = 7;
	return settings;
}

/* An empty message, with or without a completion. */
static void send_nothing(struct endpoint *endpoint, uint64_t id, unsigned flags)
{
	struct ibv_send_wr request = { .wr_id = id, .opcode = IBV_WR_SEND, .send_flags = flags };
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(endpoint->qp, &request, &bad));
}

static void take_nothing(struct endpoint *endpoint)
{
	struct ibv_recv_wr request = { .wr_id = 1 };
	struct ibv_recv_wr *bad;
	CHECK_CALL(ibv_post_recv(endpoint->qp, &request, &bad));
}

/* peer_connect between two children, with us between them. */
static void introduce(struct peer *one, struct peer *other)
{
	struct address address;
	char byte;
	peer_hear(one, &address, sizeof address);
	peer_tell(other, &address, sizeof address);
	peer_hear(other, &address, sizeof address);
	peer_tell(one, &address, sizeof address);
	peer_hear(one, &byte, 1);
	peer_tell(other, &byte, 1);
	peer_hear(other, &byte, 1);
	peer_tell(one, &byte, 1);
}

/* Receives on two connections and polls without pause, so that a published message is served at once. */
static void receiver(struct peer *parent)
{
	struct endpoint first = endpoint_open(deep());
	struct endpoint second = endpoint_beside(&first, deep());
	for (unsigned number = 0; number < DEPTH; number++)
		take_nothing(&first);
	for (unsigned number = 0; number < 64; number++)
		take_nothing(&second);
	peer_connect(parent, &first);
	peer_connect(parent, &second);
	while (!atomic_load(&board->over)) {
		struct ibv_wc wc;
		if (ibv_poll_cq(first.cq, 1, &wc) != 1)
			continue;
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		take_nothing(wc.qp_num == first.qp->qp_num ? &first : &second);
		atomic_fetch_add(&board->arrived, 1);
	}
	CHECK_CALL(ibv_destroy_qp(second.qp));
	endpoint_close(&first);
}

/* Posts one message, in slow motion, and sleeps until the event of its completion. */
static void sleeping_sender(struct peer *parent)
{
	struct settings settings = deep();
	struct endpoint endpoint = endpoint_open(settings);
	struct endpoint unused = endpoint_beside(&endpoint, settings);
	peer_connect(parent, &endpoint);
	peer_connect(parent, &unused);
	be_traced();
	while (!atomic_load(&board->over)) {
		CHECK_CALL(ibv_req_notify_cq(endpoint.cq, 0));
		hand_over();
		send_nothing(&endpoint, 1, IBV_SEND_SIGNALED);
		atomic_store(&board->posted, true);
		hand_over();
		struct pollfd wait = { .fd = endpoint.channel->fd, .events = POLLIN };
		int ready = poll(&wait, 1, 10000);
		struct ibv_wc wc;
		int waiting = ibv_poll_cq(endpoint.cq, 1, &wc);
		if (ready != 1)
			check_failed(__FILE__, __LINE__,
				     "no event comes, and %d completions wait for the first poll",
				     waiting);
		struct ibv_cq *cq;
		void *context;
		CHECK_CALL(ibv_get_cq_event(endpoint.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		CHECK_EQUAL(waiting, 1);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		hand_over();
	}
	CHECK_CALL(ibv_destroy_qp(unused.qp));
	endpoint_close(&endpoint);
}

static void board_open(void)
{
	board = (struct board *)shared_pages(PAGE);
}

static void the_event_of_a_slow_sender(void)
{
	/* How long the others get after each instruction, in microseconds. */
	static const unsigned leads[] = { 0, 100, 300, 1000 };
	enum { ROUNDS = sizeof leads / sizeof *leads };
	board_open();
	struct peer taker = peer_start(receiver);
	struct peer giver = peer_start(sleeping_sender);
	introduce(&giver, &taker);
	introduce(&giver, &taker);
	for (unsigned round = 0; round < ROUNDS; round++) {
		atomic_store(&board->posted, false);
		take_over(giver.process);
		while (!atomic_load(&board->posted)) {
			step(giver.process);
			usleep(leads[round]);
		}
		let_go(giver.process);
		take_over(giver.process);
		let_go(giver.process);
		take_over(giver.process);
		if (round == ROUNDS - 1)
			atomic_store(&board->over, true);
		let_go(giver.process);
	}
	peer_end(&giver);
	peer_end(&taker);
}

/* Fills the channel between the two processes, and then posts one message on another queue pair. */
static void crowded_sender(struct peer *parent)
{
	struct settings settings = deep();
	struct endpoint crowd = endpoint_open(settings);
	struct endpoint endpoint = endpoint_beside(&crowd, settings);
	peer_connect(parent, &crowd);
	peer_connect(parent, &endpoint);
	be_traced();
	while (!atomic_load(&board->over)) {
		hand_over(); /* The receiver is stopped then. */
		for (uint32_t number = 1; number < MESSAGES; number++)
			send_nothing(&crowd, 2, 0);
		send_nothing(&crowd, 2, IBV_SEND_SIGNALED);
		hand_over();
		send_nothing(&endpoint, 1, IBV_SEND_SIGNALED);
		atomic_store(&board->posted, true);
		unsigned missing = 2;
		uint64_t deadline = now() + 10 * SECOND;
		while (missing > 0) {
			struct ibv_wc wc;
			if (ibv_poll_cq(endpoint.cq, 1, &wc) == 1) {
				CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
				missing--;
			}
			if (now() > deadline)
				check_failed(__FILE__, __LINE__,
					     "a request on a queue pair that is polled does not "
					     "complete");
		}
		hand_over();
	}
	CHECK_CALL(ibv_destroy_qp(endpoint.qp));
	endpoint_close(&crowd);
}

/* Between any two instructions of a post that does not fit, all the space there is may be freed. */
static void room_is_made_while_a_sender_asks_for_it(void)
{
	enum { STRIDE = 16 };
	board_open();
	struct peer taker = peer_start(receiver);
	struct peer giver = peer_start(crowded_sender);
	introduce(&giver, &taker);
	introduce(&giver, &taker);
	bool last = false;
	for (unsigned steps = STRIDE; !last; steps += STRIDE) {
		take_over(giver.process);
		peer_stop(&taker);
		uint32_t before = atomic_load(&board->arrived);
		atomic_store(&board->posted, false);
		let_go(giver.process);
		take_over(giver.process);
		for (unsigned taken = 0; taken < steps && !atomic_load(&board->posted); taken++)
			step(giver.process);
		last = atomic_load(&board->posted);
		peer_continue(&taker);
		/* Until the crowd has passed, and the giver's other threads know of it. The giver may hold
		 * them up where it stands; then there is nothing to wait for. */
		uint64_t deadline = now() + 200 * MILLISECOND;
		while (atomic_load(&board->arrived) - before < MESSAGES && now() < deadline)
			usleep(100);
		usleep(3000);
		let_go(giver.process);
		take_over(giver.process);
		if (last) {
			printf("a post that finds no room takes %u instructions\n", steps);
			atomic_store(&board->over, true);
		}
		let_go(giver.process);
	}
	peer_end(&giver);
	peer_end(&taker);
}

const struct test tests[] = {
	{ "the_event_of_a_slow_sender", the_event_of_a_slow_sender },
	{ "room_is_made_while_a_sender_asks_for_it", room_is_made_while_a_sender_asks_for_it },
	{ 0 },
};
