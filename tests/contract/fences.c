/* A call that takes a right away is a fence: once it has returned, no peer writes any more. Protocols that keep a
 * deposed writer out of memory rely on it.
 *
 * Sources: InfiniBand Architecture Specification, volume 1, 10.3.1 (in the states Reset and Error incoming requests are
 * dropped), 11.2.5.2 (Modify QP has taken effect when it returns, and the access rights of RDMA are among the
 * attributes that it changes); ibv_modify_qp(3). */

#include "bulk.h"

/* Each attempt is a separate process, with one write of `BULK` bytes, which the target interrupts while it is under
 * way. */
#define ATTEMPTS 3

static void revoke_by_state(struct bulk *bulk, enum ibv_qp_state state)
{
	to_state(bulk->endpoint.qp, state);
}

static void reset(struct bulk *bulk)
{
	revoke_by_state(bulk, IBV_QPS_RESET);
}

static void fail(struct bulk *bulk)
{
	revoke_by_state(bulk, IBV_QPS_ERR);
}

static void withdraw_access(struct bulk *bulk)
{
	struct ibv_qp_attr none = { .qp_access_flags = 0 };
	CHECK_CALL(ibv_modify_qp(bulk->endpoint.qp, &none, IBV_QP_ACCESS_FLAGS));
}

static void one_attempt(void (*revoke)(struct bulk *))
{
	struct bulk bulk = bulk_begin();
	revoke(&bulk);
	guard_pages(&bulk);
	/* The writer has its completion: it writes nothing more. */
	enum ibv_wc_status status = bulk_status(&bulk);
	size_t late = pages_written(&bulk);
	if (late != 0)
		check_failed(__FILE__, __LINE__,
			     "%zu of %zu pages were written after the right was withdrawn; the writer has "
			     "\"%s\"",
			     late, BULK / PAGE, ibv_wc_status_str(status));
	bulk_end(&bulk);
	exit(EXIT_SUCCESS);
}

/* In processes of their own, so that none inherits a device. */
static void writes_end_with(void (*revoke)(struct bulk *))
{
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		pid_t process = fork();
		CHECK(process >= 0);
		if (process == 0)
			one_attempt(revoke);
		int status;
		CHECK_EQUAL(waitpid(process, &status, 0), process);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static void reset_ends_writes(void)
{
	writes_end_with(reset);
}

static void error_ends_writes(void)
{
	writes_end_with(fail);
}

static void withdrawn_access_ends_writes(void)
{
	writes_end_with(withdraw_access);
}

const struct test tests[] = {
	{ "reset_ends_writes", reset_ends_writes },
	{ "error_ends_writes", error_ends_writes },
	{ "withdrawn_access_ends_writes", withdrawn_access_ends_writes },
	{ 0 },
};
