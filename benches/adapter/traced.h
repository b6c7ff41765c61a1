/* Instructions and system calls of the calling thread, counted by a tracer: a child process that
 * single-steps the thread with ptrace(2). Slower than steps.h, but it also counts code that runs
 * with signals blocked. Exact; time measured meanwhile means nothing. Other threads run freely and
 * are not counted. */
#ifndef VERBENA_BENCHES_TRACED_H
#define VERBENA_BENCHES_TRACED_H

#include "steps.h"

/* Starts counting. Ends the process as one that cannot be tried where ptrace is not allowed. */
void traced_begin(void);

/* What was executed since, without the counting itself. */
struct steps traced_end(void);

#endif
