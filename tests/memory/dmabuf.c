/* dma-bufs as memory regions: peers write, read, send and do atomics from and into a buffer, whose bytes are compared
 * through a mapping of the program's own. The buffers are those of udmabuf, or of the virtual graphics device vgem.
 * Where a kernel has neither, a memfd stands in, which the program's own fstatfs(2) reports as a dma-buf: all but the
 * kernel's part is the same. VERBENA_TEST_DMABUF names the kind that must be available.
 *
 * Sources: ibv_reg_dmabuf_mr(3); Linux, UVERBS_METHOD_REG_DMABUF_MR and ib_umem_dmabuf_get; dma-buf.rst. */

#include <errno.h>
#include <linux/magic.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "../contract/contract.h"
#include "../common/rdma_core.h"

#define LENGTH MEBIBYTE
#define IOVA UINT64_C(0x7123456000)
#define SECRET 77

/* drm/drm.h and drm/drm_mode.h, which not every system has. */
struct drm_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};
struct drm_mode_create_dumb {
	uint32_t height, width, bpp, flags, handle, pitch;
	uint64_t size;
};
struct drm_prime_handle {
	uint32_t handle, flags;
	int32_t fd;
};
#define DRM_IOCTL_VERSION _IOWR('d', 0x00, struct drm_version)
#define DRM_IOCTL_PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, struct drm_prime_handle)
#define DRM_IOCTL_MODE_CREATE_DUMB _IOWR('d', 0xb2, struct drm_mode_create_dumb)

static struct stat stand_ins[16];
static unsigned stand_in_count;

/* In place of the C library's, for the adapter too: stand-ins are dma-bufs. */
int fstatfs(int fd, struct statfs *found)
{
	struct stat file;
	int answer = (int)syscall(SYS_fstatfs, fd, found);
	if (answer == 0 && fstat(fd, &file) == 0)
		for (unsigned number = 0; number < stand_in_count; number++)
			if (stand_ins[number].st_ino == file.st_ino && stand_ins[number].st_dev == file.st_dev)
				found->f_type = DMA_BUF_MAGIC;
	return answer;
}

/* A dma-buf, and where this program sees its bytes. */
struct buffer {
	int fd;
	uint8_t *view;
};

static int memory_file(size_t length)
{
	int file = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	CHECK(file >= 0);
	CHECK_CALL(ftruncate(file, (off_t)length));
	CHECK_CALL(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK));
	return file;
}

static uint8_t *view_of(int fd, size_t length)
{
	uint8_t *view = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(view != MAP_FAILED);
	return view;
}

/* Seen through the memfd that the buffer is made of. */
static bool from_udmabuf(struct buffer *buffer, size_t length)
{
	int device = open("/dev/udmabuf", O_RDWR);
	if (device < 0)
		return false;
	int file = memory_file(length);
	struct udmabuf_create create = { .memfd = (unsigned)file, .flags = UDMABUF_FLAGS_CLOEXEC, .size = length };
	buffer->fd = ioctl(device, UDMABUF_CREATE, &create);
	CHECK(buffer->fd >= 0);
	buffer->view = view_of(file, length);
	close(file);
	close(device);
	return true;
}

static bool from_vgem(struct buffer *buffer, size_t length)
{
	int device = open("/dev/dri/card0", O_RDWR);
	char name[16] = "";
	struct drm_version version = { .name = name, .name_len = sizeof name - 1 };
	if (device < 0 || ioctl(device, DRM_IOCTL_VERSION, &version) != 0 || strcmp(name, "vgem") != 0)
		return false;
	struct drm_mode_create_dumb create = { .width = (uint32_t)PAGE / 4, .height = (uint32_t)(length / PAGE), .bpp = 32 };
	CHECK_CALL(ioctl(device, DRM_IOCTL_MODE_CREATE_DUMB, &create));
	CHECK_EQUAL(create.size, length);
	struct drm_prime_handle export = { .handle = create.handle, .flags = O_CLOEXEC | O_RDWR };
	CHECK_CALL(ioctl(device, DRM_IOCTL_PRIME_HANDLE_TO_FD, &export));
	buffer->fd = export.fd;
	buffer->view = view_of(export.fd, length);
	close(device);
	return true;
}

