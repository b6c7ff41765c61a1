/* Requests under way, on a remote directory and equally on a local one: many at once, finished in no order, by several
 * threads, by a loop of the program's own, cancelled, and over a fork. Arguments: a remote directory with the file "f",
 * and the local original of "f". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <rfio_api.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, rfio_serror()); \
			exit(1); \
		} \
	} while (0)

#define MANY 200
#define MOST (300 << 10)

static unsigned char *original;
static size_t size;

static void path(char into[1024], const char *directory, const char *name)
{
	snprintf(into, 1024, "%s/%s", directory, name);
}

struct piece {
	rfio_request *request;
	unsigned char *buffer;
	size_t at, length;
};

static void begin(int descriptor, struct piece *piece, unsigned *seed)
{
	piece->length = rand_r(seed) % MOST;
	piece->at = (size_t)rand_r(seed) % (size + 1000);
	piece->buffer = malloc(piece->length + 1);
	memset(piece->buffer, 0xee, piece->length + 1);
	piece->request = rfio_begin_pread(descriptor, piece->buffer, piece->length, piece->at);
	CHECK(piece->request);
}

static void finish(struct piece *piece)
{
	size_t there = piece->at < size ? size - piece->at : 0;
	size_t expected = piece->length < there ? piece->length : there;
	ssize_t read = rfio_request_finish(piece->request);
	CHECK(read == (ssize_t)expected);
	CHECK(memcmp(piece->buffer, original + piece->at, expected) == 0);
	CHECK(piece->buffer[piece->length] == 0xee);
	free(piece->buffer);
	piece->request = NULL;
}

/* Many reads under way, finished in no order. */
static void many(int descriptor, unsigned seed)
{
	struct piece pieces[MANY];
	for (int i = 0; i < MANY; i++)
		begin(descriptor, &pieces[i], &seed);
	for (int left = MANY; left > 0; left--) {
		int which = rand_r(&seed) % left;
		finish(&pieces[which]);
		pieces[which] = pieces[left - 1];
	}
}

struct share {
	int descriptor;
	unsigned seed;
};

static void *worker(void *argument)
{
	struct share *share = argument;
	many(share->descriptor, share->seed);
	return NULL;
}

