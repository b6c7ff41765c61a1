/* A process that runs, but whose adapter gets no processor, and one that is stopped, before there is a channel to them.
 * Requests to the first wait for as long as the machine is busy, because an adapter would execute them; those to the
 * second end with retry exceeded. */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define LENGTH 64
/* The adapter waits for a channel for 2 s, and 67 ms for an acknowledgement. */
#define TIMEOUT 14
#define WITHOUT_A_PROCESSOR (4 * SECOND)
/* For a busy machine. */
#define TIME_LIMIT (60 * SECOND)

static uint8_t memory[LENGTH];

static void be_a_peer(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	post_receive(&endpoint, 1, piece_of(mr, 0, LENGTH));
	struct address own = endpoint_address(&endpoint), other;
	peer_tell(parent, &own, sizeof own);
	peer_hear(parent, &other, sizeof other);
	endpoint_connect(&endpoint, other);
	/* A poll could do the work of the thread. */
	peer_meet(parent);
	peer_meet(parent);
	struct ibv_wc wc = completion_within(&endpoint, TIME_LIMIT);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(memory[0], pattern(7, 0));
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

static struct endpoint impatient(void)
{
	struct settings settings = endpoint_defaults();
	settings.timeout = TIMEOUT;
	settings.retry_count = 0;
	return endpoint_open(settings);
}

/* The thread of this name, or 0. */
static pid_t thread_named(pid_t process, const char *wanted)
{
	char path[64], name[32] = "";
	snprintf(path, sizeof path, "/proc/%d/task", process);
	DIR *threads = opendir(path);
	CHECK_POINTER(threads);
	pid_t found = 0;
	for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof path, "/proc/%d/task/%.20s/comm", process, entry->d_name);
		FILE *file = fopen(path, "r");
		CHECK_POINTER(file);
		CHECK_POINTER(fgets(name, sizeof name, file));
		fclose(file);
		if (strcmp(name, wanted) == 0)
			found = atoi(entry->d_name);
	}
	closedir(threads);
	return found;
}

/* The thread of a process that does the adapter's work. A thread sets its name itself, once it has a processor. */
static pid_t adapter_thread(pid_t process)
{
	pid_t found;
	for (uint64_t end = now() + TIME_LIMIT; (found = thread_named(process, "verbena\n")) == 0; usleep(1000))
		CHECK(now() < end);
	return found;
}

static void hold(pid_t thread)
{
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
		check_skip("ptrace(2) of a thread: %s", strerror(errno));
	CHECK_CALL(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL));
	int status;
	CHECK_EQUAL(waitpid(thread, &status, __WALL), thread);
	CHECK(WIFSTOPPED(status));
}

static void without_a_processor(void)
{
	struct peer peer = peer_start(be_a_peer);
	struct endpoint endpoint = impatient();
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	pattern_fill(memory, LENGTH, 7);
	struct address own = endpoint_address(&endpoint), other;
	peer_hear(&peer, &other, sizeof other);
	pid_t thread = adapter_thread(peer.process);
	hold(thread);
	endpoint_connect(&endpoint, other);
	peer_tell(&peer, &own, sizeof own);
	peer_meet(&peer);
	post_send(&endpoint, 7, piece_of(mr, 0, LENGTH));
	for (uint64_t end = now() + WITHOUT_A_PROCESSOR; now() < end; usleep(1000))
		expect_none(&endpoint);
	CHECK_CALL(ptrace(PTRACE_DETACH, thread, NULL, NULL));
	struct ibv_wc wc = completion_within(&endpoint, TIME_LIMIT);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	peer_meet(&peer);
	peer_end(&peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

static void stopped(void)
{
	struct peer peer = peer_start(be_a_peer);
	struct endpoint endpoint = impatient();
	struct ibv_mr *mr = region(&endpoint, memory, LENGTH, ALL_ACCESS);
	struct address other;
	peer_hear(&peer, &other, sizeof other);
	int status;
	CHECK_CALL(kill(peer.process, SIGSTOP));
	CHECK_EQUAL(waitpid(peer.process, &status, WUNTRACED), peer.process);
	CHECK(WIFSTOPPED(status));
	endpoint_connect(&endpoint, other);
	post_send(&endpoint, 7, piece_of(mr, 0, LENGTH));
	/* A running process would have a minute. */
	struct ibv_wc wc = completion_within(&endpoint, TIME_LIMIT / 2);
	CHECK_EQUAL(wc.status, IBV_WC_RETRY_EXC_ERR);
	CHECK_CALL(kill(peer.process, SIGKILL));
	CHECK_EQUAL(waitpid(peer.process, &status, 0), peer.process);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "a peer without a processor", without_a_processor },
	{ "a peer that is stopped", stopped },
	{ 0 },
};
