/* 64 processes, of one host or of several, each connected to each, of which some are stopped for a while and some are
 * killed and replaced, at random. Each writes to each of the others, reads it back, counts at its counter and sends it
 * a message, over and over; every byte is verified, and no message is lost, duplicated or overtaken. Only the peers of
 * killed processes may see an error, every posted request completes, and in the end each has had an answer from each
 * once more.
 *
 * Or one is killed in each round, and a round is over when each has worked with each again.
 *
 *   CROWD_SECONDS   how long (15)
 *   CROWD_ROUNDS    how many kills, one a round (2)
 *   CROWD_SEED      seed of all choices (of the clock)
 *   CROWD_HOSTS     the hosts over which the processes are dealt out, each as a process in its network
 *                   namespace, a colon, and its runtime directory; separated by spaces */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "work.h"

#define MEMBERS 64
#define SLICE 4096
#define RECEIVES 2
/* A member's requests to another in one turn: write, read, count, send. */
#define CHAIN 4
/* Neither a stop nor a busy machine lasts until a peer gives up: 1.1 s x (7 + 1). A death is noticed by this alone. */
#define TIMEOUT 18
#define LONGEST_STOP (1000 * MILLISECOND)
/* Requests to a process that has died since are ended by the timeout; all else is slack for a busy machine. A program
 * that knows better takes another queue pair. */
#define TIME_LIMIT (120 * SECOND)
#define COURTESY (2 * SECOND)

/* One end of a connection, as its owner publishes it. */
struct end {
	struct address address;
	_Atomic uint32_t own_life;  /* of the owner; 0: none yet */
	_Atomic uint32_t peer_life; /* of the other member, which it is for */
	_Atomic uint32_t is_ready;  /* for requests of the other member */
	_Atomic uint64_t turns;     /* that were taken with it */
};

struct member {
	_Atomic uint32_t life;   /* that is ready; 0: none was yet */
	_Atomic uint32_t doomed; /* lives up to this one were ended, or are about to be */
	_Atomic uint32_t is_done;
	_Atomic uint64_t turns;
	struct window window;
	struct end ends[MEMBERS];
};

static struct crowd {
	struct member members[MEMBERS];
	_Atomic uint32_t is_closing;
} *crowd;

/* A member's memory. */
struct memory {
	uint8_t written[MEMBERS][SLICE]; /* by the others */
	uint64_t counters[MEMBERS];      /* by the others */
	uint8_t out[MEMBERS][SLICE];
	uint8_t back[MEMBERS][SLICE];
	uint64_t counted[MEMBERS];
	uint8_t inbox[MEMBERS][RECEIVES][SLICE];
};

/* A message's description of itself, before its data. */
struct header {
	uint32_t from, life;
	uint64_t turn;
	uint32_t length;
};

/* Another member, as one sees it. */
struct other {
	uint32_t life; /* the one that the queue pair is for; 0: there is none */
	bool is_connected, has_failed;
	struct endpoint endpoint;
	uint32_t under_way, length;
	uint64_t turn, heard, since;
	uint64_t goal; /* turns until it has answered once more; 0: not closing yet */
};

struct self {
	uint32_t index, life;
	uint64_t random;
	struct endpoint first;
	struct memory *memory;
	struct ibv_mr *mr;
	struct other others[MEMBERS];
};

static uint64_t random_below(uint64_t *state, uint64_t bound)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % bound;
}

/* --- a member -------------------------------------------------------------------------------- */

static struct piece piece_at(const struct self *self, const void *place, uint32_t length)
{
	return piece_of(self->mr, (uint64_t)((const uint8_t *)place - (const uint8_t *)self->memory),
			length);
}

static uint64_t request_id(uint32_t other, uint32_t receive)
{
	return (uint64_t)other * 16 + receive;
}

static void give_receive(struct self *self, uint32_t other, uint32_t slot)
{
	post_receive(&self->others[other].endpoint, request_id(other, slot + 1),
		     piece_at(self, self->memory->inbox[other][slot], SLICE));
}

