/* Rules of every path of one host, between two: the rows of faults (tests/contract/fault_rows.h), and that requests
 * which were served are complete before the error state (tests/contract/settled.h).
 *
 *   answers...   waits for the peer
 *   asks...      posts requests to the process at PEER */
#include "../contract/fault_rows.h"
#include "../contract/settled.h"

#define PORT 18515

static struct peer other(void)
{
	const char *address = getenv("PEER");
	CHECK_POINTER(address);
	hang_after(120);
	return peer_call(address, PORT);
}

static void answers_faults(void)
{
	hang_after(120);
	struct peer peer = peer_wait(PORT);
	for (unsigned each = 0; each < FAULT_ROWS; each++)
		respond_to_row(&peer, &fault_rows[each]);
}

static void asks_faults(void)
{
	struct peer peer = other();
	for (unsigned each = 0; each < FAULT_ROWS; each++)
		request_row(&peer, &fault_rows[each]);
}

static void answers_settled(void)
{
	hang_after(120);
	struct peer peer = peer_wait(PORT);
	settled_receiver(&peer);
}

static void asks_settled(void)
{
	struct peer peer = other();
	settled_sender(&peer);
}

const struct test tests[] = {
	{ "answers_faults", answers_faults },
	{ "asks_faults", asks_faults },
	{ "answers_settled", answers_settled },
	{ "asks_settled", asks_settled },
	{ 0 },
};
