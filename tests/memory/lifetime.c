/* Registered memory over the events of a process's life: fork, threads that write while it is being
 * registered, unmapping before deregistration. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define LENGTH 65536
#define SEED 21
#define WRITTEN 22
#define CHILD 23

/* Writes its parent's region on each order, with the order's pattern; a seed of zero ends it. Completions may be
 * errors: the region's owner may have ended it. */
static void writer(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct window window;
	uint64_t seed;
	peer_connect(parent, &endpoint);
	peer_hear(parent, &window, sizeof window);
	uint8_t *memory = malloc(window.length);
	CHECK_POINTER(memory);
	struct ibv_mr *mr = region(&endpoint, memory, window.length, IBV_ACCESS_LOCAL_WRITE);
	for (peer_hear(parent, &seed, sizeof seed); seed != 0;
	     peer_hear(parent, &seed, sizeof seed)) {
		pattern_fill(memory, window.length, seed);
		post_write(&endpoint, seed, piece_of(mr, 0, (uint32_t)window.length),
			   window.address, window.rkey);
		uint32_t status = completion(&endpoint).status;
		peer_tell(parent, &status, sizeof status);
	}
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

static uint32_t ask_to_write(struct peer *peer, uint64_t seed)
{
	uint32_t status;
	peer_tell(peer, &seed, sizeof seed);
	peer_hear(peer, &status, sizeof status);
	return status;
}

static void dismiss(struct peer *peer)
{
	uint64_t seed = 0;
	peer_tell(peer, &seed, sizeof seed);
	peer_end(peer);
}

static void offer(struct peer *peer, struct endpoint *endpoint, const struct ibv_mr *mr)
{
	struct window window = region_window(mr);
	peer_connect(peer, endpoint);
	peer_tell(peer, &window, sizeof window);
}

static void *pages(size_t length)
{
	void *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

/* fork(2): the child has its own copy, as it was at the fork; later writes of a peer or the parent are the parent's,
 * and the child's writes are the child's. */
static void fork_without_fork_init(void)
{
	CHECK_EQUAL(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = pages(LENGTH);
	pattern_fill(memory, LENGTH, SEED);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	offer(&peer, &endpoint, mr);

	int written[2], looked[2];
	CHECK_CALL(pipe(written));
	CHECK_CALL(pipe(looked));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		char byte;
		pattern_check(memory, LENGTH, SEED);
		/* Half before and half after the peer has written the parent's. */
		pattern_fill(memory, LENGTH / 2, CHILD);
		CHECK_EQUAL(write(looked[1], "1", 1), 1);
		CHECK_EQUAL(read(written[0], &byte, 1), 1);
		pattern_check(memory, LENGTH / 2, CHILD);
		for (uint64_t position = LENGTH / 2; position < LENGTH; position++)
			CHECK_EQUAL(memory[position], pattern(SEED, position));
		pattern_fill(memory, LENGTH, CHILD);
		_exit(EXIT_SUCCESS);
	}
	char byte;
	CHECK_EQUAL(read(looked[0], &byte, 1), 1);
	pattern_check(memory, LENGTH, SEED);
	CHECK_EQUAL(ask_to_write(&peer, WRITTEN), IBV_WC_SUCCESS);
	pattern_check(memory, LENGTH, WRITTEN);
	CHECK_EQUAL(write(written[1], "2", 1), 1);
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	pattern_check(memory, LENGTH, WRITTEN);
	/* The parent's region works on. */
	CHECK_EQUAL(ask_to_write(&peer, WRITTEN + 1), IBV_WC_SUCCESS);
	pattern_check(memory, LENGTH, WRITTEN + 1);
	dismiss(&peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

/* Whether a page can be read, asked of the kernel. */
static bool is_there(const uint8_t *page)
{
	int ends[2];
	CHECK_CALL(pipe(ends));
	bool there = write(ends[1], page, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return there;
}

/* ibv_fork_init(3): the child has no page of the region, and has them again once it is deregistered. */
static void fork_after_fork_init(void)
{
	CHECK_CALL(ibv_fork_init());
	CHECK_EQUAL(ibv_is_fork_initialized(), IBV_FORK_ENABLED);
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = pages(LENGTH);
	pattern_fill(memory, LENGTH, SEED);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	offer(&peer, &endpoint, mr);
	for (int registered = 1; registered >= 0; registered--) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			for (size_t at = 0; at < LENGTH; at += LENGTH / 16)
				CHECK_EQUAL(is_there(memory + at), !registered);
			if (!registered) {
				pattern_check(memory, LENGTH, WRITTEN);
				pattern_fill(memory, LENGTH, CHILD);
			}
			_exit(EXIT_SUCCESS);
		}
		int status;
		CHECK_EQUAL(waitpid(child, &status, 0), child);
		CHECK_EQUAL(status, 0);
		if (registered) {
			/* The parent's region works on. */
			CHECK_EQUAL(ask_to_write(&peer, WRITTEN), IBV_WC_SUCCESS);
			CHECK_CALL(ibv_dereg_mr(mr));
		}
		pattern_check(memory, LENGTH, WRITTEN);
	}
	dismiss(&peer);
	endpoint_close(&endpoint);
}

/* A child of a process that uses the adapter may use it too, from the start. */
static void child_opens_its_own(void)
{
	struct endpoint before = endpoint_open(endpoint_defaults());
	uint8_t *memory = pages(LENGTH);
	struct ibv_mr *mr = region(&before, memory, LENGTH, ALL_ACCESS);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct endpoint own = endpoint_open(endpoint_defaults());
		endpoint_connect(&own, endpoint_address(&own));
		uint8_t *mine = pages(2 * LENGTH);
		pattern_fill(mine, LENGTH, CHILD);
		struct ibv_mr *its = region(&own, mine, 2 * LENGTH, ALL_ACCESS);
		post_write(&own, 1, piece_of(its, 0, LENGTH), (uintptr_t)mine + LENGTH, its->rkey);
		expect(&own, 1, IBV_WC_SUCCESS);
		for (uint64_t position = 0; position < LENGTH; position++)
			CHECK_EQUAL(mine[LENGTH + position], pattern(CHILD, position));
		_exit(EXIT_SUCCESS);
	}
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&before);
}

/* The owner unmaps its memory first. A later write of the peer may succeed or fail, and must do no harm; a new mapping
 * at the same address must not change, for hardware writes to the pages that were registered and not to the address. */
static void unmap_before_deregistration(void)
{
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = pages(LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	offer(&peer, &endpoint, mr);
	CHECK_EQUAL(ask_to_write(&peer, WRITTEN), IBV_WC_SUCCESS);
	pattern_check(memory, LENGTH, WRITTEN);
	CHECK_CALL(munmap(memory, LENGTH));
	ask_to_write(&peer, WRITTEN + 1);
	CHECK_CALL(ibv_dereg_mr(mr));
	dismiss(&peer);
	endpoint_close(&endpoint);
}

static void new_mapping_in_the_old_place(void)
{
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = pages(LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	offer(&peer, &endpoint, mr);
	CHECK_CALL(munmap(memory, LENGTH));
	CHECK(mmap(memory, LENGTH, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
	pattern_fill(memory, LENGTH, SEED);
	ask_to_write(&peer, WRITTEN);
	pattern_check(memory, LENGTH, SEED);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_check(memory, LENGTH, SEED);
	dismiss(&peer);
	endpoint_close(&endpoint);
}

/* After deregistration the key is dead. */
static void key_dies_with_the_region(void)
{
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = pages(LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	offer(&peer, &endpoint, mr);
	CHECK_EQUAL(ask_to_write(&peer, WRITTEN), IBV_WC_SUCCESS);
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK_EQUAL(ask_to_write(&peer, WRITTEN + 1), IBV_WC_REM_ACCESS_ERR);
	pattern_check(memory, LENGTH, WRITTEN);
	dismiss(&peer);
	endpoint_close(&endpoint);
}

#define WORDS (LENGTH / sizeof(uint64_t))
#define WRITERS 3
#define ROUNDS 300

/* Each word is owned by one thread, which adds to it and to a private count. */
struct race {
	_Atomic uint64_t *words;
	atomic_size_t running;
	atomic_bool over;
};

struct racer {
	struct race *race;
	size_t first;
	uint64_t additions[WORDS / WRITERS + 1];
};

static void *add_and_count(void *argument)
{
	struct racer *racer = argument;
	atomic_fetch_add(&racer->race->running, 1);
	while (!atomic_load_explicit(&racer->race->over, memory_order_relaxed)) {
		size_t index = 0;
		for (size_t word = racer->first; word < WORDS; word += WRITERS, index++) {
			atomic_fetch_add_explicit(&racer->race->words[word], 1,
						  memory_order_relaxed);
			racer->additions[index]++;
		}
	}
	return NULL;
}

/* Threads write to memory while it is registered and deregistered again and again: not one write
 * is lost. */
static void racing_writers(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct race race = { .over = false };
	static struct racer racers[WRITERS];
	pthread_t threads[WRITERS];
	for (size_t writer = 0; writer < WRITERS; writer++)
		racers[writer] = (struct racer){ .race = &race, .first = writer };

	for (int round = 0; round < ROUNDS; round++) {
		/* New pages each time, for the first registration of a page is the hard one. */
		race.words = pages(LENGTH);
		atomic_store(&race.running, 0);
		atomic_store(&race.over, false);
		for (size_t writer = 0; writer < WRITERS; writer++) {
			memset(racers[writer].additions, 0, sizeof racers[writer].additions);
			CHECK_CALL(pthread_create(&threads[writer], NULL, add_and_count,
						  &racers[writer]));
		}
		while (atomic_load(&race.running) < WRITERS)
			;
		for (int time = 0; time < 3; time++) {
			struct ibv_mr *mr =
				region(&endpoint, (void *)race.words, LENGTH, ALL_ACCESS);
			CHECK_CALL(ibv_dereg_mr(mr));
		}
		atomic_store(&race.over, true);
		for (size_t writer = 0; writer < WRITERS; writer++)
			CHECK_CALL(pthread_join(threads[writer], NULL));
		for (size_t word = 0; word < WORDS; word++)
			CHECK_EQUAL(race.words[word],
				    racers[word % WRITERS].additions[word / WRITERS]);
		CHECK_CALL(munmap((void *)race.words, LENGTH));
	}
	endpoint_close(&endpoint);
}

/* A region much larger than the touched part: registration must not allocate the memory. */
static void sparse_gigabyte(void)
{
	const uint64_t length = UINT64_C(1) << 30;
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(memory != MAP_FAILED);
	for (uint64_t position = 0; position < length; position += length / 16)
		memory[position] = (uint8_t)(position >> 20);
	struct ibv_mr *mr = region(&endpoint, memory, length, ALL_ACCESS);
	for (uint64_t position = 0; position < length; position += length / 16)
		CHECK_EQUAL(memory[position], (uint8_t)(position >> 20));
	CHECK_CALL(ibv_dereg_mr(mr));
	for (uint64_t position = 0; position < length; position += length / 16)
		CHECK_EQUAL(memory[position], (uint8_t)(position >> 20));
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "fork_after_fork_init", fork_after_fork_init },
	{ "fork_without_fork_init", fork_without_fork_init },
	{ "child_opens_its_own", child_opens_its_own },
	{ "unmap_before_deregistration", unmap_before_deregistration },
	{ "new_mapping_in_the_old_place", new_mapping_in_the_old_place },
	{ "key_dies_with_the_region", key_dies_with_the_region },
	{ "racing_writers", racing_writers },
	{ "sparse_gigabyte", sparse_gigabyte },
	{ 0 },
};
