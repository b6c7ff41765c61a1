/* A message belongs to its sender until it has arrived: a sender that destroys its queue pair, ends a registration, or
 * dies, may keep the message from arriving, but not change it, and its actions cause no error at the receiver.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 9.7.5.1 (a responder executes the request that the
 * requester sent), 11.6.2 (Local Protection Error: of the local buffers of the request that completes), 9.9.2.1 (faults
 * of a requester's own buffers end its own queue); ibv_destroy_qp(3), ibv_dereg_mr(3). */

#include "contract.h"

#define LENGTH (64 * PAGE)
#define SENT 0x31
#define OVERWRITTEN 0x32

/* A process that has posted one receive, tells us whether it completes, and how. */
struct outcome {
	uint32_t completions;
	uint32_t status;
	uint32_t wrong; /* bytes that are not those that were sent */
};

static void receiver(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	post_receive(&endpoint, 1, piece_of(mr, 0, LENGTH));
	peer_connect(parent, &endpoint);
	/* A first message, so that the processes are connected. */
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	memset(memory, 0, LENGTH);
	post_receive(&endpoint, 2, piece_of(mr, 0, LENGTH));
	peer_meet(parent);
	/* Here this process is stopped, and continued when the sender is done. */
	char byte;
	peer_hear(parent, &byte, 1);
	struct outcome outcome = { 0 };
	for (unsigned turn = 0; turn < 500 && outcome.completions == 0; turn++) {
		struct ibv_wc wc;
		if (ibv_poll_cq(endpoint.cq, 1, &wc) == 1) {
			outcome.completions++;
			outcome.status = wc.status;
			CHECK_EQUAL(wc.wr_id, 2);
			for (size_t at = 0; at < LENGTH; at++)
				outcome.wrong += memory[at] != SENT;
		}
		usleep(1000);
	}
	peer_tell(parent, &outcome, sizeof outcome);
	peer_meet(parent);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

struct sender {
	struct peer receiver;
	struct endpoint endpoint;
	uint8_t *memory;
	struct ibv_mr *mr;
};

/* Posts the message while the receiver is stopped. */
static struct sender sender_open(struct peer peer)
{
	struct sender sender = { .receiver = peer };
	sender.endpoint = endpoint_open(endpoint_defaults());
	sender.memory = private_pages(LENGTH);
	sender.mr = region(&sender.endpoint, sender.memory, LENGTH, ALL_ACCESS);
	peer_connect(&sender.receiver, &sender.endpoint);
	post_send(&sender.endpoint, 1, piece_of(sender.mr, 0, LENGTH));
	expect(&sender.endpoint, 1, IBV_WC_SUCCESS);
	peer_meet(&sender.receiver);
	return sender;
}

static void check_outcome(struct peer *receiver)
{
	struct outcome outcome;
	peer_tell(receiver, "x", 1);
	peer_hear(receiver, &outcome, sizeof outcome);
	if (outcome.completions != 0 && outcome.status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__,
			     "the receiver completes with \"%s\" for a fault of the sender's",
			     ibv_wc_status_str((enum ibv_wc_status)outcome.status));
	if (outcome.completions != 0 && outcome.wrong != 0)
		check_failed(__FILE__, __LINE__,
			     "the receiver completes with success and %u bytes that were not sent",
			     outcome.wrong);
	peer_meet(receiver);
}

/* Once ibv_destroy_qp has returned the buffers are the program's to fill. */
static void the_sender_destroys_and_overwrites(void)
{
	struct sender sender = sender_open(peer_start(receiver));
	memset(sender.memory, SENT, LENGTH);
	peer_stop(&sender.receiver);
	post_send(&sender.endpoint, 2, piece_of(sender.mr, 0, LENGTH));
	CHECK_CALL(ibv_destroy_qp(sender.endpoint.qp));
	memset(sender.memory, OVERWRITTEN, LENGTH);
	peer_continue(&sender.receiver);
	check_outcome(&sender.receiver);
	peer_end(&sender.receiver);
}

/* The same with RESET, which discards outstanding requests. */
static void the_sender_resets_and_overwrites(void)
{
	struct sender sender = sender_open(peer_start(receiver));
	memset(sender.memory, SENT, LENGTH);
	peer_stop(&sender.receiver);
	post_send(&sender.endpoint, 2, piece_of(sender.mr, 0, LENGTH));
	to_state(sender.endpoint.qp, IBV_QPS_RESET);
	memset(sender.memory, OVERWRITTEN, LENGTH);
	peer_continue(&sender.receiver);
	check_outcome(&sender.receiver);
	peer_end(&sender.receiver);
}

/* And with the error state: the completion says that the request is flushed, and gives the buffer
 * back. */
static void the_sender_is_flushed_and_overwrites(void)
{
	struct sender sender = sender_open(peer_start(receiver));
	memset(sender.memory, SENT, LENGTH);
	peer_stop(&sender.receiver);
	post_send(&sender.endpoint, 2, piece_of(sender.mr, 0, LENGTH));
	endpoint_break(&sender.endpoint);
	expect(&sender.endpoint, 2, IBV_WC_WR_FLUSH_ERR);
	memset(sender.memory, OVERWRITTEN, LENGTH);
	peer_continue(&sender.receiver);
	check_outcome(&sender.receiver);
	peer_end(&sender.receiver);
}

/* A program that ends the registration of memory that it is sending makes a mistake; it gets an error, and the receiver
 * does not. */
static void the_sender_deregisters(void)
{
	struct sender sender = sender_open(peer_start(receiver));
	memset(sender.memory, SENT, LENGTH);
	peer_stop(&sender.receiver);
	post_send(&sender.endpoint, 2, piece_of(sender.mr, 0, LENGTH));
	CHECK_CALL(ibv_dereg_mr(sender.mr));
	peer_continue(&sender.receiver);
	check_outcome(&sender.receiver);
	peer_end(&sender.receiver);
}

/* A sender that is killed with a message in flight: the parent is a third process and connects the two. */
static void killed_sender(struct peer *parent)
{
	struct sender sender = { 0 };
	sender.endpoint = endpoint_open(endpoint_defaults());
	sender.memory = private_pages(LENGTH);
	sender.mr = region(&sender.endpoint, sender.memory, LENGTH, ALL_ACCESS);
	peer_connect(parent, &sender.endpoint);
	post_send(&sender.endpoint, 1, piece_of(sender.mr, 0, LENGTH));
	expect(&sender.endpoint, 1, IBV_WC_SUCCESS);
	peer_meet(parent);
	memset(sender.memory, SENT, LENGTH);
	/* The receiver is stopped. */
	peer_meet(parent);
	post_send(&sender.endpoint, 2, piece_of(sender.mr, 0, LENGTH));
	peer_meet(parent);
	pause();
}

static void pass_on(struct peer *from, struct peer *to, size_t length)
{
	uint8_t bytes[64];
	CHECK(length <= sizeof bytes);
	peer_hear(from, bytes, length);
	peer_tell(to, bytes, length);
}

static void the_sender_dies(void)
{
	struct peer taker = peer_start(receiver);
	struct peer giver = peer_start(killed_sender);
	/* peer_connect of both, with us between them. */
	pass_on(&giver, &taker, sizeof(struct address));
	pass_on(&taker, &giver, sizeof(struct address));
	pass_on(&giver, &taker, 1);
	pass_on(&taker, &giver, 1);
	peer_meet(&giver);
	peer_meet(&taker);
	peer_stop(&taker);
	peer_meet(&giver);
	peer_meet(&giver);
	peer_kill(&giver);
	peer_continue(&taker);
	check_outcome(&taker);
	peer_end(&taker);
}

const struct test tests[] = {
	{ "the_sender_destroys_and_overwrites", the_sender_destroys_and_overwrites },
	{ "the_sender_resets_and_overwrites", the_sender_resets_and_overwrites },
	{ "the_sender_is_flushed_and_overwrites", the_sender_is_flushed_and_overwrites },
	{ "the_sender_deregisters", the_sender_deregisters },
	{ "the_sender_dies", the_sender_dies },
	{ 0 },
};
