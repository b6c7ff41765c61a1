/* Buffers that the library allocates (ibv_alloc_buf(3), rdma-core 63 and later): ordinary memory of whole pages, which can be
 * registered whole and in parts, in the protection domain that it was allocated in. Older
 * headers lack the calls, so they are looked up by name. */

#include "contract.h"
#include "rdma_core.h"

struct ibv_buf;
/* struct ibv_mr_init_attr of rdma-core 65. */
struct region_attributes {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};
enum { WITH_IOVA = 1, WITH_ADDRESS = 2, WITH_FD = 4, WITH_FD_OFFSET = 8, WITH_DMAH = 16, WITH_BUFFER = 32 };
enum { ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2 };

static void *(*alloc_buf)(struct ibv_pd *, size_t, struct ibv_buf **);
static void (*free_buf)(struct ibv_buf *);
static struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, struct ibv_buf *, void *, size_t, int);
static int (*export_buf_dmabuf_fd)(struct ibv_buf *);
static struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct region_attributes *);

static void find_the_calls(void)
{
	CHECK_POINTER(alloc_buf = newer_call("ibv_alloc_buf", "IBVERBS_1.17"));
	CHECK_POINTER(free_buf = newer_call("ibv_free_buf", "IBVERBS_1.17"));
	CHECK_POINTER(reg_buf_mr = newer_call("ibv_reg_buf_mr", "IBVERBS_1.17"));
	CHECK_POINTER(export_buf_dmabuf_fd = newer_call("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18"));
	CHECK_POINTER(reg_mr_ex = newer_call("ibv_reg_mr_ex", "IBVERBS_1.15"));
}

static void part(struct endpoint *endpoint, struct ibv_buf *buffer, uint8_t *memory, size_t length, int error)
{
	struct region_attributes asked = { .length = length, .access = ALL_ACCESS, .comp_mask = WITH_BUFFER | WITH_ADDRESS,
					   .addr = memory, .buf = buffer };
	for (int way = 0; way < 2; way++) {
		errno = 0;
		struct ibv_mr *mr = way ? reg_mr_ex(endpoint->pd, &asked)
					: reg_buf_mr(endpoint->pd, buffer, memory, length, ALL_ACCESS);
		CHECK_EQUAL(mr == NULL, error != 0);
		CHECK_EQUAL(mr ? 0 : errno, error);
		if (mr) {
			CHECK(mr->addr == memory && mr->length == length);
			CHECK_CALL(ibv_dereg_mr(mr));
		}
	}
}

static void parts_of_a_buffer_are_registered(void)
{
	find_the_calls();
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_buf *buffer = NULL;
	const size_t size = 3 * PAGE + 100;
	uint8_t *memory = alloc_buf(endpoint.pd, size, &buffer);
	CHECK_POINTER(memory);
	CHECK_POINTER(buffer);
	CHECK_EQUAL((uintptr_t)memory % PAGE, 0);
	memset(memory, 0x5a, size);
	part(&endpoint, buffer, memory, size, 0);
	part(&endpoint, buffer, memory + PAGE, PAGE, 0);
	part(&endpoint, buffer, memory + 7, size - 7, 0);
	part(&endpoint, buffer, memory, size + 1, EINVAL);
	part(&endpoint, buffer, memory + size, 1, EINVAL);
	part(&endpoint, buffer, memory + 7, size - 6, EINVAL);
	part(&endpoint, buffer, memory - 1, 1, EINVAL);
	part(&endpoint, buffer, memory + 1, SIZE_MAX, EINVAL);
	part(&endpoint, NULL, memory, size, EINVAL);
	struct ibv_pd *elsewhere = ibv_alloc_pd(endpoint.context);
	CHECK_POINTER(elsewhere);
	errno = 0;
	CHECK(!reg_buf_mr(elsewhere, buffer, memory, PAGE, ALL_ACCESS));
	CHECK_EQUAL(errno, EINVAL);
	CHECK_CALL(ibv_dealloc_pd(elsewhere));
	for (size_t byte = 0; byte < size; byte++)
		CHECK_EQUAL(memory[byte], 0x5a);
	free_buf(buffer);
	endpoint_close(&endpoint);
}

