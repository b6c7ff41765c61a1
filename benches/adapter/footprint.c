/* Costs of the adapter other than latency: memory of queue pairs and of registered regions, CPU
 * time of an idle process, and the one-time cost of registration. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"
#include "traced.h"
#include "work.h"

#define QUEUE_PAIRS 10000
#define DEPTH 16
#define IDLE_PAIRS 100
#define MEBIBYTE ((uint64_t)1 << 20)
#define REGISTERED (64 * MEBIBYTE)
#define GIBIBYTE (1024 * MEBIBYTE)

/* A value of /proc/self/smaps_rollup or status, in bytes. */
static double kibibytes_of(const char *file, const char *name)
{
	char line[256];
	double value = -1;
	FILE *status = fopen(file, "r");
	CHECK_POINTER(status);
	while (fgets(line, sizeof line, status) != NULL) {
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtod(line + strlen(name), NULL);
	}
	fclose(status);
	CHECK(value >= 0);
	return value * 1024;
}

/* Resident memory of this process, each page counted once even if it is mapped several times: the
 * memory that the machine has less. */
static double resident(void)
{
	return kibibytes_of("/proc/self/smaps_rollup", "Pss:");
}

static struct endpoint pairs[QUEUE_PAIRS];

static void connect_to_each_other(struct endpoint *one, struct endpoint *other)
{
	endpoint_connect(one, endpoint_address(other));
	endpoint_connect(other, endpoint_address(one));
}

/* 10,000 queue pairs of one process, connected in pairs, before and after each has sent and
 * received a message. */
static void queue_pairs(void)
{
	struct settings settings = endpoint_defaults();
	settings.depth = DEPTH;
	struct endpoint first = endpoint_open(settings);
	char *memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(memory);
	memset(memory, 1, 4096);
	memset(pairs, 0, sizeof pairs);
	struct ibv_mr *mr = region(&first, memory, 4096, IBV_ACCESS_LOCAL_WRITE);

	double before = resident();
	for (unsigned pair = 0; pair < QUEUE_PAIRS; pair++)
		pairs[pair] = endpoint_beside(&first, settings);
	for (unsigned pair = 0; pair < QUEUE_PAIRS; pair += 2)
		connect_to_each_other(&pairs[pair], &pairs[pair + 1]);
	print_result("queue_pair_connected_bytes", (resident() - before) / QUEUE_PAIRS);

	for (unsigned pair = 0; pair < QUEUE_PAIRS; pair++) {
		struct endpoint *to = &pairs[pair ^ 1];
		post_receive(to, 1, piece_of(mr, 2048, 8));
		post_send(&pairs[pair], 2, piece_of(mr, 0, 8));
		CHECK_EQUAL(completion(&first).status, IBV_WC_SUCCESS);
		CHECK_EQUAL(completion(&first).status, IBV_WC_SUCCESS);
	}
	print_result("queue_pair_used_bytes", (resident() - before) / QUEUE_PAIRS);
}

static uint64_t process_time(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void idle_peer(struct peer *parent)
{
	struct endpoint first = endpoint_open(endpoint_defaults());
	for (unsigned pair = 0; pair < IDLE_PAIRS; pair++) {
		pairs[pair] = endpoint_beside(&first, endpoint_defaults());
		peer_connect(parent, &pairs[pair]);
	}
	peer_meet(parent);
}

/* 100 queue pairs, connected to another process and open, then idle for two seconds. */
static void idle(void)
{
	struct peer peer = peer_start(idle_peer);
	struct endpoint first = endpoint_open(endpoint_defaults());
	for (unsigned pair = 0; pair < IDLE_PAIRS; pair++) {
		pairs[pair] = endpoint_beside(&first, endpoint_defaults());
		peer_connect(&peer, &pairs[pair]);
	}
	/* Wait until the activity after connecting has ended. */
	struct timespec rest = { .tv_nsec = 500000000 }, pause = { .tv_sec = 2 };
	nanosleep(&rest, NULL);
	uint64_t before = process_time();
	nanosleep(&pause, NULL);
	print_result("idle_cpu_ns_per_s", (double)(process_time() - before) / 2);
	peer_meet(&peer);
	peer_end(&peer);
}

static void *touched(uint64_t length)
{
	void *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, 1, length);
	return memory;
}

/* New memory each time, as only the first registration of a page is expensive. */
static void registration(void)
{
	struct endpoint first = endpoint_open(endpoint_defaults());
	double costs[9];
	for (unsigned time = 0; time < 9; time++) {
		void *memory = touched(REGISTERED);
		uint64_t start = now();
		struct ibv_mr *mr = region(&first, memory, REGISTERED, ALL_ACCESS);
		costs[time] = (double)(now() - start) / (REGISTERED / MEBIBYTE);
		CHECK_CALL(ibv_dereg_mr(mr));
		CHECK_CALL(munmap(memory, REGISTERED));
	}
	print_result("registration_ns_per_mib", median(costs, 9));

	void *memory = touched(GIBIBYTE);
	double before = resident();
	struct ibv_mr *mr = region(&first, memory, GIBIBYTE, ALL_ACCESS);
	print_result("resident_before_bytes", before);
	print_result("resident_registered_bytes", resident());
	CHECK_CALL(ibv_dereg_mr(mr));
}

/* Instructions of a registration and a deregistration: of memory that was never registered, and
 * again of the same memory. */
static void counted_registration(void)
{
	static const struct {
		uint64_t length;
		const char *first, *again, *calls;
	} SIZES[] = {
		{ 4096, "register_4k_instructions", "register_again_4k_instructions",
		  "register_4k_system_calls" },
		{ 65536, "register_64k_instructions", "register_again_64k_instructions",
		  "register_64k_system_calls" },
		{ MEBIBYTE, "register_1m_instructions", "register_again_1m_instructions",
		  "register_1m_system_calls" },
	};
	struct endpoint first = endpoint_open(endpoint_defaults());
	CHECK_CALL(ibv_dereg_mr(region(&first, touched(MEBIBYTE), MEBIBYTE, ALL_ACCESS)));
	for (unsigned size = 0; size < sizeof SIZES / sizeof *SIZES; size++) {
		double instructions[2][9], calls[9];
		for (unsigned time = 0; time < 9; time++) {
			void *memory = touched(SIZES[size].length);
			for (unsigned turn = 0; turn < 2; turn++) {
				traced_begin();
				struct ibv_mr *mr =
					ibv_reg_mr(first.pd, memory, SIZES[size].length, ALL_ACCESS);
				CHECK(mr != NULL && ibv_dereg_mr(mr) == 0);
				struct steps counted = traced_end();
				instructions[turn][time] = (double)counted.instructions;
				if (turn == 0)
					calls[time] = (double)counted.system_calls;
			}
			CHECK_CALL(munmap(memory, SIZES[size].length));
		}
		print_result(SIZES[size].first, median(instructions[0], 9));
		print_result(SIZES[size].again, median(instructions[1], 9));
		print_result(SIZES[size].calls, median(calls, 9));
	}
}

const struct test tests[] = {
	{ "queue_pairs", queue_pairs },
	{ "idle", idle },
	{ "registration", registration },
	{ "registration_steps", counted_registration },
	{ 0 },
};
