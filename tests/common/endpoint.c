#include "endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define PORT 1
#define QKEY 0x11111111

struct settings endpoint_defaults(void)
{
	return (struct settings){
		.type = IBV_QPT_RC,
		.access = ALL_ACCESS,
		.depth = 64,
		/* 4 ms, four times: a lost peer is noticed in a moment. */
		.timeout = 10,
		.retry_count = 3,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
	};
}

static int chosen = -1;

void device_choose(int index)
{
	chosen = index;
}

struct ibv_context *device_open(void)
{
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count);
	CHECK_POINTER(devices);
	if (chosen < 0) {
		const char *other = getenv("RDMA_TEST_DEVICE");
		chosen = other == NULL ? 0 : atoi(other);
	}
	CHECK(count > chosen);
	struct ibv_context *context = ibv_open_device(devices[chosen]);
	CHECK_POINTER(context);
	ibv_free_device_list(devices);
	return context;
}

static struct port port_of(struct ibv_context *context, const struct ibv_port_attr *attributes)
{
	struct port port = {
		.is_ethernet = attributes->link_layer == IBV_LINK_LAYER_ETHERNET,
		.mtu = attributes->active_mtu,
	};
	for (int index = 0; port.is_ethernet && index < attributes->gid_tbl_len; index++) {
		CHECK_CALL(ibv_query_gid(context, PORT, index, &port.gid));
		port.gid_index = (uint8_t)index;
		if (IN6_IS_ADDR_V4MAPPED((struct in6_addr *)&port.gid))
			return port;
	}
	CHECK(!port.is_ethernet);
	return port;
}

static void make_queue_pair(struct endpoint *endpoint)
{
	const struct settings *settings = &endpoint->settings;
	struct ibv_qp_init_attr attributes = {
		.send_cq = endpoint->cq,
		.recv_cq = settings->receive_cq ? settings->receive_cq : endpoint->cq,
		.srq = settings->srq,
		.cap = {
			.max_send_wr = settings->depth,
			.max_recv_wr = settings->srq ? 0 : settings->depth,
			.max_send_sge = 4,
			.max_recv_sge = settings->srq ? 0 : 4,
			.max_inline_data = 64,
		},
		.qp_type = settings->type,
		.sq_sig_all = !settings->unsignaled,
	};
	endpoint->qp = ibv_create_qp(endpoint->pd, &attributes);
	CHECK_POINTER(endpoint->qp);

	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = PORT };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (settings->type == IBV_QPT_UD) {
		init.qkey = QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		init.qp_access_flags = (unsigned)settings->access;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &init, mask));
}

struct endpoint endpoint_open(struct settings settings)
{
	struct endpoint endpoint = { .context = device_open(), .settings = settings };
	struct ibv_port_attr port;
	CHECK_CALL(ibv_query_port(endpoint.context, PORT, &port));
	endpoint.lid = port.lid;
	endpoint.port = port_of(endpoint.context, &port);
	endpoint.pd = ibv_alloc_pd(endpoint.context);
	CHECK_POINTER(endpoint.pd);
	endpoint.channel = ibv_create_comp_channel(endpoint.context);
	CHECK_POINTER(endpoint.channel);
	endpoint.cq =
		ibv_create_cq(endpoint.context, (int)(4 * settings.depth), NULL, endpoint.channel, 0);
	CHECK_POINTER(endpoint.cq);
	make_queue_pair(&endpoint);
	return endpoint;
}

struct endpoint endpoint_beside(const struct endpoint *first, struct settings settings)
{
	struct endpoint endpoint = *first;
	endpoint.settings = settings;
	make_queue_pair(&endpoint);
	return endpoint;
}

struct address endpoint_address(const struct endpoint *endpoint)
{
	return (struct address){
		.qp_number = endpoint->qp->qp_num,
		.psn = endpoint->psn != 0 ? endpoint->psn : endpoint->qp->qp_num & 0xffffff,
		.lid = endpoint->lid,
		.gid = endpoint->port.gid,
	};
}

void endpoint_connect(struct endpoint *endpoint, struct address peer)
{
	const struct settings *settings = &endpoint->settings;
	bool reliable = settings->type == IBV_QPT_RC;
	bool connected = settings->type != IBV_QPT_UD;

	struct ibv_qp_attr receive = { .qp_state = IBV_QPS_RTR };
	int mask = IBV_QP_STATE;
	if (connected) {
		receive.path_mtu = endpoint->port.mtu;
		receive.dest_qp_num = peer.qp_number;
		receive.rq_psn = peer.psn;
		receive.ah_attr = (struct ibv_ah_attr){ .dlid = peer.lid, .port_num = PORT };
		if (endpoint->port.is_ethernet) {
			receive.ah_attr.is_global = 1;
			receive.ah_attr.grh = (struct ibv_global_route){
				.dgid = peer.gid,
				.sgid_index = endpoint->port.gid_index,
				.hop_limit = 64,
			};
		}
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	}
	if (reliable) {
		receive.max_dest_rd_atomic = 16;
		receive.min_rnr_timer = settings->min_rnr_timer;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &receive, mask));

	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = endpoint_address(endpoint).psn,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (reliable) {
		send.timeout = settings->timeout;
		send.retry_cnt = settings->retry_count;
		send.rnr_retry = settings->rnr_retry;
		send.max_rd_atomic = 16;
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	}
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &send, mask));
}

void endpoint_break(struct endpoint *endpoint)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	CHECK_CALL(ibv_modify_qp(endpoint->qp, &error, IBV_QP_STATE));
}

enum ibv_qp_state endpoint_state(const struct endpoint *endpoint)
{
	struct ibv_qp_attr attributes;
	struct ibv_qp_init_attr initial;
	CHECK_CALL(ibv_query_qp(endpoint->qp, &attributes, IBV_QP_STATE, &initial));
	return attributes.qp_state;
}

void endpoint_close(struct endpoint *endpoint)
{
	CHECK_CALL(ibv_destroy_qp(endpoint->qp));
	CHECK_CALL(ibv_destroy_cq(endpoint->cq));
	CHECK_CALL(ibv_destroy_comp_channel(endpoint->channel));
	CHECK_CALL(ibv_dealloc_pd(endpoint->pd));
	CHECK_CALL(ibv_close_device(endpoint->context));
}

struct ibv_mr *region(const struct endpoint *endpoint, void *memory, uint64_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(endpoint->pd, memory, length, access);
	CHECK_POINTER(mr);
	return mr;
}

struct window region_window(const struct ibv_mr *mr)
{
	return (struct window){
		.address = (uint64_t)(uintptr_t)mr->addr,
		.length = mr->length,
		.rkey = mr->rkey,
	};
}
