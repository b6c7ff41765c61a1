/* How many instructions a piece of code takes, and how many of them are locked. Counted by single
 * steps of the calling thread: the processor's trap flag raises SIGTRAP after every instruction, so
 * neither performance counters nor a debugger are needed, and the figure is exact. Time measured
 * meanwhile means nothing. */
#ifndef VERBENA_BENCHES_STEPS_H
#define VERBENA_BENCHES_STEPS_H

#include <stdint.h>

struct steps {
	uint64_t instructions;
	/* With a lock prefix, exchanges with memory (which lock by themselves), and full fences:
	 * what waits for the stores before it. */
	uint64_t locked;
	uint64_t system_calls;
};

/* Ends the process as one that cannot be tried, on processors that it does not know. */
void steps_begin(void);

/* What was executed since, without the counting itself. */
struct steps steps_end(void);

/* Adds one count to another. */
void steps_add(struct steps *sum, struct steps more);

#endif
