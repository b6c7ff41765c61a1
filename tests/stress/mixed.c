/* 8 processes, each connected to each by dozens of RC and UC queue pairs and a UD one, exchange
 * operations in a random order. Every byte is verified: written data are read back by the writer
 * and checked by the owner, sent data are checked by the receiver, and the shared counters are
 * exact. All receives of a process come from one shared receive queue. */

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "table.h"
#include "work.h"

#define OPERATIONS 4000
#define LONGEST 2048
#define LONGEST_DATAGRAM 1024
#define RECEIVES 1024
#define QKEY 0x11111111
#define GRH 40

static struct table *table;

/* A message's description of itself, before its data. */
struct header {
	uint32_t from;
	uint32_t pair; /* PAIRS: a datagram */
	uint64_t number;
	uint32_t length;
};

struct process {
	uint32_t self;
	uint64_t random;
	struct entry *entry;
	struct endpoint pairs[PROCESSES][PAIRS];
	struct endpoint datagrams;
	struct ibv_srq *srq;
	struct ibv_cq *receive_cq;
	uint8_t *slices, *scratch, *inbox;
	uint64_t *counter;
	struct ibv_mr *slices_mr, *mirror_mr, *scratch_mr, *inbox_mr;
	uint64_t received[PROCESSES][RC_PAIRS];
	uint64_t verified;
};

static uint64_t next_random(struct process *process)
{
	process->random ^= process->random << 13;
	process->random ^= process->random >> 7;
	process->random ^= process->random << 17;
	return process->random;
}

static uint32_t below(struct process *process, size_t bound)
{
	return (uint32_t)(next_random(process) % bound);
}

static void meet_all(void)
{
	pthread_barrier_wait(&table->barrier);
}

/* --- receiving ------------------------------------------------------------------------------- */

static void give_receive(struct process *process, uint64_t slot)
{
	struct endpoint *any = &process->datagrams;
	post_receive(any, slot, piece_of(process->inbox_mr, slot * LONGEST, LONGEST));
}

static uint64_t message_seed(uint32_t from, uint64_t number)
{
	return number * PROCESSES + from;
}

/* Every byte, and for RC that none was lost, doubled or overtaken. */
static void check_message(struct process *process, const uint8_t *bytes, uint32_t length)
{
	struct header header;
	CHECK(length >= sizeof header);
	memcpy(&header, bytes, sizeof header);
	CHECK(header.from < PROCESSES);
	CHECK_EQUAL(header.length, length);
	if (header.pair < RC_PAIRS) {
		CHECK_EQUAL(header.number, process->received[header.from][header.pair]);
		process->received[header.from][header.pair]++;
	} else {
		CHECK_EQUAL(header.pair, PAIRS);
	}
	uint64_t seed = message_seed(header.from, header.number);
	for (uint32_t position = sizeof header; position < length; position++)
		CHECK_EQUAL(bytes[position], pattern(seed, position));
	process->verified += length;
}

/* Takes arrived messages. */
static void receive(struct process *process)
{
	struct ibv_wc wc[32];
	int count;
	while ((count = ibv_poll_cq(process->receive_cq, 32, wc)) > 0) {
		for (int index = 0; index < count; index++) {
			CHECK_EQUAL(wc[index].status, IBV_WC_SUCCESS);
			bool datagram = wc[index].qp_num == process->datagrams.qp->qp_num;
			uint32_t front = datagram ? GRH : 0;
			check_message(process, process->inbox + wc[index].wr_id * LONGEST + front,
				      wc[index].byte_len - front);
			give_receive(process, wc[index].wr_id);
		}
	}
	CHECK_EQUAL(count, 0);
}

/* Waits for the completion of the one request under way while taking arrived messages, for its
 * receiver may be waiting for us. */