static void stand_in(int fd)
{
	CHECK(stand_in_count < sizeof stand_ins / sizeof *stand_ins);
	CHECK_CALL(fstat(fd, &stand_ins[stand_in_count++]));
}

static bool from_memfd(struct buffer *buffer, size_t length)
{
	buffer->fd = memory_file(length);
	buffer->view = view_of(buffer->fd, length);
	stand_in(buffer->fd);
	return true;
}

static struct buffer buffer_make(size_t length)
{
	static const struct {
		const char *name;
		bool (*make)(struct buffer *, size_t);
	} kinds[] = { { "udmabuf", from_udmabuf }, { "vgem", from_vgem }, { "stand-in", from_memfd } };
	const char *wanted = getenv("VERBENA_TEST_DMABUF");
	static bool told;
	struct buffer buffer;
	for (unsigned kind = 0; kind < 3; kind++) {
		if ((wanted != NULL && strcmp(wanted, kinds[kind].name) != 0) || !kinds[kind].make(&buffer, length))
			continue;
		if (!told)
			printf("dma-bufs: %s\n", kinds[kind].name);
		told = true;
		struct statfs system;
		CHECK_CALL(fstatfs(buffer.fd, &system));
		CHECK_EQUAL(system.f_type, DMA_BUF_MAGIC);
		return buffer;
	}
	check_skip("no %s here", wanted);
}

static void buffer_free(struct buffer *buffer, size_t length)
{
	CHECK_CALL(munmap(buffer->view, length));
	close(buffer->fd);
}

/* The peer's next operation on a region of ours, or a message. */
struct command {
	char what;
	uint32_t length;
	uint64_t address;
	uint32_t rkey;
	uint64_t seed;
};

