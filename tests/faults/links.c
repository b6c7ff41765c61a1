/* Sends six datagrams, one at a time, and prints the numbers of those that arrived, in their order. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "endpoint.h"
#include "work.h"

#define DATAGRAMS 6
#define RECEIVES 12
/* A receive of a datagram begins with 40 bytes for a route header. */
#define ROUTE 40
#define SLOT 64

static void datagrams(void)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UD;
	struct endpoint from = endpoint_open(settings), to = endpoint_open(settings);
	endpoint_connect(&from, endpoint_address(&to));
	endpoint_connect(&to, endpoint_address(&from));
	uint64_t *memory = aligned_alloc(4096, 4096);
	CHECK_POINTER(memory);
	struct ibv_mr *source = region(&from, memory, 4096, ALL_ACCESS), *target = region(&to, memory, 4096, ALL_ACCESS);
	for (unsigned number = 0; number < RECEIVES; number++)
		post_receive(&to, number, piece_of(target, SLOT * (1 + number), SLOT));
	struct ibv_ah_attr path = { .dlid = to.lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(from.pd, &path);
	CHECK_POINTER(ah);
	for (uint64_t number = 1; number <= DATAGRAMS; number++) {
		memory[0] = number;
		struct ibv_sge sge = { (uintptr_t)memory, 8, source->lkey };
		struct ibv_send_wr request = { .wr_id = number, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
			.wr.ud = { .ah = ah, .remote_qpn = to.qp->qp_num, .remote_qkey = 0x11111111 } }, *bad;
		CHECK_CALL(ibv_post_send(from.qp, &request, &bad));
		expect(&from, number, IBV_WC_SUCCESS);
	}
	/* The last one may be late. */
	usleep(100000);
	struct ibv_wc wc;
	printf("arrived");
	while (ibv_poll_cq(to.cq, 1, &wc) == 1) {
		CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
		printf(" %d", (int)memory[(SLOT * (1 + wc.wr_id) + ROUTE) / 8]);
	}
	printf("\n");
}

const struct test tests[] = {
	{ "datagrams", datagrams },
	{ 0 },
};
