/* The functions of rfio_api.h that are variadic, as open(2) is: the mode is read only with O_CREAT or O_TMPFILE. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

#include "../include/rfio_api.h"

/* In descriptor.rs. */
int verbena_rfio_open(const char *path, int flags, mode_t mode);

static mode_t mode_of(int flags, va_list arguments)
{
	if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
		return va_arg(arguments, mode_t);
	return 0;
}

int rfio_open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_of(flags, arguments);
	va_end(arguments);
	return verbena_rfio_open(path, flags, mode);
}

int rfio_open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = mode_of(flags, arguments);
	va_end(arguments);
	return verbena_rfio_open(path, flags, mode);
}
