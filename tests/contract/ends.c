/* A request that a peer acknowledged before it ended is complete: a process may end as soon as it has seen a message
 * arrive, and its sender gets a successful completion.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 9.7.5.1.2 (a responder that has executed a request
 * acknowledges it) and 10.7.3.1 (order of completions); ibv_poll_cq(3). A real adapter sends the acknowledgement before
 * the receiver's completion can be seen, and the end of the process does not change that. */

#include <pthread.h>
#include <stdatomic.h>

#include "contract.h"

/* So many processes end, one after another. */
#define PEERS 48
#define MESSAGES 8
#define POLLERS 3

/* Ends as a crash would, the moment that it has seen the last message. */
static void receiver(struct peer *parent)
{
	char go;
	peer_hear(parent, &go, 1);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&endpoint, memory, PAGE, ALL_ACCESS);
	for (uint64_t number = 0; number < MESSAGES; number++)
		post_receive(&endpoint, number, piece_of(mr, number * 64, 64));
	peer_connect(parent, &endpoint);
	for (uint64_t number = 0; number < MESSAGES; number++)
		expect(&endpoint, number, IBV_WC_SUCCESS);
	kill(getpid(), SIGKILL);
}

static atomic_bool is_over;

/* Makes progress for all peers, as every polling thread does. */
static void *poll_for_ever(void *queue)
{
	struct ibv_wc wc;
	while (!is_over)
		CHECK_EQUAL(ibv_poll_cq(queue, 1, &wc), 0);
	return NULL;
}

static void what_was_acknowledged_before_the_end_succeeds(void)
{
	struct peer receivers[PEERS];
	for (unsigned each = 0; each < PEERS; each++)
		receivers[each] = peer_start(receiver);
	struct endpoint first = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = region(&first, private_pages(PAGE), PAGE, ALL_ACCESS);
	struct ibv_cq *empty = ibv_create_cq(first.context, 1, NULL, NULL, 0);
	CHECK_POINTER(empty);
	pthread_t pollers[POLLERS];
	for (unsigned each = 0; each < POLLERS; each++)
		CHECK_CALL(pthread_create(&pollers[each], NULL, poll_for_ever, empty));
	hang_after(120);
	for (unsigned each = 0; each < PEERS; each++) {
		struct endpoint endpoint = endpoint_beside(&first, endpoint_defaults());
		peer_tell(&receivers[each], "g", 1);
		peer_connect(&receivers[each], &endpoint);
		for (uint64_t number = 0; number < MESSAGES; number++)
			post_send(&endpoint, number, piece_of(mr, 0, 64));
		for (uint64_t number = 0; number < MESSAGES; number++)
			expect(&endpoint, number, IBV_WC_SUCCESS);
		CHECK_CALL(ibv_destroy_qp(endpoint.qp));
		/* The process has ended; this waits for it. */
		peer_kill(&receivers[each]);
	}
	is_over = true;
	for (unsigned each = 0; each < POLLERS; each++)
		CHECK_CALL(pthread_join(pollers[each], NULL));
	CHECK_CALL(ibv_destroy_cq(empty));
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&first);
}

const struct test tests[] = {
	{ "what_was_acknowledged_before_the_end_succeeds", what_was_acknowledged_before_the_end_succeeds },
	{ 0 },
};
