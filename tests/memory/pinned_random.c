/* Random programs that register, deregister, fork and remap memory while io_uring, direct I/O, process_vm_writev(2) and
 * /proc/self/mem act on the same pages, beside a model of the expected value of every byte. SEED is the seed of the
 * first program, so that one which failed can be run again; PROGRAMS is how many.
 *
 * Sources: as of pinned.c; process_vm_readv(2), proc_pid_mem(5), mremap(2). */

#include "pinned.h"

enum { AREAS = 5, AREA = 8 * 4096, REGIONS = 2, STEPS = 120 };

struct area {
	uint8_t *memory;
	uint8_t expected[AREA];
	struct ibv_mr *regions[REGIONS];
	bool is_busy; /* a transfer to it is under way */
};

static struct area areas[AREAS];
static struct pair pair;
static uint8_t *other; /* the source or target of the adapter's messages */
static struct ibv_mr *other_region;
static struct ring ring;
static bool has_ring, has_buffers;
static int file, back, direct, self;
static uint8_t content[AREA];
static aio_context_t context;
static struct iocb transfer;
static struct area *target; /* of the transfer */
static uint64_t state;

static uint32_t chance(uint32_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % below;
}

struct range {
	uint32_t from, length;
};

static struct range some_bytes(void)
{
	uint32_t from = chance(AREA);
	return (struct range){ from, 1 + chance(AREA - from) };
}

static struct range some_pages(void)
{
	uint32_t from = chance(AREA / 4096);
	return (struct range){ from * 4096, (1 + chance(AREA / 4096 - from)) * 4096 };
}

static void compare(struct area *area, const char *step)
{
	for (uint32_t at = 0; at < AREA && !area->is_busy; at++)
		if (area->memory[at] != area->expected[at])
			check_failed(__FILE__, __LINE__, "after %s byte %u of area %d is %#x and not %#x", step, at,
				     (int)(area - areas), area->memory[at], area->expected[at]);
}

static const char *register_some(struct area *area)
{
	struct ibv_mr **slot = &area->regions[chance(REGIONS)];
	if (*slot != NULL)
		return NULL;
	struct range range = some_bytes();
	*slot = region(&pair.other, area->memory + range.from, range.length, ALL_ACCESS);
	return "ibv_reg_mr";
}

static const char *deregister(struct area *area)
{
	struct ibv_mr **slot = &area->regions[chance(REGIONS)];
	if (*slot == NULL)
		return NULL;
	CHECK_CALL(ibv_dereg_mr(*slot));
	*slot = NULL;
	return "ibv_dereg_mr";
}

static const char *change_ring(struct area *area)
{
	(void)area;
	if (!has_ring) {
		ring = ring_open();
		has_ring = true;
		return "io_uring_setup";
	}
	if (!has_buffers) {
		struct iovec buffers[AREAS];
		for (unsigned each = 0; each < AREAS; each++)
			buffers[each] = (struct iovec){ areas[each].memory, AREA };
		CHECK_CALL((int)syscall(SYS_io_uring_register, ring.descriptor, IORING_REGISTER_BUFFERS, buffers, AREAS));
		has_buffers = true;
		return "IORING_REGISTER_BUFFERS";
	}
	CHECK_CALL((int)syscall(SYS_io_uring_register, ring.descriptor, IORING_UNREGISTER_BUFFERS, NULL, 0));
	has_buffers = false;
	if (chance(2) == 0) {
		ring_close(&ring);
		has_ring = false;
	}
	return "IORING_UNREGISTER_BUFFERS";
}

static const char *by_ring(struct area *area)
{
	if (!has_buffers || area->is_busy)
		return NULL;
	struct range range = some_bytes();
	uint8_t *memory = area->memory + range.from;
	uint16_t index = (uint16_t)(area - areas);
	if (chance(2) == 0) {
		ring_transfer(&ring, IORING_OP_READ_FIXED, file, memory, range.length, index);
		memcpy(area->expected + range.from, content, range.length);
		return "READ_FIXED";
	}
	ring_transfer(&ring, IORING_OP_WRITE_FIXED, back, memory, range.length, index);
	uint8_t written[AREA];
	CHECK_EQUAL(pread(back, written, range.length, 0), range.length);
	CHECK(memcmp(written, area->expected + range.from, range.length) == 0);
	return "WRITE_FIXED";
}

