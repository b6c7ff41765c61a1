/* Memory that the driver of a GPU has pinned while it is registered: the GPU, the program and peers see the same bytes,
 * whichever came first. Needs a GPU of NVIDIA and its driver's libcuda.so.1, which is loaded by name, so that the program
 * compiles everywhere.
 *
 * Sources: the CUDA driver API's reference (cuMemHostRegister, cuMemHostAlloc, cuMemcpyDtoH, cuMemcpyHtoD,
 * cuMemGetHandleForAddressRange); ibv_reg_mr(3), ibv_reg_dmabuf_mr(3). */

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "watched.h"

#define ROUNDS 12

typedef int device;
typedef unsigned long long gpu_address;

/* cuda.h: CU_MEMHOSTALLOC_PORTABLE, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD. */
enum { PORTABLE = 1, DMA_BUF = 1 };

static struct {
	int (*init)(unsigned flags);
	int (*device_get)(device *device, int ordinal);
	int (*retain)(void **context, device device);
	int (*set_current)(void *context);
	int (*allocate)(gpu_address *address, size_t length);
	int (*host_register)(void *memory, size_t length, unsigned flags);
	int (*host_unregister)(void *memory);
	int (*host_allocate)(void **memory, size_t length, unsigned flags);
	int (*host_free)(void *memory);
	int (*to_host)(void *memory, gpu_address address, size_t length);
	int (*to_gpu)(gpu_address address, const void *memory, size_t length);
	int (*handle)(void *handle, gpu_address address, size_t length, int type, unsigned long long flags);
} cuda;

static void *function(void *library, const char *name)
{
	void *address = dlsym(library, name);
	if (address == NULL)
		check_skip("libcuda.so.1 has no %s", name);
	return address;
}

static void gpu_use(void *context)
{
	CHECK_CALL(cuda.set_current(context));
}

/* The primary context of the first GPU, used by this thread. */
static void *gpu_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL)
		check_skip("no GPU's driver here: %s", dlerror());
	*(void **)&cuda.init = function(library, "cuInit");
	*(void **)&cuda.device_get = function(library, "cuDeviceGet");
	*(void **)&cuda.retain = function(library, "cuDevicePrimaryCtxRetain");
	*(void **)&cuda.set_current = function(library, "cuCtxSetCurrent");
	*(void **)&cuda.allocate = function(library, "cuMemAlloc_v2");
	*(void **)&cuda.host_register = function(library, "cuMemHostRegister_v2");
	*(void **)&cuda.host_unregister = function(library, "cuMemHostUnregister");
	*(void **)&cuda.host_allocate = function(library, "cuMemHostAlloc");
	*(void **)&cuda.host_free = function(library, "cuMemFreeHost");
	*(void **)&cuda.to_host = function(library, "cuMemcpyDtoH_v2");
	*(void **)&cuda.to_gpu = function(library, "cuMemcpyHtoD_v2");
	*(void **)&cuda.handle = function(library, "cuMemGetHandleForAddressRange");
	int status = cuda.init(0);
	if (status != 0)
		check_skip("no GPU here: cuInit answers %d", status);
	device first;
	void *context;
	CHECK_CALL(cuda.device_get(&first, 0));
	CHECK_CALL(cuda.retain(&context, first));
	gpu_use(context);
	return context;
}

/* Memory of the GPU that holds a pattern. */
static gpu_address gpu_pattern(uint64_t seed)
{
	gpu_address address;
	CHECK_CALL(cuda.allocate(&address, LENGTH));
	uint8_t *content = private_pages(LENGTH);
	pattern_fill(content, LENGTH, seed);
	CHECK_CALL(cuda.to_gpu(address, content, LENGTH));
	CHECK_CALL(munmap(content, LENGTH));
	return address;
}

static void gpu_check(gpu_address address, uint64_t seed)
{
	uint8_t *content = private_pages(LENGTH);
	CHECK_CALL(cuda.to_host(content, address, LENGTH));
	pattern_check(content, LENGTH, seed);
	CHECK_CALL(munmap(content, LENGTH));
}

/* The GPU's writes arrive in memory, and the GPU reads the bytes that a peer has written. */
static void gpu_works(struct bench *bench, uint8_t *memory, struct ibv_mr *mr, uint64_t seed)
{
	gpu_address address = gpu_pattern(seed);
	CHECK_CALL(cuda.to_host(memory, address, LENGTH));
	pattern_check(memory, LENGTH, seed);
	if (mr == NULL) {
		pattern_fill(memory, LENGTH, seed + 1);
	} else {
		peer_sees(bench, mr, seed);
		peer_writes(bench, mr, seed + 1);
	}
	CHECK_CALL(cuda.to_gpu(address, memory, LENGTH));
	gpu_check(address, seed + 1);
}

static void pinned_before_registration(void)
{
	struct bench bench = bench_open();
	gpu_open();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 1, LENGTH);
	CHECK_CALL(cuda.host_register(memory, LENGTH, PORTABLE));
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	gpu_works(&bench, memory, mr, 10);
	CHECK_CALL(ibv_dereg_mr(mr));
	gpu_works(&bench, memory, NULL, 20);
	CHECK_CALL(cuda.host_unregister(memory));
	bench_close(&bench);
}

