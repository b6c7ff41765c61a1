/* A peer that breaks the rules of the adapter's own protocol harms itself and the memory that it has rights to, and
 * nothing else: it cannot hold up, end, or read and change more of, another process.
 *
 * Each attacker uses the library as it is, and then changes the resources that the library shares: the descriptors that
 * it hands over, and the memory that it has mapped. An adapter's resources that are neither handed over nor mapped
 * cannot be changed, and so are safe.
 *
 * Sources: the promise of the adapter's "Trust" (ARCHITECTURE.md); InfiniBand Architecture Specification, volume 1,
 * 10.2.2 and 10.6.3 (memory that was not registered for remote access is not accessed remotely); eventfd(2), pipe(7),
 * signal(7). */

#include <dirent.h>
#include <sys/eventfd.h>

#include "contract.h"

static bool is_event_descriptor(int descriptor)
{
	char path[64], target[64] = "";
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	return readlink(path, target, sizeof target - 1) > 0 &&
	       strncmp(target, "anon_inode:[eventfd", 19) == 0;
}

/* Puts `other` in place of each event descriptor that the library has for itself. */
static void replace_event_descriptors(const struct endpoint *endpoint, int other)
{
	DIR *descriptors = opendir("/proc/self/fd");
	CHECK_POINTER(descriptors);
	for (struct dirent *entry = readdir(descriptors); entry != NULL;
	     entry = readdir(descriptors)) {
		int descriptor = atoi(entry->d_name);
		if (descriptor > STDERR_FILENO && descriptor != other &&
		    descriptor != endpoint->channel->fd &&
		    descriptor != endpoint->context->async_fd && is_event_descriptor(descriptor))
			CHECK(dup2(other, descriptor) == descriptor);
	}
	closedir(descriptors);
}

enum bell { FULL_PIPE, CLOSED_PIPE, FULL_EVENT };
static enum bell bell;

static void make_pipe_full(int end)
{
	static const char page[4096];
	struct pollfd room = { .fd = end, .events = POLLOUT };
	while (poll(&room, 1, 0) == 1)
		CHECK_EQUAL(write(end, page, sizeof page), sizeof page);
}

static void ring_attacker(struct peer *parent)
{
	signal(SIGPIPE, SIG_IGN);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	int ends[2] = { -1, -1 };
	if (bell == FULL_EVENT)
		ends[1] = eventfd(0, EFD_CLOEXEC);
	else
		CHECK_CALL(pipe(ends));
	CHECK(ends[1] >= 0);
	/* The library's own thread sleeps on the old descriptor. */
	usleep(100 * 1000);
	replace_event_descriptors(&endpoint, ends[1]);
	peer_connect(parent, &endpoint);
	/* The library is asleep after a while, and wants to be rung for. */
	usleep(100 * 1000);
	uint64_t count = 0;
	switch (bell) {
	case FULL_PIPE:
		make_pipe_full(ends[1]);
		break;
	case CLOSED_PIPE:
		close(ends[0]);
		break;
	case FULL_EVENT:
		if (poll(&(struct pollfd){ .fd = ends[1], .events = POLLIN }, 1, 0) == 1)
			CHECK_EQUAL(read(ends[1], &count, sizeof count), sizeof count);
		count = UINT64_MAX - 1;
		CHECK_EQUAL(write(ends[1], &count, sizeof count), sizeof count);
		break;
	}
	peer_tell(parent, "r", 1);
	for (;;)
		pause();
}

/* Connecting may fail, for a peer like this one may be refused; but every call returns. */
static void survive_bell(enum bell which)
{
	bell = which;
	struct peer attacker = peer_start(ring_attacker);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&endpoint, memory, PAGE, ALL_ACCESS);
	peer_connect(&attacker, &endpoint);
	char ready;
	peer_hear(&attacker, &ready, 1);
	hang_after(20);
	for (uint64_t number = 0; number < 32; number++)
		post_send(&endpoint, number, piece_of(mr, 0, 64));
	struct ibv_wc wc;
	(void)ibv_poll_cq(endpoint.cq, 1, &wc);
	peer_kill(&attacker);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

static void a_full_pipe_to_ring(void)
{
	survive_bell(FULL_PIPE);
}

static void a_closed_pipe_to_ring(void)
{
	survive_bell(CLOSED_PIPE);
}

static void a_full_event_descriptor_to_ring(void)
{
	survive_bell(FULL_EVENT);
}

struct range {
	uint8_t *start;
	size_t length;
};

