/* The adapter's own threads, beside a program that changes its own code.
 *
 * Sources: Open MPI's opal/mca/patcher and UCX's ucm ("memory hooks"), which overwrite the first instructions of mmap(2),
 * munmap(2) and others while other threads run; malloc(3): a thread has its own heap from its first allocation. */

#include <sched.h>

#include "contract.h"

/* Lies on the stack of each thread, the adapter's own too. */
static __thread volatile uint8_t of_each_thread[4 * MEBIBYTE];

/* Address space of this process, in KiB. */
static long address_space(void)
{
	return kibibytes("/proc/self/status", "VmSize:");
}

/* A thread that has been started maps its heap at once, so no thread is in munmap(2) when the first call has returned.
 * On one processor a thread that no other thread waits for would not have run yet. Large variables of each thread leave
 * room for it. */
static void a_thread_has_its_heap_when_it_has_been_started(void)
{
	hang_after(30);
#ifdef __SANITIZE_ADDRESS__
	check_skip("threads have no heap of their own in the sanitizer's allocator");
#endif
	int processor = sched_getcpu();
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	CHECK_CALL(sched_setaffinity(0, sizeof one, &one));
	of_each_thread[0] = 1;
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	long before = address_space();
	CHECK_CALL(usleep(200000));
	CHECK_EQUAL(address_space(), before);
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "a_thread_has_its_heap_when_it_has_been_started", a_thread_has_its_heap_when_it_has_been_started },
	{ 0 },
};
