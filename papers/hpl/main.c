/* HPL as a separate program, from HPC Challenge's copy of it, which is a function there. Barriers enclose the section that its clock measures, as
 * HPL's own barriers are messages, and a section of a trace lies between collective operations. Link with --wrap=HPL_pdgesv. */

#include <hpl.h>
#include <hpcc.h>

void __real_HPL_pdgesv(HPL_T_grid *grid, HPL_T_palg *how, HPL_T_pmat *matrix);

void __wrap_HPL_pdgesv(HPL_T_grid *grid, HPL_T_palg *how, HPL_T_pmat *matrix)
{
	MPI_Barrier(MPI_COMM_WORLD);
	__real_HPL_pdgesv(grid, how, matrix);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Called for an invalid input; HPC Challenge would continue. */
int HPCC_Defaults(HPL_T_test *test, int *ns, int *n, int *nbs, int *nb, HPL_T_ORDER *order, int *grids, int *p, int *q, int *pfacts,
		  HPL_T_FACT *pfact, int *nbmins, int *nbmin, int *ndivs, int *ndiv, int *rfacts, HPL_T_FACT *rfact, int *broadcasts,
		  HPL_T_TOP *broadcast, int *depths, int *depth, HPL_T_SWAP *swap, int *threshold, int *l1, int *u, int *equilibrate,
		  int *align, MPI_Comm comm)
{
	fprintf(stderr, "hpl: hpccinf.txt cannot be read, or makes no sense\n");
	MPI_Abort(comm, 1);
	return 1;
}

int main(int count, char **words)
{
	HPL_RuntimeData result = { 0 };
	int failure = 0;
	MPI_Init(&count, &words);
	HPL_main(count, words, &result, &failure);
	MPI_Finalize();
	return failure;
}