static void wait_for(struct process *process, struct endpoint *endpoint)
{
	for (uint64_t deadline = now() + 60 * SECOND; now() < deadline; sched_yield()) {
		struct ibv_wc wc;
		int count = ibv_poll_cq(endpoint->cq, 1, &wc);
		CHECK(count >= 0);
		if (count == 1) {
			if (wc.status != IBV_WC_SUCCESS)
				check_failed(__FILE__, __LINE__, "queue pair 0x%x: %s", wc.qp_num,
					     ibv_wc_status_str(wc.status));
			CHECK_EQUAL(wc.qp_num, endpoint->qp->qp_num);
			return;
		}
		receive(process);
	}
	check_failed(__FILE__, __LINE__, "queue pair 0x%x: no completion in 60 s",
		     endpoint->qp->qp_num);
}

/* --- the operations -------------------------------------------------------------------------- */

static void write_slice(struct process *process, uint32_t to, uint32_t pair)
{
	struct entry *target = &table->entries[to];
	uint32_t offset = below(process, SLICE), length = 1 + below(process, SLICE - offset);
	size_t at = slice_offset(to, pair) + offset;
	for (uint32_t position = 0; position < length; position++)
		process->entry->mirror[at + position] = (uint8_t)next_random(process);
	post_write(&process->pairs[to][pair], 1, piece_of(process->mirror_mr, at, length),
		   target->slices + slice_offset(process->self, pair) + offset, target->rkey);
	wait_for(process, &process->pairs[to][pair]);
}

static void read_slice_back(struct process *process, uint32_t to, uint32_t pair)
{
	struct entry *target = &table->entries[to];
	uint32_t offset = below(process, SLICE), length = 1 + below(process, SLICE - offset);
	post_read(&process->pairs[to][pair], 2, piece_of(process->scratch_mr, 0, length),
		  target->slices + slice_offset(process->self, pair) + offset, target->rkey);
	wait_for(process, &process->pairs[to][pair]);
	const uint8_t *expected = process->entry->mirror + slice_offset(to, pair) + offset;
	CHECK(memcmp(process->scratch, expected, length) == 0);
	process->verified += length;
}

static void add(struct process *process, uint32_t to, uint32_t pair)
{
	struct entry *target = &table->entries[to];
	uint64_t addend = below(process, 1000);
	post_fetch_add(&process->pairs[to][pair], 3, piece_of(process->scratch_mr, 0, 8),
		       target->counter, target->rkey, addend);
	wait_for(process, &process->pairs[to][pair]);
	atomic_fetch_add(&target->added, addend);
}

/* A message in the scratch memory. */
static struct piece compose(struct process *process, uint32_t pair, uint64_t number,
			    uint32_t longest)
{
	struct header header = {
		.from = process->self,
		.pair = pair,
		.number = number,
		.length = (uint32_t)sizeof header + below(process, longest - sizeof header),
	};
	memcpy(process->scratch, &header, sizeof header);
	uint64_t seed = message_seed(header.from, number);
	for (uint32_t position = sizeof header; position < header.length; position++)
		process->scratch[position] = pattern(seed, position);
	return piece_of(process->scratch_mr, 0, header.length);
}

static void send_message(struct process *process, uint32_t to, uint32_t pair)
{
	uint64_t number = atomic_fetch_add(&table->entries[to].sent[process->self][pair], 1);
	post_send(&process->pairs[to][pair], 4, compose(process, pair, number, LONGEST));
	wait_for(process, &process->pairs[to][pair]);
}

/* Datagrams may be lost; those that arrive are checked. */
static void send_datagram(struct process *process, uint32_t to)
{
	struct entry *target = &table->entries[to];
	struct ibv_ah_attr where = { .dlid = target->lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(process->datagrams.pd, &where);
	CHECK_POINTER(ah);
	struct piece piece = compose(process, PAIRS, below(process, 1 << 20), LONGEST_DATAGRAM);
	struct ibv_sge sge = {
		.addr = (uintptr_t)piece.address,
		.length = piece.length,
		.lkey = piece.lkey,
	};
	struct ibv_send_wr request = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = ah, .remote_qpn = target->datagram_number, .remote_qkey = QKEY },
	};
	struct ibv_send_wr *bad = NULL;
	CHECK_CALL(ibv_post_send(process->datagrams.qp, &request, &bad));
	wait_for(process, &process->datagrams);
	CHECK_CALL(ibv_destroy_ah(ah));
}

