/* Calls that create and free communicators. */

#include "recorder.h"

#define MAKES(name, parameters, arguments) DEFINE(name, parameters, arguments, communicator_made(*made))

MAKES(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
MAKES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
MAKES(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
MAKES(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), (comm, type, key, info, made))
MAKES(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
MAKES(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), (comm, group, tag, made))
MAKES(Cart_create, (MPI_Comm comm, int dimensions, const int sizes[], const int periods[], int reorder, MPI_Comm *made),
      (comm, dimensions, sizes, periods, reorder, made))
MAKES(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), (comm, remain, made))
MAKES(Graph_create, (MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder, MPI_Comm *made),
      (comm, nodes, index, edges, reorder, made))
MAKES(Dist_graph_create,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[], const int weights[],
       MPI_Info info, int reorder, MPI_Comm *made),
      (comm, n, sources, degrees, destinations, weights, info, reorder, made))
MAKES(Dist_graph_create_adjacent,
      (MPI_Comm comm, int in, const int sources[], const int in_weights[], int out, const int destinations[],
       const int out_weights[], MPI_Info info, int reorder, MPI_Comm *made),
      (comm, in, sources, in_weights, out, destinations, out_weights, info, reorder, made))
MAKES(Intercomm_create, (MPI_Comm local, int leader, MPI_Comm bridge, int remote_leader, int tag, MPI_Comm *made),
      (local, leader, bridge, remote_leader, tag, made))
MAKES(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))

/* The communicator must not be used before the request has completed, and is recorded at its
 * first use; the request is not recorded. */
static void begun(MPI_Request request)
{
	request_at(request_new(request, REQUEST_OTHER))->active = false;
}

DEFINE(Comm_idup, (MPI_Comm comm, MPI_Comm *made, MPI_Request *request), (comm, made, request), begun(*request))

/* The handle is valid only before the call. */
#define ENDS(name) \
	EXPORTED int MPI_##name(MPI_Comm *comm) \
	{ \
		if (!call_enter()) \
			return REAL(name)(comm); \
		communicator_gone(*comm); \
		int error = REAL(name)(comm); \
		call_leave(CALL_##name); \
		return error; \
	} \
	ALSO_PMPI(name)

ENDS(Comm_free)
ENDS(Comm_disconnect)
