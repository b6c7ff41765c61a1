/* CPU cost of an 8 B message, on both sides together: counted instructions and locked
 * instructions, and time. The tests named `shared` send as UCX does, and so every MPI library over
 * it: two inline pieces, mostly unsignalled; receives from a shared receive queue that is refilled
 * by 16; a completion queue for each direction, and polls of both that mostly find nothing. */

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
#define COUNTED 64
#define ATTEMPTS 10
#define PATIENCE_MS 500
#define ROUNDS 4000 /* in a batch */
#define SIZE 8
#define HEADER 9 /* of a message of UCX's */
#define REFILL 16
#define SIGNALLED_EVERY 64
#define MOST_CALLS 3

struct side {
	struct endpoint endpoint;
	/* Where the process is busy until its progress thread is held. */
	struct endpoint busy;
	struct ibv_mr *mr;
	char *memory;
	/* Of `shared` only. */
	struct ibv_cq *receive_cq;
	struct ibv_srq *srq;
	unsigned sent, taken;
};

typedef void (*call)(struct side *side);

static struct side side_open(void)
{
	struct side side = { .endpoint = endpoint_open(endpoint_defaults()) };
	side.busy = side.endpoint;
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

static void refill(struct side *side)
{
	struct ibv_sge pieces[REFILL];
	struct ibv_recv_wr requests[REFILL], *bad;
	for (unsigned one = 0; one < REFILL; one++) {
		pieces[one] = (struct ibv_sge){ .addr = (uintptr_t)side->memory + 64 * one,
						.length = 64,
						.lkey = side->mr->lkey };
		requests[one] = (struct ibv_recv_wr){
			.next = one + 1 < REFILL ? &requests[one + 1] : NULL,
			.sg_list = &pieces[one],
			.num_sge = 1,
		};
	}
	if (ibv_post_srq_recv(side->srq, requests, &bad) != 0)
		check_failed(__FILE__, __LINE__, "ibv_post_srq_recv fails");
}

/* Gives a side queues as UCX makes them, and a queue pair that uses them. */
static void share(struct side *side)
{
	struct ibv_context *context = side->endpoint.context;
	struct settings settings = endpoint_defaults();
	settings.depth = 4 * SIGNALLED_EVERY;
	settings.unsignaled = true;
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 4 * REFILL, .max_sge = 1 } };
	side->srq = settings.srq = ibv_create_srq(side->endpoint.pd, &shared);
	CHECK_POINTER(side->srq);
	side->receive_cq = settings.receive_cq =
		ibv_create_cq(context, (int)settings.depth, NULL, NULL, 0);
	CHECK_POINTER(side->receive_cq);
	side->endpoint.cq = ibv_create_cq(context, (int)settings.depth, NULL, NULL, 0);
	CHECK_POINTER(side->endpoint.cq);
	side->endpoint = endpoint_beside(&side->endpoint, settings);
	refill(side);
	refill(side);
}

static inline void check_polled(int polled, const struct ibv_wc *wcs)
{
	if (polled < 0)
		check_failed(__FILE__, __LINE__, "ibv_poll_cq fails");
	if (polled > 0 && wcs[0].status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__, "%s", ibv_wc_status_str(wcs[0].status));
}

static void send_shared(struct side *side)
{
	struct ibv_sge pieces[2] = {
		{ .addr = (uintptr_t)side->memory, .length = HEADER },
		{ .addr = (uintptr_t)side->memory + HEADER, .length = SIZE },
	};
	bool is_signalled = ++side->sent % SIGNALLED_EVERY == 0;
	struct ibv_send_wr request = {
		.opcode = IBV_WR_SEND,
		.sg_list = pieces,
		.num_sge = 2,
		.send_flags = IBV_SEND_INLINE | (is_signalled ? IBV_SEND_SIGNALED : 0),
	}, *bad;
	if (ibv_post_send(side->endpoint.qp, &request, &bad) != 0)
		check_failed(__FILE__, __LINE__, "ibv_post_send fails");
}

