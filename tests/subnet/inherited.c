/* A child of fork(2) posts on a queue pair that it inherited; nothing happens to its parent, whose
 * traffic goes on.
 *
 * Source: fork(2): the child's memory is its own, and memory that is shared with other processes
 * is not inherited (MADV_DONTFORK in madvise(2)). */

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "work.h"

#define SIZE 8

static int write_8(struct endpoint *from, struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = SIZE, .lkey = mr->lkey };
	struct ibv_send_wr request = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)mr->addr + SIZE, .rkey = mr->rkey },
	}, *bad;
	return ibv_post_send(from->qp, &request, &bad);
}

static void complete(struct endpoint *from)
{
	struct ibv_wc wc;
	while (ibv_poll_cq(from->cq, 1, &wc) == 0)
		;
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static void child_posts(void)
{
	struct endpoint from = endpoint_open(endpoint_defaults());
	struct endpoint to = endpoint_beside(&from, endpoint_defaults());
	char *memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(memory);
	memset(memory, 1, 4096);
	struct ibv_mr *mr = region(&from, memory, 4096, ALL_ACCESS);
	endpoint_connect(&from, endpoint_address(&to));
	endpoint_connect(&to, endpoint_address(&from));
	CHECK(write_8(&from, mr) == 0);
	complete(&from);
	pid_t process = fork();
	CHECK(process >= 0);
	if (process == 0) {
		write_8(&from, mr);
		_exit(0);
	}
	int status;
	CHECK(waitpid(process, &status, 0) == process);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(write_8(&from, mr) == 0);
	complete(&from);
}

const struct test tests[] = {
	{ "child_posts", child_posts },
	{ 0 },
};
