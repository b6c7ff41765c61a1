#include "work.h"

struct piece piece_of(const struct ibv_mr *mr, uint64_t offset, uint32_t length)
{
	return (struct piece){ (const char *)mr->addr + offset, length, mr->lkey };
}

static struct ibv_sge element(struct piece piece)
{
	return (struct ibv_sge){
		.addr = (uint64_t)(uintptr_t)piece.address,
		.length = piece.length,
		.lkey = piece.lkey,
	};
}

static void post(struct endpoint *endpoint, struct ibv_send_wr *request, uint64_t id,
		 struct piece local)
{
	struct ibv_sge sge = element(local);
	struct ibv_send_wr *bad = NULL;
	request->wr_id = id;
	request->sg_list = &sge;
	request->num_sge = 1;
	CHECK_CALL(ibv_post_send(endpoint->qp, request, &bad));
}

void post_receive(struct endpoint *endpoint, uint64_t id, struct piece into)
{
	struct ibv_sge sge = element(into);
	struct ibv_recv_wr request = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad = NULL;
	if (endpoint->settings.srq)
		CHECK_CALL(ibv_post_srq_recv(endpoint->settings.srq, &request, &bad));
	else
		CHECK_CALL(ibv_post_recv(endpoint->qp, &request, &bad));
}

void post_send(struct endpoint *endpoint, uint64_t id, struct piece from)
{
	struct ibv_send_wr request = { .opcode = IBV_WR_SEND };
	post(endpoint, &request, id, from);
}

void post_write(struct endpoint *endpoint, uint64_t id, struct piece from, uint64_t address,
		uint32_t rkey)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = address, .rkey = rkey },
	};
	post(endpoint, &request, id, from);
}

void post_read(struct endpoint *endpoint, uint64_t id, struct piece into, uint64_t address,
	       uint32_t rkey)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { .remote_addr = address, .rkey = rkey },
	};
	post(endpoint, &request, id, into);
}

void post_fetch_add(struct endpoint *endpoint, uint64_t id, struct piece into, uint64_t address,
		    uint32_t rkey, uint64_t add)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.wr.atomic = { .remote_addr = address, .rkey = rkey, .compare_add = add },
	};
	post(endpoint, &request, id, into);
}

void post_compare_swap(struct endpoint *endpoint, uint64_t id, struct piece into, uint64_t address,
		       uint32_t rkey, uint64_t compare, uint64_t swap)
{
	struct ibv_send_wr request = {
		.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = address,
			       .rkey = rkey,
			       .compare_add = compare,
			       .swap = swap },
	};
	post(endpoint, &request, id, into);
}

struct ibv_wc completion_within(struct endpoint *endpoint, uint64_t limit)
{
	uint64_t deadline = now() + limit;
	for (;;) {
		struct ibv_wc wc;
		int count = ibv_poll_cq(endpoint->cq, 1, &wc);
		CHECK(count >= 0);
		if (count == 1)
			return wc;
		if (now() > deadline)
			check_failed(__FILE__, __LINE__, "no completion within %llu ms",
				     (unsigned long long)(limit / MILLISECOND));
	}
}

struct ibv_wc completion(struct endpoint *endpoint)
{
	return completion_within(endpoint, 10 * SECOND);
}

void expect(struct endpoint *endpoint, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = completion(endpoint);
	if (wc.wr_id != id || wc.status != status)
		check_failed(__FILE__, __LINE__,
			     "work request %llu completed with \"%s\"; expected %llu with \"%s\"",
			     (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
			     (unsigned long long)id, ibv_wc_status_str(status));
	CHECK_EQUAL(wc.qp_num, endpoint->qp->qp_num);
}

void expect_none(struct endpoint *endpoint)
{
	struct ibv_wc wc;
	CHECK_EQUAL(ibv_poll_cq(endpoint->cq, 1, &wc), 0);
}
