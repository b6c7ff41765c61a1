/* Sends messages of 8 bytes from one queue pair to another of the process, one at a time, until one fails. Prints the
 * number of those that arrived. */

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "endpoint.h"
#include "work.h"

#define MESSAGES 300
#define SIZE 8
/* tshark takes a payload that begins with an EtherType and two zeros for a packet of that protocol. */
#define PATTERN 0xa5a5a5a5a5a50000

static void messages(void)
{
	struct endpoint from = endpoint_open(endpoint_defaults());
	struct endpoint to = endpoint_beside(&from, endpoint_defaults());
	endpoint_connect(&from, endpoint_address(&to));
	endpoint_connect(&to, endpoint_address(&from));
	uint64_t *memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(memory);
	struct ibv_mr *mr = region(&from, memory, 4096, ALL_ACCESS);
	unsigned arrived = 0;
	while (arrived < MESSAGES) {
		memory[0] = PATTERN | arrived;
		memory[1] = 0;
		post_receive(&to, arrived, piece_of(mr, SIZE, SIZE));
		post_send(&from, arrived, piece_of(mr, 0, SIZE));
		if (completion(&from).status != IBV_WC_SUCCESS ||
		    completion(&from).status != IBV_WC_SUCCESS)
			break;
		CHECK_EQUAL(memory[1], PATTERN | arrived);
		arrived++;
	}
	printf("arrived %u\n", arrived);
}

const struct test tests[] = {
	{ "messages", messages },
	{ 0 },
};
