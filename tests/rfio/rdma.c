/* One end of a reliable connection that executes commands: rdma SOCKET
 *
 * It connects to a Unix socket and reads commands, a line each, and answers each with a line. The tests use it as a
 * client and as a server that break the protocol's rules.
 *
 *   open                          a fresh queue pair; QPN PSN LID GID MTU ADDRESS KEY, the last two of 4 MiB of memory
 *   connect QPN PSN LID GID MTU   to the peer's end
 *   receive                       a receive for a message at the front of the memory
 *   send HEX                      a message
 *   write ADDRESS KEY LENGTH IMM  from the front of the memory; with immediate data unless IMM is -
 *   read ADDRESS KEY LENGTH       to the front of the memory
 *   wait                          the next completion: STATUS OPCODE LENGTH
 *   fill BYTE, peek LENGTH        the memory
 *   exit */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MEMORY = 4 << 20, DEPTH = 32, TIMEOUT_SECONDS = 10 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static char *memory;
static uint32_t psn = 0x1234;

static void fatal(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_up(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	if (!devices || !devices[0])
		fatal("no device");
	context = ibv_open_device(devices[0]);
	if (!context || !(pd = ibv_alloc_pd(context)) || !(cq = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0)))
		fatal("adapter");
	if (posix_memalign((void **)&memory, 4096, MEMORY))
		fatal("memory");
	memset(memory, 0, MEMORY);
	mr = ibv_reg_mr(pd, memory, MEMORY,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!mr)
		fatal("ibv_reg_mr");
}

/* The GID of an IPv4 address where there is one: it leads to the service's, wherever that is. */
static unsigned char gid_index(void)
{
	static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(context, 1, &port))
		fatal("ibv_query_port");
	for (int index = 0; index < port.gid_tbl_len; index++)
		if (!ibv_query_gid(context, 1, index, &gid) && !memcmp(gid.raw, mapped, sizeof mapped))
			return index;
	return 0;
}

static void open_pair(FILE *out)
{
	struct ibv_wc wc;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_qp_init_attr initial = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	if (qp)
		ibv_destroy_qp(qp);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
	if (!(qp = ibv_create_qp(pd, &initial)) ||
	    ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    ibv_query_port(context, 1, &port) || ibv_query_gid(context, 1, gid_index(), &gid))
		fatal("queue pair");
	fprintf(out, "%u %u %u ", qp->qp_num, psn, port.lid);
	for (int i = 0; i < 16; i++)
		fprintf(out, "%02x", gid.raw[i]);
	fprintf(out, " %u %llu %u\n", port.active_mtu, (unsigned long long)(uintptr_t)memory, mr->rkey);
}

static int connect_pair(const char *arguments)
{
	unsigned number, first, lid, mtu;
	char text[33];
	union ibv_gid gid;
	if (sscanf(arguments, "%u %u %u %32s %u", &number, &first, &lid, text, &mtu) != 5)
		return EINVAL;
	for (int i = 0; i < 16; i++)
		sscanf(text + 2 * i, "%2hhx", &gid.raw[i]);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = number, .rq_psn = first,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .dlid = lid, .port_num = 1, .grh = {.dgid = gid, .sgid_index = gid_index(), .hop_limit = 64}}};
	int bad = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (bad)
		return bad;
	struct ibv_qp_attr ready = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 6,
		.sq_psn = psn, .max_rd_atomic = 4};
	return ibv_modify_qp(qp, &ready, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int post(enum ibv_wr_opcode opcode, unsigned long long address, unsigned key, unsigned length, unsigned immediate)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = length, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(immediate), .wr.rdma = {.remote_addr = address, .rkey = key}}, *bad;
	return ibv_post_send(qp, &wr, &bad);
}

static void wait_for_one(FILE *out)
{
	struct ibv_wc wc;
	time_t until = time(NULL) + TIMEOUT_SECONDS;
	while (time(NULL) < until)
		if (ibv_poll_cq(cq, 1, &wc) > 0) {
			fprintf(out, "%d %d %u\n", wc.status, wc.opcode, wc.status ? 0 : wc.byte_len);
			return;
		}
	fprintf(out, "nothing\n");
}

static void obey(char *line, FILE *out)
{
	unsigned long long address;
	unsigned key, length, immediate;
	char word[32];
	if (!strncmp(line, "open", 4)) {
		open_pair(out);
	} else if (!strncmp(line, "connect ", 8)) {
		fprintf(out, "%d\n", connect_pair(line + 8));
	} else if (!strncmp(line, "receive", 7)) {
		struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 4096, .lkey = mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
		fprintf(out, "%d\n", ibv_post_recv(qp, &wr, &bad));
	} else if (!strncmp(line, "send ", 5)) {
		length = strcspn(line + 5, "\n") / 2;
		for (unsigned i = 0; i < length; i++)
			sscanf(line + 5 + 2 * i, "%2hhx", (unsigned char *)memory + i);
		fprintf(out, "%d\n", post(IBV_WR_SEND, 0, 0, length, 0));
	} else if (sscanf(line, "write %llu %u %u %31s", &address, &key, &length, word) == 4) {
		if (word[0] == '-')
			fprintf(out, "%d\n", post(IBV_WR_RDMA_WRITE, address, key, length, 0));
		else if (sscanf(word, "%u", &immediate) == 1)
			fprintf(out, "%d\n", post(IBV_WR_RDMA_WRITE_WITH_IMM, address, key, length, immediate));
	} else if (sscanf(line, "read %llu %u %u", &address, &key, &length) == 3) {
		fprintf(out, "%d\n", post(IBV_WR_RDMA_READ, address, key, length, 0));
	} else if (!strncmp(line, "wait", 4)) {
		wait_for_one(out);
	} else if (sscanf(line, "fill %u", &length) == 1) {
		memset(memory, (int)length, MEMORY);
		fprintf(out, "0\n");
	} else if (sscanf(line, "peek %u", &length) == 1 && length <= MEMORY) {
		for (unsigned i = 0; i < length; i++)
			fprintf(out, "%02x", (unsigned char)memory[i]);
		fprintf(out, "\n");
	} else if (!strncmp(line, "exit", 4)) {
		if (qp)
			ibv_destroy_qp(qp);
		ibv_dereg_mr(mr);
		ibv_destroy_cq(cq);
		ibv_dealloc_pd(pd);
		ibv_close_device(context);
		exit(0);
	} else {
		fprintf(out, "what?\n");
	}
	fflush(out);
}

int main(int count, char **arguments)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (count != 2 || strlen(arguments[1]) >= sizeof name.sun_path)
		return 2;
	strcpy(name.sun_path, arguments[1]);
	if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof name))
		fatal("socket");
	set_up();
	FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
	static char line[1 << 16];
	while (in && out && fgets(line, sizeof line, in))
		obey(line, out);
	return 0;
}
