/* Counts the instructions of a piece of code, and the locked ones, by single-stepping the calling
 * thread: the processor's trap flag raises SIGTRAP after every instruction, so the count is exact
 * and needs neither performance counters nor a debugger. Times measured meanwhile are
 * meaningless. */
#ifndef VERBENA_BENCHES_STEPS_H
#define VERBENA_BENCHES_STEPS_H

#include <stdint.h>

struct steps {
	uint64_t instructions;
	/* With a lock prefix, exchanges with memory (implicitly locked), and full fences: instructions
	 * that wait for earlier stores. */
	uint64_t locked;
	uint64_t system_calls;
};

/* Skips the benchmark on unsupported processors. */
void steps_begin(void);

/* Returns the counts since steps_begin, without the counting itself. */
struct steps steps_end(void);

/* Adds one count to another. */
void steps_add(struct steps *sum, struct steps more);

#endif
