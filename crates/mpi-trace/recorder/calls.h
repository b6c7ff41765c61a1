/* The recorded calls, each once: CALL(name) for MPI_name. */

#define EACH_CALL \
	CALL(Init) CALL(Init_thread) CALL(Finalize) CALL(Abort) \
	CALL(Send) CALL(Ssend) CALL(Rsend) CALL(Bsend) CALL(Recv) CALL(Sendrecv) CALL(Sendrecv_replace) \
	CALL(Isend) CALL(Issend) CALL(Irsend) CALL(Ibsend) CALL(Irecv) \
	CALL(Send_init) CALL(Ssend_init) CALL(Rsend_init) CALL(Bsend_init) CALL(Recv_init) CALL(Start) CALL(Startall) \
	CALL(Probe) CALL(Iprobe) CALL(Mprobe) CALL(Improbe) CALL(Mrecv) CALL(Imrecv) \
	CALL(Wait) CALL(Waitall) CALL(Waitany) CALL(Waitsome) CALL(Test) CALL(Testall) CALL(Testany) CALL(Testsome) \
	CALL(Request_free) CALL(Cancel) \
	CALL(Barrier) CALL(Bcast) CALL(Reduce) CALL(Allreduce) CALL(Gather) CALL(Gatherv) CALL(Scatter) CALL(Scatterv) \
	CALL(Allgather) CALL(Allgatherv) CALL(Alltoall) CALL(Alltoallv) CALL(Alltoallw) \
	CALL(Reduce_scatter) CALL(Reduce_scatter_block) CALL(Scan) CALL(Exscan) \
	CALL(Ibarrier) CALL(Ibcast) CALL(Ireduce) CALL(Iallreduce) CALL(Igather) CALL(Igatherv) CALL(Iscatter) \
	CALL(Iscatterv) CALL(Iallgather) CALL(Iallgatherv) CALL(Ialltoall) CALL(Ialltoallv) CALL(Ialltoallw) \
	CALL(Ireduce_scatter) CALL(Ireduce_scatter_block) CALL(Iscan) CALL(Iexscan) \
	CALL(Neighbor_allgather) CALL(Neighbor_allgatherv) CALL(Neighbor_alltoall) CALL(Neighbor_alltoallv) \
	CALL(Neighbor_alltoallw) CALL(Ineighbor_allgather) CALL(Ineighbor_allgatherv) CALL(Ineighbor_alltoall) \
	CALL(Ineighbor_alltoallv) CALL(Ineighbor_alltoallw) \
	CALL(Comm_dup) CALL(Comm_dup_with_info) CALL(Comm_idup) CALL(Comm_split) CALL(Comm_split_type) CALL(Comm_create) \
	CALL(Comm_create_group) CALL(Cart_create) CALL(Cart_sub) CALL(Graph_create) CALL(Dist_graph_create) \
	CALL(Dist_graph_create_adjacent) CALL(Intercomm_create) CALL(Intercomm_merge) CALL(Comm_free) \
	CALL(Comm_disconnect) \
	CALL(Win_create) CALL(Win_allocate) CALL(Win_allocate_shared) CALL(Win_create_dynamic) CALL(Win_free) \
	CALL(Put) CALL(Get) CALL(Accumulate) CALL(Get_accumulate) CALL(Fetch_and_op) CALL(Compare_and_swap) \
	CALL(Rput) CALL(Rget) CALL(Raccumulate) CALL(Rget_accumulate) \
	CALL(Win_fence) CALL(Win_post) CALL(Win_start) CALL(Win_complete) CALL(Win_wait) CALL(Win_test) \
	CALL(Win_lock) CALL(Win_unlock) CALL(Win_lock_all) CALL(Win_unlock_all) \
	CALL(Win_flush) CALL(Win_flush_all) CALL(Win_flush_local) CALL(Win_flush_local_all)