static void pinned_after_registration(void)
{
	struct bench bench = bench_open();
	uint8_t *memory = private_pages(LENGTH);
	memset(memory, 1, LENGTH);
	struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
	gpu_open();
	CHECK_CALL(cuda.host_register(memory, LENGTH, PORTABLE));
	gpu_works(&bench, memory, mr, 10);
	CHECK_CALL(ibv_dereg_mr(mr));
	gpu_works(&bench, memory, NULL, 20);
	for (unsigned round = 0; round < ROUNDS; round++) {
		mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
		gpu_works(&bench, memory, mr, 30 + 2 * round);
		CHECK_CALL(ibv_dereg_mr(mr));
	}
	CHECK_CALL(cuda.host_unregister(memory));
	gpu_works(&bench, memory, NULL, 90);
	bench_close(&bench);
}

static void pinned_by_its_allocation(void)
{
	struct bench bench = bench_open();
	gpu_open();
	void *memory;
	CHECK_CALL(cuda.host_allocate(&memory, LENGTH, PORTABLE));
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct ibv_mr *mr = region(&bench.endpoint, memory, LENGTH, ALL_ACCESS);
		gpu_works(&bench, memory, mr, 10 + 2 * round);
		CHECK_CALL(ibv_dereg_mr(mr));
		gpu_works(&bench, memory, NULL, 50 + 2 * round);
	}
	CHECK_CALL(cuda.host_free(memory));
	bench_close(&bench);
}

struct copies {
	void *context;
	uint8_t *memory;
	gpu_address address;
};

static atomic_bool is_over;
static atomic_uint made;

/* Copies from the GPU, all the time. */
static void *copy_on(void *argument)
{
	struct copies *copies = argument;
	gpu_use(copies->context);
	while (!is_over) {
		memset(copies->memory, 0, LENGTH);
		CHECK_CALL(cuda.to_host(copies->memory, copies->address, LENGTH));
		pattern_check(copies->memory, LENGTH, 9);
		made++;
	}
	return NULL;
}

/* A thread copies into memory that another registers and deregisters, pinned or not. */
static void copied_by_another_thread(bool is_pinned)
{
	struct bench bench = bench_open();
	struct copies copies = { .memory = private_pages(LENGTH) };
	copies.context = gpu_open();
	copies.address = gpu_pattern(9);
	if (is_pinned)
		CHECK_CALL(cuda.host_register(copies.memory, LENGTH, PORTABLE));
	pthread_t copier;
	CHECK_CALL(pthread_create(&copier, NULL, copy_on, &copies));
	uint64_t until = now() + 2 * SECOND;
	unsigned rounds = 0;
	for (; now() < until || made < 4; rounds++) {
		struct ibv_mr *mr = region(&bench.endpoint, copies.memory + LENGTH / 4, LENGTH / 2, ALL_ACCESS);
		CHECK_CALL(ibv_dereg_mr(mr));
	}
	is_over = true;
	CHECK_CALL(pthread_join(copier, NULL));
	CHECK(rounds > 10);
	bench_close(&bench);
}

static void copied_to_pinned_memory_by_another_thread(void)
{
	copied_by_another_thread(true);
}

static void copied_to_pageable_memory_by_another_thread(void)
{
	copied_by_another_thread(false);
}

/* An adapter in software cannot reach a GPU's memory. The call fails, and the process goes on. */
static void memory_of_the_gpu_is_refused(void)
{
	struct bench bench = bench_open();
	gpu_open();
	gpu_address address = gpu_pattern(3);
	errno = 0;
	CHECK(ibv_reg_mr(bench.endpoint.pd, (void *)(uintptr_t)address, LENGTH, ALL_ACCESS) == NULL);
	CHECK_EQUAL(errno, EFAULT);
	int buffer = -1;
	/* A whole page of the GPU's: 64 KiB and more. */
	gpu_address range;
	CHECK_CALL(cuda.allocate(&range, 4 * MEBIBYTE));
	if (cuda.handle(&buffer, range, 2 * MEBIBYTE, DMA_BUF, 0) == 0) {
		errno = 0;
		CHECK(ibv_reg_dmabuf_mr(bench.endpoint.pd, 0, 2 * MEBIBYTE, 0, buffer, ALL_ACCESS) == NULL);
		CHECK_EQUAL(errno, EOPNOTSUPP);
	} else {
		printf("the driver exports no dma-buf\n");
	}
	gpu_check(address, 3);
	bench_close(&bench);
}

const struct test tests[] = {
	{ "pinned_before_registration", pinned_before_registration },
	{ "pinned_after_registration", pinned_after_registration },
	{ "pinned_by_its_allocation", pinned_by_its_allocation },
	{ "copied_to_pinned_memory_by_another_thread", copied_to_pinned_memory_by_another_thread },
	{ "copied_to_pageable_memory_by_another_thread", copied_to_pageable_memory_by_another_thread },
	{ "memory_of_the_gpu_is_refused", memory_of_the_gpu_is_refused },
	{ 0 },
};
