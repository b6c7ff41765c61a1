/* Queue pairs between two hosts: found by GID, and set up by the numbers that the two have told each other. */
#ifndef VERBENA_TESTS_BETWEEN_H
#define VERBENA_TESTS_BETWEEN_H

#include "endpoint.h"

#define QUEUE_KEY 0x11111111

/* Which entry of the GID table peers reach each other by: GID_INDEX of the environment, or 1, an IPv4 address. */
int gid_index(void);

/* A queue pair in RESET, with completion queue of its own, beside another; of the receiving half of XRC, with a domain. */
struct endpoint fresh(const struct endpoint *first, enum ibv_qp_type type, struct ibv_xrcd *xrcd);

/* A domain of XRC that no file stands for, and a shared receive queue in it whose receives complete to a queue. */
struct ibv_xrcd *xrc_domain(const struct endpoint *beside);
struct ibv_srq *xrc_queue(const struct endpoint *beside, struct ibv_xrcd *domain, struct ibv_cq *cq, uint32_t depth);

/* From RESET to ready-to-send (or, the receiving half of XRC, to ready-to-receive). `timeout` as the verbs count it.
 * Returns the last step's result: a queue pair that is reachable from ready-to-receive on may be in the error state by
 * then. */
int try_connect_by_gid(struct endpoint *end, union ibv_gid gid, uint32_t number, uint32_t psn, int timeout);

/* The same; that the last step is refused is a failure. */
void connect_by_gid(struct endpoint *end, union ibv_gid gid, uint32_t number, uint32_t psn, int timeout);

#endif
