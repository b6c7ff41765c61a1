/* Ping-pong messages, and messages in both directions at once. */
#include "suite.h"

#include <stdlib.h>

struct exchange {
    int peer;
    int size;
    void *out, *in;
};

static void strike(const struct exchange *exchange) {
    MPI_Send(exchange->out, exchange->size, MPI_BYTE, exchange->peer, 1, MPI_COMM_WORLD);
    moved += (uint64_t)exchange->size;
}

static void await(const struct exchange *exchange) {
    MPI_Recv(exchange->in, exchange->size, MPI_BYTE, exchange->peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void begin(void *subject, uint64_t number) {
    (void)number;
    strike(subject);
    await(subject);
}

static void answer(void *subject, uint64_t number) {
    (void)number;
    await(subject);
    strike(subject);
}

static void meet(void *subject, uint64_t number) {
    struct exchange *exchange = subject;
    MPI_Request request;
    (void)number;
    MPI_Isend(exchange->out, exchange->size, MPI_BYTE, exchange->peer, 1, MPI_COMM_WORLD, &request);
    await(exchange);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    moved += (uint64_t)exchange->size;
}

/* Every message of the checking pass has different content. */
static void check_messages(struct exchange *exchange, step *step) {
    for (uint64_t round = 0; round < CHECKED_ROUNDS; round++) {
        fill(exchange->out, (size_t)exchange->size, content(my_rank, exchange->peer, round));
        fill(exchange->in, (size_t)exchange->size, 0);
        step(exchange, round);
        check(exchange->in, (size_t)exchange->size, content(exchange->peer, my_rank, round), "a message");
    }
}

static void measure(const struct plan *plan, size_t size, int peer, enum role role, step *step) {
    struct exchange exchange = {peer, (int)size, buffer_of(size), buffer_of(size)};
    tell_point(size, NULL);
    check_messages(&exchange, step);
    if (nobody_saw_wrong())
        sample(plan, role, FREE, step, &exchange);
    free(exchange.out);
    free(exchange.in);
}

/* Each process of the first half starts, with a partner of the second half. */
static void there_and_back(const struct plan *plan, size_t size) {
    int half = world_size / 2, first = my_rank < half;
    int peer = first ? my_rank + half : my_rank - half;
    measure(plan, size, peer, first ? TIMED : ANSWERING, first ? begin : answer);
}

void latency(const struct plan *plan, size_t size) { there_and_back(plan, size); }

void multi_pair_latency(const struct plan *plan, size_t size) { there_and_back(plan, size); }

void pingping(const struct plan *plan, size_t size) { measure(plan, size, 1 - my_rank, TIMED, meet); }