static const char *by_direct_read(struct area *area)
{
	if (area->is_busy)
		return NULL;
	struct range range = some_pages();
	CHECK_EQUAL(pread(direct, area->memory + range.from, range.length, 0), range.length);
	memcpy(area->expected + range.from, content, range.length);
	return "read of O_DIRECT";
}

/* Begins, or ends, a transfer that is under way while other things happen. */
static const char *by_transfer(struct area *area)
{
	if (target == NULL) {
		struct range range = some_pages();
		transfer = (struct iocb){ .aio_lio_opcode = IOCB_CMD_PREAD,
					  .aio_fildes = (uint32_t)direct,
					  .aio_buf = (uintptr_t)area->memory + range.from,
					  .aio_nbytes = range.length };
		struct iocb *all[] = { &transfer };
		CHECK_EQUAL(syscall(SYS_io_submit, context, 1, all), 1);
		target = area;
		target->is_busy = true;
		return "io_submit";
	}
	struct io_event event;
	long count;
	/* Work that io_uring has for the thread interrupts it. */
	do
		count = syscall(SYS_io_getevents, context, 1, 1, &event, NULL);
	while (count < 0 && errno == EINTR);
	CHECK_EQUAL(count, 1);
	CHECK_EQUAL(event.res, transfer.aio_nbytes);
	memcpy(target->expected + ((uint8_t *)(uintptr_t)transfer.aio_buf - target->memory), content, transfer.aio_nbytes);
	target->is_busy = false;
	target = NULL;
	return "io_getevents";
}

static const char *by_program(struct area *area)
{
	struct range range = some_bytes();
	uint8_t *expected = area->expected + range.from;
	if (area->is_busy)
		return NULL;
	pattern_fill(expected, range.length, state);
	struct iovec here = { expected, range.length };
	struct iovec there = { area->memory + range.from, range.length };
	switch (chance(3)) {
	case 0:
		memcpy(there.iov_base, expected, range.length);
		return "a store";
	case 1:
		CHECK_EQUAL(process_vm_writev(getpid(), &here, 1, &there, 1, 0), range.length);
		return "process_vm_writev";
	default:
		CHECK_EQUAL(pwrite(self, expected, range.length, (off_t)(uintptr_t)there.iov_base), range.length);
		return "a write to /proc/self/mem";
	}
}

static const char *by_adapter(struct area *area)
{
	struct ibv_mr *mr = area->regions[chance(REGIONS)];
	if (mr == NULL || area->is_busy)
		return NULL;
	struct window window = region_window(mr);
	uint8_t *expected = area->expected + ((uint8_t *)mr->addr - area->memory);
	struct piece piece = piece_of(other_region, 0, (uint32_t)mr->length);
	if (chance(2) == 0) {
		pattern_fill(other, mr->length, state);
		memcpy(expected, other, mr->length);
		post_write(&pair.one, 1, piece, window.address, window.rkey);
		expect(&pair.one, 1, IBV_WC_SUCCESS);
		return "an RDMA write";
	}
	post_read(&pair.one, 1, piece, window.address, window.rkey);
	expect(&pair.one, 1, IBV_WC_SUCCESS);
	CHECK(memcmp(other, expected, mr->length) == 0);
	return "an RDMA read";
}

static const char *by_child(struct area *area)
{
	(void)area;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (unsigned each = 0; each < AREAS; each++) {
			compare(&areas[each], "fork, in the child,");
			memset(areas[each].memory, 0xee, AREA);
		}
		_exit(0);
	}
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	return "fork";
}

