/* Requests that the peer has served are complete before a transition that ends requests (see settled.h). `tests/roce`
 * has the same between two hosts. */

#include "settled.h"

static void what_was_served_succeeds_in_the_error_state(void)
{
	hang_after(120);
	settled_told = (_Atomic uint32_t *)shared_pages(PAGE);
	struct peer receiver = peer_start(settled_receiver);
	settled_sender(&receiver);
	peer_kill(&receiver);
}

const struct test tests[] = {
	{ "what_was_served_succeeds_in_the_error_state", what_was_served_succeeds_in_the_error_state },
	{ 0 },
};
