/* One message over a connection of a type, by rdma_create_ep(3) alone.
 *
 *     message rc|uc serve ADDRESS    listens; ends with 0 when the message has come
 *     message rc|uc ask ADDRESS      connects and sends it
 */
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

static char text[] = "one message over a connection of the type that was asked for";

static struct rdma_cm_id *make(const char *type, const char *address, int flags)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags,
		.ai_port_space = RDMA_PS_TCP,
		.ai_qp_type = !strcmp(type, "uc") ? IBV_QPT_UC : IBV_QPT_RC,
	};
	struct ibv_qp_init_attr attributes = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *found;
	struct rdma_cm_id *id;
	if (rdma_getaddrinfo(address, "7471", &hints, &found))
		err(1, "rdma_getaddrinfo");
	if (rdma_create_ep(&id, found, NULL, &attributes))
		err(1, "rdma_create_ep");
	rdma_freeaddrinfo(found);
	return id;
}

static void serve(const char *type, const char *address)
{
	char received[sizeof text];
	struct rdma_cm_id *listener = make(type, address, RAI_PASSIVE), *id;
	struct ibv_wc completion;
	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		err(1, "rdma_get_request");
	struct ibv_mr *region = rdma_reg_msgs(id, received, sizeof received);
	if (!region || rdma_post_recv(id, NULL, received, sizeof received, region))
		err(1, "rdma_post_recv");
	if (rdma_accept(id, NULL))
		err(1, "rdma_accept");
	if (rdma_get_recv_comp(id, &completion) != 1 || completion.status != IBV_WC_SUCCESS)
		errx(1, "no message has come: %s", ibv_wc_status_str(completion.status));
	if (memcmp(received, text, sizeof text))
		errx(1, "another message has come");
	rdma_disconnect(id);
	rdma_dereg_mr(region);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void ask(const char *type, const char *address)
{
	struct rdma_cm_id *id = make(type, address, 0);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attributes;
	struct ibv_wc completion;
	struct ibv_mr *region = rdma_reg_msgs(id, text, sizeof text);
	if (!region || rdma_connect(id, NULL))
		err(1, "rdma_connect");
	if (ibv_query_qp(id->qp, &attributes, IBV_QP_STATE, &init))
		err(1, "ibv_query_qp");
	if (init.qp_type != id->qp_type || attributes.qp_state != IBV_QPS_RTS)
		errx(1, "queue pair of type %d in state %d", init.qp_type, attributes.qp_state);
	if (rdma_post_send(id, NULL, text, sizeof text, region, 0) || rdma_get_send_comp(id, &completion) != 1)
		err(1, "rdma_post_send");
	/* The server says when it has the message. */
	struct rdma_cm_event *event;
	if (rdma_get_cm_event(id->channel, &event) || event->event != RDMA_CM_EVENT_DISCONNECTED)
		errx(1, "the server does not disconnect");
	rdma_ack_cm_event(event);
	rdma_disconnect(id);
	rdma_dereg_mr(region);
	rdma_destroy_ep(id);
}

int main(int argc, char **argv)
{
	if (argc != 4 || (strcmp(argv[1], "rc") && strcmp(argv[1], "uc")))
		errx(2, "usage: message rc|uc serve|ask ADDRESS");
	if (!strcmp(argv[2], "serve"))
		serve(argv[1], argv[3]);
	else
		ask(argv[1], argv[3]);
	return 0;
}
