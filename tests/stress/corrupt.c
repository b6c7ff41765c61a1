/* Nothing read from shared memory is trusted: a peer that writes garbage over all memory that it
 * shares with us may harm itself and the memory that we have registered, and cannot crash or hang
 * us. Each attacker connects, works for a moment and then writes garbage until it crashes or is
 * killed. */

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
#include "peer.h"
#include "work.h"

#define ATTACKERS 40
#define ATTACK (60 * MILLISECOND)
#define LENGTH 65536
#define DEPTH 16
#define RANGES 64

/* Which of the shared mappings are written to. */
enum prey { ALL_BUT_THE_REGISTRY, ALL };
static enum prey prey;

struct range {
	uint8_t *start;
	size_t length;
};

/* The mappings of this process that are writable and shared with another. */
static unsigned shared_ranges(struct range *ranges)
{
	unsigned count = 0;
	char line[1024];
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK_POINTER(maps);
	while (fgets(line, sizeof line, maps) != NULL && count < RANGES) {
		unsigned long start, end;
		char rights[5];
		CHECK_EQUAL(sscanf(line, "%lx-%lx %4s", &start, &end, rights), 3);
		if (strcmp(rights, "rw-s") != 0)
			continue;
		if (prey == ALL_BUT_THE_REGISTRY && strstr(line, "/registry") != NULL)
			continue;
		ranges[count++] = (struct range){ (uint8_t *)start, end - start };
	}
	fclose(maps);
	return count;
}

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Words that look like indices, lengths, keys and states, and some that do not. */
static uint64_t garbage(void)
{
	uint64_t word = next_random();
	switch (word >> 60) {
	case 0:
	case 1:
		return 0;
	case 2:
	case 3:
		return UINT64_MAX;
	case 4:
	case 5:
	case 6:
		return word & 0xff;
	case 7:
	case 8:
		return word & 0xffff;
	default:
		return word;
	}
}

static void scribble(void)
{
	static struct range ranges[RANGES];
	unsigned count = shared_ranges(ranges);
	if (count == 0)
		return;
	for (;;) {
		const struct range *range = &ranges[next_random() % count];
		/* Large ranges are mostly holes: stay near their beginnings, where structures are. */
		size_t reach = next_random() % 4 != 0 && range->length > 65536 ? 65536
									     : range->length;
		size_t position = next_random() % reach & ~(size_t)7;
		*(volatile uint64_t *)(range->start + position) = garbage();
	}
}

static void attack(struct peer *parent)
{
	char go;
	peer_hear(parent, &go, 1);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct window window;
	uint8_t *memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(memory);
	memset(memory, 1, LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	struct window own = region_window(mr);
	for (uint64_t slot = 0; slot < DEPTH; slot++)
		post_receive(&endpoint, slot, piece_of(mr, 0, 512));
	peer_connect(parent, &endpoint);
	peer_tell(parent, &own, sizeof own);
	peer_hear(parent, &window, sizeof window);
	post_write(&endpoint, 1, piece_of(mr, 0, LENGTH), window.address, window.rkey);
	completion(&endpoint);
	peer_tell(parent, "a", 1);
	/* Its errors about its own damage are of no interest, and are not to be reported as our
	 * failure. */
	close(STDERR_FILENO);
	random_state = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15) + 1;
	scribble();
}

static void end(struct peer *peer)
{
	kill(peer->process, SIGKILL);
	while (waitpid(peer->process, NULL, 0) < 0)
		;
	close(peer->socket);
}

/* One attacker, from its connection to its end. Statuses do not matter here: every call must return
 * and every posted request complete. */
static void endure(struct endpoint *first, struct ibv_mr *mr, struct peer *attacker)
{
	struct settings settings = endpoint_defaults();
	settings.depth = DEPTH;
	struct endpoint endpoint = endpoint_beside(first, settings);
	struct window own = region_window(mr), theirs;
	for (uint64_t slot = 0; slot < DEPTH; slot++)
		post_receive(&endpoint, DEPTH, piece_of(mr, 0, 512));
	peer_connect(attacker, &endpoint);
	peer_hear(attacker, &theirs, sizeof theirs);
	peer_tell(attacker, &own, sizeof own);
	char started;
	peer_hear(attacker, &started, 1);

	uint32_t under_way = 0;
	uint64_t over = now() + ATTACK;
	for (uint64_t turn = 0; now() < over; turn++) {
		struct ibv_wc wc;
		while (ibv_poll_cq(endpoint.cq, 1, &wc) == 1)
			under_way -= wc.wr_id < DEPTH;
		if (under_way == DEPTH)
			continue;
		struct piece piece = piece_of(mr, 0, turn % 2 ? 512 : LENGTH);
		if (turn % 4 == 0)
			post_send(&endpoint, 1, piece_of(mr, 0, 512));
		else if (turn % 4 == 1)
			post_read(&endpoint, 1, piece, theirs.address, theirs.rkey);
		else
			post_write(&endpoint, 1, piece, theirs.address, theirs.rkey);
		under_way++;
	}
	end(attacker);
	/* Requests under way end when the queue pair goes to the error state. */
	endpoint_break(&endpoint);
	uint64_t deadline = now() + 10 * SECOND;
	while (under_way > 0) {
		struct ibv_wc wc;
		if (ibv_poll_cq(endpoint.cq, 1, &wc) == 1)
			under_way -= wc.wr_id < DEPTH;
		CHECK(now() < deadline);
	}
	CHECK_CALL(ibv_destroy_qp(endpoint.qp));
}

static void endure_all(enum prey which, unsigned attackers)
{
	static struct peer peers[ATTACKERS];
	prey = which;
	/* Forked before this process opens the device: an attacker is no child of a process that
	 * uses it. */
	for (unsigned attacker = 0; attacker < attackers; attacker++)
		peers[attacker] = peer_start(attack);
	struct settings settings = endpoint_defaults();
	settings.depth = 4 * DEPTH;
	struct endpoint first = endpoint_open(settings);
	uint8_t *memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	struct ibv_mr *mr = region(&first, memory, LENGTH, ALL_ACCESS);
	for (unsigned attacker = 0; attacker < attackers; attacker++) {
		peer_tell(&peers[attacker], "g", 1);
		endure(&first, mr, &peers[attacker]);
	}
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&first);
}

static void garbage_in_shared_memory(void)
{
	endure_all(ALL_BUT_THE_REGISTRY, ATTACKERS);
}

/* A process that corrupts the registry keeps later processes from starting, so there is only
 * one. */
static void garbage_in_the_registry(void)
{
	endure_all(ALL, 1);
}

const struct test tests[] = {
	{ "garbage_in_shared_memory", garbage_in_shared_memory },
	{ "garbage_in_the_registry", garbage_in_the_registry },
	{ 0 },
};
