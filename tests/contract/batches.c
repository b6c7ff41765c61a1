/* Every operation as the extended interface posts it, and every field as the extended completion queue reads it: data
 * and completions are those of the classic interface.
 *
 * Sources: ibv_wr_post(3), ibv_create_cq_ex(3), ibv_bind_mw(3), ibv_create_ah_from_wc(3), ibv_create_qp_ex(3). */

#include <arpa/inet.h>
#include <errno.h>

#include "contract.h"

#define LENGTH 128
#define GRH 40
#define QKEY 0x11111111

/* A queue pair with the extended interface, of an endpoint whose completions are read through the extended queue. */
struct station {
	struct endpoint endpoint;
	struct ibv_cq_ex *completions;
	struct ibv_qp_ex *requests;
	uint8_t *memory;
	struct ibv_mr *mr;
};

static struct station station_open(enum ibv_qp_type type, uint64_t operations)
{
	struct settings settings = endpoint_defaults();
	settings.type = type;
	struct station station = { .endpoint = endpoint_open(settings), .memory = private_pages(PAGE) };
	struct endpoint *endpoint = &station.endpoint;
	CHECK_CALL(ibv_destroy_qp(endpoint->qp));
	CHECK_CALL(ibv_destroy_cq(endpoint->cq));
	struct ibv_cq_init_attr_ex queue = { .cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS };
	station.completions = ibv_create_cq_ex(endpoint->context, &queue);
	CHECK_POINTER(station.completions);
	endpoint->cq = ibv_cq_ex_to_cq(station.completions);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = endpoint->cq,
		.recv_cq = endpoint->cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 },
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = endpoint->pd,
		.send_ops_flags = operations,
	};
	endpoint->qp = ibv_create_qp_ex(endpoint->context, &init);
	CHECK_POINTER(endpoint->qp);
	station.requests = ibv_qp_to_qp_ex(endpoint->qp);
	CHECK_POINTER(station.requests);
	struct ibv_qp_attr ready = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .qp_access_flags = ALL_ACCESS };
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &ready,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					 (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	station.mr = region(endpoint, station.memory, PAGE, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	return station;
}

static void station_close(struct station *station)
{
	CHECK_CALL(ibv_dereg_mr(station->mr));
	endpoint_close(&station->endpoint);
	CHECK_CALL(munmap(station->memory, PAGE));
}

static void stations_connect(struct station *one, struct station *other)
{
	endpoint_connect(&one->endpoint, endpoint_address(&other->endpoint));
	endpoint_connect(&other->endpoint, endpoint_address(&one->endpoint));
}

/* The next request of the batch. */
static struct ibv_qp_ex *request(struct station *station, uint64_t id)
{
	station->requests->wr_id = id;
	station->requests->wr_flags = IBV_SEND_SIGNALED;
	return station->requests;
}

static void from(struct station *station, uint64_t offset, uint32_t length)
{
	ibv_wr_set_sge(station->requests, station->mr->lkey, (uintptr_t)station->memory + offset, length);
}

/* Stands on the next completion, which is this one; `leave` goes on. */
static struct ibv_cq_ex *arrive(struct station *station, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_poll_cq_attr plain = { 0 };
	int error;
	while ((error = ibv_start_poll(station->completions, &plain)) == ENOENT)
		;
	CHECK_EQUAL(error, 0);
	CHECK_EQUAL(station->completions->wr_id, id);
	CHECK_EQUAL(station->completions->status, status);
	return station->completions;
}

static void leave(struct station *station)
{
	ibv_end_poll(station->completions);
}

/* A completion that has nothing but its operation. */
static void completed(struct station *station, uint64_t id, enum ibv_wc_opcode opcode)
{
	struct ibv_cq_ex *at = arrive(station, id, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_opcode(at), opcode);
	CHECK_EQUAL(ibv_wc_read_qp_num(at), station->endpoint.qp->qp_num);
	CHECK_EQUAL(ibv_wc_read_vendor_err(at), 0);
	leave(station);
}

static void memory_is_read_and_written(void)
{
	uint64_t operations = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	struct station one = station_open(IBV_QPT_RC, operations), other = station_open(IBV_QPT_RC, operations);
	stations_connect(&one, &other);
	pattern_fill(one.memory, LENGTH, 1);
	post_receive(&other.endpoint, 9, (struct piece){ 0 });
	ibv_wr_start(one.requests);
	ibv_wr_rdma_write(request(&one, 1), other.mr->rkey, (uintptr_t)other.memory + 512);
	from(&one, 0, LENGTH);
	ibv_wr_rdma_write_imm(request(&one, 2), other.mr->rkey, (uintptr_t)other.memory + 1024, htonl(0x01020304));
	from(&one, 0, LENGTH);
	ibv_wr_rdma_read(request(&one, 3), other.mr->rkey, (uintptr_t)other.memory + 1024);
	from(&one, 2048, LENGTH);
	CHECK_CALL(ibv_wr_complete(one.requests));
	completed(&one, 1, IBV_WC_RDMA_WRITE);
	completed(&one, 2, IBV_WC_RDMA_WRITE);
	completed(&one, 3, IBV_WC_RDMA_READ);
	pattern_check(other.memory + 512, LENGTH, 1);
	pattern_check(one.memory + 2048, LENGTH, 1);
	struct ibv_cq_ex *at = arrive(&other, 9, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_opcode(at), IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQUAL(ibv_wc_read_wc_flags(at), IBV_WC_WITH_IMM);
	CHECK_EQUAL(ntohl(ibv_wc_read_imm_data(at)), 0x01020304);
	CHECK_EQUAL(ibv_wc_read_byte_len(at), LENGTH);
	leave(&other);
	station_close(&one);
	station_close(&other);
}

static void words_are_changed(void)
{
	uint64_t operations = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	struct station one = station_open(IBV_QPT_RC, operations), other = station_open(IBV_QPT_RC, operations);
	stations_connect(&one, &other);
	uint64_t *there = (uint64_t *)other.memory, *here = (uint64_t *)one.memory;
	there[0] = 40;
	ibv_wr_start(one.requests);
	ibv_wr_atomic_fetch_add(request(&one, 1), other.mr->rkey, (uintptr_t)there, 2);
	from(&one, 0, 8);
	ibv_wr_atomic_cmp_swp(request(&one, 2), other.mr->rkey, (uintptr_t)there, 42, 7);
	from(&one, 8, 8);
	ibv_wr_atomic_cmp_swp(request(&one, 3), other.mr->rkey, (uintptr_t)there, 42, 8);
	from(&one, 16, 8);
	CHECK_CALL(ibv_wr_complete(one.requests));
	completed(&one, 1, IBV_WC_FETCH_ADD);
	completed(&one, 2, IBV_WC_COMP_SWAP);
	completed(&one, 3, IBV_WC_COMP_SWAP);
	CHECK_EQUAL(here[0], 40);
	CHECK_EQUAL(here[1], 42);
	CHECK_EQUAL(here[2], 7);
	CHECK_EQUAL(there[0], 7);
	station_close(&one);
	station_close(&other);
}

/* A window of the target's over its own memory, bound by a batch, with its key. */
static uint32_t bound(struct station *target, struct ibv_mw *window)
{
	struct ibv_mw_bind_info range = { .mr = target->mr, .addr = (uintptr_t)target->memory, .length = LENGTH,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	uint32_t key = ibv_inc_rkey(window->rkey);
	ibv_wr_start(target->requests);
	ibv_wr_bind_mw(request(target, 20), window, key, &range);
	CHECK_CALL(ibv_wr_complete(target->requests));
	completed(target, 20, IBV_WC_BIND_MW);
	return key;
}

/* A write of one byte through a key, which is the last before its queue pair fails if it is refused. */
static enum ibv_wc_status written(struct station *one, const struct station *target, uint32_t key)
{
	ibv_wr_start(one->requests);
	ibv_wr_rdma_write(request(one, 30), key, (uintptr_t)target->memory);
	from(one, 0, 1);
	CHECK_CALL(ibv_wr_complete(one->requests));
	struct ibv_poll_cq_attr plain = { 0 };
	while (ibv_start_poll(one->completions, &plain) == ENOENT)
		;
	CHECK_EQUAL(one->completions->wr_id, 30);
	enum ibv_wc_status status = one->completions->status;
	leave(one);
	return status;
}

#define WINDOWS                                                                                                \
	(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
	 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE)

static void a_window_ends_by_its_owner(void)
{
	struct station one = station_open(IBV_QPT_RC, WINDOWS), target = station_open(IBV_QPT_RC, WINDOWS);
	stations_connect(&one, &target);
	struct ibv_mw *window = ibv_alloc_mw(target.endpoint.pd, IBV_MW_TYPE_2);
	CHECK_POINTER(window);
	uint32_t key = bound(&target, window);
	one.memory[0] = 5;
	CHECK_EQUAL(written(&one, &target, key), IBV_WC_SUCCESS);
	CHECK_EQUAL(target.memory[0], 5);
	ibv_wr_start(target.requests);
	ibv_wr_local_inv(request(&target, 21), key);
	CHECK_CALL(ibv_wr_complete(target.requests));
	completed(&target, 21, IBV_WC_LOCAL_INV);
	one.memory[0] = 6;
	CHECK_EQUAL(written(&one, &target, key), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQUAL(target.memory[0], 5);
	CHECK_CALL(ibv_dealloc_mw(window));
	station_close(&one);
	station_close(&target);
}

static void a_window_ends_by_a_message(void)
{
	struct station one = station_open(IBV_QPT_RC, WINDOWS), target = station_open(IBV_QPT_RC, WINDOWS);
	stations_connect(&one, &target);
	struct ibv_mw *window = ibv_alloc_mw(target.endpoint.pd, IBV_MW_TYPE_2);
	CHECK_POINTER(window);
	uint32_t key = bound(&target, window);
	post_receive(&target.endpoint, 22, piece_of(target.mr, 1024, LENGTH));
	post_receive(&target.endpoint, 23, piece_of(target.mr, 2048, LENGTH));
	pattern_fill(one.memory, LENGTH, 3);
	ibv_wr_start(one.requests);
	ibv_wr_send_imm(request(&one, 10), htonl(0xdeadbeef));
	from(&one, 0, LENGTH);
	ibv_wr_send_inv(request(&one, 11), key);
	from(&one, 0, LENGTH / 2);
	CHECK_CALL(ibv_wr_complete(one.requests));
	completed(&one, 10, IBV_WC_SEND);
	completed(&one, 11, IBV_WC_SEND);

	struct ibv_cq_ex *at = arrive(&target, 22, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_opcode(at), IBV_WC_RECV);
	CHECK_EQUAL(ibv_wc_read_wc_flags(at), IBV_WC_WITH_IMM);
	CHECK_EQUAL(ntohl(ibv_wc_read_imm_data(at)), 0xdeadbeef);
	CHECK_EQUAL(ibv_wc_read_byte_len(at), LENGTH);
	leave(&target);
	at = arrive(&target, 23, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_wc_flags(at), IBV_WC_WITH_INV);
	CHECK_EQUAL(ibv_wc_read_invalidated_rkey(at), key);
	CHECK_EQUAL(ibv_wc_read_byte_len(at), LENGTH / 2);
	leave(&target);
	pattern_check(target.memory + 1024, LENGTH, 3);
	pattern_check(target.memory + 2048, LENGTH / 2, 3);
	CHECK_EQUAL(written(&one, &target, key), IBV_WC_REM_ACCESS_ERR);
	CHECK_CALL(ibv_dealloc_mw(window));
	station_close(&one);
	station_close(&target);
}

/* The attributes of a handle for `station`. */
static struct ibv_ah_attr way_to(const struct station *station)
{
	return (struct ibv_ah_attr){ .dlid = station->endpoint.lid, .port_num = 1, .sl = 3 };
}

static void post_datagram(struct station *one, uint64_t id, struct ibv_ah *ah, uint32_t number, uint32_t length)
{
	ibv_wr_start(one->requests);
	ibv_wr_send(request(one, id));
	ibv_wr_set_ud_addr(one->requests, ah, number, QKEY);
	from(one, 0, length);
	CHECK_CALL(ibv_wr_complete(one->requests));
	completed(one, id, IBV_WC_SEND);
}

static void a_datagram_names_its_sender(void)
{
	struct station one = station_open(IBV_QPT_UD, IBV_QP_EX_WITH_SEND), other = station_open(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	stations_connect(&one, &other);
	struct ibv_ah_attr there = way_to(&other), back;
	struct ibv_ah *ah = ibv_create_ah(one.endpoint.pd, &there);
	CHECK_POINTER(ah);
	post_receive(&other.endpoint, 1, piece_of(other.mr, 0, GRH + LENGTH));
	post_receive(&one.endpoint, 2, piece_of(one.mr, 1024, GRH + LENGTH));
	pattern_fill(one.memory, LENGTH, 4);
	post_datagram(&one, 3, ah, other.endpoint.qp->qp_num, LENGTH);

	struct ibv_cq_ex *at = arrive(&other, 1, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_byte_len(at), GRH + LENGTH);
	CHECK_EQUAL(ibv_wc_read_src_qp(at), one.endpoint.qp->qp_num);
	CHECK_EQUAL(ibv_wc_read_slid(at), one.endpoint.lid);
	CHECK_EQUAL(ibv_wc_read_sl(at), 3);
	CHECK_EQUAL(ibv_wc_read_dlid_path_bits(at), 0);
	struct ibv_wc wc = { .wc_flags = ibv_wc_read_wc_flags(at),
			     .src_qp = ibv_wc_read_src_qp(at),
			     .slid = (uint16_t)ibv_wc_read_slid(at),
			     .sl = ibv_wc_read_sl(at),
			     .dlid_path_bits = ibv_wc_read_dlid_path_bits(at) };
	leave(&other);
	pattern_check(other.memory + GRH, LENGTH, 4);

	/* The reply, addressed by the completion's fields. */
	memset(&back, 0xff, sizeof back);
	CHECK_CALL(ibv_init_ah_from_wc(other.endpoint.context, 1, &wc, (struct ibv_grh *)other.memory, &back));
	CHECK_EQUAL(back.dlid, one.endpoint.lid);
	CHECK_EQUAL(back.sl, 3);
	CHECK_EQUAL(back.port_num, 1);
	CHECK_EQUAL(back.is_global, 0);
	struct ibv_ah *answering = ibv_create_ah(other.endpoint.pd, &back);
	CHECK_POINTER(answering);
	post_datagram(&other, 4, answering, wc.src_qp, 16);
	at = arrive(&one, 2, IBV_WC_SUCCESS);
	CHECK_EQUAL(ibv_wc_read_src_qp(at), other.endpoint.qp->qp_num);
	CHECK_EQUAL(ibv_wc_read_byte_len(at), GRH + 16);
	leave(&one);
	CHECK_CALL(ibv_destroy_ah(answering));
	CHECK_CALL(ibv_destroy_ah(ah));
	station_close(&one);
	station_close(&other);
}

static void what_failed_says_why(void)
{
	struct station one = station_open(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_READ), other = station_open(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_READ);
	stations_connect(&one, &other);
	ibv_wr_start(one.requests);
	ibv_wr_rdma_read(request(&one, 1), other.mr->rkey + 1000, (uintptr_t)other.memory);
	from(&one, 0, 8);
	ibv_wr_rdma_read(request(&one, 2), other.mr->rkey, (uintptr_t)other.memory);
	from(&one, 0, 8);
	CHECK_CALL(ibv_wr_complete(one.requests));
	CHECK_EQUAL(ibv_wc_read_qp_num(arrive(&one, 1, IBV_WC_REM_ACCESS_ERR)), one.endpoint.qp->qp_num);
	leave(&one);
	CHECK_EQUAL(ibv_wc_read_qp_num(arrive(&one, 2, IBV_WC_WR_FLUSH_ERR)), one.endpoint.qp->qp_num);
	leave(&one);
	station_close(&one);
	station_close(&other);
}

const struct test tests[] = {
	{ "memory_is_read_and_written", memory_is_read_and_written },
	{ "words_are_changed", words_are_changed },
	{ "a_window_ends_by_its_owner", a_window_ends_by_its_owner },
	{ "a_window_ends_by_a_message", a_window_ends_by_a_message },
	{ "a_datagram_names_its_sender", a_datagram_names_its_sender },
	{ "what_failed_says_why", what_failed_says_why },
	{ 0 },
};
