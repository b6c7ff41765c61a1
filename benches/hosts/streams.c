/* Streams of writes from processes of one host into one process of another, and an idle connection.
 *
 * "receive" is the process into which all write; it sleeps, and its adapter serves the writes. "send" starts STREAMS processes, each
 * with a queue pair to the process at PEER, and prints the rate of each in bytes per second. "idle"
 * writes once and then does nothing, and prints the datagrams and the CPU time that this takes. All processes sleep while they
 * wait, so that they do not block each other if they outnumber the processors. */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define PORT 18601
#define MOST 16
#define SIZE (1u << 20)
#define WINDOW 4
#define DURATION (3 * SECOND)
#define IDLE_SECONDS 5
/* Seconds until the activity after a write has ended. */
#define SETTLING 2

/* Shared by the processes of the sending host. */
static struct shared {
	struct address ours[MOST], theirs[MOST];
	struct window windows[MOST];
	_Atomic uint32_t ready, goes;
	_Atomic uint64_t bytes[MOST];
} *shared;

static struct settings settings(void)
{
	struct settings settings = endpoint_defaults();
	/* Sixteen streams may block each other. */
	settings.timeout = 17;
	settings.retry_count = 7;
	return settings;
}

static void receive(void)
{
	struct peer peer = peer_wait(PORT);
	uint32_t count;
	peer_hear(&peer, &count, sizeof count);
	CHECK(count >= 1 && count <= MOST);
	struct endpoint endpoints[MOST];
	struct ibv_mr *regions[MOST];
	for (uint32_t index = 0; index < count; index++) {
		endpoints[index] = index == 0 ? endpoint_open(settings()) :
						endpoint_beside(&endpoints[0], settings());
		void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		CHECK(memory != MAP_FAILED);
		regions[index] = region(&endpoints[0], memory, SIZE, ALL_ACCESS);
		struct address address = endpoint_address(&endpoints[index]);
		struct window window = region_window(regions[index]);
		peer_tell(&peer, &address, sizeof address);
		peer_tell(&peer, &window, sizeof window);
	}
	for (uint32_t index = 0; index < count; index++) {
		struct address address;
		peer_hear(&peer, &address, sizeof address);
		endpoint_connect(&endpoints[index], address);
	}
	peer_meet(&peer);
	/* Wait until the others have ended. */
	peer_meet(&peer);
	for (uint32_t index = 0; index < count; index++)
		CHECK_CALL(ibv_dereg_mr(regions[index]));
	for (uint32_t index = 1; index < count; index++)
		CHECK_CALL(ibv_destroy_qp(endpoints[index].qp));
	endpoint_close(&endpoints[0]);
}

