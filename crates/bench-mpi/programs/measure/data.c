#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static char wrong[200];
static int is_wrong;

/* Page-aligned, with all pages touched. */
void *buffer_of(size_t bytes) {
    void *buffer;
    size_t room = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    if (posix_memalign(&buffer, PAGE, room) != 0) {
        fprintf(stderr, "process %d has no room for %zu bytes\n", my_rank, room);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(buffer, 0, room);
    return buffer;
}

uint64_t content(int from, int to, uint64_t sequence) {
    uint64_t mixed = ((uint64_t)from << 40 ^ (uint64_t)to << 20 ^ sequence) + 1;
    return mixed * 0x9e3779b97f4a7c15u;
}

static unsigned char byte_of(uint64_t content, size_t at) {
    uint64_t word = (content + at / 8 + 1) * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(word >> (8 * (at % 8)));
}

void fill(void *buffer, size_t bytes, uint64_t content) {
    for (size_t at = 0; at < bytes; at++)
        ((unsigned char *)buffer)[at] = byte_of(content, at);
}

/* Whether the buffer has that content; the first difference of a point is kept. */
int check(const void *buffer, size_t bytes, uint64_t content, const char *what) {
    for (size_t at = 0; at < bytes; at++) {
        unsigned char found = ((const unsigned char *)buffer)[at], expected = byte_of(content, at);
        if (found == expected)
            continue;
        if (!is_wrong)
            snprintf(wrong, sizeof wrong, "process %d: byte %zu of %zu of %s is 0x%02x, expected 0x%02x", my_rank, at, bytes,
                     what, found, expected);
        is_wrong = 1;
        return 0;
    }
    return 1;
}

int nobody_saw_wrong(void) { return largest_of_all(is_wrong) == 0; }

void forget_wrong(void) { is_wrong = 0; }

/* The first difference found by the process of lowest rank. All processes must call this. */
const char *what_was_wrong(void) {
    int first, mine = is_wrong ? my_rank : world_size;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Bcast(wrong, sizeof wrong, MPI_CHAR, first, MPI_COMM_WORLD);
    return wrong;
}
