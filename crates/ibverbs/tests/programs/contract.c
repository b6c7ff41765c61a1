/* contract NAME: checks one of the man pages' contracts against the linked library, through the
   official headers, in one process. The table is at the end. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wrong;

#define CHECK(what) do { if (!(what)) { wrong++; \
	printf("%s:%d: not so: %s (errno %d)\n", __func__, __LINE__, #what, errno); } } while (0)
/* Without it nothing that follows has a meaning. */
#define NEED(what) do { if (!(what)) { \
	printf("%s:%d: needed: %s (errno %d)\n", __func__, __LINE__, #what, errno); exit(1); } } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;

static void open_device(void)
{
	int number = 0;
	struct ibv_device **list = ibv_get_device_list(&number);

	NEED(list && number == 1 && list[0] && !list[1]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	NEED(context);
	pd = ibv_alloc_pd(context);
	NEED(pd);
}

/* Two connected queue pairs of this process. */
struct pair {
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_comp_channel *channel;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	char *memory;
};

#define LENGTH 4096

static void connect_qp(struct ibv_qp *qp, uint32_t destination)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
			| IBV_ACCESS_REMOTE_ATOMIC };

	NEED(!ibv_query_port(context, 1, &port));
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT
		| IBV_QP_ACCESS_FLAGS));
	CHECK(qp->state == IBV_QPS_INIT);
	memset(&attr, 0, sizeof attr);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_4096;
	attr.dest_qp_num = destination;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 1;
	attr.ah_attr.dlid = port.lid;
	attr.ah_attr.port_num = 1;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU
		| IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC
		| IBV_QP_MIN_RNR_TIMER));
	memset(&attr, 0, sizeof attr);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
		| IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct pair open_pair(uint64_t send_ops, uint64_t wc_flags)
{
	struct pair pair = { 0 };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 64, .wc_flags = wc_flags };

	pair.channel = ibv_create_comp_channel(context);
	NEED(pair.channel);
	cq_attr.channel = pair.channel;
	cq_attr.cq_context = &pair;
	pair.cq_ex = ibv_create_cq_ex(context, &cq_attr);
	NEED(pair.cq_ex);
	pair.cq = ibv_cq_ex_to_cq(pair.cq_ex);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr_ex attr = { .send_cq = pair.cq, .recv_cq = pair.cq,
			.cap = { 8, 8, 2, 2, 64 }, .qp_type = IBV_QPT_RC, .pd = pd,
			.comp_mask = IBV_QP_INIT_ATTR_PD, .qp_context = &wrong };

		if (send_ops) {
			attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			attr.send_ops_flags = send_ops;
		}
		pair.qp[i] = ibv_create_qp_ex(context, &attr);
		NEED(pair.qp[i]);
		CHECK(attr.cap.max_send_wr >= 8 && attr.cap.max_inline_data >= 64);
	}
	connect_qp(pair.qp[0], pair.qp[1]->qp_num);
	connect_qp(pair.qp[1], pair.qp[0]->qp_num);
	NEED(!posix_memalign((void **)&pair.memory, 4096, LENGTH));
	memset(pair.memory, 0, LENGTH);
	pair.mr = ibv_reg_mr(pd, pair.memory, LENGTH, IBV_ACCESS_LOCAL_WRITE
		| IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	NEED(pair.mr);
	return pair;
}

static void close_pair(struct pair *pair)
{
	CHECK(!ibv_destroy_qp(pair->qp[0]));
	CHECK(!ibv_destroy_qp(pair->qp[1]));
	CHECK(!ibv_destroy_cq(pair->cq));
	CHECK(!ibv_destroy_comp_channel(pair->channel));
	CHECK(!ibv_dereg_mr(pair->mr));
	free(pair->memory);
}

static void post_receive(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory + 2048, 1024, pair->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	NEED(!ibv_post_recv(pair->qp[1], &wr, &bad));
}

