/* The frame of a test program: a table of named tests, run one a process.
 *
 *   program --list      prints the names
 *   program NAME        runs one test; exit 0: passed, 77: cannot run here, 1: failed
 *
 * A failed check prints its place and the values, and ends the process group of the test. */
#ifndef VERBENA_TESTS_CHECK_H
#define VERBENA_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct test {
	const char *name;
	void (*run)(void);
};

/* The table of the program, ended by an entry without a name. Defined by each program. */
extern const struct test tests[];

/* Ends the process with a message. */
void check_failed(const char *file, int line, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

/* Ends the process: the test cannot run on this machine. */
void check_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Fails the test unless the condition holds. */
#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition))                                                         \
			check_failed(__FILE__, __LINE__, "%s does not hold", #condition); \
	} while (0)

/* The same for two integers, with their values in the message. */
#define CHECK_EQUAL(actual, expected)                                                          \
	do {                                                                                   \
		int64_t actual_value = (int64_t)(actual);                                      \
		int64_t expected_value = (int64_t)(expected);                                  \
		if (actual_value != expected_value)                                            \
			check_failed(__FILE__, __LINE__, "%s is %lld and not %lld (%s)", #actual, \
				     (long long)actual_value, (long long)expected_value,       \
				     #expected);                                               \
	} while (0)

/* A call that gives 0 or an errno value, as most verbs do. */
#define CHECK_CALL(call)                                                                         \
	do {                                                                                     \
		int call_result = (call);                                                        \
		if (call_result != 0)                                                            \
			check_failed(__FILE__, __LINE__, "%s gives %d", #call, call_result);      \
	} while (0)

/* A call that gives a pointer, or NULL with errno. */
#define CHECK_POINTER(pointer)                                                             \
	do {                                                                               \
		if ((pointer) == NULL)                                                     \
			check_failed(__FILE__, __LINE__, "%s is NULL: %m", #pointer);      \
	} while (0)

/* Nanoseconds of the monotonic clock. */
uint64_t now(void);

#define MILLISECOND UINT64_C(1000000)
#define SECOND (1000 * MILLISECOND)

/* A byte that depends on its position and on a seed, so that data that is displaced, stale or
 * from another place is noticed. */
static inline uint8_t pattern(uint64_t seed, uint64_t position)
{
	uint64_t word = (seed ^ (position >> 3)) * UINT64_C(0x9e3779b97f4a7c15);
	word ^= word >> 29;
	return (uint8_t)(word >> ((position & 7) * 8));
}

void pattern_fill(void *buffer, uint64_t length, uint64_t seed);

/* Checks every byte; the message names the first that differs. */
void pattern_check(const void *buffer, uint64_t length, uint64_t seed);

#endif
