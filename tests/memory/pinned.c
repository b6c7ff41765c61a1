/* Registered memory that another interface uses by its pages: io_uring, direct I/O, pipes. After ibv_reg_mr(3) the
 * program, the kernel and peers see the same bytes, in any order in which the two begin and end.
 *
 * Sources: ibv_reg_mr(3), which registers memory and does not replace it; io_uring_register(2),
 * IORING_REGISTER_BUFFERS; io_submit(2); open(2), O_DIRECT; vmsplice(2); fork(2). */

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "pinned.h"
#include "watched.h"

#define ROUNDS 12

/* A ring's reads into a buffer arrive there, and its writes have the bytes that a peer has written. */
static void ring_works(struct bench *bench, struct ring *ring, uint8_t *memory, struct ibv_mr *mr, uint64_t seed)
{
	int file = file_of_pattern(LENGTH, seed, 0);
	ring_transfer(ring, IORING_OP_READ_FIXED, file, memory, LENGTH, 0);
	close(file);
	pattern_check(memory, LENGTH, seed);
	if (mr == NULL)
		return;
	peer_sees(bench, mr, seed);
	peer_writes(bench, mr, seed + 1);
	int back = memfd_create("back", 0);
	CHECK(back >= 0);
	ring_transfer(ring, IORING_OP_WRITE_FIXED, back, memory, LENGTH, 0);
	uint8_t *content = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, back, 0);
	CHECK(content != MAP_FAILED);
	pattern_check(content, LENGTH, seed + 1);
	CHECK_CALL(munmap(content, LENGTH));
	close(back);
}

static void a_ring_before_registration(void)
{
	struct bench bench = bench_open();
	struct ring ring = ring_open();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 1, LENGTH);
	ring_register(&ring, memory, LENGTH);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	ring_works(&bench, &ring, memory, mr, 10);
	CHECK_CALL(ibv_dereg_mr(mr));
	ring_works(&bench, &ring, memory, NULL, 20);
	bench_close(&bench);
}

static void a_ring_after_registration(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 1, LENGTH);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	struct ring ring = ring_open();
	ring_register(&ring, memory, LENGTH);
	ring_works(&bench, &ring, memory, mr, 10);
	CHECK_CALL(ibv_dereg_mr(mr));
	ring_works(&bench, &ring, memory, NULL, 20);
	/* Again and again, which must not cost a place for each time. */
	for (unsigned round = 0; round < 20; round++) {
		mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
		ring_works(&bench, &ring, memory, mr, 30 + round);
		CHECK_CALL(ibv_dereg_mr(mr));
	}
	ring_works(&bench, &ring, memory, NULL, 70);
	bench_close(&bench);
}

/* Registering anew for other memory is a deregistration of the first. */
static void a_ring_and_reregistration(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	uint8_t *elsewhere = private_pages(LENGTH);
	memset(memory, 1, LENGTH);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	struct ring ring = ring_open();
	ring_register(&ring, memory, LENGTH);
	CHECK_CALL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, LENGTH, ALL_ACCESS));
	ring_works(&bench, &ring, memory, NULL, 10);
	CHECK_CALL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, LENGTH, ALL_ACCESS));
	ring_works(&bench, &ring, memory, mr, 20);
	bench_close(&bench);
}

/* Pages kept for a ring belong to the process alone once the ring has ended, and are freed when unmapped. */
static void what_a_ring_kept_is_given_back_after_it(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 1, LENGTH);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	struct ring ring = ring_open();
	ring_register(&ring, memory, LENGTH);
	CHECK_CALL(ibv_dereg_mr(mr));
	ring_works(&bench, &ring, memory, NULL, 10);
	CHECK_CALL((int)syscall(SYS_io_uring_register, ring.descriptor, IORING_UNREGISTER_BUFFERS, NULL, 0));
	uint8_t *page = private_pages(PAGE);
	CHECK_CALL(ibv_dereg_mr(region(&bench.endpoint, page, PAGE, ALL_ACCESS)));
	pattern_check(memory, LENGTH, 10);
	CHECK_CALL(madvise(memory, LENGTH, MADV_DONTNEED));
	for (size_t at = 0; at < LENGTH; at++)
		CHECK_EQUAL(memory[at], 0);
	bench_close(&bench);
}