/* Makes a queue pair for the present life of another member; the last one's resources are released. */
static void begin(struct self *self, uint32_t index, uint32_t life)
{
	struct other *other = &self->others[index];
	struct end *end = &crowd->members[self->index].ends[index];
	atomic_store(&end->own_life, 0);
	if (other->life != 0)
		CHECK_CALL(ibv_destroy_qp(other->endpoint.qp));
	struct settings settings = endpoint_defaults();
	settings.depth = CHAIN + RECEIVES;
	settings.timeout = TIMEOUT;
	settings.retry_count = 7;
	memset(other, 0, sizeof *other);
	other->endpoint = endpoint_beside(&self->first, settings);
	/* Packets in flight to the number's last owner fit no other. */
	CHECK_EQUAL(getrandom(&other->endpoint.psn, sizeof other->endpoint.psn, 0), sizeof other->endpoint.psn);
	other->endpoint.psn &= 0xffffff;
	other->life = life;
	/* The counter of an earlier life of the peer may have been used; ours was not. */
	self->memory->counters[index] = 0;
	for (uint32_t slot = 0; slot < RECEIVES; slot++)
		give_receive(self, index, slot);
	end->address = endpoint_address(&other->endpoint);
	atomic_store(&end->is_ready, 0);
	atomic_store(&end->turns, 0);
	atomic_store(&end->peer_life, life);
	atomic_store(&end->own_life, self->life);
}

static void connect_if_there(struct self *self, uint32_t index)
{
	struct other *other = &self->others[index];
	struct end *end = &crowd->members[index].ends[self->index];
	if (atomic_load(&end->own_life) != other->life || atomic_load(&end->peer_life) != self->life)
		return;
	struct address address = end->address;
	/* It may have been replaced while it was read. */
	if (atomic_load(&end->own_life) != other->life)
		return;
	endpoint_connect(&other->endpoint, address);
	other->is_connected = true;
	atomic_store(&crowd->members[self->index].ends[index].is_ready, 1);
}

/* Whether another member's queue pair is ready to receive. One that is not yet answers no request: on a busy machine
 * for longer than the timeouts. */
static bool is_ready(const struct self *self, uint32_t index)
{
	struct end *end = &crowd->members[index].ends[self->index];
	return atomic_load(&end->own_life) == self->others[index].life &&
	       atomic_load(&end->peer_life) == self->life && atomic_load(&end->is_ready) != 0;
}

static uint64_t seed_of(uint32_t from, uint32_t to, uint32_t life, uint64_t turn)
{
	return ((uint64_t)from << 56) ^ ((uint64_t)to << 48) ^ ((uint64_t)life << 32) ^ turn;
}

static void work_on(struct self *self, uint32_t index)
{
	struct other *other = &self->others[index];
	struct memory *there = (struct memory *)(uintptr_t)crowd->members[index].window.address;
	uint32_t rkey = crowd->members[index].window.rkey;
	uint8_t *out = self->memory->out[index];
	other->length = sizeof(struct header) +
			(uint32_t)random_below(&self->random, SLICE - sizeof(struct header) + 1);
	struct header header = {
		.from = self->index,
		.life = self->life,
		.turn = other->turn,
		.length = other->length,
	};
	pattern_fill(out, other->length, seed_of(self->index, index, self->life, other->turn));
	memcpy(out, &header, sizeof header);
	memset(self->memory->back[index], 0, other->length);
	struct endpoint *endpoint = &other->endpoint;
	uint64_t id = request_id(index, 0);
	struct piece all = piece_at(self, out, other->length);
	uint64_t place = (uintptr_t)there->written[self->index];
	post_write(endpoint, id, all, place, rkey);
	post_read(endpoint, id, piece_at(self, self->memory->back[index], other->length), place, rkey);
	post_fetch_add(endpoint, id, piece_at(self, &self->memory->counted[index], 8),
		       (uintptr_t)&there->counters[self->index], rkey, 1);
	post_send(endpoint, id, all);
	other->under_way = CHAIN;
	other->since = now();
}

static void note_turn(struct self *self, uint32_t index)
{
	struct other *other = &self->others[index];
	const uint8_t *out = self->memory->out[index], *back = self->memory->back[index];
	for (uint32_t position = 0; position < other->length; position++)
		CHECK_EQUAL(back[position], out[position]);
	CHECK_EQUAL(self->memory->counted[index], other->turn);
	other->turn++;
	atomic_fetch_add(&crowd->members[self->index].turns, 1);
	atomic_fetch_add(&crowd->members[self->index].ends[index].turns, 1);
}

