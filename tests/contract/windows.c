/* Memory windows: changes to their region, the limits of a bind, and the queue pairs that may use their keys.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 10.6.7 (memory windows, the two types, bind and unbind),
 * 10.6.6.2.6 (re-registration of a bound region), compliance statements C10-72 to C10-75, o10-37.2.30 and o10-37.2.40;
 * ibv_bind_mw(3), ibv_alloc_mw(3), ibv_rereg_mr(3), ibv_inc_rkey(3). */

#include <pthread.h>
#include <stdatomic.h>

#include "requester.h"

#define LENGTH (8 * PAGE)
#define REGION_ACCESS (ALL_ACCESS | IBV_ACCESS_MW_BIND)
#define WINDOW_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define SECRET 0x5e
#define MARK 0xee

/* Posts the bind request; false when it is refused or completes with an error. */
static bool binds(struct endpoint *endpoint, struct ibv_mw *mw, uint32_t key, struct ibv_mr *mr,
		  void *address, uint64_t length)
{
	struct ibv_send_wr request = {
		.wr_id = 77,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = {
			.mw = mw,
			.rkey = key,
			.bind_info = {
				.mr = mr,
				.addr = (uint64_t)(uintptr_t)address,
				.length = length,
				.mw_access_flags = WINDOW_ACCESS,
			},
		},
	};
	struct ibv_send_wr *bad;
	if (ibv_post_send(endpoint->qp, &request, &bad) != 0)
		return false;
	struct ibv_wc wc = completion(endpoint);
	CHECK_EQUAL(wc.wr_id, 77);
	return wc.status == IBV_WC_SUCCESS;
}

/* This process with two queue pairs that the requester is connected to, and a region. */
struct target {
	struct peer requester;
	struct endpoint one, other;
	uint8_t *memory;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
};

static struct target target_open(enum ibv_mw_type type)
{
	struct target target = { .requester = requester_start() };
	target.one = endpoint_open(endpoint_defaults());
	target.other = endpoint_beside(&target.one, endpoint_defaults());
	requester_connect(&target.requester, &target.one, &target.other);
	target.memory = private_pages(LENGTH);
	target.mr = region(&target.one, target.memory, LENGTH, REGION_ACCESS);
	target.mw = ibv_alloc_mw(target.one.pd, type);
	CHECK_POINTER(target.mw);
	return target;
}

static void target_close(struct target *target)
{
	requester_end(&target->requester);
	CHECK_CALL(ibv_dealloc_mw(target->mw));
	CHECK_CALL(ibv_dereg_mr(target->mr));
	CHECK_CALL(ibv_destroy_qp(target->other.qp));
	endpoint_close(&target->one);
}

static enum ibv_wc_status write_through(struct target *target, uint64_t address, uint32_t key)
{
	return ask(&target->requester, (struct order){ .opcode = IBV_WR_RDMA_WRITE,
						       .address = address,
						       .rkey = key,
						       .length = PAGE,
						       .fill = MARK });
}

/* A region that a window is bound to is re-registered for other pages. Either that is refused, and region and window
 * stay as they are; or the window no longer works (10.6.6.2.6: a bound region is not to be changed under its windows).
 * In no case does the old window lead to memory that was registered afterwards, without remote rights. */
static void reregistration_under_a_window(void)
{
	struct target target = target_open(IBV_MW_TYPE_2);
	uint8_t *old = target.memory;
	uint8_t *new = private_pages(LENGTH);
	uint32_t key = ibv_inc_rkey(target.mw->rkey);
	CHECK(binds(&target.one, target.mw, key, target.mr, old, LENGTH));
	CHECK_EQUAL(write_through(&target, (uint64_t)(uintptr_t)old, key), IBV_WC_SUCCESS);

	int refused = ibv_rereg_mr(target.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, new, LENGTH,
				   REGION_ACCESS);
	if (refused == 0) {
		CHECK_CALL(munmap(old, LENGTH));
		/* Several, because a released slot is not necessarily the next one to be taken. */
		enum { SECRETS = 8 };
		uint8_t *secrets[SECRETS];
		struct ibv_mr *mrs[SECRETS];
		for (unsigned number = 0; number < SECRETS; number++) {
			secrets[number] = private_pages(LENGTH);
			memset(secrets[number], SECRET, LENGTH);
			mrs[number] = region(&target.one, secrets[number], LENGTH,
					     IBV_ACCESS_LOCAL_WRITE);
		}
		memset(new, SECRET, LENGTH);
		enum ibv_wc_status status =
			write_through(&target, (uint64_t)(uintptr_t)old, key);
		for (unsigned number = 0; number < SECRETS; number++)
			for (size_t at = 0; at < LENGTH; at++)
				if (secrets[number][at] != SECRET)
					check_failed(__FILE__, __LINE__,
						     "a write through the window of the old "
						     "pages has changed memory without remote "
						     "rights, status \"%s\"",
						     ibv_wc_status_str(status));
		if (status == IBV_WC_SUCCESS)
			check_failed(__FILE__, __LINE__,
				     "a write through a window succeeds whose region is elsewhere");
		for (unsigned number = 0; number < SECRETS; number++)
			CHECK_CALL(ibv_dereg_mr(mrs[number]));
	} else {
		memset(old, 0, PAGE);
		CHECK_EQUAL(write_through(&target, (uint64_t)(uintptr_t)old, key), IBV_WC_SUCCESS);
		CHECK_EQUAL(old[0], MARK);
	}
	CHECK_CALL(ibv_dealloc_mw(target.mw));
	target.mw = ibv_alloc_mw(target.one.pd, IBV_MW_TYPE_2);
	CHECK_POINTER(target.mw);
	target_close(&target);
}

