/* The variadic functions of rfio_api.h. As in open(2), the mode is read only with O_CREAT or
 * O_TMPFILE. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

/* As in rfio_api.h, which as a whole requires glibc. */
int rfio_open(const char *path, int flags, ...);

/* Defined in descriptor.rs. */
int verbena_rfio_open(const char *path, int flags, mode_t mode);

int rfio_open(const char *path, int flags, ...)
{
	mode_t mode = 0;

	if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	return verbena_rfio_open(path, flags, mode);
}

/* Both have 64-bit file offsets. */
int rfio_open64(const char *path, int flags, ...) __attribute__((alias("rfio_open")));
