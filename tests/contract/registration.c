/* Memory registered under other addresses than its own, by all the calls that there are for it, and regions of no memory.
 *
 * Sources: ibv_reg_mr(3), ibv_alloc_null_mr(3), ibv_import_dm(3), ibv_alloc_dm(3); for ibv_reg_mr_ex the header of rdma-core 61;
 * for ibv_dontfork_range that of rdma-core, where a range is counted in and out. */

#include <errno.h>

#include "contract.h"
#include "rdma_core.h"

#define LENGTH 1024
#define ELSEWHERE UINT64_C(0x123400000000)

/* Registers `memory` under the address `iova`. */
typedef struct ibv_mr *registering(struct ibv_pd *pd, void *memory, size_t length, uint64_t iova, int access);

/* A peer reaches the region at its address and nowhere else; the owner too. */
static void under_another_address(registering *make, uint64_t iova, int access)
{
	struct pair pair = pair_open(endpoint_defaults());
	uint8_t *memory = private_pages(2 * PAGE), *target = memory + PAGE;
	struct ibv_mr *from = region(&pair.one, memory, PAGE, ALL_ACCESS);
	struct ibv_mr *mr = make(pair.other.pd, target, LENGTH, iova, access);
	CHECK_POINTER(mr);
	CHECK(mr->pd == pair.other.pd && mr->length == LENGTH && mr->addr == target);

	pattern_fill(memory, LENGTH, iova);
	post_write(&pair.one, 1, piece_of(from, 0, LENGTH), iova, mr->rkey);
	expect(&pair.one, 1, IBV_WC_SUCCESS);
	pattern_check(target, LENGTH, iova);
	memset(memory, 0, LENGTH);
	post_read(&pair.one, 2, piece_of(from, 0, LENGTH - 100), iova + 100, mr->rkey);
	expect(&pair.one, 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(memcmp(memory, target + 100, LENGTH - 100), 0);
	/* As a local buffer it has that address, too. */
	post_receive(&pair.other, 3, (struct piece){ (void *)(uintptr_t)iova, LENGTH, mr->lkey });
	pattern_fill(memory, LENGTH, 99);
	post_send(&pair.one, 4, piece_of(from, 0, LENGTH));
	expect(&pair.one, 4, IBV_WC_SUCCESS);
	expect(&pair.other, 3, IBV_WC_SUCCESS);
	pattern_check(target, LENGTH, 99);
	/* One byte behind its end. */
	post_write(&pair.one, 5, piece_of(from, 0, 8), iova + LENGTH - 7, mr->rkey);
	expect(&pair.one, 5, IBV_WC_REM_ACCESS_ERR);
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK_CALL(ibv_dereg_mr(from));
	pair_close(&pair);
	CHECK_CALL(munmap(memory, 2 * PAGE));
}

/* The calls themselves: the header's macro of the first one's name calls the second where the access is no constant. */
#undef ibv_reg_mr_iova
static struct ibv_mr *by_first(struct ibv_pd *pd, void *memory, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova(pd, memory, length, iova, access);
}

static struct ibv_mr *by_second(struct ibv_pd *pd, void *memory, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, memory, length, iova, (unsigned)access);
}

/* struct ibv_mr_init_attr of rdma-core 61. */
struct region_attributes {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};
enum { WITH_IOVA = 1, WITH_ADDRESS = 2, WITH_FD = 4, WITH_DMAH = 16 };

static struct ibv_mr *extended(struct ibv_pd *pd, struct region_attributes *attributes)
{
	struct ibv_mr *(*ibv_reg_mr_ex)(struct ibv_pd *, struct region_attributes *) =
		newer_call("ibv_reg_mr_ex", "IBVERBS_1.15");
	CHECK_POINTER(ibv_reg_mr_ex);
	return ibv_reg_mr_ex(pd, attributes);
}

static struct ibv_mr *by_structure(struct ibv_pd *pd, void *memory, size_t length, uint64_t iova, int access)
{
	struct region_attributes attributes = { .length = length, .access = access, .comp_mask = WITH_IOVA | WITH_ADDRESS,
						.iova = iova, .addr = memory };
	return extended(pd, &attributes);
}

static void memory_has_the_address_that_was_chosen(void)
{
	registering *const calls[] = { by_first, by_second, by_structure };
	for (size_t call = 0; call < sizeof calls / sizeof *calls; call++) {
		under_another_address(calls[call], ELSEWHERE, ALL_ACCESS);
		/* Not at the same place of a page as the memory. */
		under_another_address(calls[call], ELSEWHERE + 24, ALL_ACCESS);
		under_another_address(calls[call], 0, ALL_ACCESS);
	}
	/* Flags that an adapter may leave unheeded. */
	under_another_address(by_second, ELSEWHERE, ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING);
}

static void the_structure_says_what_it_holds(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(PAGE);
	struct region_attributes plain = { .length = PAGE, .access = ALL_ACCESS, .comp_mask = WITH_ADDRESS, .addr = memory };
	struct ibv_mr *mr = extended(endpoint.pd, &plain);
	CHECK_POINTER(mr);
	CHECK(mr->addr == memory);
	CHECK_CALL(ibv_dereg_mr(mr));
	static const struct { uint64_t mask; int error; } refused[] = {
		{ 0, EINVAL },
		{ WITH_IOVA, EINVAL },
		{ WITH_ADDRESS | WITH_FD, EINVAL },
		{ WITH_ADDRESS | WITH_DMAH, EOPNOTSUPP },
		{ WITH_ADDRESS | UINT64_C(1) << 40, EOPNOTSUPP },
	};
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		struct region_attributes asked = plain;
		asked.comp_mask = refused[i].mask;
		errno = 0;
		CHECK(!extended(endpoint.pd, &asked));
		CHECK_EQUAL(errno, refused[i].error);
	}
	CHECK_CALL(munmap(memory, PAGE));
	endpoint_close(&endpoint);
}

