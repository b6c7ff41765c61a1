/* Completion events and asynchronous events. */
#pragma once

#include "pair.h"

static volatile int acknowledged;

static void *acknowledge_later(void *cq)
{
	/* Late enough for ibv_destroy_cq to wait by now; the check would also hold earlier. */
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

	/* No event: a non-blocking descriptor fails. */
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
	/* Returns only after the acknowledgement. */
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
	/* A queue pair with a shared receive queue reports that it takes no more requests of it. */
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
	/* The longest period; the event comes with the count before it, or at its end. */
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
		/* An RDMA write completes once, at its requester; two reach the count, one waits for the period. */
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
