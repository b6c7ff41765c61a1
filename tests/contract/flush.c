/* FLUSH: its range and type reach the responder, and the key alone decides whether it is allowed.
 *
 * Sources: ibv_wr_post(3) of rdma-core 45 (ibv_wr_flush), InfiniBand Architecture Specification, annex A19; Linux'
 * Soft-RoCE, which evaluates no attribute of the queue pair, checks no range where the whole region is meant, and knows
 * no persistent memory but that of persistent devices. */

#include <errno.h>

#include "endpoint.h"
#include "flush.h"

#define LENGTH 8192

static uint8_t memory[LENGTH] __attribute__((aligned(4096)));

/* An endpoint whose queue pair flushes. It gives its peer every right but that to flush, which is the keys'. */
static struct endpoint flusher(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	CHECK_CALL(ibv_destroy_qp(endpoint.qp));
	struct ibv_qp_init_attr_ex init = {
		.send_cq = endpoint.cq,
		.recv_cq = endpoint.cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = endpoint.pd,
		.send_ops_flags = QP_EX_WITH_FLUSH,
	};
	endpoint.qp = ibv_create_qp_ex(endpoint.context, &init);
	CHECK_POINTER(endpoint.qp);
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS };
	CHECK_CALL(ibv_modify_qp(endpoint.qp, &attributes,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return endpoint;
}

struct asked {
	uint64_t address;
	size_t length;
	uint8_t type;
	uint8_t level;
};

/* Returns the status of ibv_wr_flush(qp, ...) on memory that a separate connected process registered with
 * `access`. */
static enum ibv_wc_status flushed(int access, struct asked asked)
{
	struct endpoint asking = flusher(), asked_one = flusher();
	endpoint_connect(&asking, endpoint_address(&asked_one));
	endpoint_connect(&asked_one, endpoint_address(&asking));
	struct ibv_mr *mr = region(&asked_one, memory, LENGTH, access);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(asking.qp);
	CHECK_POINTER(qp);
	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	flush_of(qp)(qp, mr->rkey, asked.address, asked.length, asked.type, asked.level);
	CHECK_CALL(ibv_wr_complete(qp));
	struct ibv_wc wc;
	int found;
	while ((found = ibv_poll_cq(asking.cq, 1, &wc)) == 0)
		;
	CHECK_EQUAL(found, 1);
	CHECK_EQUAL(wc.wr_id, 7);
	if (wc.status == IBV_WC_SUCCESS)
		CHECK_EQUAL(wc.opcode, WC_FLUSH);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&asking);
	endpoint_close(&asked_one);
	return wc.status;
}

#define FLUSHABLE (ALL_ACCESS | ACCESS_FLUSH_GLOBAL)
#define BEGIN ((uint64_t)(uintptr_t)memory)

static void a_range_is_checked(void)
{
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN, LENGTH, FLUSH_GLOBAL, FLUSH_RANGE }), IBV_WC_SUCCESS);
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN + 8, 16, FLUSH_GLOBAL, FLUSH_RANGE }), IBV_WC_SUCCESS);
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN + LENGTH, 0, FLUSH_GLOBAL, FLUSH_RANGE }), IBV_WC_SUCCESS);
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN + 1, LENGTH, FLUSH_GLOBAL, FLUSH_RANGE }),
		    IBV_WC_REM_ACCESS_ERR);
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN - 1, 1, FLUSH_GLOBAL, FLUSH_RANGE }), IBV_WC_REM_ACCESS_ERR);
}

static void of_a_region_no_range_is_checked(void)
{
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ 0, 0, FLUSH_GLOBAL, FLUSH_MR }), IBV_WC_SUCCESS);
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN + 1, LENGTH, FLUSH_GLOBAL, FLUSH_MR }), IBV_WC_SUCCESS);
}

static void the_key_must_allow_it(void)
{
	CHECK_EQUAL(flushed(ALL_ACCESS, (struct asked){ BEGIN, 8, FLUSH_GLOBAL, FLUSH_RANGE }), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQUAL(flushed(ALL_ACCESS, (struct asked){ 0, 0, FLUSH_GLOBAL, FLUSH_MR }), IBV_WC_REM_ACCESS_ERR);
}

static void no_memory_is_persistent(void)
{
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN, 8, FLUSH_PERSISTENT, FLUSH_RANGE }), IBV_WC_REM_ACCESS_ERR);
	CHECK_EQUAL(flushed(FLUSHABLE, (struct asked){ BEGIN, 8, FLUSH_GLOBAL | FLUSH_PERSISTENT, FLUSH_RANGE }),
		    IBV_WC_REM_ACCESS_ERR);
	struct endpoint endpoint = flusher();
	errno = 0;
	CHECK(!ibv_reg_mr(endpoint.pd, memory, LENGTH, FLUSHABLE | ACCESS_FLUSH_PERSISTENT));
	/* As the kernel answers for a device without that capability. */
	CHECK_EQUAL(errno, EOPNOTSUPP);
	endpoint_close(&endpoint);
}

static void what_makes_no_sense_is_refused(void)
{
	static const struct asked senseless[] = {
		{ 0, 8, 0, FLUSH_RANGE },
		{ 0, 8, 4, FLUSH_RANGE },
		{ 0, 8, FLUSH_GLOBAL, 2 },
		{ 0, (size_t)1 << 32, FLUSH_GLOBAL, FLUSH_RANGE },
	};
	struct endpoint endpoint = flusher();
	endpoint_connect(&endpoint, endpoint_address(&endpoint));
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(endpoint.qp);
	for (unsigned i = 0; i < sizeof(senseless) / sizeof(*senseless); i++) {
		ibv_wr_start(qp);
		flush_of(qp)(qp, 1, senseless[i].address, senseless[i].length, senseless[i].type, senseless[i].level);
		CHECK_EQUAL(ibv_wr_complete(qp), EINVAL);
	}
	CHECK_EQUAL(endpoint_state(&endpoint), IBV_QPS_RTS);
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "a_range_is_checked", a_range_is_checked },
	{ "of_a_region_no_range_is_checked", of_a_region_no_range_is_checked },
	{ "the_key_must_allow_it", the_key_must_allow_it },
	{ "no_memory_is_persistent", no_memory_is_persistent },
	{ "what_makes_no_sense_is_refused", what_makes_no_sense_is_refused },
	{ 0 },
};
