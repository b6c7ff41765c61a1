/* The variadic exported functions. They are C because stable Rust cannot define a variadic function,
   and rustc refuses one of this name with fixed arguments. As in open(2), the mode is read only with
   O_CREAT or O_TMPFILE. */
#define _GNU_SOURCE
/* With these the header would replace the names defined here. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#undef open64
#undef openat64

/* Defined in opening.rs. */
int verbena_shim_open(const char *path, int flags, mode_t mode);
int verbena_shim_open64(const char *path, int flags, mode_t mode);
int verbena_shim_openat(int directory, const char *path, int flags, mode_t mode);
int verbena_shim_openat64(int directory, const char *path, int flags, mode_t mode);

/* musl before 1.2.4 has them as macros only. */
int open64(const char *path, int flags, ...);
int openat64(int directory, const char *path, int flags, ...);

static mode_t mode_of(int flags, va_list arguments)
{
	if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
		return va_arg(arguments, mode_t);
	return 0;
}

int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_of(flags, arguments);
	va_end(arguments);
	return verbena_shim_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_of(flags, arguments);
	va_end(arguments);
	return verbena_shim_open64(path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_of(flags, arguments);
	va_end(arguments);
	return verbena_shim_openat(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_of(flags, arguments);
	va_end(arguments);
	return verbena_shim_openat64(directory, path, flags, mode);
}

/* Defined in management.rs. */
int verbena_shim_is_datagrams(int descriptor);
int verbena_shim_control(int descriptor, unsigned long request, void *argument);

/* The type of a request differs between C libraries. */
#ifdef __GLIBC__
typedef unsigned long request_number;
#else
typedef int request_number;
#endif

static int (*next_ioctl)(int, request_number, ...);

__attribute__((constructor)) static void prepare(void)
{
	next_ioctl = (int (*)(int, request_number, ...))dlsym(RTLD_NEXT, "ioctl");
}

/* An argument of any type is passed on unchanged; requests without one ignore it. */
int ioctl(int descriptor, request_number request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (verbena_shim_is_datagrams(descriptor))
		return verbena_shim_control(descriptor, (unsigned long)request, argument);
	if (next_ioctl == NULL)
		return (int)syscall(SYS_ioctl, descriptor, request, argument);
	return next_ioctl(descriptor, request, argument);
}
