/* A process that is stopped (by a debugger, a shell, a batch system) holds up only processes that depend on it.
 *
 * Sources: signal(7), SIGSTOP; InfiniBand Architecture Specification, volume 1, 9.9.1 (a connection fails by its own
 * timeouts and retries, and by nothing else), 11.2.8.5 (Deregister Memory Region removes access to the region);
 * ibv_dereg_mr(3), ibv_open_device(3). */

#include "bulk.h"
#include "trace.h"

static void bystander(struct peer *parent)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	peer_meet(parent);
	peer_meet(parent);
	endpoint_close(&endpoint);
}

static void open_and_close(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	endpoint_close(&endpoint);
}

/* One process with a queue pair is stopped; hundreds of short programs begin and end after it. */
static void others_begin_and_end(void)
{
	enum { PROGRAMS = 600 };
	struct peer stopped = peer_start(bystander);
	peer_meet(&stopped);
	peer_stop(&stopped);
	for (unsigned number = 0; number < PROGRAMS; number++) {
		pid_t process = fork();
		CHECK(process >= 0);
		if (process == 0) {
			hang_after(15);
			open_and_close();
			exit(EXIT_SUCCESS);
		}
		int status;
		CHECK_EQUAL(waitpid(process, &status, 0), process);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
			check_failed(__FILE__, __LINE__,
				     "program %u hangs while another process is stopped", number);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	peer_continue(&stopped);
	peer_meet(&stopped);
	peer_end(&stopped);
}

static unsigned long connections_of_a_start(void)
{
	pid_t process = fork();
	CHECK(process >= 0);
	if (process == 0) {
		be_traced();
		hand_over();
		open_and_close();
		exit(EXIT_SUCCESS);
	}
	take_over(process);
	return count_calls(process, SYS_connect);
}

/* A program begins and ends without contact to unrelated processes: as many calls of connect(2) among 2 processes as
 * among 34. */
static void a_start_connects_to_nobody(void)
{
	enum { FEW = 2, MANY = 34, SLACK = 4 };
	struct peer others[MANY];
	for (unsigned number = 0; number < FEW; number++) {
		others[number] = peer_start(bystander);
		peer_meet(&others[number]);
	}
	unsigned long among_few = connections_of_a_start();
	for (unsigned number = FEW; number < MANY; number++) {
		others[number] = peer_start(bystander);
		peer_meet(&others[number]);
	}
	unsigned long among_many = connections_of_a_start();
	for (unsigned number = 0; number < MANY; number++) {
		peer_meet(&others[number]);
		peer_end(&others[number]);
	}
	if (among_many > among_few + SLACK)
		check_failed(__FILE__, __LINE__,
			     "a program makes %lu connections among %d processes and %lu among %d",
			     among_few, FEW, among_many, MANY);
}

/* Stops the writer in the middle; false when it was done before. */
static bool stop_in_the_middle(struct bulk *bulk)
{
	peer_stop(&bulk->writer);
	return bulk->memory[BULK - PAGE] == 0;
}

static void deregister_and_let_go(void)
{
	struct bulk bulk = bulk_begin();
	(void)stop_in_the_middle(&bulk);
	hang_after(60);
	CHECK_CALL(ibv_dereg_mr(bulk.mr));
	guard_pages(&bulk);
	peer_continue(&bulk.writer);
	enum ibv_wc_status status = bulk_status(&bulk);
	size_t late = pages_written(&bulk);
	if (late != 0)
		check_failed(__FILE__, __LINE__,
			     "%zu of %zu pages were written after the region had been deregistered; "
			     "the writer has \"%s\"",
			     late, BULK / PAGE, ibv_wc_status_str(status));
	bulk_end(&bulk);
}

static void deregister_another_and_let_go(void)
{
	struct bulk bulk = bulk_begin();
	uint8_t *elsewhere = private_pages(PAGE);
	struct ibv_mr *other = region(&bulk.endpoint, elsewhere, PAGE, ALL_ACCESS);
	(void)stop_in_the_middle(&bulk);
	hang_after(60);
	CHECK_CALL(ibv_dereg_mr(other));
	peer_continue(&bulk.writer);
	uint32_t status;
	/* Where the owner places the bytes it polls, as it did before. */
	while (recv(bulk.writer.socket, &status, sizeof status, MSG_DONTWAIT) != sizeof status) {
		struct ibv_wc wc;
		(void)ibv_poll_cq(bulk.endpoint.cq, 1, &wc);
	}
	if (status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__,
			     "a writer that was stopped while another region was deregistered has "
			     "\"%s\"",
			     ibv_wc_status_str((enum ibv_wc_status)status));
	for (size_t at = 0; at < BULK; at += PAGE)
		CHECK_EQUAL(bulk.memory[at], WRITTEN);
	/* Nor later, neither while the owner sleeps nor while it polls. */
	char order = SEND;
	for (uint64_t number = 0; number < 3; number++) {
		post_receive(&bulk.endpoint, number, piece_of(bulk.mr, 0, PAGE));
		peer_tell(&bulk.writer, &order, 1);
		CHECK_EQUAL(bulk_status(&bulk), IBV_WC_SUCCESS);
		expect(&bulk.endpoint, number, IBV_WC_SUCCESS);
	}
	bulk_end(&bulk);
}

/* Several attempts, because the writer may be stopped where it holds nothing. In processes of their own, so that none
 * inherits a device. */
static void attempt(void (*body)(void))
{
	enum { ATTEMPTS = 6 };
	for (unsigned number = 0; number < ATTEMPTS; number++) {
		pid_t process = fork();
		CHECK(process >= 0);
		if (process == 0) {
			body();
			exit(EXIT_SUCCESS);
		}
		int status;
		CHECK_EQUAL(waitpid(process, &status, 0), process);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

/* When ibv_dereg_mr has returned 0 the memory is the program's alone, also against a writer that was stopped in the
 * middle and is continued later. */
static void a_stopped_writer_does_not_write_on(void)
{
	attempt(deregister_and_let_go);
}

/* And a writer that was stopped while it wrote to one region is not given up for the sake of
 * another. */
static void a_stopped_writer_keeps_its_connection(void)
{
	attempt(deregister_another_and_let_go);
}

const struct test tests[] = {
	{ "others_begin_and_end", others_begin_and_end },
	{ "a_start_connects_to_nobody", a_start_connects_to_nobody },
	{ "a_stopped_writer_does_not_write_on", a_stopped_writer_does_not_write_on },
	{ "a_stopped_writer_keeps_its_connection", a_stopped_writer_keeps_its_connection },
	{ 0 },
};
