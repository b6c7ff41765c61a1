/* Multicast by the verbs alone, without the connection manager.
 *
 *   wait   attaches two queue pairs to the group GROUP; each receives one datagram and answers its sender
 *   ask    sends a datagram to GROUP, from the GID at INDEX, and waits for both answers */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "endpoint.h"
#include "work.h"

#define KEY 0x11111111 /* that of endpoints */
#define EVERY_MEMBER 0xffffff
#define ROUTE 40
#define LENGTH 33
#define ROOM 256
#define MEMBERS 2
#define SEND_ID MEMBERS

static union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid;
	CHECK_EQUAL(inet_pton(AF_INET6, text, &gid), 1);
	return gid;
}

/* Place 0 holds the data to send; each queue pair has one to receive in. */
struct side {
	struct endpoint members[MEMBERS];
	uint8_t memory[MEMBERS + 1][ROOM];
	struct ibv_mr *mr;
};

static void side_open(struct side *side)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UD;
	side->members[0] = endpoint_open(settings);
	side->members[1] = endpoint_beside(&side->members[0], settings);
	side->mr = region(&side->members[0], side->memory, sizeof side->memory, ALL_ACCESS);
	for (int i = 0; i < MEMBERS; i++)
		endpoint_connect(&side->members[i], (struct address){ 0 });
	for (int i = 0; i < LENGTH; i++)
		side->memory[0][i] = 3 * i + 1;
}

static void receive(struct side *side, int member)
{
	post_receive(&side->members[member], member, piece_of(side->mr, (member + 1) * ROOM, ROOM));
}

static void send_to(struct side *side, struct ibv_ah *ah, int from, uint32_t number)
{
	CHECK_POINTER(ah);
	struct ibv_sge sge = { (uintptr_t)side->memory[0], LENGTH, side->mr->lkey };
	struct ibv_send_wr *bad, request = { .wr_id = SEND_ID, .sg_list = &sge, .num_sge = 1,
					     .opcode = IBV_WR_SEND };
	request.wr.ud.ah = ah;
	request.wr.ud.remote_qpn = number;
	request.wr.ud.remote_qkey = KEY;
	CHECK_CALL(ibv_post_send(side->members[from].qp, &request, &bad));
}

/* Takes MEMBERS datagrams of the other's, with a route before each, and as many completions of sends as `sends`. */
static void take(struct side *side, int sends, void (*answer)(struct side *, struct ibv_wc *))
{
	bool heard[MEMBERS] = { false };
	for (int left = MEMBERS + sends; left > 0; left--) {
		struct ibv_wc wc = completion(&side->members[0]);
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == SEND_ID)
			continue;
		CHECK_EQUAL(wc.byte_len, ROUTE + LENGTH);
		CHECK(wc.wc_flags & IBV_WC_GRH);
		CHECK(!memcmp(side->memory[wc.wr_id + 1] + ROUTE, side->memory[0], LENGTH));
		CHECK(!heard[wc.wr_id]);
		heard[wc.wr_id] = true;
		if (answer)
			answer(side, &wc);
	}
}

static void answer(struct side *side, struct ibv_wc *wc)
{
	struct ibv_grh *route = (struct ibv_grh *)side->memory[wc->wr_id + 1];
	send_to(side, ibv_create_ah_from_wc(side->members[0].pd, wc, route, 1), wc->wr_id, wc->src_qp);
}

static void test_wait(void)
{
	static struct side side;
	union ibv_gid group = gid_of(getenv("GROUP"));
	union ibv_gid host = gid_of("::ffff:10.9.0.1"), other = gid_of("ff15::1234");
	side_open(&side);
	CHECK(ibv_attach_mcast(side.members[0].qp, &host, 0) != 0);
	CHECK(ibv_detach_mcast(side.members[0].qp, &other, 0) != 0);
	for (int i = 0; i < MEMBERS; i++) {
		receive(&side, i);
		/* Twice is once. */
		CHECK_CALL(ibv_attach_mcast(side.members[i].qp, &group, 0));
		CHECK_CALL(ibv_attach_mcast(side.members[i].qp, &group, 0));
	}
	puts("attached");
	fflush(stdout);
	take(&side, MEMBERS, answer);
	for (int i = 0; i < MEMBERS; i++)
		CHECK_CALL(ibv_detach_mcast(side.members[i].qp, &group, 0));
}

static void test_ask(void)
{
	static struct side side;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	attr.grh.dgid = gid_of(getenv("GROUP"));
	attr.grh.sgid_index = atoi(getenv("INDEX"));
	attr.grh.hop_limit = 64;
	side_open(&side);
	receive(&side, 0);
	/* Both answers are for the one that has asked. */
	post_receive(&side.members[0], 1, piece_of(side.mr, 2 * ROOM, ROOM));
	send_to(&side, ibv_create_ah(side.members[0].pd, &attr), 0, EVERY_MEMBER);
	take(&side, 1, NULL);
}

const struct test tests[] = { { "wait", test_wait }, { "ask", test_ask }, { NULL, NULL } };