/* A child has its own copies of the kept pages, as of all private memory. */
static void a_child_has_its_own_copy_of_what_is_kept(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	struct ring ring = ring_open();
	ring_register(&ring, memory, LENGTH);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_fill(memory, LENGTH, 5);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pattern_check(memory, LENGTH, 5);
		memset(memory, 0xee, LENGTH);
		_exit(0);
	}
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	pattern_check(memory, LENGTH, 5);
	ring_works(&bench, &ring, memory, NULL, 10);
	bench_close(&bench);
}

/* One direct read that is under way while the memory is registered, and while it is deregistered. */
struct transfer {
	aio_context_t context;
	struct iocb request;
	int file;
	uint8_t *memory;
};

static struct transfer transfer_open(uint8_t *memory, uint64_t seed)
{
	struct transfer transfer = { .file = file_of_pattern(LENGTH, seed, O_DIRECT), .memory = memory };
	if (syscall(SYS_io_setup, 8, &transfer.context) < 0)
		check_skip("no asynchronous I/O here: %s", strerror(errno));
	return transfer;
}

static void transfer_begin(struct transfer *transfer)
{
	transfer->request = (struct iocb){
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t)transfer->file,
		.aio_buf = (uintptr_t)transfer->memory,
		.aio_nbytes = LENGTH,
	};
	struct iocb *all[] = { &transfer->request };
	CHECK_EQUAL(syscall(SYS_io_submit, transfer->context, 1, all), 1);
}

static void transfer_end(struct transfer *transfer)
{
	struct io_event event;
	CHECK_EQUAL(syscall(SYS_io_getevents, transfer->context, 1, 1, &event, NULL), 1);
	CHECK_EQUAL(event.res, LENGTH);
}

static void direct_reads_under_way(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	struct transfer transfer = transfer_open(memory, 7);
	for (unsigned round = 0; round < ROUNDS; round++) {
		memset(memory, 0, LENGTH);
		transfer_begin(&transfer);
		struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
		transfer_end(&transfer);
		pattern_check(memory, LENGTH, 7);
		peer_sees(&bench, mr, 7);
		peer_writes(&bench, mr, 8);
		transfer_begin(&transfer);
		CHECK_CALL(ibv_dereg_mr(mr));
		transfer_end(&transfer);
		pattern_check(memory, LENGTH, 7);
	}
	bench_close(&bench);
}

/* The same where the descriptor is closed as soon as the transfer has begun. */
static void direct_reads_of_a_closed_file(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct transfer transfer = transfer_open(memory, 7);
		memset(memory, 0, LENGTH);
		transfer_begin(&transfer);
		close(transfer.file);
		struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
		transfer_end(&transfer);
		pattern_check(memory, LENGTH, 7);
		CHECK_CALL(ibv_dereg_mr(mr));
		CHECK_CALL((int)syscall(SYS_io_destroy, transfer.context));
	}
	bench_close(&bench);
}

static atomic_uint reads;
static atomic_bool is_over;

/* Reads by read(2), all the time. */
static void *read_on(void *argument)
{
	struct transfer *transfer = argument;
	while (!is_over) {
		memset(transfer->memory, 0, LENGTH);
		CHECK_EQUAL(pread(transfer->file, transfer->memory, LENGTH, 0), LENGTH);
		pattern_check(transfer->memory, LENGTH, 9);
		reads++;
	}
	return NULL;
}

/* A thread reads into memory that another registers and deregisters, a region beginning in the midst of it. */
static void direct_reads_of_another_thread(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	struct transfer transfer = { .file = file_of_pattern(LENGTH, 9, O_DIRECT), .memory = memory };
	pthread_t reader;
	CHECK_CALL(pthread_create(&reader, NULL, read_on, &transfer));
	uint64_t until = now() + 2 * SECOND;
	unsigned rounds = 0;
	for (; now() < until || reads < 4; rounds++) {
		struct ibv_mr *mr = region(&bench.endpoint, memory + LENGTH / 4, LENGTH / 2, ALL_ACCESS);
		CHECK_CALL(ibv_dereg_mr(mr));
	}
	is_over = true;
	CHECK_CALL(pthread_join(reader, NULL));
	CHECK(rounds > 10);
	bench_close(&bench);
}

/* A read from a pipe returns the bytes that a peer wrote last to the memory that was spliced into it. */
static void memory_that_is_in_a_pipe(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 1, LENGTH);
	int ends[2];
	CHECK_CALL(pipe(ends));
	struct iovec part = { memory, 8 * PAGE };
	CHECK_EQUAL(vmsplice(ends[1], &part, 1, 0), 8 * PAGE);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	peer_writes(&bench, mr, 11);
	uint8_t *content = private_pages(8 * PAGE);
	CHECK_EQUAL(read(ends[0], content, 8 * PAGE), 8 * PAGE);
	pattern_check(content, 8 * PAGE, 11);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_check(memory, LENGTH, 11);
	bench_close(&bench);
}

