/* Plays libibverbs.so.1: two files and two directories of a device, and a connection manager that
   takes one command. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t verbena_sysfs_read(const char *path, char *buffer, size_t size)
{
	const char *text = NULL;

	if (!strcmp(path, "class/infiniband/verbena0"))
		return -2;
	if (!strcmp(path, "class/infiniband/verbena0/ports"))
		return -2;
	if (!strcmp(path, "class/infiniband/verbena0/ports/1/lid"))
		text = "0x1\n";
	if (!strcmp(path, "class/infiniband_verbs/verbena0/ibdev"))
		text = "verbena0\n";
	if (!text)
		return -1;
	size_t length = strlen(text);
	memcpy(buffer, text, length < size ? length : size);
	return (ssize_t)length;
}

size_t verbena_sysfs_list(const char *path, char *buffer, size_t size)
{
	static const char names[] = "1\0" "2";

	if (strcmp(path, "class/infiniband/verbena0/ports"))
		return 0;
	memcpy(buffer, names, sizeof names < size ? sizeof names : size);
	return sizeof names;
}

/* How often a channel was closed, for the program to ask. */
int verbena_cm_closed;

/* A pipe, which takes any write and is no character device. */
int verbena_cm_open(void)
{
	int ends[2];

	return pipe2(ends, O_CLOEXEC) == 0 ? ends[1] : -errno;
}

ssize_t verbena_cm_write(int descriptor, const void *buffer, size_t length)
{
	(void)descriptor;
	return length == 7 && !memcmp(buffer, "command", 7) ? 7 : -ENOSYS;
}

void verbena_cm_close(int descriptor)
{
	(void)descriptor;
	verbena_cm_closed++;
}
