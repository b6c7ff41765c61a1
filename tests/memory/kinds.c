/* Memory of every kind can be registered, is written and read by a peer, and stays the same memory
 * for the process that owns it: stack, heap with neighbours, static data, anonymous and shared
 * mappings, files, huge pages, memory that is read-only. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define LENGTH 20000
#define PAGE 4096
#define HUGE_PAGE (2 << 20)
#define SEED 11
#define WRITTEN 12

/* The other process writes the region and reads it back. */
static void writer(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct window window;
	peer_connect(parent, &endpoint);
	peer_hear(parent, &window, sizeof window);
	uint8_t *memory = malloc(2 * window.length);
	CHECK_POINTER(memory);
	struct ibv_mr *mr = region(&endpoint, memory, 2 * window.length, IBV_ACCESS_LOCAL_WRITE);
	uint32_t length = (uint32_t)window.length;

	/* The peer reads the owner's bytes from before and after registration. */
	post_read(&endpoint, 1, piece_of(mr, 0, length), window.address, window.rkey);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	pattern_check(memory, length, SEED);

	pattern_fill(memory, length, WRITTEN);
	post_write(&endpoint, 2, piece_of(mr, 0, length), window.address, window.rkey);
	expect(&endpoint, 2, IBV_WC_SUCCESS);
	post_read(&endpoint, 3, piece_of(mr, length, length), window.address, window.rkey);
	expect(&endpoint, 3, IBV_WC_SUCCESS);
	pattern_check(memory + length, length, WRITTEN);
	peer_meet(parent);
	peer_meet(parent);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
	free(memory);
}

/* Has the other process write `length` bytes at `memory`, and checks that the owner sees them, also
 * after deregistration. */
static void written(struct peer *peer, struct endpoint *endpoint, void *memory, uint32_t length)
{
	pattern_fill(memory, length / 2, SEED);
	struct ibv_mr *mr = region(endpoint, memory, length, ALL_ACCESS);
	/* The second half is written only now: registration must not freeze the earlier content. */
	for (uint32_t position = length / 2; position < length; position++)
		((volatile uint8_t *)memory)[position] = pattern(SEED, position);
	struct window window = region_window(mr);
	peer_connect(peer, endpoint);
	peer_tell(peer, &window, sizeof window);
	peer_meet(peer);
	pattern_check(memory, length, WRITTEN);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_check(memory, length, WRITTEN);
	pattern_fill(memory, length, SEED);
	pattern_check(memory, length, SEED);
	peer_meet(peer);
	peer_end(peer);
	endpoint_close(endpoint);
}

static void with_memory(void *memory, uint32_t length)
{
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	written(&peer, &endpoint, memory, length);
}

static void stack(void)
{
	uint8_t below[64], memory[LENGTH], above[64];
	pattern_fill(below, sizeof below, 1);
	pattern_fill(above, sizeof above, 2);
	with_memory(memory, LENGTH);
	pattern_check(below, sizeof below, 1);
	pattern_check(above, sizeof above, 2);
}

static void heap_with_neighbours(void)
{
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	/* Not aligned to anything, both neighbours on the same pages. */
	uint8_t *block = malloc(LENGTH);
	CHECK_POINTER(block);
	pattern_fill(block, 1001, 1);
	pattern_fill(block + 1008, LENGTH - 1008, 2);
	written(&peer, &endpoint, block + 1001, 7);
	pattern_check(block, 1001, 1);
	pattern_check(block + 1008, LENGTH - 1008, 2);
	free(block);
}

static uint8_t static_data[LENGTH] = { 1 };
static uint8_t static_zero[LENGTH];

static void data_segment(void)
{
	with_memory(static_data, LENGTH);
}

static void zero_segment(void)
{
	with_memory(static_zero, LENGTH);
}

static void *map(size_t length, int flags, int file)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, file, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static void anonymous(void)
{
	with_memory(map(LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1), LENGTH);
}

static void shared_anonymous(void)
{
	with_memory(map(LENGTH, MAP_SHARED | MAP_ANONYMOUS, -1), LENGTH);
}

/* A file without a name in the working directory. */
static int file_of(size_t length, uint64_t seed)
{
	int file = open(".", O_TMPFILE | O_RDWR, 0600);
	if (file < 0 && errno == EOPNOTSUPP)
		check_skip("the file system has no O_TMPFILE");
	CHECK(file >= 0);
	uint8_t *content = malloc(length);
	CHECK_POINTER(content);
	pattern_fill(content, length, seed);
	CHECK_EQUAL(write(file, content, length), length);
	free(content);
	return file;
}