static void the_structure_with_a_buffer_is_checked(void)
{
	find_the_calls();
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_buf *buffer;
	uint8_t *memory = alloc_buf(endpoint.pd, PAGE, &buffer);
	CHECK_POINTER(memory);
	static const struct { uint64_t mask; int error; } masks[] = {
		{ WITH_BUFFER, EINVAL },
		{ WITH_BUFFER | WITH_ADDRESS | WITH_FD, EINVAL },
		{ WITH_BUFFER | WITH_ADDRESS | WITH_FD_OFFSET, EINVAL },
		{ WITH_BUFFER | WITH_ADDRESS | WITH_DMAH, EOPNOTSUPP },
		{ WITH_BUFFER | WITH_ADDRESS | WITH_IOVA, 0 },
	};
	for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
		struct region_attributes asked = { .length = PAGE, .access = ALL_ACCESS, .comp_mask = masks[i].mask,
						   .iova = UINT64_C(1) << 40, .addr = memory, .buf = buffer };
		errno = 0;
		struct ibv_mr *mr = reg_mr_ex(endpoint.pd, &asked);
		CHECK_EQUAL(mr ? 0 : errno, masks[i].error);
		if (mr)
			CHECK_CALL(ibv_dereg_mr(mr));
	}
	/* Ordinary memory has no DMA buffer. */
	errno = 0;
	CHECK_EQUAL(export_buf_dmabuf_fd(buffer), -1);
	CHECK_EQUAL(errno, ENODATA);
	free_buf(buffer);
	struct ibv_buf *none = NULL;
	CHECK(!alloc_buf(NULL, PAGE, &none) && errno == EINVAL);
	CHECK(!alloc_buf(endpoint.pd, SIZE_MAX - 1, &none) && errno == ENOMEM);
	CHECK(!alloc_buf(endpoint.pd, PAGE, NULL) && errno == EINVAL);
	CHECK(!none);
	memory = alloc_buf(endpoint.pd, 0, &buffer);
	CHECK_POINTER(memory);
	free_buf(buffer);
	endpoint_close(&endpoint);
}

/* A guest with encrypted memory allocates the memory that a bus can reach in such a domain. */
static void messages_go_through_buffers_of_a_parent_domain(void)
{
	find_the_calls();
	struct pair pair = pair_open(endpoint_defaults());
	struct ibv_parent_domain_init_attr attributes = { .pd = pair.one.pd, .comp_mask = ALLOW_CC_UNPROTECTED_ALLOC };
	struct ibv_pd *parent = ibv_alloc_parent_domain(pair.one.context, &attributes);
	CHECK_POINTER(parent);
	struct ibv_buf *buffer;
	uint8_t *memory = alloc_buf(parent, 2 * PAGE, &buffer);
	CHECK_POINTER(memory);
	memset(memory, 0x11, PAGE);
	memset(memory + PAGE, 0x22, PAGE);
	struct ibv_mr *from = reg_buf_mr(parent, buffer, memory, PAGE, ALL_ACCESS);
	CHECK_POINTER(from);
	uint8_t *target = private_pages(PAGE);
	struct ibv_mr *to = region(&pair.other, target, PAGE, ALL_ACCESS);
	post_write(&pair.one, 1, piece_of(from, 0, PAGE), (uintptr_t)target, to->rkey);
	expect(&pair.one, 1, IBV_WC_SUCCESS);
	for (size_t byte = 0; byte < PAGE; byte++)
		CHECK_EQUAL(target[byte], 0x11);
	CHECK_CALL(ibv_dereg_mr(from));
	free_buf(buffer);
	CHECK_CALL(ibv_dealloc_pd(parent));
	CHECK_CALL(ibv_dereg_mr(to));
	CHECK_CALL(munmap(target, PAGE));
	pair_close(&pair);
}

const struct test tests[] = {
	{ "parts_of_a_buffer_are_registered", parts_of_a_buffer_are_registered },
	{ "the_structure_with_a_buffer_is_checked", the_structure_with_a_buffer_is_checked },
	{ "messages_go_through_buffers_of_a_parent_domain", messages_go_through_buffers_of_a_parent_domain },
	{ 0 },
};
