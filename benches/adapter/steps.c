#include "steps.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#include "check.h"

#ifdef __x86_64__

#define TRAP_FLAG 0x100

static volatile uint64_t instructions, locked, system_calls, at_last;
static bool is_calibrated;
static struct steps of_itself;

static bool is_legacy_prefix(uint8_t byte)
{
	return byte == 0xf0 || byte == 0xf2 || byte == 0xf3 || byte == 0x66 || byte == 0x67 ||
	       byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x26 || byte == 0x64 ||
	       byte == 0x65;
}

/* Intel SDM volume 2, 2.1: legacy prefixes, REX, opcode, ModRM. */
static bool is_locked(const uint8_t *code)
{
	for (; is_legacy_prefix(*code); code++) {
		if (*code == 0xf0)
			return true;
	}
	if ((*code & 0xf0) == 0x40)
		code++;
	bool exchanges_with_memory = (code[0] == 0x86 || code[0] == 0x87) && code[1] < 0xc0;
	bool is_full_fence = code[0] == 0x0f && code[1] == 0xae && code[2] == 0xf0;
	return exchanges_with_memory || is_full_fence;
}

static bool is_system_call(const uint8_t *code)
{
	return code[0] == 0x0f && code[1] == 0x05;
}

static void step(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	uint64_t at = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	/* A repeated string instruction traps after each iteration. */
	if (at == at_last)
		return;
	at_last = at;
	instructions++;
	locked += is_locked((const uint8_t *)at);
	system_calls += is_system_call((const uint8_t *)at);
}

/* Below the red zone, where the compiler may keep values. */
#define CHANGE_FLAGS(operation, value)                                                   \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" operation                \
			 " %0, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp"                \
			 : : "i"(value) : "memory", "cc")

static void start(void)
{
	instructions = locked = system_calls = at_last = 0;
	CHANGE_FLAGS("orq", TRAP_FLAG);
}

static struct steps stop(void)
{
	CHANGE_FLAGS("andq", ~TRAP_FLAG);
	return (struct steps){ instructions, locked, system_calls };
}

void steps_begin(void)
{
	if (!is_calibrated) {
		struct sigaction action = { .sa_sigaction = step, .sa_flags = SA_SIGINFO };
		CHECK_CALL(sigaction(SIGTRAP, &action, NULL));
		is_calibrated = true;
		steps_begin();
		of_itself = steps_end();
	}
	start();
}

struct steps steps_end(void)
{
	struct steps counted = stop();
	return (struct steps){ counted.instructions - of_itself.instructions,
			       counted.locked - of_itself.locked,
			       counted.system_calls };
}

#else

void steps_begin(void)
{
	check_skip("instructions are counted on x86-64 only");
}

struct steps steps_end(void)
{
	return (struct steps){ 0 };
}

#endif

void steps_add(struct steps *sum, struct steps more)
{
	sum->instructions += more.instructions;
	sum->locked += more.locked;
	sum->system_calls += more.system_calls;
}