/* Polls both queues once. */
static void wait_shared(struct side *side)
{
	struct ibv_wc wcs[REFILL];
	if (ibv_poll_cq(side->receive_cq, REFILL, wcs) != 0)
		check_failed(__FILE__, __LINE__, "a message that nobody has sent");
	check_polled(ibv_poll_cq(side->endpoint.cq, REFILL, wcs), wcs);
}

static void take_shared(struct side *side)
{
	struct ibv_wc wcs[REFILL];
	int polled;
	while ((polled = ibv_poll_cq(side->receive_cq, REFILL, wcs)) == 0)
		;
	check_polled(polled, wcs);
	if (++side->taken % REFILL == 0)
		refill(side);
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
	struct endpoint to = endpoint_beside(&side->busy, endpoint_defaults());
	from.endpoint = endpoint_beside(&side->busy, endpoint_defaults());
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

static struct steps stepped(call one, struct side *side)
{
	steps_begin();
	one(side);
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

/* The part of one process in each round: some calls, each when the parent permits it. */
static void take_part(struct peer *parent, struct side side, const call *calls, unsigned count)
{
	peer_connect(parent, &side.endpoint);
	be_busy_until_held(parent, &side);
	struct steps counts[MOST_CALLS] = { 0 };
	for (unsigned round = 0; round < WARM + COUNTED; round++) {
		for (unsigned one = 0; one < count; one++) {
			peer_meet(parent);
			if (round < WARM)
				calls[one](&side);
			else
				steps_add(&counts[one], stepped(calls[one], &side));
			peer_meet(parent);
		}
	}
	peer_tell(parent, counts, sizeof counts);
	peer_meet(parent);
}

static void sender(struct peer *parent)
{
	take_part(parent, side_open(), (const call[]){ send_own, complete }, 2);
}

static void receiver(struct peer *parent)
{
	struct side side = side_open();
	receive_own(&side);
	take_part(parent, side, (const call[]){ complete, receive_own }, 2);
}

static struct side side_open_shared(void)
{
	struct side side = side_open();
	share(&side);
	return side;
}

static void first_shared(struct peer *parent)
{
	take_part(parent, side_open_shared(), (const call[]){ send_shared, wait_shared, take_shared }, 3);
}

static void second_shared(struct peer *parent)
{
	take_part(parent, side_open_shared(), (const call[]){ take_shared, send_shared, wait_shared }, 3);
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

/* Costs of the calls of both processes, each in the order in which they are made. */
struct calls {
	struct steps first[MOST_CALLS], second[MOST_CALLS];
};

/* The process that makes the next call of a round. */
enum turn { ONE, OTHER };

/* One process at a time, so that each call finds its work and is counted once. */
static struct calls exchange(void (*one)(struct peer *parent), void (*other)(struct peer *parent),
			     const enum turn *turns, unsigned count)
{
	struct calls calls;
	struct peer peers[2] = { peer_start(one), peer_start(other) };
	introduce(&peers[ONE], &peers[OTHER]);
	peer_meet(&peers[ONE]);
	peer_meet(&peers[OTHER]);
	/* Both have polled for longer than the threads need to notice. */
	struct timespec while_polling = { .tv_nsec = 20000000 };
	nanosleep(&while_polling, NULL);
	hold_progress_thread(&peers[ONE]);
	hold_progress_thread(&peers[OTHER]);
	for (unsigned round = 0; round < WARM + COUNTED; round++) {
		for (unsigned turn = 0; turn < count; turn++)
			have_call(&peers[turns[turn]]);
	}
	peer_hear(&peers[ONE], calls.first, sizeof calls.first);
	peer_hear(&peers[OTHER], calls.second, sizeof calls.second);
	for (unsigned side = 0; side < 2; side++)
		release_progress_thread(peers[side].process);
	for (unsigned side = 0; side < 2; side++)
		peer_meet(&peers[side]);
	for (unsigned side = 0; side < 2; side++)
		peer_end(&peers[side]);
	return calls;
}

static struct steps all_of(const struct calls *calls)
{
	struct steps all = { 0 };
	for (unsigned one = 0; one < MOST_CALLS; one++) {
		steps_add(&all, calls->first[one]);
		steps_add(&all, calls->second[one]);
	}
	return all;
}

/* If the machine preempted a polling program, its thread was stopped while it waited for a wakeup,
 * and each message would ring the doorbell: a system call. Then the exchange is repeated. */
static struct calls undisturbed(void (*one)(struct peer *parent), void (*other)(struct peer *parent),
				const enum turn *turns, unsigned count)
{
	struct calls calls;
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		calls = exchange(one, other, turns, count);
		if (all_of(&calls).system_calls == 0)
			break;
	}
	return calls;
}

static void counted(void)
{
	/* Sends; takes it; frees space for the next; sees it acknowledged. */
	const enum turn turns[] = { ONE, OTHER, OTHER, ONE };
	struct calls calls = undisturbed(sender, receiver, turns, 4);
	print_steps("post_send_instructions", "post_send_locked", calls.first[0]);
	print_steps("poll_receive_instructions", "poll_receive_locked", calls.second[0]);
	print_steps("post_recv_instructions", "post_recv_locked", calls.second[1]);
	print_steps("poll_send_instructions", "poll_send_locked", calls.first[1]);
	print_steps("message_instructions", "message_locked", all_of(&calls));
	print_result("message_system_calls", (double)all_of(&calls).system_calls / COUNTED);
}

/* The mean of the same call at both sides. */
static struct steps halved(struct steps one, struct steps other)
{
	steps_add(&one, other);
	return (struct steps){ one.instructions / 2, one.locked / 2, one.system_calls / 2 };
}

static void shared(void)
{
	/* One sends, and polls in vain; the other takes it, sends back, and polls in vain. */
	const enum turn turns[] = { ONE, ONE, OTHER, OTHER, OTHER, ONE };
	struct calls calls = undisturbed(first_shared, second_shared, turns, 6);
	struct steps sends = halved(calls.first[0], calls.second[1]);
	struct steps waits = halved(calls.first[1], calls.second[2]);
	struct steps takes = halved(calls.first[2], calls.second[0]);
	print_steps("shared_post_send_instructions", "shared_post_send_locked", sends);
	print_steps("shared_poll_receive_instructions", "shared_poll_receive_locked", takes);
	print_steps("shared_two_empty_polls_instructions", "shared_two_empty_polls_locked", waits);
	steps_add(&sends, takes);
	print_steps("shared_message_instructions", "shared_message_locked", sends);
	print_result("shared_message_system_calls", (double)all_of(&calls).system_calls / COUNTED);
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

static void processor_shared(void)
{
	pin(0);
	struct side sides[2] = { side_open() };
	sides[1] = sides[0];
	for (unsigned side = 0; side < 2; side++)
		share(&sides[side]);
	for (unsigned side = 0; side < 2; side++)
		endpoint_connect(&sides[side].endpoint, endpoint_address(&sides[1 - side].endpoint));
	double costs[BATCHES];
	for (unsigned batch = 0; batch < BATCHES; batch++) {
		uint64_t start = processor_time();
		for (unsigned message = 0; message < ROUNDS; message++) {
			struct side *from = &sides[message % 2], *to = &sides[1 - message % 2];
			send_shared(from);
			wait_shared(from);
			take_shared(to);
		}
		costs[batch] = (double)(processor_time() - start) / ROUNDS;
	}
	print_result("shared_message_processor_ns", median(costs, BATCHES));
}

const struct test tests[] = {
	{ "counted", counted },
	{ "shared", shared },
	{ "processor", processor },
	{ "processor_shared", processor_shared },
	{ 0 },
};