static void check_message(struct self *self, uint32_t index, uint32_t slot, uint32_t length)
{
	struct other *other = &self->others[index];
	const uint8_t *bytes = self->memory->inbox[index][slot];
	struct header header;
	CHECK(length >= sizeof header);
	memcpy(&header, bytes, sizeof header);
	CHECK_EQUAL(header.from, index);
	CHECK_EQUAL(header.life, other->life);
	CHECK_EQUAL(header.turn, other->heard);
	CHECK_EQUAL(header.length, length);
	uint64_t seed = seed_of(index, self->index, other->life, header.turn);
	for (uint32_t position = sizeof header; position < length; position++)
		CHECK_EQUAL(bytes[position], pattern(seed, position));
	other->heard++;
}

/* Only the peers of a killed process get an error. */
static void note_failure(struct self *self, uint32_t index, const struct ibv_wc *wc)
{
	struct other *other = &self->others[index];
	if (atomic_load(&crowd->members[index].doomed) < other->life)
		check_failed(__FILE__, __LINE__, "member %u, life %u: \"%s\" of member %u, life %u, which lives",
			     self->index, self->life, ibv_wc_status_str(wc->status), index,
			     other->life);
	if (!other->has_failed && wc->status != IBV_WC_RETRY_EXC_ERR)
		check_failed(__FILE__, __LINE__, "\"%s\" of a member that died",
			     ibv_wc_status_str(wc->status));
	if (other->has_failed)
		CHECK_EQUAL(wc->status, IBV_WC_WR_FLUSH_ERR);
	other->has_failed = true;
}

/* Returns whether there was anything. */
static bool look(struct self *self)
{
	struct ibv_wc wc[64];
	int count = ibv_poll_cq(self->first.cq, 64, wc);
	CHECK(count >= 0);
	for (int at = 0; at < count; at++) {
		uint32_t index = (uint32_t)(wc[at].wr_id / 16), slot = (uint32_t)(wc[at].wr_id % 16);
		struct other *other = &self->others[index];
		if (wc[at].status != IBV_WC_SUCCESS)
			note_failure(self, index, &wc[at]);
		if (slot == 0) {
			CHECK(other->under_way > 0);
			other->under_way--;
			if (other->under_way == 0 && !other->has_failed)
				note_turn(self, index);
		} else if (wc[at].status == IBV_WC_SUCCESS) {
			check_message(self, index, slot - 1, wc[at].byte_len);
			if (!other->has_failed)
				give_receive(self, index, slot - 1);
		}
	}
	return count > 0;
}

static bool has_answered(const struct other *other)
{
	return other->goal != 0 && other->turn >= other->goal;
}

/* Continues the work with another member, in any state. */
static void attend(struct self *self, uint32_t index, bool is_closing)
{
	struct other *other = &self->others[index];
	uint32_t life = atomic_load(&crowd->members[index].life);
	if (other->under_way > 0 && now() - other->since > TIME_LIMIT)
		check_failed(__FILE__, __LINE__, "member %u, life %u: %u requests to member %u, life %u (now %u), do not complete",
			     self->index, self->life, other->under_way, index, other->life, life);
	bool never_met = other->turn == 0 && now() - other->since > COURTESY;
	if (life != other->life && (other->under_way == 0 || never_met))
		begin(self, index, life);
	if (other->life == 0)
		return;
	if (!other->is_connected)
		connect_if_there(self, index);
	else if (other->under_way == 0 && !other->has_failed && !has_answered(other) && is_ready(self, index))
		work_on(self, index);
	/* A turn that was begun while kills were possible proves nothing. */
	if (is_closing && other->goal == 0)
		other->goal = other->turn + (other->under_way > 0 ? 2 : 1);
}

static bool has_all_answers(const struct self *self)
{
	for (uint32_t index = 0; index < MEMBERS; index++) {
		const struct other *other = &self->others[index];
		bool answered = has_answered(other) && other->under_way == 0 && !other->has_failed &&
				other->life == atomic_load(&crowd->members[index].life);
		if (index != self->index && !answered)
			return false;
	}
	return true;
}