/* Only areas that nothing else knows by address. */
static const char *remap(struct area *area)
{
	if (has_buffers || area->is_busy || area->regions[0] != NULL || area->regions[1] != NULL)
		return NULL;
	if (chance(2) == 0) {
		CHECK_CALL(munmap(area->memory, AREA));
		area->memory = private_pages(AREA);
		memset(area->expected, 0, AREA);
		return "munmap";
	}
	/* Page by page, for pages that were registered apart are mappings of their own. */
	uint8_t *elsewhere = private_pages(AREA);
	for (uint32_t at = 0; at < AREA; at += 4096)
		CHECK(mremap(area->memory + at, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere + at) != MAP_FAILED);
	area->memory = elsewhere;
	return "mremap";
}

static const char *(*const steps[])(struct area *) = { register_some, register_some, deregister, change_ring, by_ring,
						       by_ring, by_direct_read, by_transfer, by_program, by_program,
						       by_adapter, by_adapter, by_child, remap };

static void run_program(uint64_t seed)
{
	state = seed * 2654435761u + 1;
	direct = file_of_pattern(AREA, 3, O_DIRECT);
	for (unsigned step = 0; step < STEPS; step++) {
		struct area *area = &areas[chance(AREAS)];
		/* Often there is no direct I/O at all. */
		unsigned count = sizeof steps / sizeof *steps;
		unsigned which = chance(count);
		bool is_direct = steps[which] == by_direct_read || steps[which] == by_transfer;
		if (is_direct && direct < 0)
			direct = file_of_pattern(AREA, 3, O_DIRECT);
		const char *name = steps[which](area);
		for (unsigned each = 0; each < AREAS && name != NULL; each++)
			compare(&areas[each], name);
		if (chance(3) == 0 && direct >= 0) {
			close(direct);
			direct = -1;
		}
	}
	if (target != NULL)
		by_transfer(target);
	for (unsigned each = 0; each < AREAS; each++)
		compare(&areas[each], "all");
	if (direct >= 0)
		close(direct);
}

static void run_programs(uint64_t first, uint64_t count)
{
	hang_after(150);
	pair = pair_open(endpoint_defaults());
	other = private_pages(AREA);
	other_region = region(&pair.one, other, AREA, ALL_ACCESS);
	for (unsigned each = 0; each < AREAS; each++)
		areas[each].memory = private_pages(AREA);
	pattern_fill(content, AREA, 3);
	file = file_of_pattern(AREA, 3, 0);
	back = memfd_create("back", 0);
	self = open("/proc/self/mem", O_RDWR);
	CHECK(back >= 0 && self >= 0);
	for (uint64_t seed = first; seed < first + count; seed++) {
		if (syscall(SYS_io_setup, 8, &context) < 0)
			check_skip("no asynchronous I/O here: %s", strerror(errno));
		fprintf(stderr, "program %llu\n", (unsigned long long)seed);
		run_program(seed);
		CHECK_CALL((int)syscall(SYS_io_destroy, context));
		context = 0;
	}
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *word = getenv(name);
	return word == NULL ? otherwise : strtoull(word, NULL, 10);
}

static void every_byte_is_what_the_model_says(void)
{
	run_programs(number_of("SEED", 1), number_of("PROGRAMS", 25));
}

/* With pages that move even while a ring holds them, as an earlier version did, the same programs find a difference. */
static void a_page_that_moves_under_a_ring_is_found(void)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK_CALL(setpgid(0, 0));
		CHECK_CALL(setenv("VERBENA_PAGES", "shared", 1));
		CHECK(freopen("/dev/null", "w", stderr) != NULL);
		run_programs(1, 25);
		_exit(0);
	}
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(status != 0);
	/* The program was killed, so the last process to end cleans up. */
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "every_byte_is_what_the_model_says", every_byte_is_what_the_model_says },
	{ "a_page_that_moves_under_a_ring_is_found", a_page_that_moves_under_a_ring_is_found },
	{ 0 },
};