static struct target racing;
static atomic_bool race_is_over, reregistered;

static void *reregister_for_ever(void *nothing)
{
	while (!atomic_load(&race_is_over))
		if (ibv_rereg_mr(racing.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				 REGION_ACCESS) == 0)
			atomic_store(&reregistered, true);
	return nothing;
}

/* A region is re-registered while peers invalidate windows of it: both calls return. An adapter that ends the
 * windows of a region which it re-registers may refuse the invalidations that follow; one that refuses to
 * re-register may not. */
static void reregistration_while_peers_invalidate(void)
{
	enum { ROUNDS = 500 };
	hang_after(40);
	racing = target_open(IBV_MW_TYPE_2);
	pthread_t thread;
	CHECK_CALL(pthread_create(&thread, NULL, reregister_for_ever, NULL));
	uint32_t key = racing.mw->rkey;
	for (unsigned round = 0; round < ROUNDS; round++) {
		key = ibv_inc_rkey(key);
		CHECK(binds(&racing.one, racing.mw, key, racing.mr, racing.memory, LENGTH));
		post_receive(&racing.one, round, piece_of(racing.mr, 0, 0));
		tell_order(&racing.requester, (struct order){ .opcode = IBV_WR_SEND_WITH_INV,
							      .rkey = key });
		enum ibv_wc_status ours = status_of(&racing.one);
		enum ibv_wc_status theirs = hear_status(&racing.requester);
		if (ours != IBV_WC_SUCCESS || theirs != IBV_WC_SUCCESS) {
			CHECK(atomic_load(&reregistered));
			break;
		}
	}
	atomic_store(&race_is_over, true);
	CHECK_CALL(pthread_join(thread, NULL));
	target_close(&racing);
}

/* The consumer owns the last eight bits of a window's key and no others (10.6.3.3, ibv_inc_rkey(3)): providers take
 * only these from the key in a bind request. */
static void a_bind_takes_the_low_bits_of_the_key(void)
{
	struct target target = target_open(IBV_MW_TYPE_2);
	uint32_t tag = (target.mw->rkey + 5) & 0xff;
	uint32_t key = (target.mw->rkey & ~0xffu) | tag;
	if (!binds(&target.one, target.mw, tag, target.mr, target.memory, LENGTH))
		check_failed(__FILE__, __LINE__, "a key of which only the tag is given is refused");
	CHECK_EQUAL(write_through(&target, (uint64_t)(uintptr_t)target.memory, key),
		    IBV_WC_SUCCESS);
	CHECK_EQUAL(target.memory[0], MARK);
	target_close(&target);
}

/* The window's structure has its current key, whether the adapter or the program chose it: providers write it there
 * when a type 2 window is bound, and programs that write it there themselves find it there. */
static void a_bind_gives_back_the_key(void)
{
	struct target target = target_open(IBV_MW_TYPE_2);
	uint32_t tag = (target.mw->rkey + 9) & 0xff;
	uint32_t key = (target.mw->rkey & ~0xffu) | tag;
	CHECK(binds(&target.one, target.mw, key, target.mr, target.memory, LENGTH));
	CHECK_EQUAL(target.mw->rkey, key);
	target_close(&target);
}

/* o10-37.2.40: a type 2 window is not bound to zero bytes; it ends by invalidation alone. */
static void a_type_2_window_is_not_bound_to_nothing(void)
{
	struct target target = target_open(IBV_MW_TYPE_2);
	uint32_t key = ibv_inc_rkey(target.mw->rkey);
	CHECK(!binds(&target.one, target.mw, key, target.mr, target.memory, 0));
	target_close(&target);
}

