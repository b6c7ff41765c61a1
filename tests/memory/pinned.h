/* Interfaces that use pages of a process without looking up the mapping each time: io_uring with registered buffers,
 * and libaio. By system calls, so that no library is needed. */
#ifndef VERBENA_TESTS_MEMORY_PINNED_H
#define VERBENA_TESTS_MEMORY_PINNED_H

#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "../contract/contract.h"

/* A ring of one entry at a time. */
struct ring {
	int descriptor;
	uint8_t *base;
	size_t length, entries_length;
	unsigned *head, *tail, *mask, *array;
	unsigned *done_head, *done_tail, *done_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *done;
};

static inline struct ring ring_open(void)
{
	struct io_uring_params params = { 0 };
	struct ring ring = { .descriptor = (int)syscall(SYS_io_uring_setup, 8, &params) };
	if (ring.descriptor < 0)
		check_skip("io_uring is refused here: %s", strerror(errno));
	CHECK(params.features & IORING_FEAT_SINGLE_MMAP);
	size_t length = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	size_t done = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	ring.length = length > done ? length : done;
	ring.entries_length = params.sq_entries * sizeof(struct io_uring_sqe);
	uint8_t *base = mmap(NULL, ring.length, PROT_READ | PROT_WRITE, MAP_SHARED, ring.descriptor,
			     IORING_OFF_SQ_RING);
	ring.base = base;
	CHECK(base != MAP_FAILED);
	ring.entries = mmap(NULL, ring.entries_length, PROT_READ | PROT_WRITE, MAP_SHARED, ring.descriptor,
			    IORING_OFF_SQES);
	CHECK(ring.entries != MAP_FAILED);
	ring.head = (unsigned *)(base + params.sq_off.head);
	ring.tail = (unsigned *)(base + params.sq_off.tail);
	ring.mask = (unsigned *)(base + params.sq_off.ring_mask);
	ring.array = (unsigned *)(base + params.sq_off.array);
	ring.done_head = (unsigned *)(base + params.cq_off.head);
	ring.done_tail = (unsigned *)(base + params.cq_off.tail);
	ring.done_mask = (unsigned *)(base + params.cq_off.ring_mask);
	ring.done = (struct io_uring_cqe *)(base + params.cq_off.cqes);
	return ring;
}

static inline void ring_close(struct ring *ring)
{
	CHECK_CALL(munmap(ring->base, ring->length));
	CHECK_CALL(munmap(ring->entries, ring->entries_length));
	close(ring->descriptor);
}

static inline void ring_register(struct ring *ring, void *memory, size_t length)
{
	struct iovec buffer = { memory, length };
	if (syscall(SYS_io_uring_register, ring->descriptor, IORING_REGISTER_BUFFERS, &buffer, 1) < 0)
		check_skip("io_uring registers no buffer here: %s", strerror(errno));
}

/* One READ_FIXED or WRITE_FIXED of a registered buffer, to its end. */
static inline void ring_transfer(struct ring *ring, uint8_t opcode, int file, void *memory, size_t length,
				 uint16_t buffer)
{
	unsigned tail = *ring->tail;
	unsigned index = tail & *ring->mask;
	ring->entries[index] = (struct io_uring_sqe){
		.opcode = opcode,
		.fd = file,
		.addr = (uintptr_t)memory,
		.len = (uint32_t)length,
		.buf_index = buffer,
	};
	ring->array[index] = index;
	__atomic_store_n(ring->tail, tail + 1, __ATOMIC_RELEASE);
	CHECK_EQUAL(syscall(SYS_io_uring_enter, ring->descriptor, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0), 1);
	unsigned head = *ring->done_head;
	CHECK(head != __atomic_load_n(ring->done_tail, __ATOMIC_ACQUIRE));
	CHECK_EQUAL(ring->done[head & *ring->done_mask].res, length);
	__atomic_store_n(ring->done_head, head + 1, __ATOMIC_RELEASE);
}

/* A separate file that holds a pattern, opened once more with `flags`. */
static inline int file_of_pattern(size_t length, uint64_t seed, int flags)
{
	/* On a disk, as memory has no O_DIRECT everywhere. */
	char name[] = "/var/tmp/verbena-pinned-XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0);
	uint8_t *content = private_pages(length);
	pattern_fill(content, length, seed);
	for (size_t done = 0; done < length;) {
		ssize_t wrote = write(file, content + done, length - done);
		CHECK(wrote > 0);
		done += (size_t)wrote;
	}
	CHECK_CALL(fsync(file));
	CHECK_CALL(munmap(content, length));
	close(file);
	file = open(name, O_RDONLY | flags);
	int error = errno;
	unlink(name);
	if (file < 0)
		check_skip("no file system here opens with flags %#x: %s", (unsigned)flags, strerror(error));
	return file;
}

#endif
