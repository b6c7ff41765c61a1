/* Shared code of this suite's programs: connections with chosen packet sequence numbers, the
 * transition back to RESET, processes that are stopped and continued, events, and memory. */
#ifndef VERBENA_TESTS_CONTRACT_H
#define VERBENA_TESTS_CONTRACT_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define PAGE ((size_t)4096)
#define MEBIBYTE ((size_t)1 << 20)

/* The kernel ends a process that hangs, so that a test which finds one does not wait for the
 * harness. The limit is ten times the longest run on a machine that is not overloaded. */
static inline void hang_after(unsigned seconds)
{
	alarm(seconds);
}

/* Whole private pages, which no allocator has a hand in. */
static inline uint8_t *private_pages(size_t length)
{
	uint8_t *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Pages that processes share by themselves: an adapter cannot put others in their place. */
static inline uint8_t *shared_pages(size_t length)
{
	uint8_t *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Whether the mapping that holds an address is private and of no file. */
static inline bool is_private_anonymous(const void *address)
{
	char line[1024];
	FILE *maps = fopen("/proc/self/maps", "r");
	CHECK_POINTER(maps);
	bool found = false, plain = false;
	while (!found && fgets(line, sizeof line, maps) != NULL) {
		unsigned long start, end, inode;
		char rights[5];
		CHECK_EQUAL(sscanf(line, "%lx-%lx %4s %*x %*s %lu", &start, &end, rights, &inode), 4);
		found = start <= (uintptr_t)address && (uintptr_t)address < end;
		plain = rights[3] == 'p' && inode == 0;
	}
	fclose(maps);
	CHECK(found);
	return plain;
}

/* One end of a connection, with endpoint_connect's own numbers. */
struct link {
	uint32_t destination;
	uint16_t lid;
	uint32_t receive_psn;
	uint32_t send_psn;
	uint8_t responder_resources;
};

/* From INIT to ready-to-send. */
static inline void connect_link(struct endpoint *endpoint, struct link link)
{
	const struct settings *settings = &endpoint->settings;
	bool reliable = settings->type == IBV_QPT_RC;
	struct ibv_qp_attr receive = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = link.destination,
		.rq_psn = link.receive_psn,
		.ah_attr = { .dlid = link.lid, .port_num = 1 },
		.max_dest_rd_atomic = link.responder_resources,
		.min_rnr_timer = settings->min_rnr_timer,
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (reliable)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &receive, mask));
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = link.send_psn,
		.timeout = settings->timeout,
		.retry_cnt = settings->retry_count,
		.rnr_retry = settings->rnr_retry,
		.max_rd_atomic = 16,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (reliable)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &send, mask));
}

/* The number of a queue pair that does not exist; none of these programs creates so many. */
enum { NOBODY = 0xabcdef };

/* To that one. */
static inline void connect_to_nobody(struct endpoint *endpoint)
{
	struct link nowhere = { .destination = NOBODY,
				.lid = endpoint->lid,
				.receive_psn = 1,
				.send_psn = 1,
				.responder_resources = 1 };
	connect_link(endpoint, nowhere);
}

static inline void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attributes = { .qp_state = state };
	CHECK_CALL(ibv_modify_qp(qp, &attributes, IBV_QP_STATE));
}

static inline void to_init(struct endpoint *endpoint, int access)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = (unsigned)access,
	};
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &init,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 IBV_QP_ACCESS_FLAGS));
}

/* Two queue pairs of this process, each with its own device context. */
struct pair {
	struct endpoint one, other;
};

/* Connects both, each way with packet sequence numbers of its own. */
static inline void pair_connect(struct pair *pair, uint32_t psn)
{
	struct link there = {
		.destination = pair->other.qp->qp_num,
		.lid = pair->other.lid,
		.send_psn = psn & 0xffffff,
		.receive_psn = (psn + 0x800000) & 0xffffff,
		.responder_resources = 16,
	};
	struct link back = {
		.destination = pair->one.qp->qp_num,
		.lid = pair->one.lid,
		.send_psn = there.receive_psn,
		.receive_psn = there.send_psn,
		.responder_resources = 16,
	};
	connect_link(&pair->other, back);
	connect_link(&pair->one, there);
}

static inline struct pair pair_open(struct settings settings)
{
	struct pair pair = { .one = endpoint_open(settings), .other = endpoint_open(settings) };
	pair_connect(&pair, 0x1234);
	return pair;
}

static inline void pair_reset(struct pair *pair)
{
	to_state(pair->one.qp, IBV_QPS_RESET);
	to_state(pair->other.qp, IBV_QPS_RESET);
	to_init(&pair->one, pair->one.settings.access);
	to_init(&pair->other, pair->other.settings.access);
}

static inline void pair_close(struct pair *pair)
{
	endpoint_close(&pair->one);
	endpoint_close(&pair->other);
}

/* Stops a child, and returns when it has stopped. */
static inline void peer_stop(struct peer *peer)
{
	int status;
	CHECK_CALL(kill(peer->process, SIGSTOP));
	CHECK_EQUAL(waitpid(peer->process, &status, WUNTRACED), peer->process);
	CHECK(WIFSTOPPED(status));
}

static inline void peer_continue(struct peer *peer)
{
	CHECK_CALL(kill(peer->process, SIGCONT));
}

/* Waits for an asynchronous event; false when none came within `limit` nanoseconds. */
static inline bool event_within(struct ibv_context *context, uint64_t limit,
				enum ibv_event_type *type)
{
	struct pollfd wait = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	if (poll(&wait, 1, (int)(limit / MILLISECOND)) <= 0)
		return false;
	CHECK_CALL(ibv_get_async_event(context, &event));
	*type = event.event_type;
	ibv_ack_async_event(&event);
	return true;
}

/* Waits for an event of a kind, past all others. */
static inline void expect_event(struct ibv_context *context, enum ibv_event_type type)
{
	enum ibv_event_type seen;
	do {
		if (!event_within(context, 10 * SECOND, &seen))
			check_failed(__FILE__, __LINE__, "the event \"%s\" does not come",
				     ibv_event_type_str(type));
	} while (seen != type);
}

/* Gives other threads and processes time for a forbidden effect: polls an empty completion queue
 * `turns` times, with a sleep between two polls. The longer the wait, the surer a fault is seen;
 * there is no time after which the effect would be allowed. */
static inline void expect_silence(struct endpoint *endpoint, unsigned turns)
{
	for (unsigned turn = 0; turn < turns; turn++) {
		expect_none(endpoint);
		usleep(1000);
	}
}

/* The status of the next completion. */
static inline enum ibv_wc_status status_of(struct endpoint *endpoint)
{
	return completion(endpoint).status;
}

/* A number out of /proc/self/status or a file of the same form, in kibibytes. */
static inline long kibibytes(const char *file, const char *field)
{
	char line[256];
	long value = -1;
	FILE *stream = fopen(file, "r");
	CHECK_POINTER(stream);
	while (value < 0 && fgets(line, sizeof line, stream) != NULL)
		if (strncmp(line, field, strlen(field)) == 0)
			value = strtol(line + strlen(field), NULL, 10);
	fclose(stream);
	if (value < 0)
		check_failed(__FILE__, __LINE__, "%s has no line %s", file, field);
	return value;
}

#endif
