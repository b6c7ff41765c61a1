/* CG: the smallest eigenvalue of a sparse matrix by inverse iteration; each step solves a system
 * by 25 steps of the conjugate gradient method (RNR-94-007, kernel CG of section 2). */
#ifndef VERBENA_NAS_CG_H
#define VERBENA_NAS_CG_H

#include "common.h"

/* cg_grid.c: a grid of processes with as many columns as rows, or twice as many. The matrix is
 * divided along both dimensions. A vector is divided along the columns: every process of a
 * column has the same part. */
enum { MOST_DOUBLINGS = 20 };
struct grid {
    int rows, columns, row, column;
    int partners[MOST_DOUBLINGS]; /* of the row, nearest first */
    int doublings;
    int opposite; /* rank that has the part of a product that this process needs */
    int first_row, row_count;       /* of the matrix, here */
    int first_column, column_count; /* of the matrix, and of vectors */
    int part_start, part_count;     /* rows of a product that this process sums */
    double *incoming;
};
void grid_begin(struct grid *grid, int size);
/* Sums the products of a row of processes, and gives every process its part as a vector;
 * overwrites product. */
void grid_turn(const struct grid *grid, double *product, double *vector);
/* Sums over a row of processes, which together have all of a vector. */
void grid_sum(const struct grid *grid, double *values, int count);

/* cg_matrix.c: this process' block of the matrix, row by row. */
struct matrix {
    int rows;
    size_t *starts;  /* rows + 1 elements */
    int *columns;    /* relative to the block's first */
    double *values;
};
struct recipe {
    int size, nonzeros;
    double shift;
};
void matrix_make(struct matrix *matrix, const struct recipe *recipe, const struct grid *grid);

#endif
