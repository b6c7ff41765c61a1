/* A process that uses the adapter and leaves: `registers` opens the device and registers memory, `writes` also writes 10 times to
 * itself. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"
#include "work.h"

enum { LENGTH = 4096, TIMES = 10 };

static void write_to_itself(struct endpoint *endpoint, char *memory, struct ibv_mr *mr)
{
	endpoint_connect(endpoint, endpoint_address(endpoint));
	for (int i = 0; i < TIMES; i++) {
		struct ibv_sge piece = { (uintptr_t)memory, LENGTH / 2, mr->lkey };
		struct ibv_send_wr write = { .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = { (uintptr_t)memory + LENGTH / 2, mr->rkey } }, *bad;
		struct ibv_wc completion;
		CHECK_CALL(ibv_post_send(endpoint->qp, &write, &bad));
		while (ibv_poll_cq(endpoint->cq, 1, &completion) == 0)
			;
		CHECK_EQUAL(completion.status, IBV_WC_SUCCESS);
	}
}

static void leave(const char *how)
{
	if (strcmp(how, "_exit") == 0)
		_exit(0);
	if (strcmp(how, "SIGKILL") == 0)
		raise(SIGKILL);
	if (strcmp(how, "exec") == 0)
		execl("/bin/true", "true", NULL);
	exit(0);
}

static void use(bool writes)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	char *memory = aligned_alloc(4096, LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	if (writes)
		write_to_itself(&endpoint, memory, mr);
}

#define ENDS(DO) DO(exit) DO(_exit) DO(SIGKILL) DO(exec)
#define DEFINE(how)                                              \
	static void how##_registers(void) { use(false); leave(#how); } \
	static void how##_writes(void) { use(true); leave(#how); }
ENDS(DEFINE)

#define ROW(how) { #how "_registers", how##_registers }, { #how "_writes", how##_writes },
const struct test tests[] = { ENDS(ROW) { 0 } };