static int post_send(struct pair *pair, uint64_t wr_id, struct ibv_send_wr **bad)
{
	struct ibv_sge sge = { (uintptr_t)pair->memory, 16, pair->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

	return ibv_post_send(pair->qp[0], &wr, bad);
}

static struct ibv_wc wait_for(struct ibv_cq *cq)
{
	struct ibv_wc wc = { 0 };
	int polled;

	for (long tries = 0; tries < 500 * 1000 * 1000L; tries++) {
		polled = ibv_poll_cq(cq, 1, &wc);
		NEED(polled >= 0);
		if (polled == 1)
			return wc;
	}
	NEED(!"a completion");
	return wc;
}

static void objects_in_use_cannot_be_destroyed(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_srq_init_attr srq_attr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_qp_init_attr qp_attr = { .send_cq = pair.cq, .recv_cq = pair.cq, .srq = srq,
		.cap = { 1, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);

	NEED(srq && qp);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_cq(pair.cq) == EBUSY);
	CHECK(ibv_destroy_srq(srq) == EBUSY);
	CHECK(ibv_destroy_comp_channel(pair.channel) == EBUSY);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_srq(srq));
	close_pair(&pair);
	CHECK(!ibv_dealloc_pd(pd));
}

static void null_and_nonsense_are_refused(void)
{
	struct ibv_device_attr attr;
	struct ibv_ah_attr ah_attr = { .port_num = 9 };

	CHECK(ibv_query_device(NULL, &attr) == EINVAL);
	CHECK(ibv_query_device(context, NULL) == EINVAL);
	CHECK(ibv_alloc_pd(NULL) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_open_device(NULL) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_cq(context, 0, NULL, NULL, 0) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_cq(context, -1, NULL, NULL, 0) == NULL && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors) == NULL
	      && errno == EINVAL);
	errno = 0;
	CHECK(ibv_create_ah(pd, &ah_attr) == NULL && errno == EINVAL);
	/* An object of another kind. */
	CHECK(ibv_destroy_cq((struct ibv_cq *)pd) == EINVAL);
	errno = 0;
	CHECK(ibv_reg_mr(pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE) == NULL
	      && errno == EFAULT);
	errno = 0;
	CHECK(ibv_reg_mr(pd, &attr, sizeof attr, IBV_ACCESS_REMOTE_WRITE) == NULL
	      && errno == EINVAL);
}

static void what_is_not_supported_says_so(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_flow_attr flow = { 0 };
	struct ibv_wq_init_attr wq = { .pd = pd, .cq = pair.cq };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_ops_wr operation = { 0 }, *bad = NULL;
	struct ibv_srq_init_attr_ex srq = { .attr = { 4, 1, 0 }, .pd = pd,
		.srq_type = IBV_SRQT_TM, .cq = pair.cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE
			| IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM };
	struct ibv_qp_rate_limit_attr rate = { 0 };
	struct ibv_cq_init_attr_ex tags = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_qp_init_attr raw = { .send_cq = pair.cq, .recv_cq = pair.cq,
		.cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RAW_PACKET };
	struct ibv_ece ece = { 1, 2, 3 };

#define UNSUPPORTED(object) do { errno = 0; CHECK((object) == NULL); \
	CHECK(errno == EOPNOTSUPP); } while (0)
	UNSUPPORTED(ibv_create_flow(pair.qp[0], &flow));
	UNSUPPORTED(ibv_create_wq(context, &wq));
	UNSUPPORTED(ibv_create_rwq_ind_table(context, &table));
	UNSUPPORTED(ibv_create_counters(context, &counters));
	UNSUPPORTED(ibv_create_srq_ex(context, &srq));
	UNSUPPORTED(ibv_create_cq_ex(context, &tags));
	UNSUPPORTED(ibv_create_qp(pd, &raw));
	UNSUPPORTED(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0));
	CHECK(ibv_modify_qp_rate_limit(pair.qp[0], &rate) == EOPNOTSUPP);
	struct ibv_srq_init_attr basic = { .attr = { 4, 1, 0 } };
	struct ibv_srq *shared = ibv_create_srq(pd, &basic);
	NEED(shared);
	CHECK(ibv_post_srq_ops(shared, &operation, &bad) == EOPNOTSUPP && bad == &operation);
	uint32_t number;
	CHECK(ibv_get_srq_num(shared, &number) == EINVAL);
	CHECK(!ibv_destroy_srq(shared));
	CHECK(ibv_query_ece(pair.qp[0], &ece) == EOPNOTSUPP && ece.vendor_id == 0);
	close_pair(&pair);
}

