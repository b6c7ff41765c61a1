/* Regular traffic during an attack.
 *
 *   target   a process with one regular connection, and with victims: queue pairs whose peer is the attacker, which
 *            knows all of them. It writes them to the file VICTIMS.
 *   friend   the peer of the regular connection, on another host; works until there is a file STOP
 *
 * Every byte of the regular traffic is checked; so is, at the end, every byte around the memory that the victims' peers
 * may write. */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "between.h"
#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "victims.h"
#include "work.h"

#define PORT 18515
#define PSN 0x123456
#define NOBODY 0xabcdef /* the queue pair that victims are connected to */
#define WRITTEN 20000
#define SENT 3000
#define ROOM (64 << 10)
#define GUARD_SEED 99
/* Not at the beginning of a page, nor of a length that ends at one. */
#define GRANT_AT (16384 + 100)
#define GRANTED 30000
#define RECEIVE_AT 256
#define RECEIVED 2000
#define RECEIVES 8
#define TIME_LIMIT (60 * SECOND)
/* Some of it is the events that are not read here. */
#define MOST_GROWTH (6 << 20)

/* The honest end. */
struct card {
	struct address address;
	union ibv_gid gid;
	struct window memory;
};

struct honest {
	struct endpoint end;
	uint8_t *memory;
	struct ibv_mr *mr;
	struct card theirs;
	unsigned done[5]; /* completions that have not been awaited yet, by work request */
};

/* One attacked queue pair. */
struct sufferer {
	struct endpoint end;
	bool has_receives, sends;
};

struct field {
	struct sufferer each[VICTIMS];
	uint8_t *granted, *receives; /* with guards around the granted memory, and around each receive */
	struct ibv_mr *grant, *into;
	struct ibv_srq *srq;
	union ibv_gid attacker;
	uint64_t falls;
};

static struct honest honest_open(struct peer *peer)
{
	struct honest honest = { .end = endpoint_open(endpoint_defaults()) };
	honest.end = fresh(&honest.end, IBV_QPT_RC, NULL);
	honest.memory = aligned_alloc(4096, ROOM);
	CHECK_POINTER(honest.memory);
	memset(honest.memory, 0, ROOM);
	honest.mr = region(&honest.end, honest.memory, ROOM, ALL_ACCESS);
	struct card ours = {
		.address = { .qp_number = honest.end.qp->qp_num, .psn = honest.end.qp->qp_num & 0xffffff },
		.memory = region_window(honest.mr),
	};
	CHECK_CALL(ibv_query_gid(honest.end.context, 1, gid_index(), &ours.gid));
	peer_tell(peer, &ours, sizeof ours);
	peer_hear(peer, &honest.theirs, sizeof honest.theirs);
	/* Both ends begin at the same number; 268 ms, eight times: an attack takes buffer space from regular
	 * packets. */
	connect_by_gid(&honest.end, honest.theirs.gid, honest.theirs.address.qp_number, PSN, 16);
	return honest;
}

static struct piece guarded_receive(const struct field *field, int number)
{
	return piece_of(field->into, (uint64_t)number * 2 * 2048 + RECEIVE_AT, RECEIVED);
}

/* From anywhere to ready, with receives, and with something to ask. */
static void revive(struct field *field, struct sufferer *one)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	CHECK_CALL(ibv_modify_qp(one->end.qp, &reset, IBV_QP_STATE));
	/* The attacker's packets between the steps may bring it to the error state again; then it is reconnected
	 * again. */
	int said = try_connect_by_gid(&one->end, field->attacker, NOBODY, PSN, 12);
	CHECK(said == 0 || endpoint_state(&one->end) == IBV_QPS_ERR);
	for (int i = 0; i < RECEIVES && one->has_receives; i++)
		post_receive(&one->end, 0, guarded_receive(field, i));
	if (one->sends) {
		post_read(&one->end, 1, piece_of(field->grant, 0, 5000), 0x1000, 1);
		post_send(&one->end, 2, piece_of(field->grant, 0, 3000));
		post_fetch_add(&one->end, 3, piece_of(field->grant, 0, 8), 0x1000, 1, 1);
	}
}

