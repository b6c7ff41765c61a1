/* The output of process 0, one fact per line. The suite parses it (lines.rs), where every line
 * is documented. */
#include "suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t moved;

/* Most values printed per process: every one, every second, every third... */
enum { TOLD = 1 << 15 };

void tell(const char *format, ...) {
    if (my_rank != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

void tell_beginning(void) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    /* MPICH returns its whole configuration, in several lines. */
    library[strcspn(library, "\n")] = '\0';
    for (char *at = library; *at != '\0'; at++)
        *at = *at == '\t' ? ' ' : *at;
    tell("verbena-mpi 1 %d %s\n", world_size, library);
}

void tell_point(size_t size, const int *shape) {
    if (shape != NULL)
        tell("point %zu %d %d\n", size, shape[0], shape[1]);
    else
        tell("point %zu\n", size);
}

static void line_of(const char *name, int rank, const double *values, long count) {
    printf("%s %d %ld", name, rank, count);
    for (long i = 0; i < count; i++)
        printf(" %.1f", values[i]);
    printf("\n");
    fflush(stdout);
}

/* Prints the values of every timed process, from process 0. */
void tell_values(const char *name, enum role role, const double *values, long count) {
    long every = (count + TOLD - 1) / TOLD;
    long told = 0;
    double *chosen = malloc(sizeof(double) * (size_t)(count + 1));
    for (long i = 0; role == TIMED && i < count; i += every)
        chosen[told++] = values[i];
    if (my_rank == 0) {
        if (told > 0)
            line_of(name, 0, chosen, told);
        double *theirs = malloc(sizeof(double) * TOLD);
        for (int rank = 1; rank < world_size; rank++) {
            MPI_Status status;
            int number;
            MPI_Recv(theirs, TOLD, MPI_DOUBLE, rank, 7, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_DOUBLE, &number);
            if (number > 0)
                line_of(name, rank, theirs, number);
        }
        free(theirs);
    } else {
        MPI_Send(chosen, (int)told, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
    }
    free(chosen);
}

void tell_end(void) {
    uint64_t all = 0;
    MPI_Reduce(&moved, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    tell("moved %llu\n", (unsigned long long)all);
}
