/* Plays libibverbs.so.1: two files and a directory of a device. */
#include <string.h>
#include <sys/types.h>

ssize_t verbena_sysfs_read(const char *path, char *buffer, size_t size)
{
	const char *text = NULL;

	if (!strcmp(path, "class/infiniband/verbena0"))
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
