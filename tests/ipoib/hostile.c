/* Sends datagrams that no interface sends to the broadcast group of IP over InfiniBand: short ones, unknown types, cut IP
 * packets, invalid and forged ARP messages and neighbour messages, random bytes, and many requests. With an argument, requests
 * until there is a file of this name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { SIZE = 2048, GROUP_QP = 0xffffff, QKEY = 0x0b1b, FLOOD = 20000 };

static const uint8_t GROUP[16] = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};

static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_ah *ah;
static struct ibv_mr *mr;
static uint8_t buffer[SIZE];

static void need(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "cannot %s\n", what);
		exit(1);
	}
}

static void open_adapter(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	need(list && list[0], "find a device");
	struct ibv_context *context = ibv_open_device(list[0]);
	need(context != NULL, "open the device");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, buffer, SIZE, IBV_ACCESS_LOCAL_WRITE);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	need(pd && mr && cq, "make objects");
	struct ibv_qp_init_attr initial = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	qp = ibv_create_qp(pd, &initial);
	need(qp != NULL, "make a queue pair");
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "reach INIT");
	attr.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "reach RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "reach RTS");
	struct ibv_ah_attr address = {.dlid = 0xc000, .port_num = 1, .is_global = 1, .grh = {.hop_limit = 1}};
	memcpy(address.grh.dgid.raw, GROUP, sizeof GROUP);
	ah = ibv_create_ah(pd, &address);
	need(ah != NULL, "make an address handle");
}

static void send_datagram(uint32_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = length, .lkey = mr->lkey};
	struct ibv_send_wr work = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = ah, .remote_qpn = GROUP_QP, .remote_qkey = QKEY}};
	struct ibv_send_wr *bad;
	need(!ibv_post_send(qp, &work, &bad), "post a send");
	struct ibv_wc wc;
	int count;
	while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	need(count == 1 && wc.status == IBV_WC_SUCCESS, "send");
}

static void header(uint16_t type)
{
	memset(buffer, 0, SIZE);
	buffer[0] = type >> 8;
	buffer[1] = type & 255;
}

/* A request for 10.0.0.1 by 10.1.x.y; the sender's GID is that of the port if it is genuine. */
static void request(uint32_t sender, int is_genuine)
{
	static union ibv_gid gid;
	if (!gid.global.interface_id)
		need(!ibv_query_gid(qp->context, 1, 0, &gid), "query the GID");
	header(0x0806);
	uint8_t *arp = buffer + 4;
	memcpy(arp, (uint8_t[]){0, 32, 8, 0, 20, 4, 0, 1}, 8);
	arp[9] = qp->qp_num >> 16, arp[10] = qp->qp_num >> 8, arp[11] = qp->qp_num;
	memcpy(arp + 12, gid.raw, 16);
	if (!is_genuine)
		arp[27] ^= 1;
	memcpy(arp + 28, (uint8_t[]){10, 1, sender >> 8, sender}, 4);
	memcpy(arp + 52, (uint8_t[]){10, 0, 0, 1}, 4);
}

int main(int count, char **words)
{
	open_adapter();
	for (uint32_t sender = 0; count > 1; sender++) {
		if (sender % 256 == 0 && access(words[1], F_OK) == 0)
			return 0;
		request(sender, 1);
		send_datagram(60);
	}
	for (uint32_t length = 1; length < 4; length++)
		send_datagram(length);
	header(0x88cc);
	send_datagram(100);
	/* An IPv4 packet that states more bytes than it has, and one of another version. */
	header(0x0800);
	memcpy(buffer + 4, (uint8_t[]){0x45, 0, 1, 0}, 4);
	send_datagram(60);
	header(0x86dd);
	memcpy(buffer + 4, (uint8_t[]){0x45, 0, 0, 40}, 4);
	send_datagram(60);
	/* A neighbour solicitation with a wrong checksum. */
	header(0x86dd);
	memcpy(buffer + 4, (uint8_t[]){0x60, 0, 0, 0, 0, 24, 58, 255}, 8);
	buffer[44] = 135;
	send_datagram(68);
	/* ARP: cut, of another hardware type, forged. */
	request(1, 1);
	send_datagram(59);
	request(1, 1);
	buffer[5] = 1;
	send_datagram(60);
	request(1, 0);
	send_datagram(60);
	for (uint32_t sender = 0; sender < FLOOD; sender++) {
		request(sender, 1);
		send_datagram(60);
	}
	srand(1);
	for (int number = 0; number < FLOOD; number++) {
		uint32_t length = 4 + rand() % 200;
		for (uint32_t at = 0; at < length; at++)
			buffer[at] = rand();
		if (number % 4)
			memcpy(buffer, (uint8_t[][4]){{8, 0}, {8, 6}, {0x86, 0xdd}}[number % 4 - 1], 4);
		send_datagram(length);
	}
	return 0;
}
