/* Deregistered memory is as it was before: private anonymous memory, on which mremap(2), madvise(2) and the rest do as
 * their man pages say. And the cost of registering depends on the region, not on the other mappings of the process.
 *
 * Sources: ibv_reg_mr(3) and ibv_dereg_mr(3), which speak of no lasting effect on the memory; ibv_rereg_mr(3)
 * ("performs the functions deregister memory region followed by register memory region"); mremap(2), madvise(2),
 * proc(5). */

#include <limits.h>

#include "contract.h"

#define LENGTH (16 * PAGE)

static struct endpoint endpoint;

static void begin(void)
{
	endpoint = endpoint_open(endpoint_defaults());
}

/* realloc(3) of a large block is mremap: the added pages are new, read as zeros, and are shared with no other mapping.
 * The block is one mapping, as before (mremap(2) moves no range over several): all of it was registered, or all but its
 * first `apart` bytes, as where an allocator keeps its own data there. */
static void grow_after_deregistration(size_t length, size_t apart)
{
	begin();
	uint8_t *a = private_pages(length);
	uint8_t *b = private_pages(length);
	pattern_fill(a, length, 1);
	pattern_fill(b, length, 2);
	struct ibv_mr *first = region(&endpoint, a + apart, length - apart, ALL_ACCESS);
	struct ibv_mr *second = region(&endpoint, b, length, ALL_ACCESS);
	CHECK_CALL(ibv_dereg_mr(first));
	uint8_t *grown = mremap(a, length, 2 * length, MREMAP_MAYMOVE);
	if (grown == MAP_FAILED)
		check_failed(__FILE__, __LINE__, "deregistered memory cannot be moved: %m");
	pattern_check(grown, length, 1);
	for (size_t at = length; at < 2 * length; at++)
		CHECK_EQUAL(grown[at], 0);
	memset(grown, 0xff, 2 * length);
	pattern_check(b, length, 2);
	CHECK_CALL(ibv_dereg_mr(second));
	endpoint_close(&endpoint);
}

static void growing_after_deregistration(void)
{
	grow_after_deregistration(LENGTH, 0);
}

static void growing_a_large_block_after_deregistration(void)
{
	grow_after_deregistration(9 * MEBIBYTE, 0);
}

static void growing_a_block_that_was_registered_in_part(void)
{
	grow_after_deregistration(LENGTH, PAGE);
}

/* The contents stay, and the pages are the process's own again. */
static void pages_are_private_after_deregistration(void)
{
	begin();
	uint8_t *memory = private_pages(LENGTH);
	pattern_fill(memory, LENGTH, 3);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_check(memory, LENGTH, 3);
	for (size_t at = 0; at < LENGTH; at += PAGE)
		CHECK(is_private_anonymous(memory + at));
	endpoint_close(&endpoint);
}

/* The last of several regions makes the pages private again, in any order. */
static void pages_are_private_after_the_last_of_two(void)
{
	begin();
	uint8_t *memory = private_pages(LENGTH);
	pattern_fill(memory, LENGTH, 4);
	struct ibv_mr *lower = region(&endpoint, memory, LENGTH / 2 + PAGE, ALL_ACCESS);
	struct ibv_mr *upper =
		region(&endpoint, memory + LENGTH / 2, LENGTH / 2, ALL_ACCESS);
	CHECK_CALL(ibv_dereg_mr(lower));
	CHECK_CALL(ibv_dereg_mr(upper));
	pattern_check(memory, LENGTH, 4);
	for (size_t at = 0; at < LENGTH; at += PAGE)
		CHECK(is_private_anonymous(memory + at));
	endpoint_close(&endpoint);
}

/* Re-registering for other pages is a deregistration of the first. */
static void pages_are_private_after_reregistration(void)
{
	begin();
	uint8_t *old = private_pages(LENGTH);
	uint8_t *new = private_pages(LENGTH);
	pattern_fill(old, LENGTH, 5);
	struct ibv_mr *mr = region(&endpoint, old, LENGTH, ALL_ACCESS);
	CHECK_CALL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, new, LENGTH,
				ALL_ACCESS));
	pattern_check(old, LENGTH, 5);
	for (size_t at = 0; at < LENGTH; at += PAGE)
		CHECK(is_private_anonymous(old + at));
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

/* madvise(2): after MADV_DONTNEED, private anonymous pages read as zeros. */
static void dontneed_zeroes_after_deregistration(void)
{
	begin();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 0xa5, LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK_CALL(madvise(memory, LENGTH, MADV_DONTNEED));
	for (size_t at = 0; at < LENGTH; at++)
		CHECK_EQUAL(memory[at], 0);
	endpoint_close(&endpoint);
}

/* madvise(2): MADV_FREE applies to private anonymous pages. */
static void free_is_accepted_after_deregistration(void)
{
	begin();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 0xa5, LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	CHECK_CALL(ibv_dereg_mr(mr));
	if (madvise(memory, LENGTH, MADV_FREE) != 0)
		check_failed(__FILE__, __LINE__, "MADV_FREE: %m");
	endpoint_close(&endpoint);
}

/* Bytes that this process has read from files (proc(5): io, rchar). */
static long bytes_read(void)
{
	char line[128];
	long value = -1;
	FILE *io = fopen("/proc/self/io", "r");
	if (io == NULL)
		check_skip("/proc/self/io cannot be read: %m");
	while (fgets(line, sizeof line, io) != NULL)
		(void)sscanf(line, "rchar: %ld", &value);
	fclose(io);
	CHECK(value >= 0);
	return value;
}

/* A process with thousands of mappings registers a page. The part of the list of mappings that is read, if any, does
 * not grow with it: 4,000 lines are 200 kB and more. */
