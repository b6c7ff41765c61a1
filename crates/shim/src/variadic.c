/* The variadic exported functions. They are C because stable Rust cannot define a variadic function,
   and rustc refuses one of this name with fixed arguments. As in open(2), the mode is read only with
   O_CREAT or O_TMPFILE. */
#define _GNU_SOURCE
/* With these the header would replace the names defined here. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

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
