/* Costs of registered memory for other operations: a small registration in a process with many
 * regions, and fork with much registered memory. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"

#define REGIONS 4000
#define MAPPINGS 16000
#define MEASURED 101
#define PAGE ((uint64_t)4096)
#define MEBIBYTE ((uint64_t)1 << 20)
#define FORKED (512 * MEBIBYTE)
#define FORKS 5

static char *pages(uint64_t length)
{
	void *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Every second page is read-only, so that each is a separate mapping. The regions and the last
 * registration lie among them. */
static void small(void)
{
	struct endpoint first = endpoint_open(endpoint_defaults());
	char *memory = pages(MAPPINGS * PAGE);
	memset(memory, 1, MAPPINGS * PAGE);
	for (unsigned page = 1; page < MAPPINGS; page += 2)
		CHECK_CALL(mprotect(memory + page * PAGE, PAGE, PROT_READ));
	double alone[MEASURED], among[MEASURED];
	unsigned next = 0;
	for (unsigned region_number = 0; region_number < REGIONS; region_number++) {
		char *at = memory + PAGE * 2 * next++;
		uint64_t start = now();
		region(&first, at, PAGE, ALL_ACCESS);
		if (region_number < MEASURED)
			alone[region_number] = (double)(now() - start);
	}
	for (unsigned time = 0; time < MEASURED; time++) {
		char *at = memory + PAGE * 2 * next++;
		uint64_t start = now();
		region(&first, at, PAGE, ALL_ACCESS);
		among[time] = (double)(now() - start);
	}
	print_result("small_registration_first_ns", median(alone, MEASURED));
	print_result("small_registration_ns", median(among, MEASURED));
}

/* Private memory of a process in bytes. */
static double own_bytes(void)
{
	char line[256];
	double kibibytes = 0;
	FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
	CHECK_POINTER(rollup);
	while (fgets(line, sizeof line, rollup) != NULL) {
		if (strncmp(line, "Private_", 8) == 0)
			kibibytes += strtod(strchr(line, ':') + 1, NULL);
	}
	fclose(rollup);
	return kibibytes * 1024;
}

/* The time of the call, and the private memory of the child. */
static double fork_ns(double *childs)
{
	int ends[2];
	CHECK_CALL(pipe(ends));
	uint64_t start = now();
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		double bytes = own_bytes();
		if (write(ends[1], &bytes, sizeof bytes) != sizeof bytes)
			_exit(EXIT_FAILURE);
		_exit(EXIT_SUCCESS);
	}
	double cost = (double)(now() - start);
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(read(ends[0], childs, sizeof *childs), sizeof *childs);
	close(ends[0]);
	close(ends[1]);
	return cost;
}

static double median_fork(double *childs)
{
	double costs[FORKS];
	for (unsigned time = 0; time < FORKS; time++)
		costs[time] = fork_ns(childs);
	return median(costs, FORKS);
}

static void forking(void)
{
	CHECK_CALL(ibv_fork_init());
	struct endpoint first = endpoint_open(endpoint_defaults());
	/* Small pages, for each of which a fork copies an entry. */
	char *memory = pages(FORKED);
	CHECK_CALL(madvise(memory, FORKED, MADV_NOHUGEPAGE));
	memset(memory, 1, FORKED);
	double childs;
	print_result("plain_fork_ns", median_fork(&childs));
	struct ibv_mr *mr = region(&first, memory, FORKED, ALL_ACCESS);
	print_result("registered_fork_ns", median_fork(&childs));
	print_result("registered_fork_own_bytes", childs);
	CHECK_CALL(ibv_dereg_mr(mr));
	print_result("deregistered_fork_ns", median_fork(&childs));
}

const struct test tests[] = {
	{ "small", small },
	{ "forking", forking },
	{ 0 },
};
