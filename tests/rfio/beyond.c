/* The functions beyond the classic interface, on a remote directory and equally on a local one. Arguments: a remote
 * directory with the file "f", and the local original of "f". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <rfio_api.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, rfio_serror()); \
			exit(1); \
		} \
	} while (0)

static void path(char into[1024], const char *directory, const char *name)
{
	snprintf(into, 1024, "%s/%s", directory, name);
}

/* CRC32C (RFC 3720, 12.1), a bit at a time. */
static uint32_t crc32c(const unsigned char *bytes, size_t count)
{
	uint32_t sum = ~0u;
	for (size_t i = 0; i < count; i++) {
		sum ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78 : 0);
	}
	return ~sum;
}

/* Both say the same of a file as stat(2) says of the original, as far as that is the file's and not the server's. */
static void examined(const char *name, const struct stat *original)
{
	struct rfio_attributes by_name, by_descriptor;
	int descriptor = rfio_open64(name, O_RDONLY, 0);
	CHECK(descriptor >= 0);
	CHECK(rfio_examine(name, &by_name) == 0 && rfio_fexamine(descriptor, &by_descriptor) == 0);
	CHECK(memcmp(&by_name, &by_descriptor, sizeof by_name) == 0);
	CHECK(by_name.size == (uint64_t)original->st_size && by_name.mode == original->st_mode);
	CHECK(by_name.inode == original->st_ino && by_name.links == original->st_nlink);
	CHECK(by_name.modified == original->st_mtim.tv_sec * 1000000000LL + original->st_mtim.tv_nsec);
	CHECK(rfio_close(descriptor) == 0);
	CHECK(rfio_examine(name, NULL) == -1 && errno == EINVAL);
}

