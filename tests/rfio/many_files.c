/* Many files of many threads by the classic calls: more files than a user may have sessions.
 *
 * usage: many_files rfio://HOST:PORT DIRECTORY: the files there are 0 to FILES - 1, and every 8 bytes of a file are its number
 * plus their place. */

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rfio_api.h>

#define THREADS 8
#define EACH 80
#define FILES 64
#define WORDS (32 << 10)

static const char *server;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, rfio_serror());                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int open_one(int number, int flags) {
    char name[256];
    snprintf(name, sizeof name, "%s/%d", server, number);
    return rfio_open64(name, flags, 0600);
}

static void read_whole(int file, int number) {
    static __thread uint64_t words[WORDS];
    size_t have = 0;
    CHECK(rfio_lseek64(file, 0, SEEK_SET) == 0);
    while (have < sizeof words) {
        ssize_t more = rfio_read64(file, (char *)words + have, sizeof words - have);
        CHECK(more > 0);
        have += more;
    }
    for (uint64_t word = 0; word < WORDS; word++)
        CHECK(words[word] == (uint64_t)number * WORDS + word);
}

static void *reader(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    int files[EACH], numbers[EACH];
    for (int at = 0; at < EACH; at++) {
        numbers[at] = (seed * EACH + at) % FILES;
        files[at] = open_one(numbers[at], O_RDONLY);
        CHECK(files[at] >= 0);
    }
    for (int turn = 0; turn < 400; turn++) {
        int at = rand_r(&seed) % EACH;
        uint64_t word, place = rand_r(&seed) % WORDS;
        CHECK(rfio_pread64(files[at], &word, sizeof word, place * sizeof word) == sizeof word);
        CHECK(word == (uint64_t)numbers[at] * WORDS + place);
        if (turn % 20 == 0)
            read_whole(files[at], numbers[at]);
    }
    for (int at = 0; at < EACH; at++)
        CHECK(rfio_close(files[at]) == 0);
    return NULL;
}

/* One descriptor reads the data that another has written, on any connections. */
static void write_and_read(void) {
    for (int number = 1000; number < 1040; number++) {
        int into = open_one(number, O_RDWR | O_CREAT | O_TRUNC), from = open_one(number, O_RDONLY);
        uint64_t value = number, found = 0;
        CHECK(into >= 0 && from >= 0);
        CHECK(rfio_write64(into, &value, sizeof value) == sizeof value);
        CHECK(rfio_pread64(from, &found, sizeof found, 0) == sizeof found && found == value);
        CHECK(rfio_close(into) == 0 && rfio_close(from) == 0);
    }
}

/* A child has its own connections, and the parent's open files are unchanged. */
static void across_a_fork(void) {
    int file = open_one(3, O_RDONLY), status;
    CHECK(file >= 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        read_whole(file, 3);
        int other = open_one(4, O_RDONLY);
        read_whole(other, 4);
        CHECK(rfio_close(other) == 0 && rfio_close(file) == 0);
        exit(0);
    }
    read_whole(file, 3);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(rfio_close(file) == 0);
}

/* The user of the environment at the time of opening counts, even where connections of another exist. */
static void as_somebody_else(void) {
    char before[64];
    const char *user = getenv("RFIO_USER");
    snprintf(before, sizeof before, "%s", user ? user : "");
    CHECK(setenv("RFIO_USER", "somebody-else", 1) == 0);
    CHECK(open_one(1, O_RDONLY) < 0);
    CHECK((user ? setenv("RFIO_USER", before, 1) : unsetenv("RFIO_USER")) == 0);
    int file = open_one(1, O_RDONLY);
    CHECK(file >= 0 && rfio_close(file) == 0);
}

int main(int count, char **arguments) {
    if (count != 2)
        return 2;
    server = arguments[1];
    pthread_t threads[THREADS];
    for (uintptr_t number = 0; number < THREADS; number++)
        CHECK(pthread_create(&threads[number], NULL, reader, (void *)number) == 0);
    for (int number = 0; number < THREADS; number++)
        CHECK(pthread_join(threads[number], NULL) == 0);
    write_and_read();
    across_a_fork();
    as_somebody_else();
    for (int turn = 0; turn < 500; turn++) {
        int file = open_one(turn % FILES, O_RDONLY);
        uint64_t word;
        CHECK(file >= 0 && rfio_read64(file, &word, sizeof word) == sizeof word);
        CHECK(word == (uint64_t)(turn % FILES) * WORDS && rfio_close(file) == 0);
    }
    CHECK(rfio_end() == 0);
    puts("all of it");
    return 0;
}