static void threads(int descriptor)
{
	pthread_t threads[4];
	struct share shares[4];
	for (int i = 0; i < 4; i++) {
		shares[i] = (struct share){descriptor, 100 + i};
		CHECK(pthread_create(&threads[i], NULL, worker, &shares[i]) == 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Whichever is done first, by rfio_request_wait and by a loop of our own. */
static void loops(int descriptor)
{
	struct piece pieces[50];
	rfio_request *requests[50];
	unsigned seed = 7;
	for (int i = 0; i < 50; i++) {
		begin(descriptor, &pieces[i], &seed);
		requests[i] = pieces[i].request;
	}
	for (int left = 25; left > 0; left--) {
		int which = rfio_request_wait(requests, 50, -1);
		CHECK(which >= 0 && which < 50 && rfio_request_done(requests[which]) == 1);
		finish(&pieces[which]);
		requests[which] = NULL;
	}
	for (int i = 0; i < 50; i++) {
		int done;
		while (requests[i] && (done = rfio_request_done(requests[i])) != 1) {
			struct pollfd looked = {rfio_request_events(requests[i]), POLLIN, 0};
			CHECK(done == 0 && poll(&looked, 1, 100) >= 0);
		}
		if (requests[i])
			finish(&pieces[i]);
	}
	CHECK(rfio_request_wait(requests, 0, 5) == -1 && errno == EINVAL);
	CHECK(rfio_request_finish(NULL) == -1 && errno == EINVAL);
}

static void vectors(int descriptor)
{
	enum { RANGES = 3000 };
	struct iovec64 *ranges = malloc(RANGES * sizeof *ranges);
	int *lengths = malloc(RANGES * sizeof *lengths);
	unsigned seed = 11;
	size_t sum = 0, expected = 0;
	for (int i = 0; i < RANGES; i++) {
		ranges[i].iov_base = rand_r(&seed) % (size + 100);
		/* One is longer than a request to the server can ask for. */
		ranges[i].iov_len = i == 1000 ? (int)(size - 5) : rand_r(&seed) % 3000;
		if (i == 1000)
			ranges[i].iov_base = 2;
		sum += ranges[i].iov_len;
	}
	unsigned char *buffer = malloc(sum);
	rfio_request *request = rfio_begin_preadv(descriptor, ranges, RANGES, buffer, sum, lengths);
	CHECK(request);
	ssize_t read = rfio_request_finish(request);
	for (size_t i = 0, at = 0; i < RANGES; i++) {
		size_t base = ranges[i].iov_base, length = ranges[i].iov_len;
		size_t there = base < size ? size - base : 0;
		if (length < there)
			there = length;
		CHECK(lengths[i] == (int)there && memcmp(buffer + at, original + base, there) == 0);
		at += length;
		expected += there;
	}
	CHECK(read == (ssize_t)expected);
	CHECK(!rfio_begin_preadv(descriptor, ranges, 3, NULL, 9000, lengths) && errno == EINVAL);
	free(ranges);
	free(lengths);
	free(buffer);
}

/* Writes and reads of one descriptor, none of them waited for before the next: as if one after the other. */
static void ordered(const char *directory)
{
	enum { STEPS = 120, LENGTH = 150000 };
	char name[1024];
	path(name, directory, "ordered");
	int descriptor = rfio_open64(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(descriptor >= 0);
	unsigned char *model = calloc(1, LENGTH), *images[STEPS], *buffers[STEPS];
	rfio_request *requests[STEPS];
	size_t at[STEPS], length[STEPS];
	CHECK(rfio_pwrite64(descriptor, model, LENGTH, 0) == LENGTH);
	unsigned seed = 13;
	for (int i = 0; i < STEPS; i++) {
		at[i] = rand_r(&seed) % LENGTH;
		length[i] = rand_r(&seed) % (LENGTH - at[i]);
		buffers[i] = malloc(length[i] + 1);
		images[i] = malloc(length[i] + 1);
		if (i % 3) {
			memcpy(images[i], model + at[i], length[i]);
			requests[i] = rfio_begin_pread(descriptor, buffers[i], length[i], at[i]);
		} else {
			memset(buffers[i], i + 1, length[i]);
			memcpy(images[i], buffers[i], length[i]);
			memcpy(model + at[i], buffers[i], length[i]);
			requests[i] = rfio_begin_pwrite(descriptor, buffers[i], length[i], at[i]);
		}
		CHECK(requests[i]);
	}
	for (int i = STEPS - 1; i >= 0; i--) {
		CHECK(rfio_request_finish(requests[i]) == (ssize_t)length[i]);
		CHECK(memcmp(buffers[i], images[i], length[i]) == 0);
		free(buffers[i]);
		free(images[i]);
	}
	/* The classic calls see it despite their read-ahead. */
	unsigned char first[2] = {0};
	CHECK(rfio_lseek64(descriptor, 0, SEEK_SET) == 0 && rfio_read64(descriptor, first, 1) == 1);
	rfio_request *request = rfio_begin_pwrite(descriptor, "\xa5\x5a", 2, 0);
	CHECK(request && rfio_request_finish(request) == 2);
	CHECK(rfio_lseek64(descriptor, 0, SEEK_SET) == 0 && rfio_read64(descriptor, first, 2) == 2);
	CHECK(memcmp(first, "\xa5\x5a", 2) == 0);
	CHECK(rfio_close(descriptor) == 0);
	free(model);
}

/* A cancelled request completes all the same, and the others are as before. */
static void taken_back(int descriptor)
{
	struct piece pieces[MANY];
	unsigned seed = 17;
	for (int i = 0; i < MANY; i++)
		begin(descriptor, &pieces[i], &seed);
	for (int i = 0; i < MANY; i += 2)
		CHECK(rfio_request_cancel(pieces[i].request) == 0);
	for (int i = 1; i < MANY; i += 2)
		finish(&pieces[i]);
	for (int i = 0; i < MANY; i += 2) {
		ssize_t read = rfio_request_finish(pieces[i].request);
		CHECK(read >= 0 ? memcmp(pieces[i].buffer, original + pieces[i].at, read) == 0 : errno == ECANCELED);
		free(pieces[i].buffer);
	}
	many(descriptor, 19);
}

/* A child has its own requests on the same descriptor, while the parent's are under way. */
static void forked(int descriptor, int remote)
{
	struct piece pieces[20];
	unsigned seed = 23;
	for (int i = 0; i < 20; i++)
		begin(descriptor, &pieces[i], &seed);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		/* The parent's are not the child's. */
		CHECK(!remote || rfio_request_done(pieces[0].request) == -1);
		many(descriptor, 29);
		_exit(0);
	}
	for (int i = 0; i < 20; i++)
		finish(&pieces[i]);
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	many(descriptor, 31);
}

static void all(const char *directory, int remote)
{
	char name[1024];
	path(name, directory, "f");
	int descriptor = rfio_open64(name, O_RDONLY, 0);
	CHECK(descriptor >= 0);
	many(descriptor, 1);
	threads(descriptor);
	if (remote)
		loops(descriptor);
	vectors(descriptor);
	ordered(directory);
	taken_back(descriptor);
	forked(descriptor, remote);
	rfio_request *refused = rfio_begin_pwrite(descriptor, "x", 1, 0);
	CHECK(refused ? rfio_request_finish(refused) == -1 && errno == EBADF : errno == EBADF);
	CHECK(!rfio_begin_pread(descriptor, NULL, 5, 0) || !remote);
	CHECK(rfio_close(descriptor) == 0);
	CHECK(rfio_end() == 0);
}

int main(int count, char **arguments)
{
	CHECK(count == 3);
	FILE *file = fopen(arguments[2], "rb");
	CHECK(file && fseek(file, 0, SEEK_END) == 0);
	size = ftell(file);
	/* Reads may begin behind the end. */
	original = calloc(1, size + MOST + 1000);
	rewind(file);
	CHECK(fread(original, 1, size, file) == size);
	fclose(file);
	char here[] = "requests-XXXXXX", copy[1024];
	CHECK(mkdtemp(here));
	path(copy, here, "f");
	CHECK(link(arguments[2], copy) == 0 || (errno == EXDEV && symlink(arguments[2], copy) == 0));
	all(here, 0);
	all(arguments[1], 1);
	puts("all of it");
	return 0;
}
