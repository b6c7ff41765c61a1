/* The matrix of CG: a sum of outer products of sparse random vectors, with weights falling from
 * 1 to 0.1, plus 0.1 less the shift on its diagonal (RNR-94-007, kernel CG of section 2). All
 * processes generate all vectors, because each number depends on the previous one, and keep the
 * elements in their block. */
#include "cg.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double CONDITION = 0.1, DIAGONAL = 0.5;

/* A sparse vector of the sum. Element `own` is fixed, the others are random. */
struct sparse {
    int count;
    int *places;
    double *values;
};

static int find(const struct sparse *vector, int place) {
    int i = 0;
    while (i < vector->count && vector->places[i] != place)
        i++;
    return i;
}

static void draw(struct sparse *vector, const struct recipe *recipe, int own, int power_of_two, uint64_t *state) {
    vector->count = 0;
    while (vector->count < recipe->nonzeros) {
        double value = random_next(state);
        int place = (int)(power_of_two * random_next(state));
        if (place >= recipe->size || find(vector, place) < vector->count)
            continue;
        vector->places[vector->count] = place;
        vector->values[vector->count++] = value;
    }
    int at = find(vector, own);
    vector->places[at] = own;
    vector->values[at] = DIAGONAL;
    if (at == vector->count)
        vector->count++;
}

/* Elements of the sum in the order of generation; several may have the same position. */
struct element {
    int row, column;
    double value;
};
struct pile {
    struct element *elements;
    size_t count, capacity;
};

static void put(struct pile *pile, int row, int column, double value) {
    if (pile->count == pile->capacity) {
        size_t capacity = pile->capacity * 2 + 1024;
        struct element *larger = room(capacity, sizeof *larger);
        for (size_t i = 0; i < pile->count; i++)
            larger[i] = pile->elements[i];
        free(pile->elements);
        *pile = (struct pile){larger, pile->count, capacity};
    }
    pile->elements[pile->count++] = (struct element){row, column, value};
}

static bool is_within(int place, int first, int count) { return place >= first && place < first + count; }

static struct pile products(const struct recipe *recipe, const struct grid *grid) {
    struct pile pile = {0};
    struct sparse vector = {.places = room((size_t)recipe->nonzeros + 1, sizeof *vector.places),
                            .values = room((size_t)recipe->nonzeros + 1, sizeof *vector.values)};
    int power_of_two = 1;
    while (power_of_two < recipe->size)
        power_of_two *= 2;
    uint64_t state = RANDOM_SEED;
    /* The first number is discarded. */
    random_next(&state);
    double weight = 1, ratio = pow(CONDITION, 1.0 / recipe->size);
    for (int own = 0; own < recipe->size; own++, weight *= ratio) {
        draw(&vector, recipe, own, power_of_two, &state);
        for (int i = 0; i < vector.count; i++) {
            int column = vector.places[i] - grid->first_column;
            if (!is_within(column, 0, grid->column_count))
                continue;
            double scale = weight * vector.values[i];
            for (int j = 0; j < vector.count; j++)
                if (is_within(vector.places[j], grid->first_row, grid->row_count))
                    put(&pile, vector.places[j] - grid->first_row, column, vector.values[j] * scale);
        }
    }
    for (int row = 0; row < grid->row_count; row++) {
        int column = row + grid->first_row - grid->first_column;
        if (is_within(column, 0, grid->column_count))
            put(&pile, row, column, CONDITION - recipe->shift);
    }
    free(vector.places);
    free(vector.values);
    return pile;
}

/* Sorts by rows, in the order of generation within each. */
static struct element *sorted(const struct pile *pile, int rows, size_t *starts) {
    struct element *sorted = room(pile->count, sizeof *sorted);
    size_t *next = room((size_t)rows + 1, sizeof *next);
    for (size_t i = 0; i < pile->count; i++)
        starts[pile->elements[i].row + 1]++;
    for (int row = 0; row < rows; row++) {
        starts[row + 1] += starts[row];
        next[row] = starts[row];
    }
    for (size_t i = 0; i < pile->count; i++)
        sorted[next[pile->elements[i].row]++] = pile->elements[i];
    free(next);
    return sorted;
}

static int by_column(const void *one, const void *other) {
    return ((const struct element *)one)->column - ((const struct element *)other)->column;
}

void matrix_make(struct matrix *matrix, const struct recipe *recipe, const struct grid *grid) {
    struct pile pile = products(recipe, grid);
    int rows = grid->row_count;
    size_t *starts = room((size_t)rows + 1, sizeof *starts);
    struct element *elements = sorted(&pile, rows, starts);
    *matrix = (struct matrix){.rows = rows,
                              .starts = room((size_t)rows + 1, sizeof *matrix->starts),
                              .columns = room(pile.count, sizeof *matrix->columns),
                              .values = room(pile.count, sizeof *matrix->values)};
    free(pile.elements);
    size_t count = 0;
    for (int row = 0; row < rows; row++) {
        matrix->starts[row] = count;
        qsort(elements + starts[row], starts[row + 1] - starts[row], sizeof *elements, by_column);
        for (size_t i = starts[row]; i < starts[row + 1]; i++) {
            if (count == matrix->starts[row] || matrix->columns[count - 1] != elements[i].column) {
                matrix->columns[count] = elements[i].column;
                matrix->values[count++] = 0;
            }
            matrix->values[count - 1] += elements[i].value;
        }
    }
    matrix->starts[rows] = count;
    free(elements);
    free(starts);
}