static void serve(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(LENGTH);
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	struct window window = region_window(mr);
	peer_connect(parent, &endpoint);
	peer_tell(parent, &window, sizeof window);
	for (;;) {
		struct command todo;
		peer_hear(parent, &todo, sizeof todo);
		struct piece piece = piece_of(mr, 0, todo.length);
		uint32_t status = IBV_WC_SUCCESS;
		if (todo.what == 'e')
			break;
		if (todo.what == 'r' || todo.what == 'g')
			memset(memory, 0, todo.length);
		if (todo.what == 'w' || todo.what == 's')
			pattern_fill(memory, todo.length, todo.seed);
		if (todo.what == 'r')
			post_read(&endpoint, 1, piece, todo.address, todo.rkey);
		else if (todo.what == 'w')
			post_write(&endpoint, 1, piece, todo.address, todo.rkey);
		else if (todo.what == 'a')
			post_fetch_add(&endpoint, 1, piece_of(mr, 0, 8), todo.address, todo.rkey, todo.seed);
		else if (todo.what == 'c')
			post_compare_swap(&endpoint, 1, piece_of(mr, 0, 8), todo.address, todo.rkey, 0, todo.seed);
		else if (todo.what == 's')
			post_send(&endpoint, 1, piece);
		else if (todo.what == 'g')
			post_receive(&endpoint, 1, piece);
		if (todo.what == 'g')
			peer_tell(parent, "p", 1);
		if (todo.what != 'f' && todo.what != 'v')
			status = completion_within(&endpoint, 30 * SECOND).status;
		if ((todo.what == 'r' || todo.what == 'g') && status == IBV_WC_SUCCESS)
			pattern_check(memory, todo.length, todo.seed);
		if (todo.what == 'f')
			pattern_fill(memory, todo.length, todo.seed);
		if (todo.what == 'v')
			pattern_check(memory, todo.length, todo.seed);
		peer_tell(parent, &status, sizeof status);
		if (todo.what == 'a' || todo.what == 'c')
			peer_tell(parent, memory, 8);
	}
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

struct bench {
	struct peer peer;
	struct endpoint endpoint;
	struct window window; /* of the peer */
	struct buffer buffer;
};

static struct bench bench_open(void)
{
	hang_after(120);
	struct bench bench = { .peer = peer_start(serve) };
	bench.endpoint = endpoint_open(endpoint_defaults());
	peer_connect(&bench.peer, &bench.endpoint);
	peer_hear(&bench.peer, &bench.window, sizeof bench.window);
	bench.buffer = buffer_make(LENGTH);
	return bench;
}

static void bench_close(struct bench *bench)
{
	struct command todo = { .what = 'e' };
	peer_tell(&bench->peer, &todo, sizeof todo);
	peer_end(&bench->peer);
	buffer_free(&bench->buffer, LENGTH);
	endpoint_close(&bench->endpoint);
}

static uint32_t heard(struct bench *bench)
{
	uint32_t status;
	peer_hear(&bench->peer, &status, sizeof status);
	return status;
}

static uint32_t told(struct bench *bench, char what, struct ibv_mr *mr, uint64_t address, uint32_t length, uint64_t seed)
{
	struct command todo = { what, length, address, mr ? mr->rkey : 0, seed };
	peer_tell(&bench->peer, &todo, sizeof todo);
	return heard(bench);
}

static struct ibv_mr *registered(struct bench *bench, uint64_t offset, size_t length, uint64_t iova)
{
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(bench->endpoint.pd, offset, length, iova, bench->buffer.fd, ALL_ACCESS);
	CHECK_POINTER(mr);
	CHECK_EQUAL(mr->length, length);
	CHECK_EQUAL((uintptr_t)mr->addr, offset);
	return mr;
}

/* The peer writes and reads all of a region, and bytes beside it stay. */
static void part(struct bench *bench, uint64_t offset, uint32_t length, uint64_t iova, uint64_t seed)
{
	uint8_t *view = bench->buffer.view;
	pattern_fill(view, LENGTH, SECRET);
	struct ibv_mr *mr = registered(bench, offset, length, iova);
	pattern_fill(view + offset, length, seed);
	CHECK_EQUAL(told(bench, 'r', mr, iova, length, seed), IBV_WC_SUCCESS);
	CHECK_EQUAL(told(bench, 'w', mr, iova, length, seed + 1), IBV_WC_SUCCESS);
	pattern_check(view + offset, length, seed + 1);
	CHECK_EQUAL(told(bench, 'r', mr, iova, length, seed + 1), IBV_WC_SUCCESS);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_check(view + offset, length, seed + 1);
	for (uint64_t at = 0; at < LENGTH; at++)
		if (at < offset || at >= offset + length)
			CHECK_EQUAL(view[at], pattern(SECRET, at));
}

static void a_peer_writes_and_reads(void)
{
	struct bench bench = bench_open();
	part(&bench, 0, LENGTH, IOVA, 1);
	part(&bench, 0, LENGTH, 0, 3);
	bench_close(&bench);
}

static void parts_at_offsets(void)
{
	struct bench bench = bench_open();
	part(&bench, PAGE, LENGTH - PAGE, IOVA, 1);
	part(&bench, 3 * PAGE + 100, 50000, IOVA + 100, 3);
	part(&bench, 1, 1, PAGE + 1, 5);
	part(&bench, LENGTH - 7, 7, IOVA + PAGE - 7, 7);
	part(&bench, PAGE - 1, 2, PAGE - 1, 9);
	bench_close(&bench);
}

static void atomics_at_a_buffer(void)
{
	struct bench bench = bench_open();
	uint64_t *word = (uint64_t *)(bench.buffer.view + 2 * PAGE + 8), found;
	*word = 5;
	struct ibv_mr *mr = registered(&bench, PAGE, LENGTH - PAGE, IOVA);
	CHECK_EQUAL(told(&bench, 'a', mr, IOVA + PAGE + 8, 8, 37), IBV_WC_SUCCESS);
	peer_hear(&bench.peer, &found, sizeof found);
	CHECK_EQUAL(found, 5);
	CHECK_EQUAL(*word, 42);
	CHECK_EQUAL(told(&bench, 'c', mr, IOVA + PAGE + 8, 8, 9), IBV_WC_SUCCESS);
	peer_hear(&bench.peer, &found, sizeof found);
	CHECK_EQUAL(found, 42);
	CHECK_EQUAL(*word, 42);
	*word = 0;
	CHECK_EQUAL(told(&bench, 'c', mr, IOVA + PAGE + 8, 8, 9), IBV_WC_SUCCESS);
	peer_hear(&bench.peer, &found, sizeof found);
	CHECK_EQUAL(found, 0);
	CHECK_EQUAL(*word, 9);
	CHECK_CALL(ibv_dereg_mr(mr));
	bench_close(&bench);
}

/* A piece of a region by the address that it was registered under. */
static struct piece named(const struct ibv_mr *mr, uint64_t iova, uint32_t length)
{
	return (struct piece){ (const void *)(uintptr_t)iova, length, mr->lkey };
}

static void messages_from_and_into_a_buffer(void)
{
	static const uint32_t lengths[] = { 1, 100, 4096, 10001, 200000, LENGTH - PAGE };
	struct bench bench = bench_open();
	uint8_t *view = bench.buffer.view + PAGE;
	struct ibv_mr *mr = registered(&bench, PAGE, LENGTH - PAGE, IOVA);
	for (unsigned number = 0; number < sizeof lengths / sizeof *lengths; number++) {
		uint32_t length = lengths[number];
		post_receive(&bench.endpoint, 1, named(mr, IOVA, length));
		CHECK_EQUAL(told(&bench, 's', NULL, 0, length, number), IBV_WC_SUCCESS);
		expect(&bench.endpoint, 1, IBV_WC_SUCCESS);
		pattern_check(view, length, number);

		pattern_fill(view, length, number + 100);
		struct command todo = { .what = 'g', .length = length, .seed = number + 100 };
		peer_tell(&bench.peer, &todo, sizeof todo);
		char posted;
		peer_hear(&bench.peer, &posted, 1);
		post_send(&bench.endpoint, 2, named(mr, IOVA, length));
		expect(&bench.endpoint, 2, IBV_WC_SUCCESS);
		CHECK_EQUAL(heard(&bench), IBV_WC_SUCCESS);
	}
	CHECK_CALL(ibv_dereg_mr(mr));
	bench_close(&bench);
}

static void requests_from_and_into_a_buffer(void)
{
	struct bench bench = bench_open();
	uint8_t *view = bench.buffer.view;
	struct ibv_mr *mr = registered(&bench, 0, LENGTH, IOVA);
	uint32_t length;
	for (length = 8; length <= LENGTH; length *= 8) {
		pattern_fill(view, length, length);
		post_write(&bench.endpoint, 1, named(mr, IOVA, length), bench.window.address, bench.window.rkey);
		expect(&bench.endpoint, 1, IBV_WC_SUCCESS);
		CHECK_EQUAL(told(&bench, 'v', NULL, 0, length, length), IBV_WC_SUCCESS);
		CHECK_EQUAL(told(&bench, 'f', NULL, 0, length, length + 1), IBV_WC_SUCCESS);
		post_read(&bench.endpoint, 2, named(mr, IOVA, length), bench.window.address, bench.window.rkey);
		expect(&bench.endpoint, 2, IBV_WC_SUCCESS);
		pattern_check(view, length, length + 1);
	}
	/* The peer's first word. */
	post_fetch_add(&bench.endpoint, 3, named(mr, IOVA + PAGE, 8), bench.window.address, bench.window.rkey, 1);
	expect(&bench.endpoint, 3, IBV_WC_SUCCESS);
	pattern_check(view + PAGE, 8, length / 8 + 1);
	CHECK_CALL(ibv_dereg_mr(mr));
	bench_close(&bench);
}

/* Two regions of one buffer, in one process. */
static void a_process_alone(void)
{
	hang_after(60);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	endpoint_connect(&endpoint, endpoint_address(&endpoint));
	struct buffer buffer = buffer_make(LENGTH);
	size_t half = LENGTH / 2;
	struct ibv_mr *low = ibv_reg_dmabuf_mr(endpoint.pd, 0, half, 0, buffer.fd, ALL_ACCESS);
	struct ibv_mr *high = ibv_reg_dmabuf_mr(endpoint.pd, half, half, IOVA, buffer.fd, ALL_ACCESS);
	CHECK_POINTER(low);
	CHECK_POINTER(high);
	pattern_fill(buffer.view, half, 1);
	post_write(&endpoint, 1, named(low, 0, (uint32_t)half), IOVA, high->rkey);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	pattern_check(buffer.view + half, half, 1);
	pattern_fill(buffer.view + half, half, 2);
	post_read(&endpoint, 2, named(low, 0, (uint32_t)half), IOVA, high->rkey);
	expect(&endpoint, 2, IBV_WC_SUCCESS);
	pattern_check(buffer.view, half, 2);
	uint64_t *words = (uint64_t *)buffer.view;
	words[half / 8] = 40;
	post_fetch_add(&endpoint, 3, named(low, 8, 8), IOVA, high->rkey, 2);
	expect(&endpoint, 3, IBV_WC_SUCCESS);
	CHECK_EQUAL(words[1], 40);
	CHECK_EQUAL(words[half / 8], 42);
	CHECK_CALL(ibv_dereg_mr(low));
	CHECK_CALL(ibv_dereg_mr(high));
	buffer_free(&buffer, LENGTH);
	endpoint_close(&endpoint);
}

/* The region keeps the buffer after the program has closed its descriptor. */
static void the_descriptor_is_closed_after_registration(void)
{
	struct bench bench = bench_open();
	struct ibv_mr *mr = registered(&bench, 0, LENGTH, IOVA);
	close(bench.buffer.fd);
	bench.buffer.fd = open("/dev/null", O_RDONLY);
	CHECK_EQUAL(told(&bench, 'w', mr, IOVA, LENGTH, 1), IBV_WC_SUCCESS);
	pattern_check(bench.buffer.view, LENGTH, 1);
	CHECK_EQUAL(told(&bench, 'r', mr, IOVA, LENGTH, 1), IBV_WC_SUCCESS);
	CHECK_CALL(ibv_dereg_mr(mr));
	bench_close(&bench);
}

/* Mappings of buffers and of the memory behind them. */
static unsigned mappings(void)
{
	char line[1024];
	unsigned count = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK_POINTER(maps);
	while (fgets(line, sizeof line, maps) != NULL)
		count += strstr(line, "dmabuf:") != NULL || strstr(line, ":dmabuf") != NULL;
	fclose(maps);
	return count;
}

static void registered_again_and_again(void)
{
	struct bench bench = bench_open();
	unsigned before = mappings();
	CHECK(before > 0);
	for (uint64_t round = 0; round < 200; round++) {
		struct ibv_mr *mr = registered(&bench, PAGE, 8 * PAGE, IOVA);
		CHECK_EQUAL(told(&bench, 'w', mr, IOVA, 8 * PAGE, round), IBV_WC_SUCCESS);
		pattern_check(bench.buffer.view + PAGE, 8 * PAGE, round);
		CHECK_CALL(ibv_dereg_mr(mr));
	}
	CHECK_EQUAL(mappings(), before);
	bench_close(&bench);
}

static void a_deregistered_buffer_is_out_of_reach(void)
{
	struct bench bench = bench_open();
	pattern_fill(bench.buffer.view, LENGTH, SECRET);
	struct ibv_mr *mr = registered(&bench, 0, LENGTH, IOVA), old = *mr;
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK_EQUAL(told(&bench, 'w', &old, IOVA, 8, 1), IBV_WC_REM_ACCESS_ERR);
	pattern_check(bench.buffer.view, LENGTH, SECRET);
	bench_close(&bench);
}

static void bounds_and_rights_are_kept(void)
{
	struct bench bench = bench_open();
	pattern_fill(bench.buffer.view, LENGTH, SECRET);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(bench.endpoint.pd, PAGE, PAGE, IOVA, bench.buffer.fd, IBV_ACCESS_REMOTE_READ);
	CHECK_POINTER(mr);
	CHECK_EQUAL(told(&bench, 'w', mr, IOVA, 8, 1), IBV_WC_REM_ACCESS_ERR);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_check(bench.buffer.view, LENGTH, SECRET);
	bench_close(&bench);

	bench = bench_open();
	pattern_fill(bench.buffer.view, LENGTH, SECRET);
	mr = registered(&bench, PAGE, PAGE, IOVA);
	CHECK_EQUAL(told(&bench, 'w', mr, IOVA + 1, (uint32_t)PAGE, 1), IBV_WC_REM_ACCESS_ERR);
	CHECK_CALL(ibv_dereg_mr(mr));
	pattern_check(bench.buffer.view, LENGTH, SECRET);
	bench_close(&bench);
}

/* A child has the program's own mapping and not the adapter's; its use of the region harms no other process. */
static void forks(void)
{
	struct bench bench = bench_open();
	struct ibv_mr *mr = registered(&bench, 0, LENGTH, IOVA);
	pid_t child = fork();
	if (child == 0) {
		uint8_t *memory = private_pages(4 * LENGTH);
		pattern_fill(memory, 4 * LENGTH, 3);
		(void)ibv_dereg_mr(mr);
		pattern_check(memory, 4 * LENGTH, 3);
		_exit(0);
	}
	int status;
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK_EQUAL(told(&bench, 'w', mr, IOVA, LENGTH, 1), IBV_WC_SUCCESS);
	pattern_check(bench.buffer.view, LENGTH, 1);
	CHECK_CALL(ibv_dereg_mr(mr));
	bench_close(&bench);
}

static void refused(struct ibv_mr *mr, int error)
{
	CHECK(mr == NULL);
	CHECK_EQUAL(errno, error);
}

static void wrong_arguments_are_refused(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_pd *pd = endpoint.pd;
	struct buffer buffer = buffer_make(LENGTH);
	int fd = buffer.fd, local = IBV_ACCESS_LOCAL_WRITE;
	refused(ibv_reg_dmabuf_mr(pd, 0, LENGTH + 1, 0, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, PAGE, LENGTH, 0, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, LENGTH, PAGE, 0, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, UINT64_MAX - PAGE + 1, PAGE, 0, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, 0, 0, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 8, 8, 0, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, 8, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, UINT64_MAX - PAGE + 1, fd, local), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, local | IBV_ACCESS_MW_BIND), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, local | IBV_ACCESS_ZERO_BASED), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, local | IBV_ACCESS_ON_DEMAND), EINVAL);
	refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, local | 1 << 19), EINVAL);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, local | IBV_ACCESS_RELAXED_ORDERING);
	CHECK_POINTER(mr);
	CHECK_EQUAL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	CHECK_EQUAL(errno, EOPNOTSUPP);
	CHECK_CALL(ibv_dereg_mr(mr));
	buffer_free(&buffer, LENGTH);
	endpoint_close(&endpoint);
}

