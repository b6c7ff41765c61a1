/* Each fault that a responder can find has the same consequences on every path (see fault_rows.h). `tests/roce` has the
 * same rows between two hosts. */

#include "fault_rows.h"

static void respond(struct peer *parent)
{
	for (unsigned each = 0; each < FAULT_ROWS; each++)
		respond_to_row(parent, &fault_rows[each]);
}

static void every_fault_has_its_consequences(void)
{
	hang_after(120);
	struct peer responder = peer_start(respond);
	for (unsigned each = 0; each < FAULT_ROWS; each++)
		request_row(&responder, &fault_rows[each]);
	peer_end(&responder);
}

const struct test tests[] = {
	{ "every_fault_has_its_consequences", every_fault_has_its_consequences },
	{ 0 },
};