/* Opens a file that may hold pages. */
typedef void holder(void);

static void no_holder(void)
{
}

static void ring_with_a_buffer(void)
{
	uint8_t *elsewhere = private_pages(PAGE);
	*elsewhere = 1;
	struct ring ring = ring_open();
	ring_register(&ring, elsewhere, PAGE);
}

/* A driver that the adapter does not know, as those of GPUs and vfio: a regular file stands in. */
static void device_of_an_unknown_driver(void)
{
	static const char *const stand_ins[] = { "/dev/nvidiactl", "/dev/kfd", "/dev/vfio/vfio", "/dev/dri/renderD128",
						 "/dev/loop-control", "/dev/cpu_dma_latency" };
	for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++)
		if (open(stand_ins[i], O_RDWR | O_CLOEXEC) >= 0)
			return;
	check_skip("no device file of another driver can be opened here");
}

static void socket_of_af_xdp(void)
{
	if (socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0) < 0)
		check_skip("no socket of AF_XDP here: %s", strerror(errno));
}

/* The state of pages by VERBENA_PAGES, in a process with a file that may hold pages; peers reach the pages always. */
static void pages_by(const char *word, holder *open_holder, bool stay)
{
	CHECK_CALL(setenv("VERBENA_PAGES", word, 1));
	struct bench bench = bench_open();
	open_holder();
	uint8_t *memory = private_pages(LENGTH);
	pattern_fill(memory, LENGTH, 4);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	CHECK_EQUAL(is_private_anonymous(memory), stay);
	peer_sees(&bench, mr, 4);
	peer_writes(&bench, mr, 5);
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK(is_private_anonymous(memory));
	pattern_check(memory, LENGTH, 5);
	bench_close(&bench);
}

static void pages_move_where_nothing_holds_them(void)
{
	pages_by("auto", no_holder, false);
}

static void pages_stay_where_a_ring_may_hold_them(void)
{
	pages_by("auto", ring_with_a_buffer, true);
}

static void pages_stay_where_a_device_may_hold_them(void)
{
	pages_by("auto", device_of_an_unknown_driver, true);
}

static void pages_stay_where_a_socket_of_xdp_may_hold_them(void)
{
	pages_by("auto", socket_of_af_xdp, true);
}

static void pages_stay_if_told_so(void)
{
	pages_by("in-place", no_holder, true);
}

static void pages_move_if_told_so(void)
{
	pages_by("shared", ring_with_a_buffer, false);
}

static void an_unknown_word_for_pages_is_refused(void)
{
	CHECK_CALL(setenv("VERBENA_PAGES", "sometimes", 1));
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list == NULL || list[0] == NULL || ibv_open_device(list[0]) == NULL);
}

const struct test tests[] = {
	{ "a_ring_before_registration", a_ring_before_registration },
	{ "a_ring_after_registration", a_ring_after_registration },
	{ "a_ring_and_reregistration", a_ring_and_reregistration },
	{ "what_a_ring_kept_is_given_back_after_it", what_a_ring_kept_is_given_back_after_it },
	{ "a_child_has_its_own_copy_of_what_is_kept", a_child_has_its_own_copy_of_what_is_kept },
	{ "direct_reads_under_way", direct_reads_under_way },
	{ "direct_reads_of_a_closed_file", direct_reads_of_a_closed_file },
	{ "direct_reads_of_another_thread", direct_reads_of_another_thread },
	{ "memory_that_is_in_a_pipe", memory_that_is_in_a_pipe },
	{ "pages_move_where_nothing_holds_them", pages_move_where_nothing_holds_them },
	{ "pages_stay_where_a_ring_may_hold_them", pages_stay_where_a_ring_may_hold_them },
	{ "pages_stay_where_a_device_may_hold_them", pages_stay_where_a_device_may_hold_them },
	{ "pages_stay_where_a_socket_of_xdp_may_hold_them", pages_stay_where_a_socket_of_xdp_may_hold_them },
	{ "pages_stay_if_told_so", pages_stay_if_told_so },
	{ "pages_move_if_told_so", pages_move_if_told_so },
	{ "an_unknown_word_for_pages_is_refused", an_unknown_word_for_pages_is_refused },
	{ 0 },
};