static void registration_does_not_read_all_mappings(void)
{
	enum { MAPPINGS = 4000, LIMIT = 100 * 1000, ATTEMPTS = 20 };
	begin();
	uint8_t *many = private_pages(2 * MAPPINGS * PAGE);
	/* Each second page has other rights, so that none is one mapping with the next. */
	for (size_t number = 0; number < MAPPINGS; number++)
		CHECK_CALL(mprotect(many + 2 * number * PAGE, PAGE, PROT_READ));
	uint8_t *memory = private_pages(PAGE);
	memset(memory, 1, PAGE);
	/* The adapter reads the list once when another process of the machine has made a context of libaio. */
	long least = LONG_MAX;
	for (int attempt = 0; attempt < ATTEMPTS && least > LIMIT; attempt++) {
		long before = bytes_read();
		struct ibv_mr *mr = region(&endpoint, memory, PAGE, ALL_ACCESS);
		long read = bytes_read() - before;
		if (read < least)
			least = read;
		CHECK_CALL(ibv_dereg_mr(mr));
	}
	if (least > LIMIT)
		check_failed(__FILE__, __LINE__, "each registration of one page read %ld bytes or more", least);
	endpoint_close(&endpoint);
}

/* A region of no bytes is a region (10.6.2: the length is a number of bytes, with no least one): its key permits only
 * operations of no bytes. */
static void a_region_of_no_bytes(void)
{
	struct pair pair = pair_open(endpoint_defaults());
	uint8_t *memory = private_pages(PAGE);
	memset(memory, 0x11, PAGE);
	struct ibv_mr *empty = ibv_reg_mr(pair.other.pd, memory, 0, ALL_ACCESS);
	CHECK_POINTER(empty);
	CHECK_EQUAL(empty->length, 0);
	struct ibv_mr *source = region(&pair.one, memory, PAGE, ALL_ACCESS);
	post_write(&pair.one, 1, piece_of(source, 0, 0), (uintptr_t)memory, empty->rkey);
	expect(&pair.one, 1, IBV_WC_SUCCESS);
	post_write(&pair.one, 2, piece_of(source, 0, 1), (uintptr_t)memory, empty->rkey);
	expect(&pair.one, 2, IBV_WC_REM_ACCESS_ERR);
	CHECK_CALL(ibv_dereg_mr(empty));
	CHECK_CALL(ibv_dereg_mr(source));
	pair_close(&pair);
}

/* A region's former keys are not those of another soon after: a peer that kept one gets an error (10.6.3.3: the
 * consumer relies on a key's not naming other memory; 16 times the 256 values of the byte that a key's owner may choose
 * is the least requirement). */
static void a_key_does_not_come_back_soon(void)
{
	enum { USES = 4096 };
	begin();
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *first = region(&endpoint, memory, PAGE, ALL_ACCESS);
	uint32_t rkey = first->rkey, lkey = first->lkey;
	CHECK_CALL(ibv_dereg_mr(first));
	for (unsigned use = 1; use <= USES; use++) {
		struct ibv_mr *mr = region(&endpoint, memory, PAGE, ALL_ACCESS);
		if (mr->rkey == rkey || mr->lkey == lkey)
			check_failed(__FILE__, __LINE__, "key 0x%x comes back after %u uses", rkey,
				     use);
		CHECK_CALL(ibv_dereg_mr(mr));
	}
	endpoint_close(&endpoint);
}

/* A program that unmaps the memory of a posted receive harms itself alone: pinned pages outlive their mapping, so the
 * message arrives somewhere or fails, and no process is killed. */
static void a_receive_into_unmapped_memory(void)
{
	/* Memory that the program shares itself stays where the program has it. */
	uint8_t *memory = shared_pages(LENGTH);
	struct pair pair = pair_open(endpoint_defaults());
	uint8_t *from = private_pages(LENGTH);
	struct ibv_mr *source = region(&pair.one, from, LENGTH, ALL_ACCESS);
	struct ibv_mr *target = region(&pair.other, memory, LENGTH, ALL_ACCESS);
	post_receive(&pair.other, 1, piece_of(target, 0, LENGTH));
	CHECK_CALL(munmap(memory, LENGTH));
	post_send(&pair.one, 1, piece_of(source, 0, LENGTH));
	(void)completion(&pair.other);
	(void)completion(&pair.one);
	CHECK_CALL(ibv_dereg_mr(target));
	CHECK_CALL(ibv_dereg_mr(source));
	pair_close(&pair);
}

const struct test tests[] = {
	{ "growing_after_deregistration", growing_after_deregistration },
	{ "growing_a_large_block_after_deregistration",
	  growing_a_large_block_after_deregistration },
	{ "growing_a_block_that_was_registered_in_part",
	  growing_a_block_that_was_registered_in_part },
	{ "pages_are_private_after_deregistration", pages_are_private_after_deregistration },
	{ "pages_are_private_after_the_last_of_two", pages_are_private_after_the_last_of_two },
	{ "pages_are_private_after_reregistration", pages_are_private_after_reregistration },
	{ "dontneed_zeroes_after_deregistration", dontneed_zeroes_after_deregistration },
	{ "free_is_accepted_after_deregistration", free_is_accepted_after_deregistration },
	{ "registration_does_not_read_all_mappings", registration_does_not_read_all_mappings },
	{ "a_region_of_no_bytes", a_region_of_no_bytes },
	{ "a_key_does_not_come_back_soon", a_key_does_not_come_back_soon },
	{ "a_receive_into_unmapped_memory", a_receive_into_unmapped_memory },
	{ 0 },
};