static bool is_everybody_done(void)
{
	for (uint32_t index = 0; index < MEMBERS; index++)
		if (!atomic_load(&crowd->members[index].is_done))
			return false;
	return true;
}

/* Goes to the host of a member. */
static void enter_host(uint32_t index)
{
	const char *hosts = getenv("CROWD_HOSTS");
	if (hosts == NULL || *hosts == 0)
		return;
	uint32_t count = 1;
	for (const char *at = hosts; (at = strchr(at, ' ')) != NULL; at++)
		count++;
	const char *host = hosts;
	for (uint32_t before = index % count; before > 0; before--)
		host = strchr(host, ' ') + 1;
	int process;
	char directory[256], file[64];
	CHECK_EQUAL(sscanf(host, "%d:%255s", &process, directory), 2);
	snprintf(file, sizeof file, "/proc/%d/ns/net", process);
	int namespace = open(file, O_RDONLY | O_CLOEXEC);
	CHECK(namespace >= 0);
	CHECK_CALL(setns(namespace, CLONE_NEWNET));
	close(namespace);
	CHECK_CALL(setenv("VERBENA_RUNTIME_DIR", directory, 1));
}

static void be_a_member(uint32_t index, uint32_t life)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter_host(index);
	/* The process that stops and kills must get its turn. */
	CHECK(nice(5) != -1);
	static struct self self;
	self.index = index;
	self.life = life;
	self.random = ((uint64_t)index << 32 | life) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	struct settings settings = endpoint_defaults();
	settings.depth = MEMBERS * (CHAIN + RECEIVES);
	self.first = endpoint_open(settings);
	self.memory = mmap(NULL, sizeof *self.memory, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(self.memory != MAP_FAILED);
	self.mr = region(&self.first, self.memory, sizeof *self.memory, ALL_ACCESS);
	struct member *own = &crowd->members[index];
	own->window = region_window(self.mr);
	atomic_store(&own->life, life);
	while (!is_everybody_done()) {
		bool is_closing = atomic_load(&crowd->is_closing);
		bool worked = look(&self);
		for (uint32_t other = 0; other < MEMBERS; other++)
			if (other != index)
				attend(&self, other, is_closing);
		if (is_closing && has_all_answers(&self))
			atomic_store(&own->is_done, 1);
		if (!worked)
			usleep(500);
	}
	for (uint32_t other = 0; other < MEMBERS; other++)
		if (other != index)
			CHECK_CALL(ibv_destroy_qp(self.others[other].endpoint.qp));
	CHECK_CALL(ibv_dereg_mr(self.mr));
	endpoint_close(&self.first);
	exit(0);
}

/* --- the parent ------------------------------------------------------------------------------ */

static struct {
	pid_t process;
	uint32_t life;
	uint64_t continues; /* when a stopped one goes on; 0: it is not stopped */
} children[MEMBERS];

static void start(uint32_t index)
{
	uint32_t life = ++children[index].life;
	/* The last life's announcements are void. */
	for (uint32_t other = 0; other < MEMBERS; other++)
		atomic_store(&crowd->members[index].ends[other].own_life, 0);
	fflush(stdout);
	pid_t process = fork();
	CHECK(process >= 0);
	if (process == 0)
		be_a_member(index, life);
	children[index].process = process;
}

static void end(uint32_t index)
{
	int status;
	atomic_store(&crowd->members[index].doomed, children[index].life);
	CHECK_CALL(kill(children[index].process, SIGKILL));
	CHECK_EQUAL(waitpid(children[index].process, &status, 0), children[index].process);
	CHECK(WIFSIGNALED(status));
	children[index].continues = 0;
}

static void continue_those_due(uint64_t time)
{
	for (uint32_t index = 0; index < MEMBERS; index++)
		if (children[index].continues != 0 && children[index].continues <= time) {
			CHECK_CALL(kill(children[index].process, SIGCONT));
			children[index].continues = 0;
		}
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text == NULL || *text == 0 ? otherwise : strtoull(text, NULL, 10);
}

