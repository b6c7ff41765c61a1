/* Controls the progress of another thread: a child runs one instruction at a time, so that all other processes get
 * ahead of it between any two; or its system calls are counted. This forces the interleavings that a scheduler makes
 * only by chance.
 *
 * Source: ptrace(2). */
#ifndef VERBENA_TESTS_CONTRACT_TRACE_H
#define VERBENA_TESTS_CONTRACT_TRACE_H

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <stdatomic.h>

#include "contract.h"

/* In the child: the calling thread, and no other, is traced by the parent, and waits for it. */
static inline void be_traced(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		check_skip("ptrace is refused: %m");
}

/* In the child: hands itself over to the tracer. */
static inline void hand_over(void)
{
	raise(SIGTRAP);
}

/* Waits until the child has handed itself over. */
static inline void take_over(pid_t process)
{
	int status;
	for (;;) {
		CHECK_EQUAL(waitpid(process, &status, __WALL), process);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			check_skip("the traced process cannot be traced");
		if (!WIFSTOPPED(status))
			check_failed(__FILE__, __LINE__,
				     "the traced process ended with status 0x%x", status);
		if (WSTOPSIG(status) == SIGTRAP)
			return;
		CHECK_CALL((int)ptrace(PTRACE_CONT, process, NULL,
				       (void *)(uintptr_t)WSTOPSIG(status)));
	}
}

/* One instruction. */
static inline void step(pid_t process)
{
	int status;
	CHECK_CALL((int)ptrace(PTRACE_SINGLESTEP, process, NULL, NULL));
	CHECK_EQUAL(waitpid(process, &status, __WALL), process);
	if (!WIFSTOPPED(status))
		check_failed(__FILE__, __LINE__, "the traced process ended with status 0x%x",
			     status);
}

static inline void let_go(pid_t process)
{
	CHECK_CALL((int)ptrace(PTRACE_CONT, process, NULL, NULL));
}

/* Lets a child that is traced run to its end; returns how often it and its threads made a system call. */
static inline unsigned long count_calls(pid_t process, unsigned long number)
{
	unsigned long count = 0;
	CHECK_CALL((int)ptrace(PTRACE_SETOPTIONS, process, NULL,
			       (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE)));
	CHECK_CALL((int)ptrace(PTRACE_SYSCALL, process, NULL, NULL));
	for (;;) {
		int status;
		pid_t thread = waitpid(-1, &status, __WALL);
		CHECK(thread > 0);
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (thread != process)
				continue;
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			return count;
		}
		int signal = WSTOPSIG(status);
		if (signal == (SIGTRAP | 0x80)) {
			struct __ptrace_syscall_info info;
			signal = 0;
			if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, (void *)sizeof info, &info) <= 0)
				check_skip("PTRACE_GET_SYSCALL_INFO: %m");
			if (info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == number)
				count++;
		} else if (signal == SIGTRAP || (signal == SIGSTOP && thread != process)) {
			/* A clone, or a new thread's first stop. */
			signal = 0;
		}
		if (ptrace(PTRACE_SYSCALL, thread, NULL, (void *)(uintptr_t)signal) != 0)
			CHECK_EQUAL(errno, ESRCH);
	}
}

#endif
