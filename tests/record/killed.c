/* Rank 1 is killed in the midst of its calls, when far more than a block of its trace has been made; rank 0 waits for
 * it until the launcher ends the job. */

#include <mpi.h>
#include <signal.h>

int main(int count, char **words)
{
	int rank;
	char out[100], in[100];
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int round = 0; round < 60000; round++)
		MPI_Sendrecv(out, round % 100, MPI_CHAR, rank, 0, in, 100, MPI_CHAR, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 1)
		raise(SIGKILL);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
