#include "traced.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#ifdef __x86_64__

/* Shared with the tracer. */
struct board {
	_Atomic bool is_allowed, is_stepping, is_counting, is_refused;
	uint64_t instructions, system_calls;
};

static struct board *board;
static pid_t tracer;
static bool is_calibrated;
static struct steps of_itself;

static bool is_system_call(pid_t thread, uint64_t at)
{
	uint8_t code[2] = { 0 };
	struct iovec here = { code, sizeof code }, there = { (void *)at, sizeof code };
	return process_vm_readv(thread, &here, 1, &there, 1, 0) == sizeof code &&
	       code[0] == 0x0f && code[1] == 0x05;
}

/* Single-steps until counting has ended. Delivers signals other than those of the steps. */
static void trace(pid_t thread)
{
	int status;
	while (!board->is_allowed)
		usleep(100);
	if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0) {
		board->is_refused = true;
		return;
	}
	bool has_counted = false;
	uint64_t at_last = 0;
	board->is_stepping = true;
	while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status)) {
		int signal = WSTOPSIG(status);
		bool is_step = signal == SIGTRAP;
		if (board->is_counting && is_step) {
			struct user_regs_struct registers;
			has_counted = true;
			if (ptrace(PTRACE_GETREGS, thread, 0, &registers) != 0)
				break;
			/* A repeated string instruction traps after each iteration. */
			if (registers.rip != at_last) {
				board->instructions++;
				board->system_calls += is_system_call(thread, registers.rip);
			}
			at_last = registers.rip;
		} else if (has_counted) {
			ptrace(PTRACE_DETACH, thread, 0, 0);
			return;
		}
		if (ptrace(PTRACE_SINGLESTEP, thread, 0, is_step ? 0 : signal) != 0)
			break;
	}
}

static void begin(void)
{
	if (board == NULL) {
		board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		CHECK(board != MAP_FAILED);
	}
	*board = (struct board){ 0 };
	pid_t thread = (pid_t)syscall(SYS_gettid);
	/* Without fork handlers: they would change the process. */
	tracer = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	CHECK(tracer >= 0);
	if (tracer == 0) {
		trace(thread);
		_exit(0);
	}
	prctl(PR_SET_PTRACER, tracer, 0, 0, 0);
	board->is_allowed = true;
	while (!board->is_stepping) {
		if (board->is_refused)
			check_skip("ptrace is not allowed here");
	}
	board->is_counting = true;
}

static struct steps end(void)
{
	board->is_counting = false;
	CHECK(waitpid(tracer, NULL, 0) == tracer);
	return (struct steps){ .instructions = board->instructions,
			       .system_calls = board->system_calls };
}

void traced_begin(void)
{
	if (!is_calibrated) {
		is_calibrated = true;
		begin();
		of_itself = end();
	}
	begin();
}

struct steps traced_end(void)
{
	struct steps counted = end();
	counted.instructions -= of_itself.instructions;
	return counted;
}

#else

void traced_begin(void)
{
	check_skip("instructions are counted on x86-64 only");
}

struct steps traced_end(void)
{
	return (struct steps){ 0 };
}

#endif
