/* The memory of HPL's matrix, which is larger than this machine's: the same PIECE of memory, mapped repeatedly. HPC Challenge's copy of HPL allocates
 * its matrix by this function; panels, rows and everything else use the C library's memory. */

#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* More than a panel's columns on a rank (27 MB), so that a panel has no number twice; a prime number of pages, so that columns of almost no
 * length coincide. */
static const size_t PIECE = 7919 * 4096;

/* Only one exists at a time. */
static uint8_t *matrix;
static size_t length;

void *HPCC_malloc(size_t size)
{
	length = (size + PIECE - 1) / PIECE * PIECE;
	int file = memfd_create("matrix", MFD_CLOEXEC);
	matrix = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (matrix == MAP_FAILED)
		return NULL;
	bool fits = file >= 0 && ftruncate(file, (off_t)PIECE) == 0;
	for (size_t at = 0; fits && at < length; at += PIECE)
		fits = mmap(matrix + at, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
	if (file >= 0)
		close(file);
	if (!fits)
		munmap(matrix, length);
	return fits ? matrix : NULL;
}

void HPCC_free(void *at)
{
	munmap(at, length);
}