static void a_list_stops_at_the_request_that_is_refused(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_sge sge = { (uintptr_t)pair.memory, 16, pair.mr->lkey };
	struct ibv_send_wr wr[3], *bad = NULL;
	struct ibv_recv_wr receive = { .num_sge = 3 }, *bad_receive = NULL;

	memset(wr, 0, sizeof wr);
	for (int i = 0; i < 3; i++) {
		wr[i].wr_id = i;
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].opcode = IBV_WR_RDMA_WRITE;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].wr.rdma.remote_addr = (uintptr_t)pair.memory + 512;
		wr[i].wr.rdma.rkey = pair.mr->rkey;
	}
	/* More buffers than the queue pair takes. */
	wr[1].num_sge = 3;
	CHECK(ibv_post_send(pair.qp[0], wr, &bad) == EINVAL && bad == &wr[1]);
	CHECK(wait_for(pair.cq).wr_id == 0);
	struct ibv_wc wc;
	CHECK(ibv_poll_cq(pair.cq, 1, &wc) == 0);
	CHECK(ibv_post_recv(pair.qp[0], &receive, &bad_receive) == EINVAL
	      && bad_receive == &receive);
	close_pair(&pair);
}

static volatile int acknowledged;

static void *acknowledge_later(void *cq)
{
	usleep(100 * 1000);
	acknowledged = 1;
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void events_wait_to_be_acknowledged(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_send_wr *bad;
	struct ibv_cq *cq = NULL;
	void *cq_context = NULL;
	pthread_t thread;

	/* Nothing there: a descriptor that does not block says so. */
	CHECK(!fcntl(pair.channel->fd, F_SETFL, O_NONBLOCK));
	errno = 0;
	CHECK(ibv_get_cq_event(pair.channel, &cq, &cq_context) == -1 && errno == EAGAIN);

	CHECK(!ibv_req_notify_cq(pair.cq, 0));
	post_receive(&pair, 1);
	NEED(!post_send(&pair, 2, &bad));
	struct pollfd wait = { .fd = pair.channel->fd, .events = POLLIN };
	NEED(poll(&wait, 1, 10000) == 1);
	CHECK(!ibv_get_cq_event(pair.channel, &cq, &cq_context));
	CHECK(cq == pair.cq && cq_context == pair.cq->cq_context);
	CHECK(poll(&wait, 1, 0) == 0);
	wait_for(pair.cq);
	wait_for(pair.cq);

	CHECK(!ibv_destroy_qp(pair.qp[0]) && !ibv_destroy_qp(pair.qp[1]));
	/* Ends only after the acknowledgement. */
	NEED(!pthread_create(&thread, NULL, acknowledge_later, pair.cq));
	CHECK(!ibv_destroy_cq(pair.cq));
	CHECK(acknowledged);
	pthread_join(thread, NULL);
	CHECK(!ibv_destroy_comp_channel(pair.channel));
	CHECK(!ibv_dereg_mr(pair.mr));
	free(pair.memory);
}

static void asynchronous_events_name_their_object(void)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_qp_init_attr qp_attr = { .send_cq = pair.cq, .recv_cq = pair.cq, .srq = srq,
		.cap = { 1, 0, 1, 0, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;

	NEED(srq && qp);
	NEED(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
	errno = 0;
	CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
	/* A queue pair on a shared receive queue tells when it needs no more of its requests. */
	CHECK(!ibv_modify_qp(qp, &error, IBV_QP_STATE) && qp->state == IBV_QPS_ERR);
	NEED(!ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp);
	ibv_ack_async_event(&event);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_srq(srq));
	close_pair(&pair);
}

static void an_event_that_nobody_took_goes_with_its_object(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_send_wr *bad;

	CHECK(!ibv_req_notify_cq(pair.cq, 0));
	post_receive(&pair, 1);
	NEED(!post_send(&pair, 2, &bad));
	struct pollfd wait = { .fd = pair.channel->fd, .events = POLLIN };
	NEED(poll(&wait, 1, 10000) == 1);
	CHECK(!ibv_destroy_qp(pair.qp[0]) && !ibv_destroy_qp(pair.qp[1]));
	CHECK(!ibv_destroy_cq(pair.cq));
	CHECK(poll(&wait, 1, 0) == 0);
	CHECK(!ibv_destroy_comp_channel(pair.channel));
	CHECK(!ibv_dereg_mr(pair.mr));
	free(pair.memory);
}

static void a_moderated_queue_raises_its_event_all_the_same(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	/* The longest period there is, which the count must beat or the clock must end. */
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 2, .cq_period = 65535 } };
	struct pollfd wait = { .fd = pair.channel->fd, .events = POLLIN };
	struct ibv_send_wr *bad;
	struct ibv_cq *cq;
	void *cq_context;

	CHECK(!ibv_modify_cq(pair.cq, &attr));
	attr.attr_mask = IBV_CQ_ATTR_RESERVED;
	CHECK(ibv_modify_cq(pair.cq, &attr) == EOPNOTSUPP);
	for (int requests = 1; requests <= 2; requests++) {
		CHECK(!ibv_req_notify_cq(pair.cq, 0));
		/* An RDMA write completes once, here; two make up the count, one waits for the clock. */
		for (int i = 0; i < requests; i++) {
			struct ibv_sge sge = { (uintptr_t)pair.memory, 16, pair.mr->lkey };
			struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				.wr.rdma = { (uintptr_t)pair.memory + 512, pair.mr->rkey } };
			NEED(!ibv_post_send(pair.qp[0], &wr, &bad));
		}
		NEED(poll(&wait, 1, 10000) == 1);
		NEED(!ibv_get_cq_event(pair.channel, &cq, &cq_context));
		CHECK(poll(&wait, 1, 0) == 0);
		ibv_ack_cq_events(cq, 1);
		for (int i = 0; i < requests; i++)
			CHECK(wait_for(pair.cq).status == IBV_WC_SUCCESS);
	}
	close_pair(&pair);
}

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
	/* The second is more inline data than the queue pair takes. */
	static char big[4096];
	ibv_wr_start(qpx);
	ibv_wr_rdma_write(qpx, pair.mr->rkey, target);
	ibv_wr_set_inline_data(qpx, big, 8);
	ibv_wr_rdma_write(qpx, pair.mr->rkey, target);
	ibv_wr_set_inline_data(qpx, big, sizeof big);
	CHECK(ibv_wr_complete(qpx) == EINVAL);
	CHECK(ibv_poll_cq(pair.cq, 1, &wc) == 0);
	/* An operation that it was not made for. */
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
	/* And whole: inline from several pieces, which may change at once, then buffers in a list. */
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

