/* Process 0 puts into and gets from memory of process 1, which is passive; the window is locked
 * during the whole point. An operation is complete when it is flushed. */
#include "suite.h"

#include <stdlib.h>

enum { WINDOW = 64, TARGET = 1 };

enum direction { PUT, GET };

struct access {
    MPI_Win window;
    enum direction direction;
    int size;
    void *own;
};

static void request(const struct access *access) {
    if (access->direction == PUT)
        MPI_Put(access->own, access->size, MPI_BYTE, TARGET, 0, access->size, MPI_BYTE, access->window);
    else
        MPI_Get(access->own, access->size, MPI_BYTE, TARGET, 0, access->size, MPI_BYTE, access->window);
}

static void once(void *subject, uint64_t number) {
    const struct access *access = subject;
    (void)number;
    if (my_rank == TARGET)
        return;
    request(access);
    MPI_Win_flush(TARGET, access->window);
    moved += (uint64_t)access->size;
}

static void windows(void *subject, uint64_t count) {
    const struct access *access = subject;
    if (my_rank == TARGET)
        return;
    for (uint64_t window = 0; window < count; window++) {
        for (int i = 0; i < WINDOW; i++)
            request(access);
        MPI_Win_flush(TARGET, access->window);
    }
    moved += count * WINDOW * (uint64_t)access->size;
}

static void check_access(struct access *access, void *exposed) {
    size_t bytes = (size_t)access->size;
    void *from = access->direction == PUT ? access->own : exposed, *to = access->direction == PUT ? exposed : access->own;
    int source = access->direction == PUT ? 0 : TARGET;
    for (uint64_t round = 0; round < CHECKED_ROUNDS; round++) {
        if (my_rank == source)
            fill(from, bytes, content(source, 1 - source, round));
        else
            fill(to, bytes, 0);
        MPI_Win_sync(access->window);
        MPI_Barrier(MPI_COMM_WORLD);
        once(access, round);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(access->window);
        if (my_rank != source)
            check(to, bytes, content(source, 1 - source, round), access->direction == PUT ? "what was put" : "what was got");
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

enum measure { TIMES, RATES };

static void measure(const struct plan *plan, size_t size, enum direction direction, enum measure measure) {
    struct access access = {.direction = direction, .size = (int)size, .own = buffer_of(size)};
    void *exposed;
    MPI_Win_allocate(my_rank == TARGET ? (MPI_Aint)size : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &exposed, &access.window);
    MPI_Win_lock_all(0, access.window);
    tell_point(size, NULL);
    check_access(&access, exposed);
    enum role role = my_rank == TARGET ? ANSWERING : TIMED;
    if (nobody_saw_wrong()) {
        if (measure == TIMES)
            sample(plan, role, FREE, once, &access);
        else
            rate(plan, role, "cached", WINDOW, windows, &access);
    }
    MPI_Win_unlock_all(access.window);
    MPI_Win_free(&access.window);
    free(access.own);
}

void put_latency(const struct plan *plan, size_t size) { measure(plan, size, PUT, TIMES); }
void get_latency(const struct plan *plan, size_t size) { measure(plan, size, GET, TIMES); }
void put_bandwidth(const struct plan *plan, size_t size) { measure(plan, size, PUT, RATES); }
void get_bandwidth(const struct plan *plan, size_t size) { measure(plan, size, GET, RATES); }
