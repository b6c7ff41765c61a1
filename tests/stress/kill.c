/* Processes die at any instruction: 200 times a victim under load is killed. Two survivors work
 * with each victim by writes, reads, atomics and messages in both directions. After each death
 * every request that a survivor has posted completes, with retry exceeded first, and the survivors
 * go on with the next victim. In the end they hold no more descriptors and mappings than after the
 * first rounds.
 *
 *   parent ---- forks ----> victim, killed after a random time
 *      \---- sockets ----> survivor 0, survivor 1 (live through all rounds) */

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define KILLS 200
#define SURVIVORS 2
#define PAIRS 4
#define DEPTH 16
#define LENGTH 16384
/* A survivor notices a death within 4 ms x (3 + 1) retries; all else is slack for a busy
 * machine. */
#define TIME_LIMIT (20 * SECOND)
/* After so many rounds all cached resources exist. */
#define WARM_UP 20

/* The address that one side of a round gives the other. */
struct side {
	uint32_t present; /* 0: it died before it could say so */
	struct address addresses[PAIRS];
	struct window window;
};

/* The end of one side of a round. */
struct actor {
	struct endpoint first;
	struct endpoint pairs[PAIRS];
	uint8_t *memory;
	struct ibv_mr *mr;
	uint32_t under_way[PAIRS];
};

static struct settings settings_of_a_pair(void)
{
	struct settings settings = endpoint_defaults();
	settings.depth = DEPTH;
	return settings;
}

static void make_pairs(struct actor *actor, struct side *side)
{
	side->present = 1;
	for (uint32_t pair = 0; pair < PAIRS; pair++) {
		actor->pairs[pair] = endpoint_beside(&actor->first, settings_of_a_pair());
		actor->under_way[pair] = 0;
		side->addresses[pair] = endpoint_address(&actor->pairs[pair]);
	}
	actor->mr = region(&actor->first, actor->memory, LENGTH, ALL_ACCESS);
	side->window = region_window(actor->mr);
}

static void open_actor(struct actor *actor)
{
	struct settings settings = endpoint_defaults();
	/* The completion queue has space for all requests of all pairs. */
	settings.depth = DEPTH * PAIRS * 2;
	actor->first = endpoint_open(settings);
	actor->memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(actor->memory);
	memset(actor->memory, 0, LENGTH);
}

/* One request of each kind in turn; a message needs a receive at the peer, which is posted
 * sometimes. */
static void post_one(struct actor *actor, uint32_t pair, const struct window *window, uint64_t turn)
{
	struct endpoint *endpoint = &actor->pairs[pair];
	switch (turn % 5) {
	case 0:
		post_write(endpoint, pair, piece_of(actor->mr, 0, LENGTH), window->address,
			   window->rkey);
		break;
	case 1:
		post_read(endpoint, pair, piece_of(actor->mr, 0, LENGTH), window->address,
			  window->rkey);
		break;
	case 2:
		post_fetch_add(endpoint, pair, piece_of(actor->mr, 0, 8), window->address,
			       window->rkey, 1);
		break;
	case 3:
		post_write(endpoint, pair, piece_of(actor->mr, 8, 8), window->address + 8,
			   window->rkey);
		break;
	default:
		post_send(endpoint, pair, piece_of(actor->mr, 0, 512));
		break;
	}
	actor->under_way[pair]++;
}

/* --- the victim ------------------------------------------------------------------------------ */

/* The survivors of this round; the victim inherits them. */
static struct side survivors[SURVIVORS];

