/* ibv_wr_flush(3), which headers older than rdma-core 45 lack. */
#ifndef VERBENA_TESTS_FLUSH_H
#define VERBENA_TESTS_FLUSH_H

#include <stddef.h>
#include <string.h>

#include <infiniband/verbs.h>

#define FLUSH_GLOBAL 1
#define FLUSH_PERSISTENT 2
#define FLUSH_RANGE 0
#define FLUSH_MR 1
#define ACCESS_FLUSH_GLOBAL (1 << 8)
#define ACCESS_FLUSH_PERSISTENT (1 << 9)
#define QP_EX_WITH_FLUSH (1 << 11)
#define WC_FLUSH 8

typedef void flush_function(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type,
			    uint8_t level);

/* The slot behind ibv_wr_atomic_write's, which is the last one that headers of version 44 know. */
static inline flush_function *flush_of(struct ibv_qp_ex *qp)
{
	flush_function *function;
	memcpy(&function, (char *)qp + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(function), sizeof(function));
	return function;
}

#endif