static struct field field_open(const struct endpoint *beside, union ibv_gid attacker)
{
	struct field field = { .attacker = attacker };
	field.granted = aligned_alloc(4096, ROOM);
	field.receives = aligned_alloc(4096, ROOM);
	CHECK(field.granted && field.receives);
	pattern_fill(field.granted, ROOM, GUARD_SEED);
	pattern_fill(field.receives, ROOM, GUARD_SEED);
	field.grant = region(beside, field.granted + GRANT_AT, GRANTED, ALL_ACCESS);
	field.into = region(beside, field.receives, ROOM, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_xrcd *xrcd = xrc_domain(beside);
	struct ibv_cq *cq = ibv_create_cq(beside->context, 8192, NULL, NULL, 0);
	CHECK_POINTER(cq);
	field.srq = xrc_queue(beside, xrcd, cq, 4096);
	const enum ibv_qp_type types[VICTIMS] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC,
						  IBV_QPT_UC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV };
	for (int i = 0; i < VICTIMS; i++) {
		struct sufferer *one = &field.each[i];
		one->end = fresh(beside, types[i], xrcd);
		one->has_receives = types[i] != IBV_QPT_XRC_RECV;
		one->sends = i >= 2 && types[i] == IBV_QPT_RC;
		if (types[i] == IBV_QPT_XRC_RECV) {
			one->end.cq = cq;
			one->end.settings.srq = field.srq;
			for (int receive = 0; receive < RECEIVES; receive++)
				post_receive(&one->end, 0, guarded_receive(&field, RECEIVES));
		}
		revive(&field, one);
	}
	return field;
}

/* Used receives are posted again; those of a queue pair in the error state after it is reconnected. */
static void drain(struct field *field, struct sufferer *one)
{
	struct ibv_wc wc[16];
	for (int count; (count = ibv_poll_cq(one->end.cq, 16, wc)) > 0;)
		for (int i = 0; i < count; i++)
			if (one->end.settings.srq)
				post_receive(&one->end, 0, guarded_receive(field, RECEIVES));
			else if (wc[i].status == IBV_WC_SUCCESS && wc[i].opcode & IBV_WC_RECV)
				post_receive(&one->end, 0, guarded_receive(field, 0));
}

/* Reconnects the victims that are in the error state. */
static void tend(struct field *field)
{
	for (int i = 0; i < VICTIMS; i++) {
		struct sufferer *one = &field->each[i];
		drain(field, one);
		enum ibv_qp_state state = endpoint_state(&one->end);
		if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
			field->falls++;
			revive(field, one);
		}
	}
}

static void tell_attacker(const struct field *field, uint32_t honest)
{
	static const uint32_t services[VICTIMS] = { 0, 0, 0, 0, 0x20, 0x20, 0x60, 0xa0 };
	struct victims victims = { .honest = honest, .psn = PSN, .queue_key = QUEUE_KEY, .rkey = field->grant->rkey,
				   .address = (uintptr_t)field->grant->addr, .length = GRANTED };
	CHECK_CALL(ibv_get_srq_num(field->srq, &victims.srq));
	for (int i = 0; i < VICTIMS; i++)
		victims.each[i] = (struct victim){ field->each[i].end.qp->qp_num, services[i] };
	const char *path = getenv("VICTIMS");
	char partial[4096];
	CHECK_POINTER(path);
	snprintf(partial, sizeof partial, "%s.partial", path);
	FILE *file = fopen(partial, "w");
	CHECK_POINTER(file);
	CHECK_EQUAL(fwrite(&victims, sizeof victims, 1, file), 1);
	CHECK_CALL(fclose(file));
	CHECK_CALL(rename(partial, path));
}

static void check_part(const uint8_t *memory, uint64_t from, uint64_t to)
{
	for (uint64_t at = from; at < to; at++)
		if (memory[at] != pattern(GUARD_SEED, at))
			check_failed(__FILE__, __LINE__, "byte %llu was written, which no peer may",
				     (unsigned long long)at);
}

static uint64_t written(const uint8_t *memory, uint64_t from, uint64_t to)
{
	uint64_t found = 0;
	for (uint64_t at = from; at < to; at++)
		found += memory[at] != pattern(GUARD_SEED, at);
	return found;
}

/* Nothing was written outside the granted memory, and some of the granted memory was: else there was no attack. */
static void check_guards(const struct field *field)
{
	CHECK(written(field->granted, GRANT_AT, GRANT_AT + GRANTED) > GRANTED / 2);
	CHECK(written(field->receives, RECEIVE_AT, RECEIVE_AT + RECEIVED) > 0);
	check_part(field->granted, 0, GRANT_AT);
	check_part(field->granted, GRANT_AT + GRANTED, ROOM);
	for (int i = 0; i < ROOM / 4096; i++) {
		uint64_t start = (uint64_t)i * 4096;
		bool used = i <= RECEIVES;
		check_part(field->receives, start, start + (used ? RECEIVE_AT : 4096));
		if (used)
			check_part(field->receives, start + RECEIVE_AT + RECEIVED, start + 4096);
	}
}

