/* 8 B operations between two processes on two cores, compared with a lower bound: one cache line
 * that the two write alternately. Bound and operations are measured alternately, so that both see
 * the machine in the same state. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"
#include "work.h"

#define ROUNDS 2000 /* in a batch */
#define SIZE 8
#define LINE 64

/* The lower bound: two lines in memory that both processes map. */
struct floor {
	_Alignas(2 * LINE) _Atomic uint64_t ping;
	_Alignas(2 * LINE) _Atomic uint64_t pong;
};

static struct floor *line;

static void floor_answer(uint64_t first)
{
	for (uint64_t turn = first; turn < first + ROUNDS; turn++) {
		while (atomic_load_explicit(&line->ping, memory_order_acquire) != turn)
			;
		atomic_store_explicit(&line->pong, turn, memory_order_release);
	}
}

static double floor_ask(uint64_t first)
{
	uint64_t start = now();
	for (uint64_t turn = first; turn < first + ROUNDS; turn++) {
		atomic_store_explicit(&line->ping, turn, memory_order_release);
		while (atomic_load_explicit(&line->pong, memory_order_acquire) != turn)
			;
	}
	return (double)(now() - start) / ROUNDS / 2;
}

/* Both sides of the adapter's benchmarks. */
struct side {
	struct endpoint endpoint;
	struct ibv_mr *mr;
	volatile uint64_t *in; /* written by the other side */
	uint64_t *out;
	struct window window; /* of the other side's `in` */
};

static struct side side_open(struct peer *peer)
{
	struct side side = { .endpoint = endpoint_open(endpoint_defaults()) };
	char *memory = aligned_alloc(4096, 8192);
	CHECK_POINTER(memory);
	memset(memory, 0, 8192);
	side.in = (volatile uint64_t *)memory;
	side.out = (uint64_t *)(memory + 4096);
	side.mr = region(&side.endpoint, memory, 8192, ALL_ACCESS);
	struct window window = region_window(side.mr);
	peer_connect(peer, &side.endpoint);
	peer_tell(peer, &window, sizeof window);
	peer_hear(peer, &side.window, sizeof side.window);
	return side;
}

/* Spins until the oldest request has completed. */
static inline void complete(struct endpoint *endpoint)
{
	struct ibv_wc wc;
	while (ibv_poll_cq(endpoint->cq, 1, &wc) == 0)
		;
	if (wc.status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__, "%s", ibv_wc_status_str(wc.status));
}

/* Every request is inline and signalled, the default of ib_write_lat and ib_send_lat. */
static inline void post_8(struct side *side, struct ibv_send_wr *request)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->out, .length = SIZE };
	struct ibv_send_wr *bad;
	request->sg_list = &sge;
	request->num_sge = 1;
	request->send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
	if (ibv_post_send(side->endpoint.qp, request, &bad) != 0)
		check_failed(__FILE__, __LINE__, "ibv_post_send fails");
}

static inline void write_8(struct side *side, uint64_t value)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = side->window.address, .rkey = side->window.rkey },
	};
	*side->out = value;
	post_8(side, &request);
}

static void write_answer(struct side *side, uint64_t first)
{
	for (uint64_t turn = first; turn < first + ROUNDS; turn++) {
		while (*side->in != turn)
			;
		write_8(side, turn);
		complete(&side->endpoint);
	}
}

static double write_ask(struct side *side, uint64_t first)
{
	uint64_t start = now();
	for (uint64_t turn = first; turn < first + ROUNDS; turn++) {
		write_8(side, turn);
		while (*side->in != turn)
			;
		complete(&side->endpoint);
	}
	return (double)(now() - start) / ROUNDS / 2;
}

/* Into a separate line, not that of the word that writes change. */
static inline void receive_8(struct side *side)
{
	post_receive(&side->endpoint, 0, piece_of(side->mr, 2 * LINE, SIZE));
}

static inline void send_8(struct side *side)
{
	struct ibv_send_wr request = { .opcode = IBV_WR_SEND };
	post_8(side, &request);
}

/* Two completions per round: the received message and the sent one. */
static void send_answer(struct side *side)
{
	for (uint64_t turn = 0; turn < ROUNDS; turn++) {
		/* Post the receive for the next message before replying to this one. */
		complete(&side->endpoint);
		receive_8(side);
		send_8(side);
		complete(&side->endpoint);
	}
}

static double send_ask(struct side *side)
{
	uint64_t start = now();
	for (uint64_t turn = 0; turn < ROUNDS; turn++) {
		send_8(side);
		complete(&side->endpoint);
		complete(&side->endpoint);
		receive_8(side);
	}
	return (double)(now() - start) / ROUNDS / 2;
}

static double read_ask(struct side *side)
{
	struct piece into = piece_of(side->mr, 4096, SIZE);
	uint64_t start = now();
	for (uint64_t turn = 0; turn < ROUNDS; turn++) {
		post_read(&side->endpoint, 0, into, side->window.address, side->window.rkey);
		complete(&side->endpoint);
	}
	return (double)(now() - start) / ROUNDS;
}

static double add_ask(struct side *side)
{
	struct piece into = piece_of(side->mr, 4096, SIZE);
	uint64_t start = now();
	for (uint64_t turn = 0; turn < ROUNDS; turn++) {
		post_fetch_add(&side->endpoint, 0, into, side->window.address + LINE,
			       side->window.rkey, 1);
		complete(&side->endpoint);
	}
	return (double)(now() - start) / ROUNDS;
}

static void answer(struct peer *parent)
{
	pin(1);
	struct side side = side_open(parent);
	receive_8(&side);
	for (uint64_t batch = 0; batch < BATCHES; batch++) {
		peer_meet(parent);
		floor_answer(1 + batch * ROUNDS);
		write_answer(&side, 1 + batch * ROUNDS);
		send_answer(&side);
		/* Reads and atomics are one-sided: this process waits in a system call. */
		peer_meet(parent);
	}
	peer_meet(parent);
}

static void latency(void)
{
	line = mmap(NULL, sizeof *line, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(line != MAP_FAILED);
	struct peer peer = peer_start(answer);
	pin(0);
	struct side side = side_open(&peer);
	receive_8(&side);
	double floors[BATCHES], writes[BATCHES], sends[BATCHES], reads[BATCHES], adds[BATCHES];
	for (uint64_t batch = 0; batch < BATCHES; batch++) {
		peer_meet(&peer);
		floors[batch] = floor_ask(1 + batch * ROUNDS);
		writes[batch] = write_ask(&side, 1 + batch * ROUNDS);
		sends[batch] = send_ask(&side);
		reads[batch] = read_ask(&side);
		adds[batch] = add_ask(&side);
		peer_meet(&peer);
	}
	peer_meet(&peer);
	peer_end(&peer);
	print_result("ping_pong_ns", median(floors, BATCHES));
	print_result("write_ns", median(writes, BATCHES));
	print_result("send_ns", median(sends, BATCHES));
	print_result("read_ns", median(reads, BATCHES));
	print_result("fetch_add_ns", median(adds, BATCHES));
}

const struct test tests[] = {
	{ "latency", latency },
	{ 0 },
};
