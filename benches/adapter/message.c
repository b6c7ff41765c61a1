/* CPU cost of an 8 B message, on both sides together: counted instructions and locked
 * instructions, and time. */

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"
#include "endpoint.h"
#include "measure.h"
#include "peer.h"
#include "steps.h"
#include "work.h"

#define WARM 40 /* until all tables are allocated, all functions bound and all locks biased */
#define COUNTED 10
#define ATTEMPTS 10
#define PATIENCE_MS 500
#define ROUNDS 4000 /* in a batch */
#define SIZE 8

struct side {
	struct endpoint endpoint;
	struct ibv_mr *mr;
	char *memory;
};

static struct side side_open(void)
{
	struct side side = { .endpoint = endpoint_open(endpoint_defaults()) };
	side.memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(side.memory);
	memset(side.memory, 0, 4096);
	side.mr = region(&side.endpoint, side.memory, 4096, ALL_ACCESS);
	return side;
}

static inline void receive_8(struct side *side, struct ibv_qp *at)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->memory,
			       .length = SIZE,
			       .lkey = side->mr->lkey };
	struct ibv_recv_wr request = { .sg_list = &sge, .num_sge = 1 }, *bad;
	if (ibv_post_recv(at, &request, &bad) != 0)
		check_failed(__FILE__, __LINE__, "ibv_post_recv fails");
}

/* Inline and signalled, the default of ib_send_lat. */
static inline void send_8(struct side *side)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->memory, .length = SIZE };
	struct ibv_send_wr request = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	}, *bad;
	if (ibv_post_send(side->endpoint.qp, &request, &bad) != 0)
		check_failed(__FILE__, __LINE__, "ibv_post_send fails");
}

static inline void complete(struct side *side)
{
	struct ibv_wc wc;
	while (ibv_poll_cq(side->endpoint.cq, 1, &wc) == 0)
		;
	if (wc.status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__, "%s", ibv_wc_status_str(wc.status));
}

/* The adapter's progress thread of a process, which works while the program does not poll. */
static pid_t progress_thread(pid_t process)
{
	char path[64], name[32];
	snprintf(path, sizeof path, "/proc/%d/task", process);
	DIR *threads = opendir(path);
	CHECK_POINTER(threads);
	pid_t found = 0;
	for (struct dirent *thread; (thread = readdir(threads)) != NULL;) {
		snprintf(path, sizeof path, "/proc/%d/task/%s/comm", process, thread->d_name);
		FILE *comm = thread->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (comm == NULL)
			continue;
		if (fgets(name, sizeof name, comm) != NULL && strcmp(name, "verbena\n") == 0)
			found = (pid_t)strtol(thread->d_name, NULL, 10);
		fclose(comm);
	}
	closedir(threads);
	CHECK(found != 0);
	return found;
}

enum word { AGAIN, HELD };

/* To that thread, a single-stepped program seems to have stopped polling, and the thread would do
 * the program's work. While only the thread is stopped, it leaves all work to the program. */
static void stop_progress_thread(pid_t process)
{
	pid_t thread = progress_thread(process);
	int status;
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
		check_skip("threads cannot be traced here: %m");
	CHECK_CALL((int)ptrace(PTRACE_INTERRUPT, thread, NULL, NULL));
	CHECK(waitpid(thread, &status, __WALL) == thread);
	CHECK(WIFSTOPPED(status));
}

static void release_progress_thread(pid_t process)
{
	CHECK_CALL((int)ptrace(PTRACE_DETACH, progress_thread(process), NULL, NULL));
}

/* Sends messages to itself until the parent has stopped the progress thread, so that the thread is
 * stopped in a state in which it leaves all work to the program. If it assumes that no thread
 * polls, the next message wakes it. */
static void be_busy_until_held(struct peer *parent, struct side *side)
{
	struct side from = *side;
	struct endpoint to = endpoint_beside(&side->endpoint, endpoint_defaults());
	from.endpoint = endpoint_beside(&side->endpoint, endpoint_defaults());
	endpoint_connect(&from.endpoint, endpoint_address(&to));
	endpoint_connect(&to, endpoint_address(&from.endpoint));
	peer_meet(parent);
	struct pollfd said = { .fd = parent->socket, .events = POLLIN };
	enum word word = AGAIN;
	while (word != HELD) {
		while (poll(&said, 1, 0) == 0) {
			receive_8(&from, to.qp);
			send_8(&from);
			complete(&from);
			complete(&from);
		}
		peer_meet(parent);
		peer_hear(parent, &word, sizeof word);
	}
}

/* The counterpart of be_busy_until_held. A thread that was stopped while it held a lock blocks the
 * program, and is continued. */
static void hold_progress_thread(struct peer *child)
{
	for (enum word word = AGAIN; word != HELD;) {
		stop_progress_thread(child->process);
		struct pollfd answered = { .fd = child->socket, .events = POLLIN };
		char byte = 'm';
		peer_tell(child, &byte, 1);
		word = poll(&answered, 1, PATIENCE_MS) == 1 ? HELD : AGAIN;
		if (word == AGAIN)
			release_progress_thread(child->process);
		peer_hear(child, &byte, 1);
		peer_tell(child, &word, sizeof word);
	}
}

