/* CG: the smallest eigenvalue of a sparse matrix by inverse iteration, each step of which solves a system by 25 steps of the
 * conjugate gradient method (RNR-94-007, kernel CG of section 2). */
#ifndef VERBENA_NAS_CG_H
#define VERBENA_NAS_CG_H

#include "common.h"

/* cg_grid.c: processes as rows and columns, as many columns as rows or twice as many. The matrix is cut both ways. A vector is
 * cut along the columns: every process of a column has the same piece of it. */
enum { MOST_DOUBLINGS = 20 };
struct grid {
    int rows, columns, row, column;
    int partners[MOST_DOUBLINGS]; /* of the row, nearest first */
    int doublings;
    int opposite; /* who has what this process needs of a product */
    int first_row, row_count;       /* of the matrix, here */
    int first_column, column_count; /* of the matrix, and of vectors */
    int part_start, part_count;     /* of a product's rows: what this process sums up */
    double *incoming;
};
void grid_begin(struct grid *grid, int size);
/* Sums the products of a row of processes, and hands every process its piece as a vector; product is used up. */
void grid_turn(const struct grid *grid, double *product, double *vector);
/* Sums over a row of processes, which together have all of a vector. */
void grid_sum(const struct grid *grid, double *values, int count);

/* cg_matrix.c: the block of the matrix that this process has, row by row. */
struct matrix {
    int rows;
    size_t *starts;  /* rows and one */
    int *columns;    /* from the block's first */
    double *values;
};
struct recipe {
    int size, nonzeros;
    double shift;
};
void matrix_make(struct matrix *matrix, const struct recipe *recipe, const struct grid *grid);

#endif