/* A peer's writes to a shared mapping of a file are in the file. */
static void shared_file(void)
{
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	int file = file_of(LENGTH, SEED);
	uint8_t *memory = map(LENGTH, MAP_SHARED, file);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	struct window window = region_window(mr);
	peer_connect(&peer, &endpoint);
	peer_tell(&peer, &window, sizeof window);
	peer_meet(&peer);
	uint8_t content[LENGTH];
	CHECK_EQUAL(pread(file, content, LENGTH, 0), LENGTH);
	pattern_check(content, LENGTH, WRITTEN);
	pattern_check(memory, LENGTH, WRITTEN);
	/* Writes to the file are in the region. */
	content[5] ^= 0xff;
	CHECK_EQUAL(pwrite(file, content, LENGTH, 0), LENGTH);
	CHECK_EQUAL(((volatile uint8_t *)memory)[5], content[5]);
	peer_meet(&peer);
	peer_end(&peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

/* A peer's writes to a private mapping are in the mapping and not in the file. */
static void private_file(void)
{
	int file = file_of(LENGTH, SEED);
	with_memory(map(LENGTH, MAP_PRIVATE, file), LENGTH);
	uint8_t content[LENGTH];
	CHECK_EQUAL(pread(file, content, LENGTH, 0), LENGTH);
	pattern_check(content, LENGTH, SEED);
}

static void huge_pages(void)
{
	void *memory = mmap(NULL, HUGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (memory == MAP_FAILED)
		check_skip("this machine has no huge pages reserved (%m)");
	with_memory(memory, HUGE_PAGE);
}

/* Reads memory that its owner may not write. */
static void reader(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = malloc(LENGTH);
	CHECK_POINTER(memory);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	struct window window;
	peer_connect(parent, &endpoint);
	peer_hear(parent, &window, sizeof window);
	post_read(&endpoint, 1, piece_of(mr, 0, LENGTH), window.address, window.rkey);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	pattern_check(memory, LENGTH, SEED);
	peer_meet(parent);
}

static void read_only(void)
{
	struct peer peer = peer_start(reader);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	void *memory = map(LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	pattern_fill(memory, LENGTH, SEED);
	CHECK_CALL(mprotect(memory, LENGTH, PROT_READ));
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, IBV_ACCESS_REMOTE_READ);
	struct window window = region_window(mr);
	peer_connect(&peer, &endpoint);
	peer_tell(&peer, &window, sizeof window);
	peer_meet(&peer);
	pattern_check(memory, LENGTH, SEED);
	CHECK_CALL(ibv_dereg_mr(mr));
	peer_end(&peer);
	endpoint_close(&endpoint);
}

/* ibv_reg_mr(3): the region cannot have rights that the process does not have. */
static void read_only_not_writable(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	void *memory = map(LENGTH, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	CHECK_CALL(mprotect(memory, LENGTH, PROT_READ));
	errno = 0;
	CHECK(ibv_reg_mr(endpoint.pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE) == NULL);
	CHECK_EQUAL(errno, EFAULT);
	endpoint_close(&endpoint);
}

static void not_mapped(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = map(4 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	/* A hole in the middle. */
	CHECK_CALL(munmap(memory + PAGE, PAGE));
	errno = 0;
	CHECK(ibv_reg_mr(endpoint.pd, memory, 4 * PAGE, IBV_ACCESS_LOCAL_WRITE) == NULL);
	CHECK_EQUAL(errno, EFAULT);
	endpoint_close(&endpoint);
}

/* The same memory registered three times over, the ranges crossing page borders: each region works,
 * and removing one leaves the others. */
static void overlapping(void)
{
	struct peer peer = peer_start(writer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = malloc(4 * LENGTH);
	CHECK_POINTER(memory);
	struct ibv_mr *around = region(&endpoint, memory, 4 * LENGTH, ALL_ACCESS);
	struct ibv_mr *across = region(&endpoint, memory + LENGTH / 2, LENGTH, ALL_ACCESS);
	struct ibv_mr *inside = region(&endpoint, memory + LENGTH, LENGTH, ALL_ACCESS);
	CHECK(around->rkey != across->rkey && across->rkey != inside->rkey);
	CHECK_CALL(ibv_dereg_mr(around));
	CHECK_CALL(ibv_dereg_mr(across));

	pattern_fill(memory + LENGTH, LENGTH, SEED);
	struct window window = region_window(inside);
	peer_connect(&peer, &endpoint);
	peer_tell(&peer, &window, sizeof window);
	peer_meet(&peer);
	pattern_check(memory + LENGTH, LENGTH, WRITTEN);
	peer_meet(&peer);
	peer_end(&peer);
	CHECK_CALL(ibv_dereg_mr(inside));
	endpoint_close(&endpoint);
	free(memory);
}

const struct test tests[] = {
	{ "stack", stack },
	{ "heap_with_neighbours", heap_with_neighbours },
	{ "data_segment", data_segment },
	{ "zero_segment", zero_segment },
	{ "anonymous", anonymous },
	{ "shared_anonymous", shared_anonymous },
	{ "shared_file", shared_file },
	{ "private_file", private_file },
	{ "huge_pages", huge_pages },
	{ "read_only", read_only },
	{ "read_only_not_writable", read_only_not_writable },
	{ "not_mapped", not_mapped },
	{ "overlapping", overlapping },
	{ 0 },
};