/* Connects to both survivors and works until it is killed. */
static void be_a_victim(struct peer *parent)
{
	static struct actor actors[SURVIVORS];
	struct side own[SURVIVORS];
	for (uint32_t survivor = 0; survivor < SURVIVORS; survivor++) {
		open_actor(&actors[survivor]);
		make_pairs(&actors[survivor], &own[survivor]);
		for (uint32_t pair = 0; pair < PAIRS; pair++)
			endpoint_connect(&actors[survivor].pairs[pair],
					 survivors[survivor].addresses[pair]);
	}
	peer_tell(parent, own, sizeof own);
	for (uint64_t turn = 0;; turn++) {
		struct actor *actor = &actors[turn % SURVIVORS];
		uint32_t pair = (uint32_t)(turn / SURVIVORS % PAIRS);
		struct ibv_wc wc[16];
		int count = ibv_poll_cq(actor->first.cq, 16, wc);
		for (int index = 0; index < count; index++)
			if (wc[index].wr_id < PAIRS)
				actor->under_way[wc[index].wr_id]--;
		if (turn % 16 == 0) {
			struct endpoint *endpoint = &actor->pairs[pair];
			struct ibv_sge sge = {
				.addr = (uintptr_t)actor->memory,
				.length = 512,
				.lkey = actor->mr->lkey,
			};
			struct ibv_recv_wr request = { .wr_id = PAIRS, .sg_list = &sge, .num_sge = 1 };
			struct ibv_recv_wr *bad;
			/* The queue may be full, which does not matter. */
			(void)ibv_post_recv(endpoint->qp, &request, &bad);
		}
		if (actor->under_way[pair] < DEPTH)
			post_one(actor, pair, &survivors[turn % SURVIVORS].window, turn);
	}
}

/* --- a survivor ------------------------------------------------------------------------------ */

static uint32_t entries_of(const char *directory)
{
	uint32_t count = 0;
	DIR *entries = opendir(directory);
	CHECK_POINTER(entries);
	while (readdir(entries) != NULL)
		count++;
	closedir(entries);
	return count;
}

static uint32_t mappings(void)
{
	uint32_t lines = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK_POINTER(maps);
	for (int byte = getc(maps); byte != EOF; byte = getc(maps))
		lines += byte == '\n';
	fclose(maps);
	return lines;
}

/* Works with the victim until every pair has failed and everything posted has completed. */
static void outlive(struct actor *actor, const struct side *victim)
{
	uint64_t deadline = now() + TIME_LIMIT;
	bool failed[PAIRS] = { false };
	uint32_t alive = PAIRS;
	for (uint64_t turn = 0;; turn++) {
		struct ibv_wc wc[16];
		int count = ibv_poll_cq(actor->first.cq, 16, wc);
		CHECK(count >= 0);
		for (int index = 0; index < count; index++) {
			uint64_t pair = wc[index].wr_id;
			CHECK(pair < PAIRS);
			CHECK(actor->under_way[pair] > 0);
			actor->under_way[pair]--;
			if (wc[index].status == IBV_WC_SUCCESS) {
				CHECK(!failed[pair]);
				continue;
			}
			/* The first error says why; later requests are flushed. */
			enum ibv_wc_status expected =
				failed[pair] ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR;
			if (wc[index].status != expected)
				check_failed(__FILE__, __LINE__, "\"%s\", expected \"%s\"",
					     ibv_wc_status_str(wc[index].status),
					     ibv_wc_status_str(expected));
			alive -= !failed[pair];
			failed[pair] = true;
		}
		uint32_t pair = (uint32_t)(turn % PAIRS);
		if (!failed[pair] && actor->under_way[pair] < DEPTH)
			post_one(actor, pair, &victim->window, turn / PAIRS);
		uint32_t left = 0;
		for (uint32_t each = 0; each < PAIRS; each++)
			left += actor->under_way[each];
		if (alive == 0 && left == 0)
			return;
		if (now() > deadline)
			check_failed(__FILE__, __LINE__,
				     "%u pairs have not failed and %u requests have not completed "
				     "in time", alive, left);
		sched_yield();
	}
}

