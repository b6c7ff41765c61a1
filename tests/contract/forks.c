/* fork(2) with registered memory costs no more memory than without, and the child has private copies of its memory or
 * lacks it.
 *
 * Sources: fork(2) (private memory is copied when it is written), ibv_fork_init(3) and MADV_DONTFORK in madvise(2) (the
 * alternative for a provider: the child has no such pages), ibv_reg_mr(3), ibv_dereg_mr(3), proc(5) (smaps_rollup). */

#include <errno.h>
#include <sys/resource.h>

#include "contract.h"

#define LARGE (512 * MEBIBYTE)
/* Upper bound of a child's private memory before it writes anything. */
#define OWN (96 * 1024) /* kibibytes */

static struct endpoint endpoint;

static uint8_t *filled(size_t length)
{
	uint8_t *memory = private_pages(length);
	for (size_t at = 0; at < length; at += PAGE)
		memory[at] = (uint8_t)(at / PAGE) | 1;
	return memory;
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

/* Forks; the child checks when the parent has finished its part of the fork. Returns the nanoseconds that fork took. */
static uint64_t fork_and(void (*look)(uint8_t *memory), uint8_t *memory)
{
	int gate[2];
	CHECK_CALL(pipe(gate));
	uint64_t before = now();
	pid_t process = fork();
	uint64_t took = now() - before;
	CHECK(process >= 0);
	if (process == 0) {
		char byte;
		CHECK_EQUAL(read(gate[0], &byte, 1), 1);
		look(memory);
		_exit(EXIT_SUCCESS);
	}
	CHECK_EQUAL(write(gate[1], "g", 1), 1);
	int status;
	CHECK_EQUAL(waitpid(process, &status, 0), process);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(gate[0]);
	close(gate[1]);
	return took;
}

static void look_at_nothing(uint8_t *memory)
{
	(void)memory;
}

/* The child has written nothing, so its private memory is small. */
static void look_at_own_memory(uint8_t *memory)
{
	long own = kibibytes("/proc/self/smaps_rollup", "Private_Clean:") +
		   kibibytes("/proc/self/smaps_rollup", "Private_Dirty:");
	if (own > OWN)
		check_failed(__FILE__, __LINE__,
			     "the child has %ld MiB private memory and has written nothing", own / 1024);
	/* The child's content is the parent's. */
	for (size_t at = 0; at < LARGE; at += LARGE / 64)
		if (is_there(memory + at))
			CHECK_EQUAL(memory[at], (uint8_t)(at / PAGE) | 1);
}

/* ibv_fork_init(3): the child does without the registered pages, and fork costs nothing for them. Without it the child
 * has a copy, as kernels make one of pinned pages. */
static void fork_with_a_large_region_copies_nothing(void)
{
	CHECK_CALL(ibv_fork_init());
	endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = filled(LARGE);
	struct ibv_mr *mr = region(&endpoint, memory, LARGE, ALL_ACCESS);
	fork_and(look_at_own_memory, memory);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

static void fork_after_deregistration_copies_nothing(void)
{
	endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = filled(LARGE);
	struct ibv_mr *mr = region(&endpoint, memory, LARGE, ALL_ACCESS);
	CHECK_CALL(ibv_dereg_mr(mr));
	fork_and(look_at_own_memory, memory);
	endpoint_close(&endpoint);
}

static uint64_t least_of_three(uint8_t *memory)
{
	uint64_t least = UINT64_MAX;
	for (unsigned round = 0; round < 3; round++) {
		uint64_t took = fork_and(look_at_nothing, memory);
		least = took < least ? took : least;
	}
	return least;
}

/* The time, within one process and with a wide margin: against a fork of the same memory before it was
 * registered. */
static void fork_takes_about_as_long_as_without(void)
{
	enum { MARGIN = 20 };
	CHECK_CALL(ibv_fork_init());
	endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = filled(LARGE);
	uint64_t plain = least_of_three(memory);
	struct ibv_mr *mr = region(&endpoint, memory, LARGE, ALL_ACCESS);
	uint64_t registered = least_of_three(memory);
	CHECK_CALL(ibv_dereg_mr(mr));
	uint64_t afterwards = least_of_three(memory);
	printf("fork: %llu us, registered %llu us, deregistered %llu us\n",
	       (unsigned long long)plain / 1000, (unsigned long long)registered / 1000,
	       (unsigned long long)afterwards / 1000);
	CHECK(registered < MARGIN * plain);
	CHECK(afterwards < MARGIN * plain);
	endpoint_close(&endpoint);
}

#define SMALL (64 * MEBIBYTE)

static void end_quietly(int signal)
{
	(void)signal;
	_exit(EXIT_SUCCESS);
}

/* A child without the pages ends at the first; that is allowed. */
static void write_all_over(uint8_t *memory)
{
	signal(SIGSEGV, end_quietly);
	signal(SIGBUS, end_quietly);
	memset(memory, 0, SMALL);
}

/* Without memory for the needs of a fork, it fails with ENOMEM, or the child has private copies, or lacks the memory:
 * the child's writes do not show in the parent. */
static void a_fork_without_memory_shares_nothing(void)
{
	endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = filled(SMALL);
	struct ibv_mr *mr = region(&endpoint, memory, SMALL, ALL_ACCESS);
	struct rlimit before, tight;
	CHECK_CALL(getrlimit(RLIMIT_AS, &before));
	tight = before;
	tight.rlim_cur = (rlim_t)kibibytes("/proc/self/status", "VmSize:") * 1024 + 8 * MEBIBYTE;
	CHECK_CALL(setrlimit(RLIMIT_AS, &tight));
	pid_t process = fork();
	int error = errno;
	if (process == 0) {
		write_all_over(memory);
		_exit(EXIT_SUCCESS);
	}
	CHECK_CALL(setrlimit(RLIMIT_AS, &before));
	if (process > 0) {
		int status;
		CHECK_EQUAL(waitpid(process, &status, 0), process);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	} else {
		CHECK_EQUAL(error, ENOMEM);
	}
	for (size_t at = 0; at < SMALL; at += PAGE)
		if (memory[at] != ((uint8_t)(at / PAGE) | 1))
			check_failed(__FILE__, __LINE__,
				     "the child's writes show in the parent, from byte %zu on", at);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "fork_with_a_large_region_copies_nothing", fork_with_a_large_region_copies_nothing },
	{ "fork_after_deregistration_copies_nothing", fork_after_deregistration_copies_nothing },
	{ "fork_takes_about_as_long_as_without", fork_takes_about_as_long_as_without },
	{ "a_fork_without_memory_shares_nothing", a_fork_without_memory_shares_nothing },
	{ 0 },
};