/* Waits for a completion by sleeping. */
static void complete(struct endpoint *endpoint)
{
	struct ibv_wc wc;
	for (;;) {
		int count = ibv_poll_cq(endpoint->cq, 1, &wc);
		if (count == 0) {
			CHECK_CALL(ibv_req_notify_cq(endpoint->cq, 0));
			count = ibv_poll_cq(endpoint->cq, 1, &wc);
		}
		if (count > 0)
			break;
		struct ibv_cq *cq;
		void *context;
		CHECK_CALL(ibv_get_cq_event(endpoint->channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
	}
	if (wc.status != IBV_WC_SUCCESS)
		check_failed(__FILE__, __LINE__, "a write ends with \"%s\"", ibv_wc_status_str(wc.status));
}

static void be_a_stream(uint32_t index)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct endpoint endpoint = endpoint_open(settings());
	void *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(memory != MAP_FAILED);
	struct ibv_mr *mr = region(&endpoint, memory, SIZE, ALL_ACCESS);
	shared->ours[index] = endpoint_address(&endpoint);
	atomic_fetch_add(&shared->ready, 1);
	while (!atomic_load(&shared->goes))
		usleep(500);
	endpoint_connect(&endpoint, shared->theirs[index]);
	struct window to = shared->windows[index];
	uint32_t under_way = 0;
	uint64_t begun = now();
	do {
		for (; under_way < WINDOW; under_way++)
			post_write(&endpoint, 0, piece_of(mr, 0, SIZE), to.address, to.rkey);
		complete(&endpoint);
		under_way--;
		if (now() - begun < DURATION)
			atomic_fetch_add(&shared->bytes[index], SIZE);
	} while (now() - begun < DURATION);
	for (; under_way > 0; under_way--)
		complete(&endpoint);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
	exit(0);
}

static void introduce(struct peer *peer, uint32_t count)
{
	peer_tell(peer, &count, sizeof count);
	for (uint32_t index = 0; index < count; index++) {
		peer_hear(peer, &shared->theirs[index], sizeof shared->theirs[index]);
		peer_hear(peer, &shared->windows[index], sizeof shared->windows[index]);
	}
	peer_tell(peer, shared->ours, count * sizeof shared->ours[0]);
	peer_meet(peer);
}

static void share(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
}

static void send_streams(void)
{
	share();
	const char *text = getenv("STREAMS");
	uint32_t count = text == NULL ? 1 : (uint32_t)atoi(text);
	CHECK(count >= 1 && count <= MOST);
	for (uint32_t index = 0; index < count; index++) {
		pid_t process = fork();
		CHECK(process >= 0);
		if (process == 0)
			be_a_stream(index);
	}
	while (atomic_load(&shared->ready) < count) {
		CHECK_EQUAL(waitpid(-1, NULL, WNOHANG), 0);
		usleep(500);
	}
	struct peer peer = peer_call(getenv("PEER"), PORT);
	introduce(&peer, count);
	atomic_store(&shared->goes, 1);
	for (uint32_t left = count; left > 0; left--) {
		int status;
		CHECK(waitpid(-1, &status, 0) > 0);
		CHECK_EQUAL(status, 0);
	}
	peer_meet(&peer);
	for (uint32_t index = 0; index < count; index++)
		printf("stream %.0f\n", (double)shared->bytes[index] * SECOND / DURATION);
}

/* Datagrams sent and received by this host. */
static uint64_t datagrams(void)
{
	FILE *file = fopen("/proc/self/net/snmp", "r");
	CHECK_POINTER(file);
	char line[512];
	unsigned long long in = 0, no_port, errors, out = 0;
	while (fgets(line, sizeof line, file) != NULL)
		if (sscanf(line, "Udp: %llu %llu %llu %llu", &in, &no_port, &errors, &out) == 4)
			break;
	fclose(file);
	return in + out;
}

static uint64_t processor_time(void)
{
	struct rusage used;
	CHECK_CALL(getrusage(RUSAGE_SELF, &used));
	return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * SECOND +
	       (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

static void idle(void)
{
	share();
	struct endpoint endpoint = endpoint_open(settings());
	static uint8_t memory[SIZE];
	struct ibv_mr *mr = region(&endpoint, memory, SIZE, ALL_ACCESS);
	shared->ours[0] = endpoint_address(&endpoint);
	struct peer peer = peer_call(getenv("PEER"), PORT);
	introduce(&peer, 1);
	endpoint_connect(&endpoint, shared->theirs[0]);
	post_write(&endpoint, 0, piece_of(mr, 0, SIZE), shared->windows[0].address, shared->windows[0].rkey);
	complete(&endpoint);
	sleep(SETTLING);
	uint64_t packets = datagrams(), used = processor_time();
	sleep(IDLE_SECONDS);
	printf("idle_datagrams_per_s %.2f\n", (double)(datagrams() - packets) / IDLE_SECONDS);
	printf("idle_connection_cpu_ns_per_s %.0f\n", (double)(processor_time() - used) / IDLE_SECONDS);
	peer_meet(&peer);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "receive", receive },
	{ "send", send_streams },
	{ "idle", idle },
	{ 0 },
};