static struct steps stepped(void (*call)(struct side *side), struct side *side)
{
	steps_begin();
	call(side);
	return steps_end();
}

static void send_own(struct side *side)
{
	send_8(side);
}

static void receive_own(struct side *side)
{
	receive_8(side, side->endpoint.qp);
}

/* The part of one process in each message: two calls, each when the parent permits it. */
static void take_part(struct peer *parent, void (*first)(struct side *side),
		      void (*second)(struct side *side), bool receives)
{
	struct side side = side_open();
	peer_connect(parent, &side.endpoint);
	if (receives)
		receive_own(&side);
	be_busy_until_held(parent, &side);
	struct steps counts[2] = { 0 };
	for (unsigned message = 0; message < WARM + COUNTED; message++) {
		void (*calls[2])(struct side *) = { first, second };
		for (unsigned call = 0; call < 2; call++) {
			peer_meet(parent);
			if (message < WARM)
				calls[call](&side);
			else
				steps_add(&counts[call], stepped(calls[call], &side));
			peer_meet(parent);
		}
	}
	peer_tell(parent, counts, sizeof counts);
	peer_meet(parent);
}

static void sender(struct peer *parent)
{
	take_part(parent, send_own, complete, false);
}

static void receiver(struct peer *parent)
{
	take_part(parent, complete, receive_own, true);
}

static void have_call(struct peer *child)
{
	peer_meet(child);
	peer_meet(child);
}

/* Connects two children. */
static void introduce(struct peer *one, struct peer *other)
{
	struct address of_one, of_other;
	peer_hear(one, &of_one, sizeof of_one);
	peer_hear(other, &of_other, sizeof of_other);
	peer_tell(one, &of_other, sizeof of_other);
	peer_tell(other, &of_one, sizeof of_one);
	peer_meet(one);
	peer_meet(other);
}

static void print_steps(const char *instructions, const char *locked, struct steps steps)
{
	print_result(instructions, (double)steps.instructions / COUNTED);
	print_result(locked, (double)steps.locked / COUNTED);
}

/* Costs of the four calls of a message, in the order of their names below. */
struct calls {
	struct steps sends[2], receives[2];
};

/* One process at a time, so that each call finds its work and is counted once. */
static struct calls exchange(void)
{
	struct calls calls;
	struct peer from = peer_start(sender), to = peer_start(receiver);
	introduce(&from, &to);
	peer_meet(&from);
	peer_meet(&to);
	/* Both have polled for longer than the threads need to notice. */
	struct timespec while_polling = { .tv_nsec = 20000000 };
	nanosleep(&while_polling, NULL);
	hold_progress_thread(&from);
	hold_progress_thread(&to);
	for (unsigned message = 0; message < WARM + COUNTED; message++) {
		have_call(&from); /* sends */
		have_call(&to);	  /* takes it */
		have_call(&to);	  /* frees space for the next */
		have_call(&from); /* sees it acknowledged */
	}
	peer_hear(&from, calls.sends, sizeof calls.sends);
	peer_hear(&to, calls.receives, sizeof calls.receives);
	release_progress_thread(from.process);
	release_progress_thread(to.process);
	peer_meet(&from);
	peer_meet(&to);
	peer_end(&from);
	peer_end(&to);
	return calls;
}

static struct steps all_of(struct calls calls)
{
	struct steps all = { 0 };
	for (unsigned call = 0; call < 2; call++) {
		steps_add(&all, calls.sends[call]);
		steps_add(&all, calls.receives[call]);
	}
	return all;
}

static void counted(void)
{
	struct calls calls;
	/* If the machine preempted a polling program, its thread was stopped while it waited for
	 * a wakeup, and each message would ring the doorbell: a system call. */
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		calls = exchange();
		if (all_of(calls).system_calls == 0)
			break;
	}
	print_steps("post_send_instructions", "post_send_locked", calls.sends[0]);
	print_steps("poll_receive_instructions", "poll_receive_locked", calls.receives[0]);
	print_steps("post_recv_instructions", "post_recv_locked", calls.receives[1]);
	print_steps("poll_send_instructions", "poll_send_locked", calls.sends[1]);
	print_steps("message_instructions", "message_locked", all_of(calls));
	print_result("message_system_calls", (double)all_of(calls).system_calls / COUNTED);
}

/* Both sides in one thread, so that no time is spent waiting for the peer: only the CPU cost is
 * left. Cache lines that two processes would exchange stay in one cache. */
static void processor(void)
{
	pin(0);
	struct side side = side_open();
	struct endpoint other = endpoint_beside(&side.endpoint, endpoint_defaults());
	endpoint_connect(&side.endpoint, endpoint_address(&other));
	endpoint_connect(&other, endpoint_address(&side.endpoint));
	double costs[BATCHES];
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		uint64_t start = processor_time();
		for (unsigned message = 0; message < ROUNDS; message++) {
			receive_8(&side, other.qp);
			send_8(&side);
			complete(&side);
			complete(&side);
		}
		costs[batch] = (double)(processor_time() - start) / ROUNDS;
	}
	print_result("message_processor_ns", median(costs, BATCHES));
}

const struct test tests[] = {
	{ "counted", counted },
	{ "processor", processor },
	{ 0 },
};
