/* Programs that were built against rdma-core 57 to 65: the private version nodes that those have instead of IBVERBS_PRIVATE_34. A
 * program with a reference to a node that the library lacks does not start.
 *
 * Sources: the symbol tables of Debian's libibverbs1 (44.0-2, 65.0-1.1); ibv_devinfo and pyverbs import ibv_query_gid_type,
 * providers the rest. */

#include <errno.h>

#include "contract.h"

#define NODES(DO) DO(34) DO(57) DO(59) DO(64) DO(65)

/* Makes the reference as a linker records it in the program: NAME at NODE. */
#define DECLARE(node)                                                                                  \
	int gid_type_##node(struct ibv_context *, uint8_t, uint32_t, uint32_t *);                      \
	int alloc_pd_##node(void);                                                                     \
	int read_file_##node(char *, size_t, void *, const char *, ...);                               \
	void log_##node(void *, uint32_t, const char *, ...);                                          \
	extern bool allow_##node;                                                                      \
	void register_##node(const void *);                                                            \
	__asm__(".symver gid_type_" #node ", ibv_query_gid_type@IBVERBS_PRIVATE_" #node);              \
	__asm__(".symver alloc_pd_" #node ", ibv_cmd_alloc_pd@IBVERBS_PRIVATE_" #node);                \
	__asm__(".symver read_file_" #node ", ibv_read_ibdev_sysfs_file@IBVERBS_PRIVATE_" #node);      \
	__asm__(".symver log_" #node ", __verbs_log@IBVERBS_PRIVATE_" #node);                          \
	__asm__(".symver allow_" #node ", verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_" #node);   \
	__asm__(".symver register_" #node ", verbs_register_driver_" #node "@IBVERBS_PRIVATE_" #node);
NODES(DECLARE)

/* Names of the newest version alone. */
const char *wr_opcode_str(unsigned opcode);
int reg_mr_ex(void);
__asm__(".symver wr_opcode_str, ibv_wr_opcode_str@IBVERBS_PRIVATE_65");
__asm__(".symver reg_mr_ex, ibv_cmd_reg_mr_ex@IBVERBS_PRIVATE_65");

#define ASK(node)                                                                       \
	kind = 77;                                                                      \
	CHECK_CALL(gid_type_##node(context, 1, 0, &kind));                              \
	CHECK_EQUAL(kind, expected);                                                    \
	CHECK_EQUAL(gid_type_##node(context, 1, 60000, &kind), -1);                     \
	CHECK_EQUAL(errno, EINVAL);

static void the_type_of_a_gid_is_answered_at_each_node(void)
{
	struct ibv_context *context = device_open();
	struct ibv_gid_entry entry;
	CHECK_CALL(ibv_query_gid_ex(context, 1, 0, &entry, 0));
	/* sysfs has one number for InfiniBand and RoCE v1. */
	uint32_t expected = entry.gid_type == IBV_GID_TYPE_ROCE_V2, kind;
	NODES(ASK)
	CHECK_CALL(ibv_close_device(context));
}

#define LOAD(node)                                              \
	CHECK_EQUAL(alloc_pd_##node(), EOPNOTSUPP);             \
	CHECK_EQUAL(read_file_##node(text, sizeof text, NULL, "x"), -1); \
	CHECK_EQUAL(text[0], 0);                                \
	log_##node(NULL, 0, "%d", 1);                           \
	allow_##node = true;                                    \
	register_##node(NULL);

static void a_provider_loads_at_each_node(void)
{
	char text[8] = "?";
	NODES(LOAD)
	CHECK_EQUAL(reg_mr_ex(), EOPNOTSUPP);
}

static void operations_have_names(void)
{
	CHECK_EQUAL(strcmp(wr_opcode_str(IBV_WR_SEND_WITH_IMM), "send-with-imm"), 0);
	CHECK_EQUAL(strcmp(wr_opcode_str(IBV_WR_RDMA_READ), "rdma-read"), 0);
	CHECK_EQUAL(strcmp(wr_opcode_str(1000), "unknown"), 0);
}

const struct test tests[] = {
	{ "the_type_of_a_gid_is_answered_at_each_node", the_type_of_a_gid_is_answered_at_each_node },
	{ "a_provider_loads_at_each_node", a_provider_loads_at_each_node },
	{ "operations_have_names", operations_have_names },
	{ 0 },
};
