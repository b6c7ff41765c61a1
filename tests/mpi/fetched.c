/* An MPI program of one-sided atomics: every rank takes tickets of a counter on rank 0 by fetch and
 * add, and a word by compare and swap. Each ticket is given once. Prints how many there were. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define TICKETS 100L

static void require(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "%s\n", what);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int rank, size;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	long *shared; /* Of rank 0: the next ticket, the word, and how often each ticket was given. */
	long length = 2 + TICKETS * size;
	MPI_Win window;
	MPI_Win_allocate(length * (long)sizeof *shared, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD,
			 &shared, &window);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
	for (long at = 0; at < length; at++)
		shared[at] = 0;
	MPI_Win_unlock(rank, window);
	MPI_Barrier(MPI_COMM_WORLD);

	const long one = 1;
	long last = -1;
	MPI_Win_lock_all(0, window);
	for (long turn = 0; turn < TICKETS; turn++) {
		long ticket, before;
		MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
		require(ticket > last && ticket < TICKETS * size, "a ticket that cannot be");
		last = ticket;
		MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 2 + ticket, MPI_SUM, window);
		MPI_Win_flush(0, window);
		require(before == 0, "a ticket was given twice");
		long mine = rank + 1, nobody = 0, held = 0;
		do {
			MPI_Compare_and_swap(&mine, &nobody, &held, MPI_LONG, 0, 1, window);
			MPI_Win_flush(0, window);
		} while (held != 0);
		MPI_Compare_and_swap(&nobody, &mine, &held, MPI_LONG, 0, 1, window);
		MPI_Win_flush(0, window);
		require(held == mine, "two ranks held the word");
	}
	MPI_Win_unlock_all(window);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		require(shared[0] == TICKETS * size && shared[1] == 0, "tickets are missing");
		for (long at = 2; at < length; at++)
			require(shared[at] == 1, "a ticket was not given once");
		MPI_Win_unlock(0, window);
		printf("%d ranks took %ld tickets\n", size, TICKETS * size);
	}
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
}
