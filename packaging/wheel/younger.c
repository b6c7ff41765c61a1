/* System calls that glibc 2.17 has no function for: gettid(2) came with 2.30, memfd_create(2) with 2.27. Linked into what the
 * wheel holds, and seen by nobody else. */
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
