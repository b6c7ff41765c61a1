/* What providers call with a variable number of arguments (rdma-core's providers import it at the private node). Concerns
   provider objects only, of which there are none. */
#include <stdint.h>

struct verbs_context;

void __verbs_log(struct verbs_context *context, uint32_t level, const char *format, ...);

void __verbs_log(struct verbs_context *context, uint32_t level, const char *format, ...)
{
	(void)context;
	(void)level;
	(void)format;
}
