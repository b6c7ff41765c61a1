/* Reads 1,024 ranges of 4 KiB of a file on a server, like analysis programs: by seeks and reads, and again after one
 * announcement of the whole list; and by pread(2) of the file itself, the least that a server spends on the same
 * ranges. vector URL BYTES FILE; prints the seconds of all three, five times. */
#include <fcntl.h>
#include <rfio_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1024, LENGTH = 4096, TIMES = 5 };

static struct iovec64 list[COUNT];
static char one[COUNT][LENGTH], two[COUNT][LENGTH], local[COUNT][LENGTH];

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void read_all(int file, char (*into)[LENGTH])
{
	for (int i = 0; i < COUNT; i++)
		if (rfio_lseek64(file, list[i].iov_base, SEEK_SET) < 0 || rfio_read(file, into[i], LENGTH) != LENGTH) {
			rfio_perror("read");
			exit(1);
		}
}

static void read_locally(int file, char (*into)[LENGTH])
{
	for (int i = 0; i < COUNT; i++)
		if (pread(file, into[i], LENGTH, list[i].iov_base) != LENGTH) {
			perror("pread");
			exit(1);
		}
}

int main(int count, char **arguments)
{
	/* No client buffer: a request for each read. */
	int direct = 0;
	const long long size = count == 4 ? atoll(arguments[2]) : 0, part = size / LENGTH / COUNT;
	if (part < 1)
		return 2;
	rfiosetopt(RFIO_READOPT, &direct, sizeof direct);
	int file = rfio_open64(arguments[1], O_RDONLY, 0);
	if (file < 0) {
		rfio_perror("open");
		return 1;
	}
	int original = open(arguments[3], O_RDONLY);
	if (original < 0) {
		perror(arguments[3]);
		return 1;
	}
	unsigned long long state = 3;
	for (int i = 0; i < COUNT; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		/* One range of each 1,024th of the file, out of order: XRootD's client refuses ranges that overlap. */
		list[i].iov_base = ((long long)(i * 389 % COUNT) * part + (long long)((state >> 20) % part)) * LENGTH;
		list[i].iov_len = LENGTH;
	}
	for (int i = 0; i < TIMES; i++) {
		double start = now();
		read_all(file, one);
		double single = now() - start;
		start = now();
		if (rfio_preseek64(file, list, COUNT)) {
			rfio_perror("preseek");
			return 1;
		}
		read_all(file, two);
		double vector = now() - start;
		start = now();
		read_locally(original, local);
		printf("%.9f %.9f %.9f\n", single, vector, now() - start);
		if (memcmp(one, two, sizeof one) || memcmp(one, local, sizeof one)) {
			fprintf(stderr, "the bytes differ\n");
			return 1;
		}
	}
	return rfio_close(file) != 0;
}
