/* Windows of messages, each answered by a short message when all of it has arrived; one way,
 * both ways, by one pair or many. */
#include "suite.h"

#include <stdlib.h>

enum { WINDOW = 64, LINE = 64 };
/* Size of the buffers that streams use in rotation: more than a core's private caches (rule 16). */
static const size_t FOOTPRINT = 64 << 20;

enum way { OUT = 1, IN = 2 };

struct stream {
    int peer, size;
    enum way ways;
    unsigned char *out, *in;
    size_t stride, places; /* of the buffers used in rotation */
    int is_read;           /* by the receiver, while the clock runs */
    uint64_t next;
};

/* A sink, so that the reads are not optimised away. */
static volatile uint64_t seen;

static void read_all(const unsigned char *data, size_t bytes) {
    uint64_t sum = 0;
    const uint64_t *words = (const uint64_t *)(const void *)data;
    for (size_t i = 0; i < bytes / 8; i++)
        sum ^= words[i];
    for (size_t i = bytes / 8 * 8; i < bytes; i++)
        sum ^= data[i];
    seen = sum;
}

/* With one place, all messages of a window go into the same buffer, as in OSU's benchmarks, and
 * are not read. */
static void windows(void *subject, uint64_t count) {
    struct stream *stream = subject;
    MPI_Request requests[2 * WINDOW];
    char word[4] = {0};
    int sends = (stream->ways & OUT) != 0, receives = (stream->ways & IN) != 0;
    for (uint64_t window = 0; window < count; window++) {
        int pending = 0;
        for (uint64_t i = 0; receives && i < WINDOW; i++)
            MPI_Irecv(stream->in + (stream->next + i) % stream->places * stream->stride, stream->size, MPI_BYTE, stream->peer, 2,
                      MPI_COMM_WORLD, &requests[pending++]);
        for (uint64_t i = 0; sends && i < WINDOW; i++)
            MPI_Isend(stream->out + (stream->next + i) % stream->places * stream->stride, stream->size, MPI_BYTE, stream->peer,
                      2, MPI_COMM_WORLD, &requests[pending++]);
        MPI_Waitall(pending, requests, MPI_STATUSES_IGNORE);
        for (uint64_t i = 0; stream->is_read && receives && i < WINDOW; i++)
            read_all(stream->in + (stream->next + i) % stream->places * stream->stride, (size_t)stream->size);
        if (receives && !sends)
            MPI_Send(word, sizeof word, MPI_BYTE, stream->peer, 3, MPI_COMM_WORLD);
        else if (sends && !receives)
            MPI_Recv(word, sizeof word, MPI_BYTE, stream->peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Sendrecv(word, 2, MPI_BYTE, stream->peer, 3, word + 2, 2, MPI_BYTE, stream->peer, 3, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        stream->next += WINDOW;
    }
    if (sends)
        moved += count * WINDOW * (uint64_t)stream->size;
}

/* A window in which every message has a different content and place. */
static void check_stream(struct stream *stream) {
    stream->next = 0;
    for (uint64_t i = 0; i < WINDOW; i++) {
        if (stream->ways & OUT)
            fill(stream->out + i * stream->stride, (size_t)stream->size, content(my_rank, stream->peer, i));
        if (stream->ways & IN)
            fill(stream->in + i * stream->stride, (size_t)stream->size, 0);
    }
    windows(stream, 1);
    for (uint64_t i = 0; (stream->ways & IN) && i < WINDOW; i++)
        check(stream->in + i * stream->stride, (size_t)stream->size, content(stream->peer, my_rank, i), "a message");
}

enum caching { CACHED, IN_TURN_TOO };

static void measure(const struct plan *plan, size_t size, int peer, enum way ways, enum caching caching) {
    struct stream stream = {.peer = peer, .size = (int)size, .ways = ways, .stride = (size + LINE - 1) / LINE * LINE};
    stream.stride = stream.stride == 0 ? LINE : stream.stride;
    size_t in_turn = FOOTPRINT / stream.stride;
    in_turn = in_turn < WINDOW ? WINDOW : in_turn;
    size_t room = caching == IN_TURN_TOO ? in_turn : WINDOW;
    stream.out = ways & OUT ? buffer_of(room * stream.stride) : NULL;
    stream.in = ways & IN ? buffer_of(room * stream.stride) : NULL;
    enum role role = ways & OUT ? TIMED : ANSWERING;
    tell_point(size, NULL);
    stream.places = WINDOW;
    check_stream(&stream);
    if (nobody_saw_wrong()) {
        if (caching == IN_TURN_TOO) {
            stream.places = in_turn;
            stream.is_read = 1;
            rate(plan, role, "in-turn", WINDOW, windows, &stream);
            tell("footprint %zu\n", in_turn * stream.stride);
        }
        stream.places = 1;
        stream.is_read = 0;
        rate(plan, role, "cached", WINDOW, windows, &stream);
    }
    free(stream.out);
    free(stream.in);
}

void bandwidth(const struct plan *plan, size_t size) { measure(plan, size, 1 - my_rank, my_rank == 0 ? OUT : IN, IN_TURN_TOO); }

void bandwidth_both(const struct plan *plan, size_t size) { measure(plan, size, 1 - my_rank, OUT | IN, IN_TURN_TOO); }

void multi_pair_bandwidth(const struct plan *plan, size_t size) {
    int half = world_size / 2, first = my_rank < half;
    measure(plan, size, first ? my_rank + half : my_rank - half, first ? OUT : IN, CACHED);
}
