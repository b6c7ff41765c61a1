/* 8 B writes by process_vm_writev(2): through the adapter, and directly. Run with
 * VERBENA_PATH=cma. */

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"
#include "work.h"

#define ROUNDS 2000

static void offer(struct peer *parent)
{
	pin(1);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	void *memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(memory);
	memset(memory, 1, 4096);
	struct ibv_mr *mr = region(&endpoint, memory, 4096, ALL_ACCESS);
	struct window window = region_window(mr);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);
	peer_meet(parent);
}

static double through_the_adapter(struct endpoint *endpoint, struct ibv_mr *mr,
				  struct window window)
{
	uint64_t start = now();
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct ibv_wc wc;
		post_write(endpoint, 0, piece_of(mr, 0, 8), window.address, window.rkey);
		while (ibv_poll_cq(endpoint->cq, 1, &wc) == 0)
			;
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	}
	return (double)(now() - start) / ROUNDS;
}

static double bare(pid_t process, void *from, struct window window)
{
	uint64_t start = now();
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct iovec local = { .iov_base = from, .iov_len = 8 };
		struct iovec remote = { .iov_base = (void *)(uintptr_t)window.address,
					.iov_len = 8 };
		CHECK_EQUAL(process_vm_writev(process, &local, 1, &remote, 1, 0), 8);
	}
	return (double)(now() - start) / ROUNDS;
}

static void cma(void)
{
	struct peer peer = peer_start(offer);
	pin(0);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	void *memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(memory);
	memset(memory, 2, 4096);
	struct ibv_mr *mr = region(&endpoint, memory, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct window window;
	peer_connect(&peer, &endpoint);
	peer_hear(&peer, &window, sizeof window);
	double adapter[BATCHES], kernel[BATCHES];
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		adapter[batch] = through_the_adapter(&endpoint, mr, window);
		kernel[batch] = bare(peer.process, memory, window);
	}
	peer_meet(&peer);
	peer_end(&peer);
	print_result("cma_write_ns", median(adapter, BATCHES));
	print_result("process_vm_writev_ns", median(kernel, BATCHES));
}

const struct test tests[] = {
	{ "cma", cma },
	{ 0 },
};