static void queries_fill_as_much_as_the_header_knows(void)
{
	struct verbs_context *extended = verbs_get_ctx(context);
	struct { struct ibv_port_attr attr; unsigned char after[8]; } port;
	struct { struct ibv_device_attr_ex attr; unsigned char after[8]; } device;

	NEED(extended && extended->sz == sizeof *extended);
	/* An older header: shorter. */
	memset(&port, 0xee, sizeof port);
	CHECK(!extended->query_port(context, 1, &port.attr, offsetof(struct ibv_port_attr, lid)));
	CHECK(port.attr.state == IBV_PORT_ACTIVE && port.attr.lid == 0xeeee);
	/* A newer one: longer, and the rest is zero. */
	CHECK(!extended->query_port(context, 1, &port.attr, sizeof port));
	CHECK(port.attr.lid != 0xeeee && port.after[7] == 0);
	memset(&device, 0xee, sizeof device);
	CHECK(!extended->query_device_ex(context, NULL, &device.attr, sizeof device));
	CHECK(device.attr.orig_attr.phys_port_cnt == 1 && device.after[7] == 0);
	CHECK(extended->query_port(context, 2, &port.attr, sizeof port.attr) == EINVAL);
	CHECK(ibv_query_gid(context, 1, 10000, &(union ibv_gid){ 0 }) == -1);
	CHECK(ibv_query_pkey(context, 1, -1, &(__be16){ 0 }) == -1);
}

static void what_is_imported_is_the_same_object(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	int duplicate = dup(context->cmd_fd);
	struct ibv_context *second = ibv_import_device(duplicate);
	NEED(second);
	struct ibv_pd *same_pd = ibv_import_pd(second, pd->handle);
	NEED(same_pd);
	struct ibv_mr *same_mr = ibv_import_mr(same_pd, pair.mr->handle);
	NEED(same_mr);
	CHECK(same_mr->rkey == pair.mr->rkey && same_mr->length == LENGTH && !same_mr->addr);
	ibv_unimport_mr(same_mr);
	ibv_unimport_pd(same_pd);
	errno = 0;
	CHECK(ibv_import_pd(second, 0xffffff) == NULL && errno == EINVAL);
	CHECK(!ibv_close_device(second));
	CHECK(fcntl(duplicate, F_GETFD) == -1);
	errno = 0;
	CHECK(ibv_import_device(STDIN_FILENO) == NULL && errno == EOPNOTSUPP);
	close_pair(&pair);
}