static void operate(struct process *process)
{
	uint32_t to = below(process, PROCESSES - 1);
	to += to >= process->self;
	uint32_t reliable = below(process, RC_PAIRS);
	switch (below(process, 6)) {
	case 0:
		write_slice(process, to, below(process, PAIRS));
		break;
	case 1:
		write_slice(process, to, reliable);
		break;
	case 2:
		read_slice_back(process, to, reliable);
		break;
	case 3:
		add(process, to, reliable);
		break;
	case 4:
		send_message(process, to, reliable);
		break;
	default:
		send_datagram(process, to);
		break;
	}
}

/* --- a process ------------------------------------------------------------------------------- */

static uint8_t *memory_of(size_t length)
{
	uint8_t *memory = aligned_alloc(4096, (length + 4095) / 4096 * 4096);
	CHECK_POINTER(memory);
	memset(memory, 0, length);
	return memory;
}

static void register_memory(struct process *process, const struct endpoint *endpoint)
{
	process->slices = memory_of(SLICES + sizeof *process->counter);
	process->counter = (uint64_t *)(process->slices + SLICES);
	process->scratch = memory_of(SLICE);
	process->inbox = memory_of(RECEIVES * LONGEST);
	process->slices_mr =
		region(endpoint, process->slices, SLICES + sizeof *process->counter, ALL_ACCESS);
	process->mirror_mr = region(endpoint, process->entry->mirror, SLICES, 0);
	process->scratch_mr = region(endpoint, process->scratch, SLICE, IBV_ACCESS_LOCAL_WRITE);
	process->inbox_mr =
		region(endpoint, process->inbox, RECEIVES * LONGEST, IBV_ACCESS_LOCAL_WRITE);
}

static void make_pairs(struct process *process, const struct endpoint *first,
		       struct settings settings)
{
	for (uint32_t other = 0; other < PROCESSES; other++) {
		if (other == process->self)
			continue;
		for (uint32_t pair = 0; pair < PAIRS; pair++) {
			struct settings own = settings;
			if (pair >= RC_PAIRS) {
				own.type = IBV_QPT_UC;
				own.access = IBV_ACCESS_REMOTE_WRITE;
				own.srq = NULL;
			}
			process->pairs[other][pair] = endpoint_beside(first, own);
			process->entry->numbers[other][pair] =
				process->pairs[other][pair].qp->qp_num;
		}
	}
	settings.type = IBV_QPT_UD;
	process->datagrams = endpoint_beside(first, settings);
	endpoint_connect(&process->datagrams, (struct address){ 0 });
	process->entry->datagram_number = process->datagrams.qp->qp_num;
}

static void connect_pairs(struct process *process)
{
	for (uint32_t other = 0; other < PROCESSES; other++) {
		for (uint32_t pair = 0; other != process->self && pair < PAIRS; pair++) {
			uint32_t number = table->entries[other].numbers[process->self][pair];
			endpoint_connect(&process->pairs[other][pair],
					 (struct address){
						 .qp_number = number,
						 .psn = number & 0xffffff,
						 .lid = table->entries[other].lid,
					 });
		}
	}
}

