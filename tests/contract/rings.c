/* A poll ends even if a peer never stops writing.
 *
 * The reader runs one instruction at a time, and between any two the peer may write any amount: so the peer keeps ahead
 * of the reader without having to be faster. It writes records that take the reader no further than to the next record.
 * This attack knows the layout of a channel, as `ring.rs` and `channel.rs` of hca-shm have it; without such memory there
 * is nothing to attack.
 *
 * Sources: ibv_poll_cq(3) (returns the completions there are, and does not wait); the law of `hca-shm/src/ring.rs`. */

#include <dirent.h>

#include "trace.h"

#define CONTROL 4096
#define CELL 64
#define CELLS 4096
#define HEADER 8

static atomic_bool *returned;

static void reader(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_recv_wr nothing = { .wr_id = 1 };
	struct ibv_recv_wr *bad;
	struct ibv_wc wc;
	CHECK_CALL(ibv_post_recv(endpoint.qp, &nothing, &bad));
	peer_connect(parent, &endpoint);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	be_traced();
	hand_over();
	(void)ibv_poll_cq(endpoint.cq, 1, &wc);
	atomic_store(returned, true);
	for (;;)
		pause();
}

/* Returns the channel memory between this process and the reader by which we send requests, or NULL: the channel that
 * is mapped once (the one to ourselves is mapped twice) and of which the reader has read something. */
static uint8_t *channel_to_reader(void)
{
	enum { MOST = 16 };
	unsigned long starts[MOST], inodes[MOST];
	unsigned count = 0;
	char line[1024];
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK_POINTER(maps);
	while (count < MOST && fgets(line, sizeof line, maps) != NULL)
		if (strstr(line, "verbena-channel") != NULL &&
		    sscanf(line, "%lx-%*x %*s %*x %*s %lu", &starts[count], &inodes[count]) == 2)
			count++;
	fclose(maps);
	for (unsigned one = 0; one < count; one++) {
		unsigned times = 0;
		for (unsigned other = 0; other < count; other++)
			times += inodes[other] == inodes[one];
		uint8_t *channel = (uint8_t *)starts[one];
		if (times == 1 && *(volatile uint64_t *)channel != 0)
			return channel;
	}
	return NULL;
}

/* Records that only fill up, one cell each, at positions from `first` on. */
static void publish_padding(uint8_t *channel, uint64_t first, uint64_t count)
{
	for (uint64_t position = first; position < first + count; position++) {
		uint8_t *cell = channel + CONTROL + position % CELLS * CELL;
		cell[HEADER] = 0;
		*(volatile uint16_t *)(cell + HEADER + 2) = 1;
		atomic_thread_fence(memory_order_release);
		*(volatile uint32_t *)cell = (uint32_t)(position / CELLS) * 2 + 1;
	}
}

/* Stops the reader's threads but the first, which is traced already: they must not interfere. */
#define THREADS 8
static pid_t others[THREADS];
static unsigned other_threads;

static void stop_other_threads(pid_t process)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", (int)process);
	DIR *tasks = opendir(path);
	CHECK_POINTER(tasks);
	for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
		pid_t thread = atoi(entry->d_name);
		int status;
		if (thread <= 0 || thread == process)
			continue;
		CHECK(other_threads < THREADS);
		CHECK_CALL((int)ptrace(PTRACE_SEIZE, thread, NULL, NULL));
		CHECK_CALL((int)ptrace(PTRACE_INTERRUPT, thread, NULL, NULL));
		CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
		CHECK(WIFSTOPPED(status));
		others[other_threads++] = thread;
	}
	closedir(tasks);
}

/* A process whose threads are traced has not ended before the end of each was waited for. */
static void let_other_threads_go(void)
{
	while (other_threads > 0)
		CHECK_CALL((int)ptrace(PTRACE_DETACH, others[--other_threads], NULL, NULL));
}

static uint64_t instruction_of(pid_t process)
{
	struct __ptrace_syscall_info info;
	if (ptrace(PTRACE_GET_SYSCALL_INFO, process, (void *)sizeof info, &info) <= 0)
		check_skip("PTRACE_GET_SYSCALL_INFO: %m");
	return info.instruction_pointer;
}

static void a_poll_ends_though_its_peer_goes_on(void)
{
	/* At LEAD the reader is in its loop; ROUNDS is how often it goes round before the test ends. */
	enum { LEAD = 3000, PORTION = CELLS / 4, ROUNDS = 2 * CELLS };
	returned = (atomic_bool *)shared_pages(PAGE);
	hang_after(100);
	struct peer peer = peer_start(reader);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	peer_connect(&peer, &endpoint);
	struct ibv_send_wr nothing = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct ibv_send_wr *bad;
	CHECK_CALL(ibv_post_send(endpoint.qp, &nothing, &bad));
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	take_over(peer.process);
	stop_other_threads(peer.process);
	uint8_t *channel = channel_to_reader();
	if (channel != NULL) {
		uint64_t head = *(volatile uint64_t *)channel;
		publish_padding(channel, head, CELLS);
		uint64_t place = 0, rounds = 0, published = CELLS;
		for (unsigned long steps = 0; !atomic_load(returned); steps++) {
			step(peer.process);
			if (steps == LEAD)
				place = instruction_of(peer.process);
			if (steps <= LEAD || instruction_of(peer.process) != place)
				continue;
			rounds++;
			/* The reader is more than a portion past the cells that are written now. */
			if (rounds >= published - CELLS + PORTION) {
				publish_padding(channel, head + published, PORTION);
				published += PORTION;
			}
			if (rounds > ROUNDS)
				check_failed(__FILE__, __LINE__,
					     "one poll of a completion queue has read %llu records, "
					     "twice the ring's capacity, and goes on",
					     (unsigned long long)rounds);
		}
	}
	let_other_threads_go();
	peer_kill(&peer);
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "a_poll_ends_though_its_peer_goes_on", a_poll_ends_though_its_peer_goes_on },
	{ 0 },
};
