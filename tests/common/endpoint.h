/* A queue pair with its completion queue, regions and context on the chosen device, and the calls that bring it to
 * work. Every call checks its result. */
#ifndef VERBENA_TESTS_ENDPOINT_H
#define VERBENA_TESTS_ENDPOINT_H

#include <infiniband/verbs.h>

#include "check.h"

/* How a queue pair is made and connected. Zero means what `endpoint_defaults` says. */
struct settings {
	enum ibv_qp_type type;
	int access;             /* of the queue pair, for its peer */
	uint32_t depth;         /* of both queues */
	uint8_t timeout;        /* 4.096 us x 2^timeout */
	uint8_t retry_count;
	uint8_t rnr_retry;      /* 7: for ever */
	uint8_t min_rnr_timer;
	struct ibv_srq *srq;
	struct ibv_cq *receive_cq; /* another one than for sends */
	bool unsignaled; /* completions only for work requests that ask */
};

/* RC, every access, depth 64, retries that end soon, receiver-not-ready for ever. */
struct settings endpoint_defaults(void);

/* Attributes of the port. On Ethernet peers are addressed by GID, here by that of an IPv4 address. */
struct port {
	bool is_ethernet;
	uint8_t gid_index;
	union ibv_gid gid;
	enum ibv_mtu mtu;
};

struct endpoint {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct settings settings;
	uint16_t lid;
	struct port port;
	uint32_t psn; /* of the first packet; 0: the queue pair's number */
};

/* The address that a peer needs to connect. */
struct address {
	uint32_t qp_number;
	uint32_t psn;
	uint16_t lid;
	union ibv_gid gid;
};

/* A region that a peer may reach. */
struct window {
	uint64_t address;
	uint64_t length;
	uint32_t rkey;
};

/* Which device is opened from now on, by its place in the list; the first, or
 * RDMA_TEST_DEVICE, unless this says otherwise. */
void device_choose(int index);

/* Opens the chosen device. */
struct ibv_context *device_open(void);

/* Makes a queue pair on its own device, in the state INIT. */
struct endpoint endpoint_open(struct settings settings);

/* Another queue pair that shares the first one's context, domain and completion queue. */
struct endpoint endpoint_beside(const struct endpoint *first, struct settings settings);

struct address endpoint_address(const struct endpoint *endpoint);

/* From INIT to ready-to-send. UD ignores the peer. */
void endpoint_connect(struct endpoint *endpoint, struct address peer);

/* To the error state. */
void endpoint_break(struct endpoint *endpoint);

enum ibv_qp_state endpoint_state(const struct endpoint *endpoint);

/* Closes everything that `endpoint_open` opened. */
void endpoint_close(struct endpoint *endpoint);

#define ALL_ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |     \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* Registers memory. */
struct ibv_mr *region(const struct endpoint *endpoint, void *memory, uint64_t length, int access);

struct window region_window(const struct ibv_mr *mr);

#endif
