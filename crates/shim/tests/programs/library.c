/* A fake libibverbs.so.1: files of a device, and a connection manager that accepts one command. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char root[64];
static pid_t maker;

static void put(const char *path, const char *text)
{
	char whole[256];

	snprintf(whole, sizeof whole, "%s/%s", root, path);
	for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
		*slash = '\0';
		mkdir(whole, 0755);
	}
	int file = open(whole, O_WRONLY | O_CREAT, 0444);
	if (write(file, text, strlen(text)) < 0)
		abort();
	close(file);
}

/* Creates a device's files, in a directory that is removed at exit. */
ssize_t verbena_sysfs_root(char *buffer, size_t size)
{
	int error = errno;

	if (root[0] == '\0') {
		char made[] = "/tmp/verbena-tree-XXXXXX";
		if (mkdtemp(made) == NULL)
			return -errno;
		strcpy(root, made);
		maker = getpid();
		put("class/infiniband/verbena0/ports/1/lid", "0x1\n");
		put("class/infiniband/verbena0/ports/2/lid", "0x2\n");
		put("class/infiniband_verbs/verbena0/ibdev", "verbena0\n");
		put("dev/infiniband/verbena0", "");
		char link[128];
		snprintf(link, sizeof link, "%s/class/infiniband/verbena0/ports/first", root);
		if (symlink("1", link) < 0)
			return -errno;
	}
	if (strlen(root) >= size)
		return -ENAMETOOLONG;
	strcpy(buffer, root);
	errno = error;
	return (ssize_t)strlen(root);
}

/* The last path to be refreshed. */
char verbena_refreshed[256];

void verbena_sysfs_refresh(const char *path)
{
	snprintf(verbena_refreshed, sizeof verbena_refreshed, "%s", path);
}

__attribute__((destructor)) static void end(void)
{
	char command[128];

	if (root[0] != '\0' && getpid() == maker) {
		snprintf(command, sizeof command, "LD_PRELOAD= rm -rf %s", root);
		if (system(command) != 0)
			abort();
	}
}

/* Number of closed channels, for the test program. */
int verbena_cm_closed;

/* The last copy of a channel's descriptor. */
int verbena_cm_copy = -1;

void verbena_cm_copied(int descriptor)
{
	verbena_cm_copy = descriptor;
}

/* Opens a pipe, which accepts any write and is no character device. */
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