static void other_descriptors_are_refused(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	int file = memory_file(LENGTH), pipes[2], sockets[2];
	CHECK_CALL(pipe(pipes));
	CHECK_CALL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	int others[] = { file, pipes[0], sockets[0], open("/dev/null", O_RDWR), open("/", O_RDONLY) };
	for (unsigned number = 0; number < sizeof others / sizeof *others; number++) {
		refused(ibv_reg_dmabuf_mr(endpoint.pd, 0, PAGE, 0, others[number], IBV_ACCESS_LOCAL_WRITE), EINVAL);
		close(others[number]);
		refused(ibv_reg_dmabuf_mr(endpoint.pd, 0, PAGE, 0, others[number], IBV_ACCESS_LOCAL_WRITE), EBADF);
	}
	refused(ibv_reg_dmabuf_mr(endpoint.pd, 0, PAGE, 0, -1, IBV_ACCESS_LOCAL_WRITE), EBADF);
	endpoint_close(&endpoint);
}

/* By stand-ins: udmabuf makes no such descriptors. */
static void a_descriptor_for_reading_allows_no_writes(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	endpoint_connect(&endpoint, endpoint_address(&endpoint));
	struct buffer buffer;
	char name[64];
	CHECK(from_memfd(&buffer, LENGTH));
	snprintf(name, sizeof name, "/proc/self/fd/%d", buffer.fd);
	int fd = open(name, O_RDONLY);
	CHECK(fd >= 0);
	refused(ibv_reg_dmabuf_mr(endpoint.pd, 0, LENGTH, IOVA, fd, IBV_ACCESS_LOCAL_WRITE), EACCES);
	struct ibv_mr *source = ibv_reg_dmabuf_mr(endpoint.pd, 0, LENGTH, IOVA, fd, IBV_ACCESS_REMOTE_READ);
	CHECK_POINTER(source);
	uint8_t *memory = private_pages(LENGTH);
	struct ibv_mr *target = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	pattern_fill(buffer.view, LENGTH, 1);
	post_read(&endpoint, 1, piece_of(target, 0, LENGTH), IOVA, source->rkey);
	expect(&endpoint, 1, IBV_WC_SUCCESS);
	pattern_check(memory, LENGTH, 1);
	CHECK_CALL(ibv_dereg_mr(source));
	CHECK_CALL(ibv_dereg_mr(target));
	close(fd);
	buffer_free(&buffer, LENGTH);
	endpoint_close(&endpoint);
}

