/* Very many operations of one kind between two hosts: the state of both ends, and the description of a kind. */
#ifndef VERBENA_TESTS_MANY_H
#define VERBENA_TESTS_MANY_H

#include "between.h"
#include "check.h"
#include "endpoint.h"
#include "peer.h"

#define SLOTS 256
#define STRIDE 4096
#define PATH_MTU 1024

/* The data that both ends exchange to connect. */
struct card {
	union ibv_gid gid;
	uint32_t number;
	uint32_t srq;
	struct window memory;
	uint32_t keys[SLOTS]; /* of windows, when they are bound for the first time */
};

/* The two ends. */
enum side { NOBODY, ASKING, ANSWERING };

struct end {
	enum side is;
	struct peer peer;
	struct endpoint queue;
	struct ibv_qp_ex *posting;
	uint8_t *memory;
	struct ibv_mr *mr;
	struct ibv_mw *windows[SLOTS];
	struct ibv_ah *ah;
	struct card theirs;
	uint64_t count;
	uint64_t received; /* the number of the next one to arrive, or of the last message of a network that loses */
	uint64_t heard;    /* the number of the next receive, where more than a receive belongs to an operation */
	uint64_t lap;
	uint64_t silent; /* the laps with no packet in flight any more */
};

struct kind {
	const char *name;
	enum ibv_qp_type type;
	/* Posts operation `number`. */
	void (*post)(struct end *end, uint64_t number);
	/* The opcode of its completion. */
	int completes;
	/* Checks the data returned to the requester, if there are any. */
	void (*returned)(struct end *end, uint64_t number);
	/* Checks a completion of the target, if it has any. */
	void (*arrived)(struct end *end, const struct ibv_wc *wc);
	/* Checks a slot of the target after the lap, in which operation `number` was for it, if that leaves data. */
	void (*left)(struct end *end, uint64_t number);
	/* Of ibv_wr_post(3); else ibv_post_send(3). */
	uint64_t posts;
	enum side has_windows;
	/* That one may be lost. */
	bool loses;
	/* Several work requests of the requester make an operation, and only the last one completes. */
	bool completes_once;
};

/* The kind of a name; a name that there is not fails the test. */
const struct kind *kind_of(const char *name);

/* Whether it is memory that operations of the kind leave changed, so that it is filled anew before each lap. */
bool changes_memory(const struct kind *kind);

/* Whether a lost message causes no error, so that a lap ends with messages which follow it. */
bool ends_with_a_trail(const struct kind *kind);

/* The content of a slot before the lap of an operation: the pattern of this seed. */
uint64_t background(uint64_t number);

uint8_t *slot_of(const struct end *end, uint64_t number);

void receive_into_slot(struct end *end, uint64_t number);

/* Message `index` after lap `lap`, which carries no data. */
void post_trail(struct end *end, uint64_t lap, uint32_t index);

#endif
