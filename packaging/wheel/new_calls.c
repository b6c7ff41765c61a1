/* System calls without a function in glibc 2.17: gettid(2) came with 2.30, copy_file_range(2) and memfd_create(2) with
 * 2.27. Linked into the programs of the wheel, with hidden visibility. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

__attribute__((visibility("hidden"))) pid_t gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

__attribute__((visibility("hidden"))) int memfd_create(const char *name, unsigned int flags)
{
	return (int)syscall(SYS_memfd_create, name, flags);
}

__attribute__((visibility("hidden"))) ssize_t copy_file_range(int from, off64_t *offset, int to, off64_t *at, size_t length,
							      unsigned int flags)
{
	return syscall(SYS_copy_file_range, from, offset, to, at, length, flags);
}