static uint64_t resident(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	CHECK_POINTER(file);
	CHECK_EQUAL(fscanf(file, "%*u %lu", &pages), 1);
	fclose(file);
	return (uint64_t)pages * 4096;
}

/* Waits for one work request of the regular traffic; victims are reconnected meanwhile. A receive may complete before
 * the acknowledgement of an earlier send, which the attack may have left no space for. */
static void wait_honest(struct honest *honest, struct field *field, uint64_t id)
{
	uint64_t deadline = now() + TIME_LIMIT;
	for (unsigned turn = 0; honest->done[id] == 0; turn++) {
		struct ibv_wc wc;
		int count = ibv_poll_cq(honest->end.cq, 1, &wc);
		CHECK(count >= 0);
		if (count == 1) {
			if (wc.status != IBV_WC_SUCCESS)
				check_failed(__FILE__, __LINE__, "work request %llu: %s",
					     (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
			honest->done[wc.wr_id]++;
		}
		if (field && turn % 64 == 0)
			tend(field);
		if (now() > deadline)
			check_failed(__FILE__, __LINE__, "the regular traffic stalls");
	}
	honest->done[id]--;
}

static void target(void)
{
	struct peer peer = peer_wait(PORT);
	struct honest honest = honest_open(&peer);
	struct field field = field_open(&honest.end, honest.theirs.gid);
	post_receive(&honest.end, 1, piece_of(honest.mr, 32768, SENT));
	tell_attacker(&field, honest.end.qp->qp_num);
	peer_meet(&peer);
	uint64_t before = 0, rounds = 0;
	for (uint64_t round = 1;; round++) {
		wait_honest(&honest, &field, 1);
		uint64_t said = *(volatile uint64_t *)(honest.memory + 32768);
		if (said == 0)
			break;
		CHECK_EQUAL(said, round);
		pattern_check(honest.memory, WRITTEN, round);
		pattern_check(honest.memory + 32768 + 8, SENT - 8, round);
		post_receive(&honest.end, 1, piece_of(honest.mr, 32768, SENT));
		post_send(&honest.end, 2, piece_of(honest.mr, 0, SENT));
		wait_honest(&honest, &field, 2);
		/* When everything has its room. */
		if (round == 20)
			before = resident();
		rounds = round;
	}
	uint64_t after = resident();
	check_guards(&field);
	CHECK(rounds >= 20);
	if (after > before + MOST_GROWTH)
		check_failed(__FILE__, __LINE__, "%llu bytes more than before",
			     (unsigned long long)(after - before));
	CHECK(field.falls > 0);
	printf("%llu rounds of honest work; victims fell %llu times; %lld KiB more than before\n",
	       (unsigned long long)rounds, (unsigned long long)field.falls, ((long long)after - (long long)before) / 1024);
	peer_meet(&peer);
}

static void friend(void)
{
	struct peer peer = peer_call(getenv("PEER"), PORT);
	const char *stop = getenv("STOP");
	CHECK_POINTER(stop);
	struct honest honest = honest_open(&peer);
	const struct window *theirs = &honest.theirs.memory;
	peer_meet(&peer);
	for (uint64_t round = 1;; round++) {
		bool ends = access(stop, F_OK) == 0 && round > 20;
		pattern_fill(honest.memory, WRITTEN, round);
		pattern_fill(honest.memory + 32768 + 8, SENT - 8, round);
		*(volatile uint64_t *)(honest.memory + 32768) = ends ? 0 : round;
		if (!ends)
			post_receive(&honest.end, 4, piece_of(honest.mr, 49152, SENT));
		post_write(&honest.end, 1, piece_of(honest.mr, 0, WRITTEN), theirs->address, theirs->rkey);
		wait_honest(&honest, NULL, 1);
		memset(honest.memory, 0, WRITTEN);
		post_read(&honest.end, 2, piece_of(honest.mr, 0, WRITTEN), theirs->address, theirs->rkey);
		wait_honest(&honest, NULL, 2);
		pattern_check(honest.memory, WRITTEN, round);
		post_send(&honest.end, 3, piece_of(honest.mr, 32768, SENT));
		wait_honest(&honest, NULL, 3);
		if (ends)
			break;
		wait_honest(&honest, NULL, 4);
		pattern_check(honest.memory + 49152, SENT, round);
	}
	peer_meet(&peer);
}

const struct test tests[] = {
	{ "target", target },
	{ "friend", friend },
	{ NULL, NULL },
};
