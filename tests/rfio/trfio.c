/* The calls of ROOT's TRFIOFile, with exactly the functions that it links: stat, open, announce a list of ranges, seek
 * and read them in order, write another file, list and remove. Arguments: a remote directory with the file "f", and the
 * local original of "f". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rfio_api.h>
#include <stdlib.h>
#include <string.h>

#define RANGES 500

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s (%s, serrno %d, rfio_errno %d)\n", __FILE__, __LINE__, \
			        #what, rfio_serror(), serrno, rfio_errno); \
			exit(1); \
		} \
	} while (0)

static const char *directory, *original;

static void path(char *into, size_t size, const char *name)
{
	snprintf(into, size, "%s/%s", directory, name);
}

static void *read_a_list(void *unused)
{
	char name[1024];
	struct stat64 about;
	struct iovec64 list[RANGES];
	static __thread char here[8192], there[8192];
	FILE *file = fopen(original, "rb");
	(void)unused;

	path(name, sizeof name, "f");
	CHECK(file != NULL);
	CHECK(rfio_access(name, R_OK) == 0);
	CHECK(rfio_stat64(name, &about) == 0 && S_ISREG(about.st_mode));
	int descriptor = rfio_open64(name, O_RDONLY, 0);
	CHECK(descriptor >= 0);
	CHECK(rfio_fstat64(descriptor, &about) == 0);
	unsigned seed = 7;
	for (int i = 0; i < RANGES; i++) {
		list[i].iov_base = rand_r(&seed) % (about.st_size - 8192);
		list[i].iov_len = 1 + rand_r(&seed) % 8192;
	}
	CHECK(rfio_preseek64(descriptor, list, RANGES) == 0);
	for (int i = 0; i < RANGES; i++) {
		CHECK(rfio_lseek64(descriptor, list[i].iov_base, SEEK_SET) == list[i].iov_base);
		CHECK(rfio_read(descriptor, there, list[i].iov_len) == list[i].iov_len);
		CHECK(fseeko(file, list[i].iov_base, SEEK_SET) == 0);
		CHECK(fread(here, 1, list[i].iov_len, file) == (size_t)list[i].iov_len);
		CHECK(memcmp(here, there, list[i].iov_len) == 0);
	}
	CHECK(rfio_lseek64(descriptor, 0, SEEK_END) == about.st_size);
	CHECK(rfio_read(descriptor, there, 10) == 0);
	CHECK(rfio_close(descriptor) == 0);
	fclose(file);
	return NULL;
}

int main(int count, char **arguments)
{
	char name[1024], line[64];
	int option = 0;
	struct stat about;
	pthread_t threads[4];

	if (count != 3)
		return 2;
	directory = arguments[1];
	original = arguments[2];
	Cthread_init();

	for (option = 0; option <= 1; option++) {
		CHECK(rfiosetopt(RFIO_READOPT, &option, 4) == 0);
		CHECK(rfioreadopt(0) == option);
		read_a_list(NULL);
	}
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, read_a_list, NULL) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);

	path(name, sizeof name, "made");
	CHECK(rfio_mkdir(name, 0755) == 0);
	CHECK(rfio_mkdir(name, 0755) == -1 && rfio_errno == EEXIST && errno == EEXIST);
	CHECK(rfio_stat(name, &about) == 0 && S_ISDIR(about.st_mode));
	path(name, sizeof name, "made/file");
	int descriptor = rfio_open64(name, O_RDWR | O_CREAT | O_TRUNC, 0640);
	CHECK(descriptor >= 0);
	CHECK(rfio_write(descriptor, "hello, world", 12) == 12);
	CHECK(rfio_lseek64(descriptor, 7, SEEK_SET) == 7);
	CHECK(rfio_read(descriptor, line, sizeof line) == 5 && memcmp(line, "world", 5) == 0);
	CHECK(rfio_close(descriptor) == 0);
	CHECK(rfio_close(descriptor) == -1 && errno == EBADF);

	FILE *stream = rfio_fopen(name, "r");
	CHECK(stream != NULL && rfio_fileno(stream) >= 0);
	CHECK(rfio_getc(stream) == 'h' && rfio_fseek(stream, -5, SEEK_END) == 0);
	CHECK(rfio_fread(line, 1, sizeof line, stream) == 5 && rfio_feof(stream) && !rfio_ferror(stream));
	CHECK(rfio_fclose(stream) == 0);

	path(name, sizeof name, "made");
	DIR *listing = rfio_opendir(name);
	CHECK(listing != NULL);
	struct dirent *entry = rfio_readdir(listing);
	CHECK(entry != NULL && strcmp(entry->d_name, "file") == 0);
	CHECK(rfio_readdir(listing) == NULL);
	CHECK(rfio_closedir(listing) == 0);
	CHECK(rfio_rmdir(name) == -1 && rfio_errno == ENOTEMPTY);
	path(name, sizeof name, "made/file");
	CHECK(rfio_unlink(name) == 0);
	CHECK(rfio_open64(name, O_RDONLY, 0) == -1 && rfio_errno == ENOENT);
	path(name, sizeof name, "made");
	CHECK(rfio_rmdir(name) == 0);

	char *host, *file;
	path(name, sizeof name, "x");
	CHECK(rfio_parse(name, &host, &file) == 1 && file[0] == '/');
	CHECK(rfio_parse((char *)"/local", &host, &file) == 0);
	CHECK(rfio_end() == 0);
	puts("all of it");
	return 0;
}