/* Reads at offsets leave the position unchanged; written data are visible at once despite read-ahead. */
static void positioned(const char *directory)
{
	char name[1024], line[64];
	path(name, directory, "positioned");
	int descriptor = rfio_open64(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(descriptor >= 0);
	CHECK(rfio_pwrite64(descriptor, "0123456789", 10, 0) == 10);
	CHECK(rfio_read(descriptor, line, 4) == 4 && memcmp(line, "0123", 4) == 0);
	CHECK(rfio_pwrite64(descriptor, "abc", 3, 5) == 3);
	CHECK(rfio_pread64(descriptor, line, sizeof line, 3) == 7 && memcmp(line, "34abc89", 7) == 0);
	CHECK(rfio_read(descriptor, line, sizeof line) == 6 && memcmp(line, "4abc89", 6) == 0);
	CHECK(rfio_pread64(descriptor, line, sizeof line, 10) == 0);
	CHECK(rfio_pread64(descriptor, line, sizeof line, -1) == -1 && errno == EINVAL);
	CHECK(rfio_pwrite64(descriptor, line, sizeof line, -1) == -1 && errno == EINVAL);
	CHECK(rfio_ftruncate64(descriptor, 6) == 0 && rfio_ftruncate64(descriptor, -1) == -1);
	CHECK(rfio_pread64(descriptor, line, sizeof line, 0) == 6 && memcmp(line, "01234a", 6) == 0);
	CHECK(rfio_fsync(descriptor) == 0);
	CHECK(rfio_close(descriptor) == 0 && rfio_unlink(name) == 0);
}

static void listed(const char *directory)
{
	char name[1024], found[256];
	struct rfio_attributes about;
	int files = 0, links = 0, directories = 0, more;
	path(name, directory, "listed");
	CHECK(rfio_mkdir(name, 0755) == 0);
	path(name, directory, "listed/link");
	CHECK(rfio_symlink("nowhere", name) == 0);
	path(name, directory, "listed/below");
	CHECK(rfio_mkdir(name, 0755) == 0);
	path(name, directory, "listed/file");
	int descriptor = rfio_open64(name, O_WRONLY | O_CREAT, 0600);
	CHECK(descriptor >= 0 && rfio_write(descriptor, "hello", 5) == 5 && rfio_close(descriptor) == 0);
	path(name, directory, "listed");
	DIR *open = rfio_opendir(name);
	CHECK(open != NULL);
	while ((more = rfio_readentry(open, found, sizeof found, &about)) == 1) {
		files += S_ISREG(about.mode) && about.size == 5 && strcmp(found, "file") == 0;
		links += S_ISLNK(about.mode) && strcmp(found, "link") == 0;
		directories += S_ISDIR(about.mode) && strcmp(found, "below") == 0;
	}
	CHECK(more == 0 && files == 1 && links == 1 && directories == 1);
	rfio_rewinddir(open);
	CHECK(rfio_readentry(open, found, 3, &about) == -1 && errno == ERANGE);
	CHECK(rfio_closedir(open) == 0);
	path(name, directory, "listed/link");
	CHECK(rfio_unlink(name) == 0);
	path(name, directory, "listed/below");
	CHECK(rfio_rmdir(name) == 0);
	path(name, directory, "listed/file");
	CHECK(rfio_unlink(name) == 0);
	path(name, directory, "listed");
	CHECK(rfio_rmdir(name) == 0);
}

static void checksums(const char *remote, const char *original)
{
	char name[1024];
	uint32_t sum = 0;
	struct stat about;
	int here = open(original, O_RDONLY);
	CHECK(here >= 0 && fstat(here, &about) == 0);
	unsigned char *bytes = malloc(about.st_size);
	CHECK(bytes != NULL && read(here, bytes, about.st_size) == about.st_size);
	path(name, remote, "f");
	int descriptor = rfio_open64(name, O_RDONLY, 0);
	CHECK(rfio_checksum(descriptor, &sum) == 0 && sum == crc32c(bytes, about.st_size));
	CHECK(rfio_close(descriptor) == 0);
	CHECK(rfio_checksum(here, &sum) == -1 && errno == EOPNOTSUPP);
	path(name, remote, "empty");
	descriptor = rfio_open64(name, O_RDWR | O_CREAT, 0600);
	CHECK(rfio_checksum(descriptor, &sum) == 0 && sum == 0);
	CHECK(rfio_close(descriptor) == 0 && rfio_unlink(name) == 0);
	close(here);
	free(bytes);
}

/* A copy that the server makes: whole, in parts, between the two descriptors' own offsets, and not between places. */
static void copied(const char *directory, const struct stat *original)
{
	char name[1024];
	path(name, directory, "f");
	int from = rfio_open64(name, O_RDONLY, 0);
	path(name, directory, "copied");
	int to = rfio_open64(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(from >= 0 && to >= 0);
	__off64_t at = 0;
	ssize_t more;
	while ((more = rfio_copy_range(from, at, to, at, 7 << 20)) > 0)
		at += more;
	CHECK(more == 0 && at == original->st_size);
	/* Past the data that were read ahead, too. */
	char byte, moved;
	CHECK(rfio_read64(to, &byte, 1) == 1);
	CHECK(rfio_copy_range(from, 1001, to, 0, 1) == 1);
	CHECK(rfio_lseek64(to, 0, SEEK_SET) == 0 && rfio_read64(to, &moved, 1) == 1);
	CHECK(rfio_pread64(from, &byte, 1, 1001) == 1 && byte == moved);
	CHECK(rfio_copy_range(from, 0, to, 0, 1) == 1);
	char here[4096], there[4096];
	for (__off64_t where = 0; where < original->st_size; where += 1000003) {
		ssize_t one = rfio_pread64(from, here, sizeof here, where), other = rfio_pread64(to, there, sizeof there, where);
		CHECK(one > 0 && one == other && memcmp(here, there, one) == 0);
	}
	CHECK(rfio_copy_range(from, original->st_size, to, 0, 5) == 0);
	CHECK(rfio_copy_range(to, 0, from, 0, 1) == -1 && errno == EBADF);
	int null = open("/dev/null", O_RDONLY);
	CHECK(null >= 0 && rfio_copy_range(from, 0, null, 0, 1) == -1);
	CHECK(close(null) == 0 && rfio_close(from) == 0 && rfio_close(to) == 0 && rfio_unlink(name) == 0);
}

int main(int count, char **arguments)
{
	char name[1024], local[1024];
	struct stat about;

	if (count != 3)
		return 2;
	CHECK(stat(arguments[2], &about) == 0);
	path(name, arguments[1], "f");
	examined(name, &about);
	examined(arguments[2], &about);
	snprintf(local, sizeof local, "%s", arguments[2]);
	const char *const directories[] = {arguments[1], dirname(local)};
	for (int i = 0; i < 2; i++) {
		positioned(directories[i]);
		listed(directories[i]);
		copied(directories[i], &about);
	}
	checksums(arguments[1], arguments[2]);
	puts("all of it");
	return 0;
}
