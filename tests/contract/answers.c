/* A program that receives its peer's answer finds its own request complete before it.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 9.7.5.1 (a responder acknowledges a request before its
 * program learns of it, so the acknowledgement precedes that program's answer on the same path) and 10.8.5 (completions
 * of a queue come in the order in which they are made). tgt's iSER target depends on it: it takes no command before its
 * answer to the login is complete. */
#include "contract.h"
#include <poll.h>

enum { ROUNDS = 2000, BYTES = 64 };

static void answer(struct peer *peer)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = region(&endpoint, private_pages(PAGE), PAGE, ALL_ACCESS);
	post_receive(&endpoint, 0, piece_of(mr, 0, BYTES));
	peer_connect(peer, &endpoint);
	for (unsigned round = 0; round < ROUNDS; round++) {
		expect(&endpoint, 2 * round, IBV_WC_SUCCESS);
		post_receive(&endpoint, 2 * (round + 1), piece_of(mr, 0, BYTES));
		struct ibv_sge piece = { (uintptr_t)mr->addr + BYTES, BYTES, mr->lkey };
		struct ibv_send_wr request = { .wr_id = 2 * round + 1, .opcode = IBV_WR_SEND, .sg_list = &piece, .num_sge = 1,
					       .send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;
		CHECK_CALL(ibv_post_send(endpoint.qp, &request, &bad));
		expect(&endpoint, 2 * round + 1, IBV_WC_SUCCESS);
	}
	char done;
	peer_hear(peer, &done, 1);
}

static void a_request_completes_before_its_answer(void)
{
	hang_after(120);
	struct peer peer = peer_start(answer);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_mr *mr = region(&endpoint, private_pages(PAGE), PAGE, ALL_ACCESS);
	peer_connect(&peer, &endpoint);
	unsigned late = 0;
	for (unsigned round = 0; round < ROUNDS; round++) {
		post_receive(&endpoint, 2 * round, piece_of(mr, 0, BYTES));
		struct ibv_sge piece = { (uintptr_t)mr->addr + BYTES, BYTES, mr->lkey };
		struct ibv_send_wr request = { .wr_id = 2 * round + 1, .opcode = IBV_WR_SEND, .sg_list = &piece, .num_sge = 1,
					       .send_flags = IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;
		CHECK_CALL(ibv_post_send(endpoint.qp, &request, &bad));
		/* Busy with other things, for up to a tenth of a millisecond. */
		if (round % 4 == 3)
			poll(NULL, 0, 1);
		for (unsigned left = 2; left > 0; left--) {
			struct ibv_wc wc = completion(&endpoint);
			CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
			late += left == 2 && wc.wr_id == 2 * round;
		}
	}
	if (late != 0)
		check_failed(__FILE__, __LINE__, "%u of %u requests complete after their answers", late, ROUNDS);
	peer_tell(&peer, "d", 1);
	peer_kill(&peer);
}

const struct test tests[] = {
	{ "a_request_completes_before_its_answer", a_request_completes_before_its_answer },
	{ 0 },
};
