/* The extended interfaces of queue pairs and completion queues. */
#pragma once

#include "pair.h"

static void a_batch_is_posted_whole_or_not_at_all(void)
{
	struct pair pair = open_pair(IBV_QP_EX_WITH_RDMA_WRITE, IBV_WC_STANDARD_FLAGS);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(pair.qp[0]);
	uint64_t target = (uintptr_t)pair.memory + 512;
	struct ibv_wc wc;

	NEED(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	/* More requests than fit. */
	ibv_wr_start(qpx);
	for (int i = 0; i < 9; i++) {
		qpx->wr_id = i;
		ibv_wr_rdma_write(qpx, pair.mr->rkey, target);
		ibv_wr_set_sge(qpx, pair.mr->lkey, (uintptr_t)pair.memory, 8);
	}
	CHECK(ibv_wr_complete(qpx) == ENOMEM);
	CHECK(ibv_poll_cq(pair.cq, 1, &wc) == 0);
	/* The second has more inline data than the queue pair accepts. */
	static char big[4096];
	ibv_wr_start(qpx);
	ibv_wr_rdma_write(qpx, pair.mr->rkey, target);
	ibv_wr_set_inline_data(qpx, big, 8);
	ibv_wr_rdma_write(qpx, pair.mr->rkey, target);
	ibv_wr_set_inline_data(qpx, big, sizeof big);
	CHECK(ibv_wr_complete(qpx) == EINVAL);
	CHECK(ibv_poll_cq(pair.cq, 1, &wc) == 0);
	/* An operation that it was not created for. */
	ibv_wr_start(qpx);
	ibv_wr_send(qpx);
	ibv_wr_set_sge(qpx, pair.mr->lkey, (uintptr_t)pair.memory, 8);
	CHECK(ibv_wr_complete(qpx) == EOPNOTSUPP);
	/* Aborted. */
	ibv_wr_start(qpx);
	ibv_wr_rdma_write(qpx, pair.mr->rkey, target);
	ibv_wr_set_sge(qpx, pair.mr->lkey, (uintptr_t)pair.memory, 8);
	ibv_wr_abort(qpx);
	CHECK(ibv_poll_cq(pair.cq, 1, &wc) == 0);
	/* Posted completely: inline data from several buffers, which may change at once, then a list. */
	char first[4] = "abc", second[4] = "def";
	struct ibv_data_buf pieces[2] = { { first, 3 }, { second, 3 } };
	ibv_wr_start(qpx);
	qpx->wr_id = 77;
	ibv_wr_rdma_write(qpx, pair.mr->rkey, target);
	ibv_wr_set_inline_data_list(qpx, 2, pieces);
	memset(first, 'x', 4);
	memset(second, 'x', 4);
	qpx->wr_id = 78;
	memcpy(pair.memory, "0123456789", 10);
	struct ibv_sge list[2] = { { (uintptr_t)pair.memory + 5, 5, pair.mr->lkey },
		{ (uintptr_t)pair.memory, 5, pair.mr->lkey } };
	ibv_wr_rdma_write(qpx, pair.mr->rkey, target + 64);
	ibv_wr_set_sge_list(qpx, 2, list);
	CHECK(ibv_wr_complete(qpx) == 0);
	wc = wait_for(pair.cq);
	CHECK(wc.wr_id == 77 && wc.status == IBV_WC_SUCCESS);
	wc = wait_for(pair.cq);
	CHECK(wc.wr_id == 78 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE);
	CHECK(!memcmp(pair.memory + 512, "abcdef", 6));
	CHECK(!memcmp(pair.memory + 576, "5678901234", 10));
	close_pair(&pair);
}

static void only_queue_pairs_made_for_it_have_the_extended_interface(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_qp_init_attr_ex datagram = { .send_cq = pair.cq, .recv_cq = pair.cq,
		.cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_UD, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ };

	CHECK(ibv_qp_to_qp_ex(pair.qp[0]) == NULL);
	errno = 0;
	CHECK(ibv_create_qp_ex(context, &datagram) == NULL && errno == EOPNOTSUPP);
	close_pair(&pair);
}

static void an_atomic_write_takes_its_value_at_once(void)
{
	struct pair pair = open_pair(IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_WC_STANDARD_FLAGS);
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(pair.qp[0]);
	uint64_t value = 0x1122334455667788;

	NEED(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_start(qpx);
	ibv_wr_atomic_write(qpx, pair.mr->rkey, (uintptr_t)pair.memory + 64, &value);
	value = 0;
	CHECK(ibv_wr_complete(qpx) == 0);
	struct ibv_wc wc = wait_for(pair.cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_ATOMIC_WRITE);
	memcpy(&value, pair.memory + 64, 8);
	CHECK(value == 0x1122334455667788);
	close_pair(&pair);
}

static void the_extended_queue_iterates_over_completions(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS
		| IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
		| IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	struct ibv_poll_cq_attr none = { 0 }, some = { 1 };
	struct ibv_send_wr *bad;
	struct timespec now;
	int seen_send = 0, seen_receive = 0, result;
	uint64_t before, wall;

	CHECK(ibv_start_poll(pair.cq_ex, &none) == ENOENT);
	CHECK(ibv_start_poll(pair.cq_ex, &some) == EINVAL);
	clock_gettime(CLOCK_REALTIME, &now);
	before = now.tv_sec * 1000000000ull + now.tv_nsec;
	post_receive(&pair, 1);
	NEED(!post_send(&pair, 2, &bad));
	while (seen_send + seen_receive < 2) {
		result = ibv_start_poll(pair.cq_ex, &none);
		if (result == ENOENT)
			continue;
		NEED(result == 0);
		do {
			CHECK(pair.cq_ex->status == IBV_WC_SUCCESS);
			wall = ibv_wc_read_completion_wallclock_ns(pair.cq_ex);
			CHECK(wall + 1000000 >= before && wall < before + 20000000000ull);
			CHECK(ibv_wc_read_completion_ts(pair.cq_ex) != 0);
			if (pair.cq_ex->wr_id == 1) {
				seen_receive++;
				CHECK(ibv_wc_read_opcode(pair.cq_ex) == IBV_WC_RECV);
				CHECK(ibv_wc_read_byte_len(pair.cq_ex) == 16);
				CHECK(ibv_wc_read_qp_num(pair.cq_ex) == pair.qp[1]->qp_num);
				CHECK(ibv_wc_read_wc_flags(pair.cq_ex) == 0);
			} else {
				seen_send++;
				CHECK(pair.cq_ex->wr_id == 2);
				CHECK(ibv_wc_read_opcode(pair.cq_ex) == IBV_WC_SEND);
				CHECK(ibv_wc_read_qp_num(pair.cq_ex) == pair.qp[0]->qp_num);
			}
			result = ibv_next_poll(pair.cq_ex);
		} while (result == 0);
		CHECK(result == ENOENT);
		ibv_end_poll(pair.cq_ex);
	}
	CHECK(seen_send == 1 && seen_receive == 1);
	close_pair(&pair);
}