/* Starts all members. Returns the state of the random numbers. */
static uint64_t gather(void)
{
	crowd = mmap(NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(crowd != MAP_FAILED);
	uint64_t random = setting("CROWD_SEED", now() | 1);
	printf("seed %llu\n", (unsigned long long)random);
	for (uint32_t index = 0; index < MEMBERS; index++)
		start(index);
	return random;
}

/* A member that has ended by itself has found a fault. */
static void check_all_there(void)
{
	CHECK_EQUAL(waitpid(-1, NULL, WNOHANG), 0);
}

/* All members end well, having received from each once more; returns the number of turns. */
static uint64_t dismiss(void)
{
	atomic_store(&crowd->is_closing, 1);
	for (uint32_t left = MEMBERS; left > 0; left--) {
		int status;
		CHECK(waitpid(-1, &status, 0) > 0);
		CHECK_EQUAL(status, 0);
	}
	uint64_t turns = 0;
	for (uint32_t index = 0; index < MEMBERS; index++)
		turns += atomic_load(&crowd->members[index].turns);
	return turns;
}

static void stops_and_kills(void)
{
	uint64_t random = gather();
	uint64_t duration = setting("CROWD_SECONDS", 15) * SECOND;
	uint32_t stops = 0, kills = 0;
	for (uint64_t began = now(); now() - began < duration;) {
		usleep(20000 + (useconds_t)random_below(&random, 60000));
		continue_those_due(now());
		check_all_there();
		uint32_t index = (uint32_t)random_below(&random, MEMBERS);
		if (random_below(&random, 4) == 0) {
			end(index);
			start(index);
			kills++;
		} else if (children[index].continues == 0) {
			CHECK_CALL(kill(children[index].process, SIGSTOP));
			children[index].continues = now() + random_below(&random, LONGEST_STOP);
			stops++;
		}
	}
	continue_those_due(UINT64_MAX);
	uint64_t turns = dismiss();
	printf("%u stops, %u kills, %llu turns of %d requests\n", stops, kills,
	       (unsigned long long)turns, CHAIN);
}

/* Whether a member has taken so many turns with the present life of another. */
static bool have_taken(uint32_t index, uint32_t other, uint64_t turns)
{
	struct end *end = &crowd->members[index].ends[other];
	return atomic_load(&end->own_life) == children[index].life &&
	       atomic_load(&end->peer_life) == children[other].life && atomic_load(&end->turns) >= turns;
}

/* Waits until each has worked with each: with the last one that was started once, with all others once more, where a
 * turn that had begun before does not count. */
static void await_everybody(uint32_t newest)
{
	uint64_t before[MEMBERS][MEMBERS], deadline = now() + TIME_LIMIT;
	for (uint32_t index = 0; index < MEMBERS; index++)
		for (uint32_t other = 0; other < MEMBERS; other++)
			before[index][other] = atomic_load(&crowd->members[index].ends[other].turns);
	for (uint32_t index = 0; index < MEMBERS; index++)
		for (uint32_t other = 0; other < MEMBERS; other++) {
			bool is_new = index == newest || other == newest;
			uint64_t wanted = is_new ? 1 : before[index][other] + 2;
			while (index != other && !have_taken(index, other, wanted)) {
				check_all_there();
				if (now() > deadline)
					check_failed(__FILE__, __LINE__, "member %u does not come to work with member %u",
						     index, other);
				usleep(1000);
			}
		}
}

/* No connection of the survivors fails (`note_failure`), and the replacement of the killed one works with all. */
static void one_kill_a_round(void)
{
	uint64_t random = gather();
	uint64_t rounds = setting("CROWD_ROUNDS", 2);
	await_everybody(MEMBERS);
	for (uint64_t round = 0; round < rounds; round++) {
		uint32_t index = (uint32_t)random_below(&random, MEMBERS);
		end(index);
		start(index);
		await_everybody(index);
	}
	printf("%llu kills, %llu turns of %d requests\n", (unsigned long long)rounds, (unsigned long long)dismiss(), CHAIN);
}

const struct test tests[] = {
	{ "one kill a round", one_kill_a_round },
	{ "stops and kills", stops_and_kills },
	{ 0 },
};
