/* The providers' variadic function, at each of rdma-core's private nodes. It is about provider
   objects, of which there are none. */
#include <stdint.h>

struct verbs_context;

#define AT_NODE(number, node)                                                                              \
	void verbs_log_##number(struct verbs_context *context, uint32_t level, const char *format, ...);   \
	void verbs_log_##number(struct verbs_context *context, uint32_t level, const char *format, ...)    \
	{                                                                                                  \
		(void)context;                                                                             \
		(void)level;                                                                               \
		(void)format;                                                                              \
	}                                                                                                  \
	__asm__(".symver verbs_log_" #number ", __verbs_log" node #number)

AT_NODE(34, "@@IBVERBS_PRIVATE_");
AT_NODE(57, "@IBVERBS_PRIVATE_");
AT_NODE(59, "@IBVERBS_PRIVATE_");
AT_NODE(64, "@IBVERBS_PRIVATE_");
AT_NODE(65, "@IBVERBS_PRIVATE_");