static void a_region_keeps_its_key_when_it_is_registered_again(void)
{
	char *memory = NULL;
	NEED(!posix_memalign((void **)&memory, 4096, 2 * LENGTH));
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	uint32_t key = mr->rkey;

	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	CHECK(mr->rkey == key);
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + LENGTH, LENGTH, 0));
	CHECK(mr->addr == memory + LENGTH && mr->length == LENGTH);
	CHECK(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(ibv_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
		IBV_ACCESS_REMOTE_WRITE) == IBV_REREG_MR_ERR_CMD);
	CHECK(!ibv_dereg_mr(mr));
	free(memory);
}

static void a_window_moves_only_to_keys_of_its_own(void)
{
	struct pair pair = open_pair(0, IBV_WC_STANDARD_FLAGS);
	struct ibv_mr *mr = ibv_reg_mr(pd, pair.memory, LENGTH,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw *old = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	NEED(mr && mw && old);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = mw->rkey + 0x100,
			.bind_info = { mr, (uintptr_t)pair.memory, 64, IBV_ACCESS_REMOTE_WRITE } } };
	struct ibv_send_wr *bad;
	uint32_t before = old->rkey;

	CHECK(ibv_post_send(pair.qp[0], &wr, &bad) == EINVAL);
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	CHECK(!ibv_post_send(pair.qp[0], &wr, &bad));
	CHECK(wait_for(pair.cq).status == IBV_WC_SUCCESS);
	struct ibv_mw_bind bind = { .wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { mr, (uintptr_t)pair.memory, 64, IBV_ACCESS_REMOTE_WRITE } };
	CHECK(!ibv_bind_mw(pair.qp[0], old, &bind));
	CHECK(old->rkey != before && (old->rkey ^ before) >> 8 == 0);
	struct ibv_wc wc = wait_for(pair.cq);
	CHECK(wc.wr_id == 3 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_BIND_MW);
	/* ibv_dereg_mr(3): not while a window is bound to it. */
	CHECK(ibv_dereg_mr(mr) == EBUSY);
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(ibv_dereg_mr(mr) == EBUSY);
	bind.bind_info.length = 0;
	CHECK(!ibv_bind_mw(pair.qp[0], old, &bind));
	CHECK(wait_for(pair.cq).status == IBV_WC_SUCCESS);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dealloc_mw(old));
	close_pair(&pair);
}

static void domains_of_every_kind(void)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ibv_alloc_td(context, &td_attr);
	struct ibv_parent_domain_init_attr parent_attr = { .pd = pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &parent_attr);
	static char memory[64];

	NEED(td && parent);
	CHECK(ibv_dealloc_td(td) == EBUSY);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	struct ibv_mr *mr = ibv_reg_mr(parent, memory, sizeof memory, 0);
	NEED(mr);
	CHECK(ibv_dealloc_pd(parent) == EBUSY);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dealloc_pd(parent));
	CHECK(!ibv_dealloc_td(td));
	CHECK(!ibv_dealloc_pd(pd));
}

static void the_receiving_side_of_xrc_can_be_opened_again(void)
{
	struct ibv_xrcd_init_attr xrcd_attr = { .fd = -1, .oflags = O_CREAT,
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &xrcd_attr);
	NEED(xrcd);
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);
	NEED(qp);
	struct ibv_qp_open_attr open_attr = { .qp_num = qp->qp_num, .xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV, .qp_context = &wrong,
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE
			| IBV_QP_OPEN_ATTR_CONTEXT };
	struct ibv_qp *again = ibv_open_qp(context, &open_attr);
	NEED(again);
	CHECK(again->qp_num == qp->qp_num && again->qp_context == &wrong);
	CHECK(!ibv_destroy_qp(qp));
	/* It lives as long as anybody has it open. */
	CHECK(ibv_close_xrcd(xrcd) == EBUSY);
	CHECK(!ibv_destroy_qp(again));
	errno = 0;
	CHECK(ibv_open_qp(context, &open_attr) == NULL && errno == ENOENT);
	CHECK(!ibv_close_xrcd(xrcd));
}

