/* Prints the device's limits, then creates objects up to each of those on numbers and beyond it, and one object beyond each
 * limit on sizes: the name, the attribute, how many were created, and the error. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char *buffer;
static struct ibv_qp_init_attr queue_pair;

static void *make_pd(void)
{
	return ibv_alloc_pd(context);
}

static void *make_cq(void)
{
	return ibv_create_cq(context, 1, NULL, NULL, 0);
}

static void *make_qp(void)
{
	return ibv_create_qp(pd, &queue_pair);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attributes = { .attr = { .max_wr = 1, .max_sge = 1 } };
	return ibv_create_srq(pd, &attributes);
}

static void *make_mr(void)
{
	return ibv_reg_mr(pd, buffer, 4096, 0);
}

static void *make_mw(void)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attributes = { .dlid = 1, .port_num = 1 };
	return ibv_create_ah(pd, &attributes);
}

static void numbers(const char *name, int most, int created, void *(*make)(void))
{
	errno = 0;
	while (created < 100 && make() != NULL)
		created++;
	printf("%s %d created %d %s\n", name, most, created, strerrorname_np(errno));
}

/* Each of these objects is one above its limit. */
static void size(const char *name, uint64_t most, void *object)
{
	int error = errno;
	printf("%s %llu %s\n", name, (unsigned long long)most, object ? "created" : strerrorname_np(error));
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_device_attr limits;
	if (!context || ibv_query_device(context, &limits) != 0)
		return 3;
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	buffer = aligned_alloc(4096, 8192);
	if (!pd || !cq || !buffer)
		return 3;
	queue_pair = (struct ibv_qp_init_attr){ .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = limits.max_srq_wr + 1, .max_sge = 1 } };
	size("max_srq_wr", limits.max_srq_wr, ibv_create_srq(pd, &shared));
	size("max_cqe", limits.max_cqe, ibv_create_cq(context, limits.max_cqe + 1, NULL, NULL, 0));
	size("max_mr_size", limits.max_mr_size, ibv_reg_mr(pd, buffer, 4097, 0));
	struct ibv_qp_init_attr large = queue_pair;
	large.cap.max_send_wr = limits.max_qp_wr + 1;
	size("max_qp_wr", limits.max_qp_wr, ibv_create_qp(pd, &large));
	large = queue_pair;
	large.cap.max_recv_sge = limits.max_sge + 1;
	size("max_sge", limits.max_sge, ibv_create_qp(pd, &large));
	large = queue_pair;
	large.cap.max_inline_data = 33;
	size("max_inline_data", 32, ibv_create_qp(pd, &large));
	struct ibv_qp *qp = ibv_create_qp(pd, &queue_pair);
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	if (!qp || ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
		return 3;
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = limits.max_qp_rd_atom + 1, .min_rnr_timer = 1, .ah_attr = { .dlid = 1, .port_num = 1 } };
	int error = ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	printf("max_qp_rd_atom %d %s\n", limits.max_qp_rd_atom, strerrorname_np(error));
	numbers("max_pd", limits.max_pd, 1, make_pd);
	numbers("max_cq", limits.max_cq, 1, make_cq);
	numbers("max_qp", limits.max_qp, 1, make_qp);
	numbers("max_srq", limits.max_srq, 0, make_srq);
	numbers("max_mr", limits.max_mr, 0, make_mr);
	numbers("max_mw", limits.max_mw, 0, make_mw);
	numbers("max_ah", limits.max_ah, 0, make_ah);
	return 0;
}
