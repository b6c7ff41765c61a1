/* `syscall`, by which programs make system calls without a function of their C library.
   A call with a path of Verbena's goes to the function that redirects it; every other is passed on
   unchanged. On 64-bit Linux these functions and system calls have the same arguments, structures and
   results. */
#define _GNU_SOURCE
/* With these the headers would replace the names called here. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Defined in kernel.rs and tree.rs. */
typedef long call_function(long number, ...);
call_function *verbena_shim_next_syscall(void);
int verbena_shim_answers(int directory, const char *path);

/* Not in every header: openat2 is new in glibc 2.43, and musl 1.2.3 lacks statx. Both are defined in
   Rust. */
struct open_how;
struct statx;
int openat2(int directory, const char *path, const struct open_how *how, size_t size);
int statx(int directory, const char *path, int flags, unsigned int mask, struct statx *status);

enum { ARGUMENTS = 6 };

#define PATH(at) ((const char *)argument[at])
#define NUMBER(at) ((int)argument[at])
#define BUFFER(at) ((void *)argument[at])
#define SIZE(at) ((size_t)argument[at])
/* A path argument, relative to the working directory or to the directory before it. */
#define IF_OURS(path_at, call)                                                                                                   \
	do {                                                                                                                     \
		if (verbena_shim_answers((path_at) == 0 ? AT_FDCWD : NUMBER(0), PATH(path_at)))                                  \
			return call;                                                                                             \
	} while (0)

long syscall(long number, ...)
{
	long argument[ARGUMENTS];
	va_list arguments;
	call_function *next;

	va_start(arguments, number);
	for (int i = 0; i < ARGUMENTS; i++)
		argument[i] = va_arg(arguments, long);
	va_end(arguments);

	switch (number) {
#ifdef SYS_open
	case SYS_open:
		IF_OURS(0, open(PATH(0), NUMBER(1), (mode_t)argument[2]));
		break;
	case SYS_stat:
		IF_OURS(0, stat(PATH(0), BUFFER(1)));
		break;
	case SYS_lstat:
		IF_OURS(0, lstat(PATH(0), BUFFER(1)));
		break;
	case SYS_access:
		IF_OURS(0, access(PATH(0), NUMBER(1)));
		break;
	case SYS_readlink:
		IF_OURS(0, readlink(PATH(0), BUFFER(1), SIZE(2)));
		break;
#endif
	case SYS_openat:
		IF_OURS(1, openat(NUMBER(0), PATH(1), NUMBER(2), (mode_t)argument[3]));
		break;
#ifdef SYS_openat2
	case SYS_openat2:
		return openat2(NUMBER(0), PATH(1), BUFFER(2), SIZE(3));
#endif
	case SYS_newfstatat:
		IF_OURS(1, fstatat(NUMBER(0), PATH(1), BUFFER(2), NUMBER(3)));
		break;
	case SYS_statx:
		IF_OURS(1, statx(NUMBER(0), PATH(1), NUMBER(2), (unsigned int)argument[3], BUFFER(4)));
		break;
	case SYS_faccessat:
		IF_OURS(1, faccessat(NUMBER(0), PATH(1), NUMBER(2), 0));
		break;
#ifdef SYS_faccessat2
	case SYS_faccessat2:
		IF_OURS(1, faccessat(NUMBER(0), PATH(1), NUMBER(2), NUMBER(3)));
		break;
#endif
	case SYS_readlinkat:
		IF_OURS(1, readlinkat(NUMBER(0), PATH(1), BUFFER(2), SIZE(3)));
		break;
	case SYS_chdir:
		IF_OURS(0, chdir(PATH(0)));
		break;
	case SYS_statfs:
		IF_OURS(0, statfs(PATH(0), BUFFER(1)));
		break;
	case SYS_getxattr:
		IF_OURS(0, getxattr(PATH(0), PATH(1), BUFFER(2), SIZE(3)));
		break;
	case SYS_lgetxattr:
		IF_OURS(0, lgetxattr(PATH(0), PATH(1), BUFFER(2), SIZE(3)));
		break;
	case SYS_listxattr:
		IF_OURS(0, listxattr(PATH(0), BUFFER(1), SIZE(2)));
		break;
	case SYS_llistxattr:
		IF_OURS(0, llistxattr(PATH(0), BUFFER(1), SIZE(2)));
		break;
	case SYS_inotify_add_watch:
		IF_OURS(1, inotify_add_watch(NUMBER(0), PATH(1), (uint32_t)argument[2]));
		break;
	case SYS_getcwd: {
		/* The kernel returns the length with the final zero. */
		char *here = BUFFER(0) == NULL ? NULL : getcwd(BUFFER(0), SIZE(1));

		if (here != NULL)
			return (long)strlen(here) + 1;
		break;
	}
	}
	next = verbena_shim_next_syscall();
	if (next == NULL) {
		errno = ENOSYS;
		return -1;
	}
	return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