static void device_memory_is_in_words(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 256 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
	char out[8] = "1234567", in[8] = "";
	NEED(dm);
	CHECK(!ibv_memcpy_to_dm(dm, 8, out, 8));
	CHECK(!ibv_memcpy_from_dm(in, dm, 8, 8) && !memcmp(in, out, 8));
	CHECK(ibv_memcpy_to_dm(dm, 2, out, 4) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, 0, out, 3) == EINVAL);
	CHECK(ibv_memcpy_to_dm(dm, 252, out, 8) == EINVAL);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 0, 256,
		IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	CHECK(ibv_free_dm(dm) == EBUSY);
	CHECK(!ibv_dereg_mr(mr));
	errno = 0;
	CHECK(ibv_reg_dm_mr(pd, dm, 0, 256, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EINVAL);
	CHECK(!ibv_free_dm(dm));
}

static void advice_is_taken_about_on_demand_memory_only(void)
{
	char *memory = NULL;
	NEED(!posix_memalign((void **)&memory, 4096, LENGTH));
	struct ibv_mr *demand = ibv_reg_mr(pd, memory, LENGTH,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *readable = ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *plain = ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	NEED(demand && readable && plain);
#define ADVISE(key, offset, length, how) ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_##how, \
	IBV_ADVISE_MR_FLAG_FLUSH, \
	&(struct ibv_sge){ (uintptr_t)memory + (offset), (length), (key) }, 1)
	CHECK(ADVISE(demand->lkey, 0, LENGTH, PREFETCH) == 0);
	CHECK(ADVISE(demand->lkey, 0, LENGTH, PREFETCH_WRITE) == 0);
	CHECK(ADVISE(demand->lkey, 0, LENGTH, PREFETCH_NO_FAULT) == 0);
	CHECK(ADVISE(demand->lkey, 1, LENGTH, PREFETCH) == EFAULT);
	CHECK(ADVISE(0x7fffff00, 0, LENGTH, PREFETCH) == EFAULT);
	CHECK(ADVISE(readable->lkey, 0, LENGTH, PREFETCH) == 0);
	CHECK(ADVISE(readable->lkey, 0, LENGTH, PREFETCH_WRITE) == EPERM);
	CHECK(ADVISE(plain->lkey, 0, LENGTH, PREFETCH) == EINVAL);
	CHECK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0) == EINVAL);
	CHECK(!ibv_dereg_mr(demand) && !ibv_dereg_mr(readable) && !ibv_dereg_mr(plain));
	free(memory);
}

int main(int argc, char **argv)
{
#define TEST(name) { #name, name }
	static const struct { const char *name; void (*run)(void); } tests[] = {
		TEST(objects_in_use_cannot_be_destroyed),
		TEST(null_and_nonsense_are_refused),
		TEST(what_is_not_supported_says_so),
		TEST(a_list_stops_at_the_request_that_is_refused),
		TEST(events_wait_to_be_acknowledged),
		TEST(asynchronous_events_name_their_object),
		TEST(an_event_that_nobody_took_goes_with_its_object),
		TEST(a_moderated_queue_raises_its_event_all_the_same),
		TEST(a_batch_is_posted_whole_or_not_at_all),
		TEST(only_queue_pairs_made_for_it_have_the_extended_interface),
		TEST(an_atomic_write_takes_its_value_at_once),
		TEST(the_extended_queue_iterates_over_completions),
		TEST(queries_fill_as_much_as_the_header_knows),
		TEST(what_is_imported_is_the_same_object),
		TEST(a_region_keeps_its_key_when_it_is_registered_again),
		TEST(a_window_moves_only_to_keys_of_its_own),
		TEST(domains_of_every_kind),
		TEST(the_receiving_side_of_xrc_can_be_opened_again),
		TEST(device_memory_is_in_words),
		TEST(advice_is_taken_about_on_demand_memory_only),
	};

	alarm(60);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (argc == 2 && !strcmp(argv[1], tests[i].name)) {
			open_device();
			tests[i].run();
			return wrong != 0;
		}
	printf("no such test\n");
	return 1;
}
