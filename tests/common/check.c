#include "check.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Exit status by which the harness counts a test as skipped. */
#define EXIT_SKIPPED 77

void check_failed(const char *file, int line, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fprintf(stderr, "%s:%d: process %d: ", file, line, (int)getpid());
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	fflush(NULL);
	_exit(EXIT_FAILURE);
}

void check_skip(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	printf("skipped: ");
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
	fflush(NULL);
	_exit(EXIT_SKIPPED);
}

uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

void pattern_fill(void *buffer, uint64_t length, uint64_t seed)
{
	uint8_t *bytes = buffer;
	for (uint64_t position = 0; position < length; position++)
		bytes[position] = pattern(seed, position);
}

void pattern_check(const void *buffer, uint64_t length, uint64_t seed)
{
	const volatile uint8_t *bytes = buffer;
	for (uint64_t position = 0; position < length; position++) {
		uint8_t expected = pattern(seed, position);
		uint8_t actual = bytes[position];
		if (actual != expected)
			check_failed(__FILE__, __LINE__,
				     "byte %llu of %llu is 0x%02x and not 0x%02x (pattern %llu)",
				     (unsigned long long)position, (unsigned long long)length,
				     actual, expected, (unsigned long long)seed);
	}
}

int main(int count, char **arguments)
{
	if (count != 2) {
		fprintf(stderr, "usage: %s --list | NAME\n", arguments[0]);
		return 2;
	}
	if (strcmp(arguments[1], "--list") == 0) {
		for (const struct test *test = tests; test->name != NULL; test++)
			puts(test->name);
		return 0;
	}
	for (const struct test *test = tests; test->name != NULL; test++) {
		if (strcmp(arguments[1], test->name) == 0) {
			test->run();
			return 0;
		}
	}
	fprintf(stderr, "%s: there is no test %s\n", arguments[0], arguments[1]);
	return 2;
}
