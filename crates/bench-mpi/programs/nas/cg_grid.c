/* The process grid of CG and its communication: sums along rows by recursive doubling, and the
 * exchange that turns a product, divided along rows, into a vector, divided along columns
 * (NAS-95-020, CG). */
#include "cg.h"

#include <string.h>

enum { TAG_PART, TAG_TURN, TAG_SUM };

/* Start of a part when `size` is divided into `pieces`. */
static int cut(int size, int piece, int pieces) { return (int)((int64_t)size * piece / pieces); }

void grid_begin(struct grid *grid, int size) {
    *grid = (struct grid){.rows = 1, .columns = 1};
    while (grid->rows * grid->columns < world_size)
        *(grid->columns > grid->rows ? &grid->rows : &grid->columns) *= 2;
    if (grid->columns > size)
        refuse("%d processes are too many for %d rows", world_size, size);
    int columns = grid->columns, wide = columns / grid->rows;
    int row = my_rank / columns, column = my_rank % columns;
    grid->row = row;
    grid->column = column;
    for (int distance = 1; distance < columns; distance *= 2)
        grid->partners[grid->doublings++] = row * columns + (column ^ distance);
    /* Rows are divided at the boundaries of columns. With twice as many columns, a row of
     * processes has the rows of two columns; a process' column decides which of the two it sums. */
    grid->opposite = column / wide * columns + row * wide + column % wide;
    grid->first_row = cut(size, row * wide, columns);
    grid->row_count = cut(size, (row + 1) * wide, columns) - grid->first_row;
    grid->first_column = cut(size, column, columns);
    grid->column_count = cut(size, column + 1, columns) - grid->first_column;
    int part = row * wide + column % wide;
    grid->part_start = cut(size, part, columns) - grid->first_row;
    grid->part_count = cut(size, part + 1, columns) - cut(size, part, columns);
    grid->incoming = room((size_t)grid->row_count + 1, sizeof *grid->incoming);
}

static void exchange(int partner, int tag, const double *out, int out_count, double *in, int in_count) {
    MPI_Request arrival;
    MPI_Irecv(in, in_count, MPI_DOUBLE, partner, tag, MPI_COMM_WORLD, &arrival);
    MPI_Send(out, out_count, MPI_DOUBLE, partner, tag, MPI_COMM_WORLD);
    MPI_Wait(&arrival, MPI_STATUS_IGNORE);
}

static void add(double *sum, const double *other, int count) {
    for (int i = 0; i < count; i++)
        sum[i] += other[i];
}

void grid_turn(const struct grid *grid, double *product, double *vector) {
    double *part = product + grid->part_start;
    int count = grid->part_count;
    for (int i = 0; i < grid->doublings; i++) {
        /* With twice as many columns as rows, the nearest partner sums the other part: each
         * sends the other its part. */
        const double *given = part;
        int given_count = count;
        if (i == 0 && grid->columns > grid->rows) {
            given = grid->part_start == 0 ? product + count : product;
            given_count = grid->row_count - count;
        }
        exchange(grid->partners[i], TAG_PART, given, given_count, grid->incoming, count);
        add(part, grid->incoming, count);
    }
    if (grid->opposite == my_rank)
        memcpy(vector, part, (size_t)count * sizeof *vector);
    else
        exchange(grid->opposite, TAG_TURN, part, count, vector, grid->column_count);
}

void grid_sum(const struct grid *grid, double *values, int count) {
    for (int i = 0; i < grid->doublings; i++) {
        exchange(grid->partners[i], TAG_SUM, values, count, grid->incoming, count);
        add(values, grid->incoming, count);
    }
}