static void no_memory_reads_as_zeros_and_takes_everything(void)
{
	struct pair pair = pair_open(endpoint_defaults());
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&pair.other, memory, PAGE, ALL_ACCESS);
	struct ibv_mr *nowhere = ibv_alloc_null_mr(pair.one.pd);
	CHECK_POINTER(nowhere);
	/* Any address of it. */
	struct piece hole = { (void *)(uintptr_t)0x7777000, LENGTH, nowhere->lkey };
	memset(memory, 0xff, PAGE);
	post_write(&pair.one, 1, hole, (uintptr_t)memory, mr->rkey);
	expect(&pair.one, 1, IBV_WC_SUCCESS);
	for (size_t at = 0; at < PAGE; at++)
		CHECK_EQUAL(memory[at], at < LENGTH ? 0 : 0xff);
	/* Data that are read, or received, into the hole are discarded. */
	post_read(&pair.one, 2, hole, (uintptr_t)memory + LENGTH, mr->rkey);
	expect(&pair.one, 2, IBV_WC_SUCCESS);
	post_receive(&pair.one, 3, hole);
	post_send(&pair.other, 4, piece_of(mr, 0, LENGTH));
	expect(&pair.other, 4, IBV_WC_SUCCESS);
	expect(&pair.one, 3, IBV_WC_SUCCESS);
	CHECK_CALL(ibv_dereg_mr(nowhere));
	CHECK_CALL(ibv_dereg_mr(mr));
	pair_close(&pair);
	CHECK_CALL(munmap(memory, PAGE));
}

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

static void ranges_are_kept_from_children_without_harm(void)
{
	uint8_t *memory = private_pages(PAGE);
	memset(memory, 7, PAGE);
	CHECK_CALL(ibv_dontfork_range(memory, PAGE));
	CHECK_CALL(ibv_dontfork_range(memory, PAGE));
	CHECK_CALL(ibv_dofork_range(memory, PAGE));
	CHECK_CALL(ibv_dofork_range(memory, PAGE));
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(memory[PAGE - 1] == 7 ? 0 : 1);
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_CALL(munmap(memory, PAGE));
}

static void device_memory_has_a_second_pointer(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_alloc_dm_attr asked = { .length = 256 };
	struct ibv_dm *dm = ibv_alloc_dm(endpoint.context, &asked);
	CHECK_POINTER(dm);
	struct ibv_dm *again = ibv_import_dm(endpoint.context, dm->handle);
	CHECK_POINTER(again);
	uint64_t written = UINT64_C(0x0123456789abcdef), read = 0;
	CHECK_CALL(ibv_memcpy_to_dm(dm, 64, &written, sizeof written));
	CHECK_CALL(ibv_memcpy_from_dm(&read, again, 64, sizeof read));
	CHECK_EQUAL(read, written);
	ibv_unimport_dm(again);
	read = 0;
	CHECK_CALL(ibv_memcpy_from_dm(&read, dm, 64, sizeof read));
	CHECK_EQUAL(read, written);
	errno = 0;
	CHECK(!ibv_import_dm(endpoint.context, dm->handle + 1000));
	CHECK(errno != 0);
	CHECK_CALL(ibv_free_dm(dm));
	endpoint_close(&endpoint);
}

/* The heap that the adapter allocates from, too, while the process has other descriptors each time. */
static void the_heap_itself(void)
{
	enum { ROUNDS = 40, EACH = 30 };
	hang_after(60);
#ifdef __SANITIZE_ADDRESS__
	check_skip("the sanitizer's allocator does not use the heap of brk(2)");
#endif
#ifndef __GLIBC__
	check_skip("this C library's allocator does not use the heap of brk(2)");
#endif
	struct pair pair = pair_open(endpoint_defaults());
	/* Allocations of all sizes from the registered part. */
	uint8_t *blocks[64];
	for (unsigned each = 0; each < 64; each++)
		CHECK_POINTER(blocks[each] = malloc(64 * (each + 1)));
	for (unsigned each = 0; each < 64; each += 2)
		free(blocks[each]);
	uintptr_t first = ((uintptr_t)blocks[1] + PAGE) & ~(PAGE - 1);
	uintptr_t last = (uintptr_t)sbrk(0) & ~(PAGE - 1);
	CHECK(first < last);
	for (unsigned round = 0; round < ROUNDS; round++) {
		int descriptors[EACH];
		struct ibv_mr *mr = region(&pair.other, (void *)first, last - first, ALL_ACCESS);
		for (unsigned each = 0; each < EACH; each++)
			CHECK((descriptors[each] = dup(STDIN_FILENO)) >= 0);
		CHECK_CALL(ibv_dereg_mr(mr));
		for (unsigned each = 0; each < EACH && round % 2 == 0; each++)
			close(descriptors[each]);
	}
	for (unsigned each = 1; each < 64; each += 2)
		free(blocks[each]);
	pair_close(&pair);
}

const struct test tests[] = {
	{ "memory_has_the_address_that_was_chosen", memory_has_the_address_that_was_chosen },
	{ "the_structure_says_what_it_holds", the_structure_says_what_it_holds },
	{ "no_memory_reads_as_zeros_and_takes_everything", no_memory_reads_as_zeros_and_takes_everything },
	{ "ranges_are_kept_from_children_without_harm", ranges_are_kept_from_children_without_harm },
	{ "device_memory_has_a_second_pointer", device_memory_has_a_second_pointer },
	{ "the_heap_itself", the_heap_itself },
	{ 0 },
};
