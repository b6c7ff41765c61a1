/* Between the kernel's structures and the library's, as rdma-core's own library converts them, field by field for random bytes.
 * librdmacm stands on these calls.
 *
 * Source: the library of rdma-core that the distribution installs; the kernel's <rdma/ib_user_verbs.h>, <rdma/ib_user_sa.h>. */

#include "rdma_core.h"

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stddef.h>

#include "contract.h"

/* From infiniband/marshall.h, which distributions do not install. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, struct ibv_sa_path_rec *from);

enum { ROUNDS = 200 };

typedef void copy(void *to, void *from);

struct part {
	const char *name;
	size_t at, length;
};

#define PART(structure, member) \
	{ #member, offsetof(struct structure, member), sizeof(((struct structure *)0)->member) }

/* Both copy random bytes over the same bytes, of which some fields keep their values; bytes between the parts are
 * padding. */
static void same(copy *ours, copy *theirs, const struct part *parts)
{
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint8_t from[512], mine[512], other[512];
		pattern_fill(from, sizeof from, round);
		pattern_fill(mine, sizeof mine, ROUNDS + round);
		pattern_fill(other, sizeof other, ROUNDS + round);
		ours(mine, from);
		theirs(other, from);
		for (const struct part *part = parts; part->name; part++)
			if (memcmp(mine + part->at, other + part->at, part->length) != 0)
				check_failed(__FILE__, __LINE__, "%s differs in round %d", part->name, (int)round);
	}
}

#define ADDRESS_PARTS(structure, prefix)                                                                             \
	PART(structure, prefix grh.dgid), PART(structure, prefix grh.flow_label),                                    \
		PART(structure, prefix grh.sgid_index), PART(structure, prefix grh.hop_limit),                       \
		PART(structure, prefix grh.traffic_class), PART(structure, prefix dlid), PART(structure, prefix sl), \
		PART(structure, prefix src_path_bits), PART(structure, prefix static_rate),                          \
		PART(structure, prefix is_global), PART(structure, prefix port_num)

static void address_handles(void)
{
	static const struct part parts[] = { ADDRESS_PARTS(ibv_ah_attr, ), { 0 } };
	same((copy *)ibv_copy_ah_attr_from_kern, (copy *)rdma_core_call("ibv_copy_ah_attr_from_kern"), parts);
}

static void queue_pairs(void)
{
	static const struct part parts[] = {
		PART(ibv_qp_attr, qp_state),
		PART(ibv_qp_attr, cur_qp_state),
		PART(ibv_qp_attr, path_mtu),
		PART(ibv_qp_attr, path_mig_state),
		PART(ibv_qp_attr, qkey),
		PART(ibv_qp_attr, rq_psn),
		PART(ibv_qp_attr, sq_psn),
		PART(ibv_qp_attr, dest_qp_num),
		PART(ibv_qp_attr, qp_access_flags),
		PART(ibv_qp_attr, cap),
		ADDRESS_PARTS(ibv_qp_attr, ah_attr.),
		ADDRESS_PARTS(ibv_qp_attr, alt_ah_attr.),
		PART(ibv_qp_attr, pkey_index),
		PART(ibv_qp_attr, alt_pkey_index),
		PART(ibv_qp_attr, en_sqd_async_notify),
		PART(ibv_qp_attr, sq_draining),
		PART(ibv_qp_attr, max_rd_atomic),
		PART(ibv_qp_attr, max_dest_rd_atomic),
		PART(ibv_qp_attr, min_rnr_timer),
		PART(ibv_qp_attr, port_num),
		PART(ibv_qp_attr, timeout),
		PART(ibv_qp_attr, retry_cnt),
		PART(ibv_qp_attr, rnr_retry),
		PART(ibv_qp_attr, alt_port_num),
		PART(ibv_qp_attr, alt_timeout),
		PART(ibv_qp_attr, rate_limit),
		{ 0 },
	};
	same((copy *)ibv_copy_qp_attr_from_kern, (copy *)rdma_core_call("ibv_copy_qp_attr_from_kern"), parts);
}

#define PATH_PARTS(structure)                                                                                           \
	PART(structure, dgid), PART(structure, sgid), PART(structure, dlid), PART(structure, slid),                     \
		PART(structure, raw_traffic), PART(structure, flow_label), PART(structure, reversible),                 \
		PART(structure, mtu), PART(structure, pkey), PART(structure, hop_limit), PART(structure, traffic_class), \
		PART(structure, numb_path), PART(structure, sl), PART(structure, mtu_selector),                         \
		PART(structure, rate_selector), PART(structure, rate), PART(structure, packet_life_time_selector),      \
		PART(structure, packet_life_time), PART(structure, preference)

static void paths_from_the_kernel(void)
{
	static const struct part parts[] = { PATH_PARTS(ibv_sa_path_rec), { 0 } };
	same((copy *)ibv_copy_path_rec_from_kern, (copy *)rdma_core_call("ibv_copy_path_rec_from_kern"), parts);
}

static void paths_to_the_kernel(void)
{
	static const struct part parts[] = { PATH_PARTS(ib_user_path_rec), { 0 } };
	same((copy *)ibv_copy_path_rec_to_kern, (copy *)rdma_core_call("ibv_copy_path_rec_to_kern"), parts);
}

const struct test tests[] = {
	{ "address_handles", address_handles },
	{ "queue_pairs", queue_pairs },
	{ "paths_from_the_kernel", paths_from_the_kernel },
	{ "paths_to_the_kernel", paths_to_the_kernel },
	{ 0 },
};