/* All writes, additions and messages of others have arrived. */
static void check_everything(struct process *process)
{
	for (uint32_t other = 0; other < PROCESSES; other++) {
		for (uint32_t pair = 0; other != process->self && pair < PAIRS; pair++) {
			const uint8_t *expected =
				table->entries[other].mirror + slice_offset(process->self, pair);
			const uint8_t *actual = process->slices + slice_offset(other, pair);
			CHECK(memcmp(actual, expected, SLICE) == 0);
			process->verified += SLICE;
		}
		for (uint32_t pair = 0; pair < RC_PAIRS; pair++)
			CHECK_EQUAL(process->received[other][pair],
				    process->entry->sent[other][pair]);
	}
	CHECK_EQUAL(*process->counter, process->entry->added);
}

static void destroy_pairs(struct process *process)
{
	for (uint32_t other = 0; other < PROCESSES; other++)
		for (uint32_t pair = 0; other != process->self && pair < PAIRS; pair++)
			CHECK_CALL(ibv_destroy_qp(process->pairs[other][pair].qp));
	CHECK_CALL(ibv_destroy_qp(process->datagrams.qp));
	CHECK_CALL(ibv_destroy_srq(process->srq));
	CHECK_CALL(ibv_destroy_cq(process->receive_cq));
	CHECK_CALL(ibv_dereg_mr(process->slices_mr));
	CHECK_CALL(ibv_dereg_mr(process->mirror_mr));
	CHECK_CALL(ibv_dereg_mr(process->scratch_mr));
	CHECK_CALL(ibv_dereg_mr(process->inbox_mr));
}

static void work(uint32_t self)
{
	static struct process process;
	process.self = self;
	process.random = 0x9e3779b97f4a7c15 * (self + 1);
	process.entry = &table->entries[self];

	struct settings settings = endpoint_defaults();
	settings.depth = 16;
	/* Half a second, seven times: eight processes may share two cores. */
	settings.timeout = 17;
	settings.retry_count = 7;
	struct endpoint first = endpoint_open(settings);
	register_memory(&process, &first);

	struct ibv_srq_init_attr shared = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	process.srq = ibv_create_srq(first.pd, &shared);
	CHECK_POINTER(process.srq);
	process.receive_cq = ibv_create_cq(first.context, 2 * RECEIVES, NULL, NULL, 0);
	CHECK_POINTER(process.receive_cq);
	settings.srq = process.srq;
	settings.receive_cq = process.receive_cq;
	make_pairs(&process, &first, settings);
	for (uint64_t slot = 0; slot < RECEIVES; slot++)
		give_receive(&process, slot);

	process.entry->slices = (uintptr_t)process.slices;
	process.entry->counter = (uintptr_t)process.counter;
	process.entry->rkey = process.slices_mr->rkey;
	process.entry->lid = first.lid;
	meet_all();
	connect_pairs(&process);
	meet_all();
	for (int operation = 0; operation < OPERATIONS; operation++)
		operate(&process);
	/* Processes that are still at work may send to us. */
	for (atomic_fetch_add(&table->finished, 1); table->finished < PROCESSES; sched_yield())
		receive(&process);
	receive(&process);
	check_everything(&process);
	meet_all();
	destroy_pairs(&process);
	endpoint_close(&first);
	printf("process %u: verified %llu bytes\n", self, (unsigned long long)process.verified);
	fflush(stdout);
}

static void mixed(void)
{
	table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(table != MAP_FAILED);
	pthread_barrierattr_t shared;
	CHECK_CALL(pthread_barrierattr_init(&shared));
	CHECK_CALL(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED));
	CHECK_CALL(pthread_barrier_init(&table->barrier, &shared, PROCESSES));
	for (uint32_t self = 0; self < PROCESSES; self++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work(self);
			exit(EXIT_SUCCESS);
		}
	}
	for (uint32_t ended = 0; ended < PROCESSES; ended++) {
		int status;
		CHECK(wait(&status) > 0);
		/* The others would wait for it at the barrier; they end with us. */
		CHECK_EQUAL(status, 0);
	}
}

const struct test tests[] = {
	{ "mixed", mixed },
	{ 0 },
};
