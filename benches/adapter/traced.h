/* Counts instructions and system calls of the calling thread by a tracer: a child process that
 * single-steps the thread with ptrace(2). Slower than steps.h, but also counts code that runs
 * with signals blocked. Exact; times measured meanwhile are meaningless. Other threads run freely
 * and are not counted. */
#ifndef VERBENA_BENCHES_TRACED_H
#define VERBENA_BENCHES_TRACED_H

#include "steps.h"

/* Starts counting. Skips the benchmark if ptrace is not permitted. */
void traced_begin(void);

/* Returns the counts since traced_begin, without the counting itself. */
struct steps traced_end(void);

#endif
