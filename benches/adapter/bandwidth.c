/* Rate of 8 B writes of one queue pair in lists of 16, and the bandwidth of large writes and reads,
 * compared with that of memcpy between two buffers of the same size and kind. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"
#include "work.h"

#define LIST 16
#define LISTS 2000 /* in a batch */
#define WINDOW 4   /* lists or large requests under way */
#define LARGEST (1 << 20)
#define VOLUME ((uint64_t)64 << 20) /* in a batch of large requests */

static void offer(struct peer *parent)
{
	pin(1);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	void *memory = aligned_alloc(4096, LARGEST);
	CHECK_POINTER(memory);
	memset(memory, 1, LARGEST);
	struct ibv_mr *mr = region(&endpoint, memory, LARGEST, ALL_ACCESS);
	struct window window = region_window(mr);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);
	peer_meet(parent);
}

static void complete(struct endpoint *endpoint)
{
	struct ibv_wc wc;
	while (ibv_poll_cq(endpoint->cq, 1, &wc) == 0)
		;
	if (wc.status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__, "%s", ibv_wc_status_str(wc.status));
}

/* The last write of each list is signalled; all are inline, as usual for 8 B. */
static double writes_a_second(struct endpoint *endpoint, struct ibv_mr *mr, struct window window)
{
	struct ibv_send_wr requests[LIST], *bad;
	struct ibv_sge pieces[LIST];
	for (unsigned index = 0; index < LIST; index++) {
		pieces[index] = (struct ibv_sge){
			.addr = (uintptr_t)mr->addr + index * 8,
			.length = 8,
			.lkey = mr->lkey,
		};
		requests[index] = (struct ibv_send_wr){
			.sg_list = &pieces[index],
			.num_sge = 1,
			.next = index + 1 < LIST ? &requests[index + 1] : NULL,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_INLINE | (index + 1 < LIST ? 0 : IBV_SEND_SIGNALED),
			.wr.rdma = { .remote_addr = window.address + index * 8,
				     .rkey = window.rkey },
		};
	}
	uint64_t start = now();
	for (unsigned list = 0; list < LISTS; list++) {
		CHECK_CALL(ibv_post_send(endpoint->qp, requests, &bad));
		if (list >= WINDOW - 1)
			complete(endpoint);
	}
	for (unsigned list = 0; list < WINDOW - 1; list++)
		complete(endpoint);
	return (double)LISTS * LIST / ((double)(now() - start) / 1e9);
}

enum direction { WRITE, READ };

static double bytes_a_second(struct endpoint *endpoint, struct ibv_mr *mr, struct window window,
			     enum direction direction, uint32_t size)
{
	unsigned count = (unsigned)(VOLUME / size);
	uint64_t start = now();
	for (unsigned request = 0; request < count; request++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)mr->addr,
			.length = size,
			.lkey = mr->lkey,
		};
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = direction == WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = window.address, .rkey = window.rkey },
		}, *bad;
		CHECK_CALL(ibv_post_send(endpoint->qp, &wr, &bad));
		if (request >= WINDOW - 1)
			complete(endpoint);
	}
	for (unsigned request = 0; request < WINDOW - 1; request++)
		complete(endpoint);
	return (double)count * size / ((double)(now() - start) / 1e9);
}

/* The bound: memcpy of the same bytes between two buffers. */
static double copied_a_second(void *to, const void *from, uint32_t size)
{
	unsigned count = (unsigned)(VOLUME / size);
	uint64_t start = now();
	for (unsigned copy = 0; copy < count; copy++) {
		memcpy(to, from, size);
		/* Prevents the compiler from omitting all copies but the last. */
		__asm__ volatile("" : : "r"(to) : "memory");
	}
	return (double)count * size / ((double)(now() - start) / 1e9);
}

static void large(struct endpoint *endpoint, struct ibv_mr *mr, struct window window, uint32_t size)
{
	/* A target for memcpy of the same kind as the other process's buffer, faulted in. */
	void *target = aligned_alloc(4096, size);
	CHECK_POINTER(target);
	memset(target, 1, size);
	double writes[BATCHES], reads[BATCHES], copies[BATCHES];
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		writes[batch] = bytes_a_second(endpoint, mr, window, WRITE, size);
		reads[batch] = bytes_a_second(endpoint, mr, window, READ, size);
		copies[batch] = copied_a_second(target, mr->addr, size);
	}
	char name[64];
	snprintf(name, sizeof name, "write_%u_bytes_per_s", size);
	print_result(name, median(writes, BATCHES));
	snprintf(name, sizeof name, "read_%u_bytes_per_s", size);
	print_result(name, median(reads, BATCHES));
	snprintf(name, sizeof name, "memcpy_%u_bytes_per_s", size);
	print_result(name, median(copies, BATCHES));
	free(target);
}

static void bandwidth(void)
{
	struct peer peer = peer_start(offer);
	pin(0);
	struct settings settings = endpoint_defaults();
	settings.depth = WINDOW * LIST;
	settings.unsignaled = true;
	struct endpoint endpoint = endpoint_open(settings);
	void *memory = aligned_alloc(4096, LARGEST);
	CHECK_POINTER(memory);
	memset(memory, 2, LARGEST);
	struct ibv_mr *mr = region(&endpoint, memory, LARGEST, IBV_ACCESS_LOCAL_WRITE);
	struct window window;
	peer_connect(&peer, &endpoint);
	peer_hear(&peer, &window, sizeof window);

	double rates[BATCHES];
	for (unsigned batch = 0; batch < BATCHES; batch++)
		rates[batch] = writes_a_second(&endpoint, mr, window);
	print_result("listed_writes_per_s", median(rates, BATCHES));
	for (uint32_t size = 64 << 10; size <= LARGEST; size *= 4)
		large(&endpoint, mr, window, size);
	peer_meet(&peer);
	peer_end(&peer);
}

const struct test tests[] = {
	{ "bandwidth", bandwidth },
	{ 0 },
};