/* A file of sysfs stands in for the buffer of a GPU: it has a length, and mmap(2) refuses it. */
static void a_buffer_that_cannot_be_mapped_is_refused(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	int fd = open("/sys/devices/system/cpu/online", O_RDONLY);
	if (fd < 0)
		check_skip("no sysfs here: %s", strerror(errno));
	stand_in(fd);
	refused(ibv_reg_dmabuf_mr(endpoint.pd, 0, 1, 0, fd, IBV_ACCESS_REMOTE_READ), EOPNOTSUPP);
	close(fd);
	endpoint_close(&endpoint);
}

/* `struct ibv_mr_init_attr` of rdma-core 59 and later. */
struct region_attributes {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};

static void by_the_extended_call(void)
{
	struct ibv_mr *(*ibv_reg_mr_ex)(struct ibv_pd *, struct region_attributes *) =
		(struct ibv_mr *(*)(struct ibv_pd *, struct region_attributes *))newer_call("ibv_reg_mr_ex", "IBVERBS_1.15");
	struct bench bench = bench_open();
	struct region_attributes asked = { .length = LENGTH - PAGE, .access = ALL_ACCESS, .comp_mask = 1 | 4 | 8,
					   .iova = IOVA, .fd = bench.buffer.fd, .fd_offset = PAGE };
	struct ibv_mr *mr = ibv_reg_mr_ex(bench.endpoint.pd, &asked);
	CHECK_POINTER(mr);
	CHECK_EQUAL(told(&bench, 'w', mr, IOVA, LENGTH - PAGE, 1), IBV_WC_SUCCESS);
	pattern_check(bench.buffer.view + PAGE, LENGTH - PAGE, 1);
	CHECK_CALL(ibv_dereg_mr(mr));
	for (uint64_t mask = 4; mask < 16; mask++)
		if (mask != (1 | 4 | 8)) {
			asked.comp_mask = mask;
			asked.addr = bench.buffer.view;
			refused(ibv_reg_mr_ex(bench.endpoint.pd, &asked), EINVAL);
		}
	bench_close(&bench);
}