/* The mappings of this process that are writable and shared with others. */
static unsigned shared_ranges(struct range *ranges, unsigned most)
{
	unsigned count = 0;
	char line[1024];
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK_POINTER(maps);
	while (count < most && fgets(line, sizeof line, maps) != NULL) {
		unsigned long start, end;
		char rights[5];
		CHECK_EQUAL(sscanf(line, "%lx-%lx %4s", &start, &end, rights), 3);
		/* A process that corrupts the registry keeps others from starting; another test covers that. */
		if (strcmp(rights, "rw-s") == 0 && strstr(line, "/registry") == NULL)
			ranges[count++] = (struct range){ (uint8_t *)start, end - start };
	}
	fclose(maps);
	return count;
}

/* Calls `act` with each page of these that is in memory. */
static void for_each_page(void (*act)(uint8_t *page))
{
	enum { RANGES = 64 };
	struct range ranges[RANGES];
	unsigned count = shared_ranges(ranges, RANGES);
	for (unsigned number = 0; number < count; number++) {
		size_t pages = ranges[number].length / PAGE;
		unsigned char *resident = malloc(pages);
		CHECK_POINTER(resident);
		if (mincore(ranges[number].start, ranges[number].length, resident) == 0)
			for (size_t page = 0; page < pages; page++)
				if (resident[page] & 1)
					act(ranges[number].start + page * PAGE);
		free(resident);
	}
}

static uint64_t filling;

static void fill_page(uint8_t *page)
{
	for (size_t at = 0; at < PAGE; at += sizeof filling)
		*(volatile uint64_t *)(page + at) = filling;
}

static void filling_attacker(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&endpoint, memory, PAGE, ALL_ACCESS);
	struct window own = region_window(mr), theirs;
	for (uint64_t number = 0; number < 16; number++)
		post_receive(&endpoint, number, piece_of(mr, 0, 512));
	peer_connect(parent, &endpoint);
	peer_tell(parent, &own, sizeof own);
	peer_hear(parent, &theirs, sizeof theirs);
	peer_hear(parent, &filling, sizeof filling);
	post_write(&endpoint, 1, piece_of(mr, 0, 64), theirs.address, theirs.rkey);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	/* The attacker's damage to itself is not to be reported as a failure. */
	close(STDERR_FILENO);
	for_each_page(fill_page);
	peer_tell(parent, "f", 1);
	for (;;)
		pause();
}

/* All of a peer's shared memory holds one value permanently: every call returns. */
static void survive_filling(uint64_t value)
{
	struct peer attacker = peer_start(filling_attacker);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&endpoint, memory, PAGE, ALL_ACCESS);
	struct window own = region_window(mr), theirs;
	peer_connect(&attacker, &endpoint);
	peer_hear(&attacker, &theirs, sizeof theirs);
	peer_tell(&attacker, &own, sizeof own);
	/* A first message, so that the processes are connected. */
	post_write(&endpoint, 1, piece_of(mr, 0, 64), theirs.address, theirs.rkey);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	peer_tell(&attacker, &value, sizeof value);
	/* Waits for the one byte, or for the attacker's death. */
	char done;
	(void)!read(attacker.socket, &done, 1);
	hang_after(20);
	for (uint64_t number = 2; number < 6; number++) {
		struct ibv_wc wc;
		post_write(&endpoint, number, piece_of(mr, 0, 64), theirs.address, theirs.rkey);
		post_read(&endpoint, number, piece_of(mr, 0, 64), theirs.address, theirs.rkey);
		post_fetch_add(&endpoint, number, piece_of(mr, 0, 8), theirs.address, theirs.rkey, 1);
		post_send(&endpoint, number, piece_of(mr, 0, 64));
		(void)ibv_poll_cq(endpoint.cq, 1, &wc);
	}
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_break(&endpoint);
	peer_kill(&attacker);
	endpoint_close(&endpoint);
}

static void shared_memory_full_of_ones(void)
{
	survive_filling(UINT64_MAX);
}

static void shared_memory_full_of_one(void)
{
	survive_filling(1);
}

static void shared_memory_full_of_odd_halves(void)
{
	survive_filling(UINT64_C(0x0000000300000003));
}

const struct test tests[] = {
	{ "a_full_pipe_to_ring", a_full_pipe_to_ring },
	{ "a_closed_pipe_to_ring", a_closed_pipe_to_ring },
	{ "a_full_event_descriptor_to_ring", a_full_event_descriptor_to_ring },
	{ "shared_memory_full_of_ones", shared_memory_full_of_ones },
	{ "shared_memory_full_of_one", shared_memory_full_of_one },
	{ "shared_memory_full_of_odd_halves", shared_memory_full_of_odd_halves },
	{ 0 },
};
