/* An MPI program that checks every byte: a ring of messages of all sizes, blocking and not, then
 * collectives. Prints how many bytes from other ranks this run has verified. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGEST (4 << 20)
#define WINDOW 16
#define REDUCED 100000

static int rank, size;
static uint64_t verified;

/* A byte that depends on sender, receiver, round and position. */
static uint8_t byte_of(int from, int to, uint32_t round, uint32_t position)
{
	uint32_t word = (uint32_t)from * 31 + (uint32_t)to * 7 + round * 1009 + position / 4;
	word *= 2654435761u;
	return (uint8_t)(word >> (position % 4 * 8));
}

static void fill(uint8_t *bytes, uint32_t length, int to, uint32_t round)
{
	for (uint32_t position = 0; position < length; position++)
		bytes[position] = byte_of(rank, to, round, position);
}

static void check(const uint8_t *bytes, uint32_t length, int from, uint32_t round)
{
	for (uint32_t position = 0; position < length; position++) {
		if (bytes[position] != byte_of(from, rank, round, position)) {
			fprintf(stderr, "rank %d: byte %u of %u from rank %d in round %u is wrong\n",
				rank, position, length, from, round);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	}
	/* A rank's messages to itself need not leave the process. */
	if (from != rank)
		verified += length;
}

static void *allocate(size_t length)
{
	void *memory = malloc(length);
	if (memory == NULL)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return memory;
}

/* One message at a time to the next rank, from the one before. */
static void ring(uint8_t *out, uint8_t *in)
{
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	uint32_t round = 0;
	for (uint32_t length = 0; length <= LARGEST; length = length * 2 + 1, round++) {
		MPI_Status status;
		int received;
		fill(out, length, next, round);
		MPI_Sendrecv(out, (int)length, MPI_BYTE, next, 1, in, LARGEST, MPI_BYTE, before, 1,
			     MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_BYTE, &received);
		if ((uint32_t)received != length)
			MPI_Abort(MPI_COMM_WORLD, 3);
		check(in, length, before, round);
	}
}

/* Many under way at once, to every other rank, received in the opposite order. */
static void windows(uint8_t *out, uint8_t *in, uint32_t length)
{
	MPI_Request requests[2 * WINDOW];
	MPI_Status statuses[2 * WINDOW];
	for (int distance = 1; distance < size; distance++) {
		int to = (rank + distance) % size, from = (rank + size - distance) % size;
		for (int slot = 0; slot < WINDOW; slot++) {
			int tag = WINDOW - 1 - slot;
			MPI_Irecv(in + (size_t)tag * length, (int)length, MPI_BYTE, from, tag,
				  MPI_COMM_WORLD, &requests[slot]);
		}
		for (int slot = 0; slot < WINDOW; slot++) {
			fill(out + (size_t)slot * length, length, to, (uint32_t)slot);
			MPI_Isend(out + (size_t)slot * length, (int)length, MPI_BYTE, to, slot,
				  MPI_COMM_WORLD, &requests[WINDOW + slot]);
		}
		MPI_Waitall(2 * WINDOW, requests, statuses);
		for (int slot = 0; slot < WINDOW; slot++)
			check(in + (size_t)slot * length, length, from, (uint32_t)slot);
	}
}

static void collectives(void)
{
	int64_t *mine = allocate(REDUCED * sizeof *mine), *sum = allocate(REDUCED * sizeof *sum);
	for (int64_t index = 0; index < REDUCED; index++)
		mine[index] = index * (rank + 1);
	MPI_Allreduce(mine, sum, REDUCED, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	int64_t ranks = (int64_t)size * (size + 1) / 2;
	for (int64_t index = 0; index < REDUCED; index++) {
		if (sum[index] != index * ranks) {
			fprintf(stderr, "rank %d: sum %lld is wrong\n", rank, (long long)index);
			MPI_Abort(MPI_COMM_WORLD, 4);
		}
	}
	verified += REDUCED * sizeof *sum;
	free(mine);
	free(sum);

	const uint32_t part = 10007;
	uint8_t *out = allocate((size_t)size * part), *in = allocate((size_t)size * part);
	for (int to = 0; to < size; to++)
		fill(out + (size_t)to * part, part, to, 99);
	MPI_Alltoall(out, (int)part, MPI_BYTE, in, (int)part, MPI_BYTE, MPI_COMM_WORLD);
	for (int from = 0; from < size; from++)
		check(in + (size_t)from * part, part, from, 99);
	free(out);
	free(in);
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **arguments)
{
	MPI_Init(&count, &arguments);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	uint8_t *out = allocate(LARGEST), *in = allocate(LARGEST);

	ring(out, in);
	windows(out, in, 1);
	windows(out, in, 3000);
	windows(out, in, LARGEST / WINDOW);
	collectives();

	uint64_t total = 0;
	MPI_Reduce(&verified, &total, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d ranks verified %llu bytes\n", size, (unsigned long long)total);
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