static void be_a_survivor(struct peer *parent)
{
	struct actor actor;
	uint32_t go, descriptors_before = 0, mappings_before = 0, round = 0;
	open_actor(&actor);
	for (peer_hear(parent, &go, sizeof go); go != 0; peer_hear(parent, &go, sizeof go)) {
		struct side own, victim;
		make_pairs(&actor, &own);
		peer_tell(parent, &own, sizeof own);
		peer_hear(parent, &victim, sizeof victim);
		if (victim.present) {
			for (uint32_t pair = 0; pair < PAIRS; pair++)
				endpoint_connect(&actor.pairs[pair], victim.addresses[pair]);
			outlive(&actor, &victim);
		}
		for (uint32_t pair = 0; pair < PAIRS; pair++)
			CHECK_CALL(ibv_destroy_qp(actor.pairs[pair].qp));
		CHECK_CALL(ibv_dereg_mr(actor.mr));
		if (++round == WARM_UP) {
			descriptors_before = entries_of("/proc/self/fd");
			mappings_before = mappings();
		}
		uint32_t done = 1;
		peer_tell(parent, &done, sizeof done);
	}
	uint32_t descriptors_after = entries_of("/proc/self/fd"), mappings_after = mappings();
	printf("survivor: descriptors %u, then %u; mappings %u, then %u\n", descriptors_before,
	       descriptors_after, mappings_before, mappings_after);
	/* A little more may be kept for reuse; a leak would be one a round or more. */
	CHECK(descriptors_after <= descriptors_before + 10);
	CHECK(mappings_after <= mappings_before + 40);
	endpoint_close(&actor.first);
}

/* --- the parent ------------------------------------------------------------------------------ */

static uint64_t random_state = 88172645463325252;

static uint64_t random_below(uint64_t bound)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % bound;
}

static void pass_time(uint64_t duration)
{
	struct timespec time = { .tv_nsec = (long)duration };
	nanosleep(&time, NULL);
}

/* Receives the victim's address, if it has sent it. */
static void hear_if_said(struct peer *victim, struct side *said)
{
	/* It is sent in one piece, so it arrives as a whole or not at all. */
	ssize_t length = recv(victim->socket, said, SURVIVORS * sizeof *said, MSG_DONTWAIT);
	if (length != (ssize_t)(SURVIVORS * sizeof *said))
		memset(said, 0, SURVIVORS * sizeof *said);
}

static void tell_survivors(struct peer *peers, const struct side *victim)
{
	for (uint32_t survivor = 0; survivor < SURVIVORS; survivor++)
		peer_tell(&peers[survivor], &victim[survivor], sizeof *victim);
}

/* One life and death. Every fourth victim dies at a random moment of its start, the others under
 * load. */
static void run_round(struct peer *peers, uint32_t round)
{
	uint32_t go = 1, done;
	struct side said[SURVIVORS];
	for (uint32_t survivor = 0; survivor < SURVIVORS; survivor++)
		peer_tell(&peers[survivor], &go, sizeof go);
	for (uint32_t survivor = 0; survivor < SURVIVORS; survivor++)
		peer_hear(&peers[survivor], &survivors[survivor], sizeof survivors[survivor]);

	struct peer victim = peer_start(be_a_victim);
	if (round % 4 == 0) {
		pass_time(random_below(5 * MILLISECOND));
		CHECK_CALL(kill(victim.process, SIGKILL));
		hear_if_said(&victim, said);
		tell_survivors(peers, said);
	} else {
		peer_hear(&victim, said, sizeof said);
		tell_survivors(peers, said);
		pass_time(random_below(20 * MILLISECOND));
	}
	peer_kill(&victim);
	for (uint32_t survivor = 0; survivor < SURVIVORS; survivor++)
		peer_hear(&peers[survivor], &done, sizeof done);
}

static void kills(void)
{
	struct peer peers[SURVIVORS];
	for (uint32_t survivor = 0; survivor < SURVIVORS; survivor++)
		peers[survivor] = peer_start(be_a_survivor);
	for (uint32_t round = 0; round < KILLS; round++)
		run_round(peers, round);
	for (uint32_t survivor = 0; survivor < SURVIVORS; survivor++) {
		uint32_t go = 0;
		peer_tell(&peers[survivor], &go, sizeof go);
		peer_end(&peers[survivor]);
	}
	printf("%d kills\n", KILLS);
}

const struct test tests[] = {
	{ "kills", kills },
	{ 0 },
};