const struct test tests[] = {
	{ "a_peer_writes_and_reads", a_peer_writes_and_reads },
	{ "parts_at_offsets", parts_at_offsets },
	{ "atomics_at_a_buffer", atomics_at_a_buffer },
	{ "messages_from_and_into_a_buffer", messages_from_and_into_a_buffer },
	{ "requests_from_and_into_a_buffer", requests_from_and_into_a_buffer },
	{ "a_process_alone", a_process_alone },
	{ "the_descriptor_is_closed_after_registration", the_descriptor_is_closed_after_registration },
	{ "registered_again_and_again", registered_again_and_again },
	{ "a_deregistered_buffer_is_out_of_reach", a_deregistered_buffer_is_out_of_reach },
	{ "bounds_and_rights_are_kept", bounds_and_rights_are_kept },
	{ "forks", forks },
	{ "wrong_arguments_are_refused", wrong_arguments_are_refused },
	{ "other_descriptors_are_refused", other_descriptors_are_refused },
	{ "a_descriptor_for_reading_allows_no_writes", a_descriptor_for_reading_allows_no_writes },
	{ "a_buffer_that_cannot_be_mapped_is_refused", a_buffer_that_cannot_be_mapped_is_refused },
	{ "by_the_extended_call", by_the_extended_call },
	{ 0 },
};
