/* Queries, imports, regions, windows, domains, device memory. */
#pragma once

#include "pair.h"

static void queries_fill_as_much_as_the_header_knows(void)
{
	struct verbs_context *extended = verbs_get_ctx(context);
	struct { struct ibv_port_attr attr; unsigned char after[8]; } port;
	struct { struct ibv_device_attr_ex attr; unsigned char after[8]; } device;

	NEED(extended && extended->sz == sizeof *extended);
	/* The shorter structure of an older header. */
	memset(&port, 0xee, sizeof port);
	CHECK(!extended->query_port(context, 1, &port.attr, offsetof(struct ibv_port_attr, lid)));
	CHECK(port.attr.state == IBV_PORT_ACTIVE && port.attr.lid == 0xeeee);
	/* The longer one of a newer header, whose rest becomes zero. */
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
		.bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey) + 0x100,
			.bind_info = { mr, (uintptr_t)pair.memory, 64, IBV_ACCESS_REMOTE_WRITE } } };
	struct ibv_send_wr *bad;
	uint32_t before = old->rkey;

	uint32_t first = mw->rkey, next = ibv_inc_rkey(first);

	/* A refused bind changes nothing. */
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	CHECK(!ibv_modify_qp(pair.qp[1], &reset, IBV_QP_STATE));
	CHECK(ibv_post_send(pair.qp[1], &wr, &bad) == EINVAL);
	CHECK(mw->rkey == first);
	/* The program chooses only the low eight bits. */
	CHECK(!ibv_post_send(pair.qp[0], &wr, &bad));
	CHECK(mw->rkey == next);
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
	/* It exists as long as one pointer to it is open. */
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