/* Nor is it unbound that way (o10-37.2.30: to be bound it must be free). */
static void a_bind_of_nothing_does_not_unbind(void)
{
	struct target target = target_open(IBV_MW_TYPE_2);
	uint32_t key = ibv_inc_rkey(target.mw->rkey);
	CHECK(binds(&target.one, target.mw, key, target.mr, target.memory, LENGTH));
	CHECK(!binds(&target.other, target.mw, ibv_inc_rkey(key), target.mr, target.memory, 0));
	CHECK_EQUAL(write_through(&target, (uint64_t)(uintptr_t)target.memory, key),
		    IBV_WC_SUCCESS);
	CHECK_EQUAL(target.memory[0], MARK);
	target_close(&target);
}

/* A type 1 window is bound by ibv_bind_mw, a type 2 window by a posted request (10.6.7.1,
 * ibv_bind_mw(3)). */
static void a_type_1_window_is_not_bound_by_post_send(void)
{
	struct target target = target_open(IBV_MW_TYPE_1);
	uint32_t key = ibv_inc_rkey(target.mw->rkey);
	CHECK(!binds(&target.one, target.mw, key, target.mr, target.memory, LENGTH));
	target_close(&target);
}

/* Binds a window of type 1 to the whole region with these flags; returns whether ibv_bind_mw and its completion
 * succeed. */
static bool binds_type_1(struct target *target, unsigned access)
{
	struct ibv_mw_bind bind = {
		.wr_id = 78,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {
			.mr = target->mr,
			.addr = (uint64_t)(uintptr_t)target->memory,
			.length = LENGTH,
			.mw_access_flags = access,
		},
	};
	if (ibv_bind_mw(target->one.qp, target->mw, &bind) != 0)
		return false;
	struct ibv_wc wc = completion(&target->one);
	CHECK_EQUAL(wc.wr_id, 78);
	return wc.status == IBV_WC_SUCCESS;
}

/* A window has an R_Key and no L_Key (10.6.7): it is no local buffer, neither of a send nor of a receive. */
static void the_key_of_a_window_names_no_buffer(void)
{
	struct target target = target_open(IBV_MW_TYPE_1);
	CHECK(binds_type_1(&target, WINDOW_ACCESS));
	CHECK_EQUAL(write_through(&target, (uint64_t)(uintptr_t)target.memory, target.mw->rkey), IBV_WC_SUCCESS);
	struct piece piece = { .address = target.memory, .length = 64, .lkey = target.mw->rkey };
	post_send(&target.other, 5, piece);
	expect(&target.other, 5, IBV_WC_LOC_PROT_ERR);
	post_receive(&target.one, 6, piece);
	enum ibv_wc_status status = ask(&target.requester, (struct order){ .opcode = IBV_WR_SEND, .length = 64 });
	CHECK_EQUAL(status, IBV_WC_REM_OP_ERR);
	struct ibv_wc wc = completion(&target.one);
	CHECK_EQUAL(wc.wr_id, 6);
	CHECK_EQUAL(wc.status, IBV_WC_LOC_PROT_ERR);
	target_close(&target);
}

/* ibv_bind_mw(3) allows remote rights and IBV_ACCESS_ZERO_BASED. */
static void a_bind_with_unknown_access_is_refused(void)
{
	for (unsigned bit = 0; bit < 32; bit++) {
		unsigned flag = 1u << bit;
		/* Rights of windows, rights of regions that have no meaning for one, and the optional ones. */
		if (bit <= 5 || bit == 8 || (flag & IBV_ACCESS_OPTIONAL_RANGE))
			continue;
		struct target target = target_open(IBV_MW_TYPE_1);
		if (binds_type_1(&target, WINDOW_ACCESS | flag))
			check_failed(__FILE__, __LINE__, "a bind with access flag %#x is accepted", flag);
		target_close(&target);
	}
}

const struct test tests[] = {
	{ "reregistration_under_a_window", reregistration_under_a_window },
	{ "reregistration_while_peers_invalidate", reregistration_while_peers_invalidate },
	{ "a_bind_takes_the_low_bits_of_the_key", a_bind_takes_the_low_bits_of_the_key },
	{ "a_bind_gives_back_the_key", a_bind_gives_back_the_key },
	{ "a_type_2_window_is_not_bound_to_nothing", a_type_2_window_is_not_bound_to_nothing },
	{ "a_bind_of_nothing_does_not_unbind", a_bind_of_nothing_does_not_unbind },
	{ "a_type_1_window_is_not_bound_by_post_send",
	  a_type_1_window_is_not_bound_by_post_send },
	{ "the_key_of_a_window_names_no_buffer", the_key_of_a_window_names_no_buffer },
	{ "a_bind_with_unknown_access_is_refused", a_bind_with_unknown_access_is_refused },
	{ 0 },
};
