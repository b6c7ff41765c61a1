/* Start and end of a call: measures computing time, and distinguishes calls of the program from
 * those of the library.
 *
 * Computing is the thread's processor time. Reading it costs more than many a call, and it
 * differs from elapsed time only if the thread did not run; therefore, up to SHORT nanoseconds
 * of elapsed time count as processor time. */

#define _GNU_SOURCE
#include "recorder.h"
#include "verbena.h"
#include <stdio.h>
#include <time.h>

#define SHORT 20000
/* A program that polls again within so many nanoseconds has waited, not computed. */
#define SPIN 1000
/* Maximum nanoseconds that a process may report: many such processes are still within the limits
 * of a replay. */
#define LONGEST 1000000000000000ull

static bool recording;
static __thread bool inside;
/* Whether the thread has made a call: only computing of such threads counts. */
static __thread bool calls;
/* The thread's processor time when it was last known, advanced by elapsed time for short spans. */
static __thread uint64_t processor;
static __thread uint64_t left_at;

/* Computing that the thread has reported since its last call, and its number of active pauses. */
static __thread uint64_t told;
static __thread unsigned paused;
/* Computing that all threads have reported, counted or not. */
static uint64_t told_in_all;

static uint64_t entered_at, computed;
/* Calls that found no message or request ready and are not yet written. */
static enum call polled;
static uint64_t polls, polled_for;
static bool after_poll;

static uint64_t clock_of(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* Returns the processor time since the previous query, which was `span` nanoseconds ago. */
static uint64_t processor_since(uint64_t span)
{
	if (span < SHORT) {
		processor += span;
		return span;
	}
	uint64_t before = processor;
	processor = clock_of(CLOCK_THREAD_CPUTIME_ID);
	uint64_t taken = processor > before ? processor - before : 0;
	return taken < span ? taken : span;
}

/* Adds the computing time until now, unless the thread has paused. */
static void count_until(uint64_t now)
{
	uint64_t span = now - left_at;
	uint64_t taken = processor_since(span);
	if (paused == 0 && (!after_poll || span > SPIN))
		computed += taken;
}

bool call_enter(void)
{
	if (!recording || inside)
		return false;
	inside = true;
	calls = true;
	entered_at = clock_of(CLOCK_MONOTONIC);
	count_until(entered_at);
	computed += told;
	told = 0;
	return true;
}

/* Adds the computing time until now, as at a call, without a call. Activity after a call that
 * found nothing ready is not only waiting. */
static void count(void)
{
	if (!calls)
		return;
	after_poll = false;
	uint64_t now = clock_of(CLOCK_MONOTONIC);
	count_until(now);
	left_at = now;
}

/* Computing reported by a program: verbena.h. */
EXPORTED void verbena_computed(uint64_t nanoseconds)
{
	static bool complained;
	if (!recording || inside)
		return;
	uint64_t before = __atomic_load_n(&told_in_all, __ATOMIC_RELAXED);
	do {
		if (nanoseconds > LONGEST - before) {
			if (!__atomic_exchange_n(&complained, true, __ATOMIC_RELAXED))
				fprintf(stderr,
					"verbena record: verbena_computed(%llu) would make more than 11 days of this process, and counts for nothing\n",
					(unsigned long long)nanoseconds);
			return;
		}
	} while (!__atomic_compare_exchange_n(&told_in_all, &before, before + nanoseconds, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	told += nanoseconds;
}

EXPORTED void verbena_pause(void)
{
	if (!recording || inside)
		return;
	if (paused == 0)
		count();
	paused++;
}

EXPORTED void verbena_resume(void)
{
	if (!recording || inside || paused == 0)
		return;
	if (paused == 1)
		count();
	paused--;
}

static uint64_t leave(void)
{
	left_at = clock_of(CLOCK_MONOTONIC);
	uint64_t within = left_at - entered_at;
	processor_since(within);
	inside = false;
	return within;
}

static void tell_polls(void)
{
	if (polls != 0)
		output_polls(polled, polls, polled_for);
	polls = polled_for = 0;
}

void call_leave(enum call call)
{
	tell_polls();
	unsigned entry = output_entry(call);
	uint64_t within = leave();
	output_record(entry, computed, within, left_at);
	computed = 0;
	after_poll = false;
}

/* Counts a call that found no message or request ready; it is written with the next call. */
void call_polled(enum call call)
{
	if (polls != 0 && polled != call)
		tell_polls();
	polled = call;
	polls++;
	polled_for += leave();
	after_poll = true;
}

void call_recording(void)
{
	recording = true;
	inside = false;
	calls = true;
	processor = clock_of(CLOCK_THREAD_CPUTIME_ID);
	left_at = clock_of(CLOCK_MONOTONIC);
}

void call_stop(void)
{
	recording = false;
}
