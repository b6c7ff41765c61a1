/* VERBENA_LOG=info: each refusal is one line on standard error, which names the call and the argument that was wrong;
 * each failed work request is one that names the check. Off, nothing is written.
 *
 * Not of the verbs interface, but promised by the guide (docs/refusals.md). The refusals themselves: ibv_create_qp(3),
 * ibv_modify_qp(3), ibv_create_cq(3), ibv_reg_mr(3), ibv_create_srq(3), ibv_create_ah(3), ibv_post_send(3),
 * ibv_post_recv(3), ibv_poll_cq(3) and their like. */

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "contract.h"

#define LENGTH 64

/* Standard error goes here; the first `read_so_far` bytes of it have been read. */
static int diverted = -1;
static off_t read_so_far;
static int terminal = -1;

/* Before the device is opened, when the level is read. */
static void listen_at(const char *level)
{
	if (level != NULL)
		CHECK_CALL(setenv("VERBENA_LOG", level, 1));
	else
		CHECK_CALL(unsetenv("VERBENA_LOG"));
	diverted = memfd_create("stderr", 0);
	terminal = dup(STDERR_FILENO);
	CHECK(diverted >= 0 && terminal >= 0);
	CHECK_EQUAL(dup2(diverted, STDERR_FILENO), STDERR_FILENO);
	/* At the end, where others append. */
	CHECK(fcntl(STDERR_FILENO, F_SETFL, O_APPEND) == 0);
	setvbuf(stderr, NULL, _IONBF, 0);
}

/* Returns the lines written since the previous call. */
static char *lines_since(void)
{
	static char text[16384];
	ssize_t length = pread(diverted, text, sizeof text - 1, read_so_far);
	CHECK(length >= 0);
	text[length] = '\0';
	read_so_far += length;
	return text;
}

/* Fails with a message on the original standard error. */
static void complain(int line, const char *what, const char *text)
{
	dup2(terminal, STDERR_FILENO);
	check_failed(__FILE__, line, "%s; written was:\n%s", what, text);
}

/* Returns the number of lines with all of these words. */
static unsigned lines_with(const char *text, const char *const *words)
{
	unsigned count = 0;
	static char line[4096];
	for (const char *at = text; *at != '\0';) {
		size_t length = strcspn(at, "\n");
		CHECK(length < sizeof line);
		memcpy(line, at, length);
		line[length] = '\0';
		bool has_all = strncmp(line, "verbena[", 8) == 0;
		for (const char *const *word = words; *word != NULL; word++)
			has_all = has_all && strstr(line, *word) != NULL;
		count += has_all;
		at += length + (at[length] == '\n');
	}
	return count;
}

static unsigned lines_of(const char *text)
{
	unsigned count = 0;
	for (; *text != '\0'; text++)
		count += *text == '\n';
	return count;
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Exactly one line was written, and it has these words. */
#define EXPECT_LINE(...)                                                                 \
	do {                                                                             \
		char *written = lines_since();                                           \
		if (lines_of(written) != 1)                                              \
			complain(__LINE__, "one line is due", written);                  \
		if (lines_with(written, WORDS(__VA_ARGS__)) != 1)                        \
			complain(__LINE__, "the line lacks one of " #__VA_ARGS__, written); \
	} while (0)

/* One of the written lines has these words. */
#define EXPECT_AMONG(text, ...)                                                       \
	do {                                                                          \
		if (lines_with(text, WORDS(__VA_ARGS__)) != 1)                        \
			complain(__LINE__, "one line with " #__VA_ARGS__ " is due", text); \
	} while (0)

#define EXPECT_NOTHING()                                                      \
	do {                                                                  \
		char *written = lines_since();                                \
		if (*written != '\0')                                         \
			complain(__LINE__, "nothing is to be written", written); \
	} while (0)

static struct ibv_qp_init_attr usual(struct endpoint *endpoint)
{
	return (struct ibv_qp_init_attr){
		.send_cq = endpoint->cq,
		.recv_cq = endpoint->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
}

static void refuse_qp(struct endpoint *endpoint, struct ibv_qp_init_attr attributes, int error)
{
	errno = 0;
	CHECK(ibv_create_qp(endpoint->pd, &attributes) == NULL);
	CHECK_EQUAL(errno, error);
}

static void making_objects(void)
{
	listen_at("info");
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	EXPECT_NOTHING();

	struct ibv_qp_init_attr wanted = usual(&endpoint);
	wanted.cap.max_send_wr = 1 << 30;
	refuse_qp(&endpoint, wanted, EINVAL);
	EXPECT_LINE("ibv_create_qp: EINVAL: ", "cap.max_send_wr is 1073741824", "32768", "max_qp_wr");
	wanted = usual(&endpoint);
	wanted.cap.max_recv_sge = 1000;
	refuse_qp(&endpoint, wanted, EINVAL);
	EXPECT_LINE("ibv_create_qp: EINVAL: ", "cap.max_recv_sge is 1000", "max_sge");
	wanted = usual(&endpoint);
	wanted.cap.max_inline_data = 1 << 20;
	refuse_qp(&endpoint, wanted, EINVAL);
	EXPECT_LINE("ibv_create_qp: EINVAL: ", "cap.max_inline_data is 1048576");
	wanted = usual(&endpoint);
	wanted.send_cq = NULL;
	refuse_qp(&endpoint, wanted, EINVAL);
	EXPECT_LINE("ibv_create_qp: EINVAL: ", "send_cq is NULL");
	wanted = usual(&endpoint);
	wanted.qp_type = IBV_QPT_RAW_PACKET;
	refuse_qp(&endpoint, wanted, EOPNOTSUPP);
	EXPECT_LINE("ibv_create_qp: EOPNOTSUPP: ", "qp_type is 8");

	CHECK(ibv_create_cq(endpoint.context, 0, NULL, NULL, 0) == NULL);
	EXPECT_LINE("ibv_create_cq: EINVAL: ", "cqe is 0", "max_cqe");
	CHECK(ibv_create_cq(endpoint.context, 1, NULL, NULL, 1 << 20) == NULL);
	EXPECT_LINE("ibv_create_cq: EINVAL: ", "comp_vector is 1048576", "num_comp_vectors");
	struct ibv_srq_init_attr many = { .attr = { .max_wr = 1 << 30, .max_sge = 1 } };
	CHECK(ibv_create_srq(endpoint.pd, &many) == NULL);
	EXPECT_LINE("ibv_create_srq: EINVAL: ", "attr.max_wr is 1073741824", "max_srq_wr");
	struct ibv_ah_attr nowhere = { .port_num = 77, .dlid = 1 };
	CHECK(ibv_create_ah(endpoint.pd, &nowhere) == NULL);
	EXPECT_LINE("ibv_create_ah: EINVAL: ", "ah_attr.port_num is 77");

	struct ibv_cq_init_attr_ex extended = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_CVLAN };
	CHECK(ibv_create_cq_ex(endpoint.context, &extended) == NULL);
	EXPECT_LINE("ibv_create_cq_ex: EOPNOTSUPP: ", "wc_flags");
	CHECK(ibv_create_flow(endpoint.qp, NULL) == NULL);
	EXPECT_LINE("ibv_create_flow: EOPNOTSUPP: ");

	CHECK_EQUAL(ibv_dealloc_pd(endpoint.pd), EBUSY);
	EXPECT_LINE("ibv_dealloc_pd: EBUSY: ", "destroy");
	CHECK_EQUAL(ibv_destroy_cq(endpoint.cq), EBUSY);
	EXPECT_LINE("ibv_destroy_cq: EBUSY: ", "queue pairs");
	CHECK_EQUAL(ibv_destroy_comp_channel(endpoint.channel), EBUSY);
	EXPECT_LINE("ibv_destroy_comp_channel: EBUSY: ", "1 completion queues");
	endpoint_close(&endpoint);
	EXPECT_NOTHING();
}

static void registering(void)
{
	listen_at("info");
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	uint8_t *memory = private_pages(2 * PAGE);
	CHECK(ibv_reg_mr(endpoint.pd, memory, PAGE, IBV_ACCESS_REMOTE_WRITE) == NULL);
	EXPECT_LINE("ibv_reg_mr: EINVAL: ", "access is IBV_ACCESS_REMOTE_WRITE", "IBV_ACCESS_LOCAL_WRITE");
	CHECK(ibv_reg_mr(endpoint.pd, memory, PAGE, 1 << 15) == NULL);
	EXPECT_LINE("ibv_reg_mr: EOPNOTSUPP: ", "0x8000");
	CHECK_CALL(mprotect(memory, PAGE, PROT_READ));
	CHECK(ibv_reg_mr(endpoint.pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE) == NULL);
	CHECK_EQUAL(errno, EFAULT);
	EXPECT_LINE("ibv_reg_mr: EFAULT: ", "may not be written");
	CHECK_CALL(munmap(memory, PAGE));
	CHECK(ibv_reg_mr(endpoint.pd, memory, 2 * PAGE, 0) == NULL);
	CHECK_EQUAL(errno, EFAULT);
	EXPECT_LINE("ibv_reg_mr: EFAULT: ", "nothing is mapped");
	CHECK(ibv_reg_mr(NULL, memory, PAGE, 0) == NULL);
	EXPECT_LINE("ibv_reg_mr: EINVAL: ", "ibv_pd is NULL");
	struct ibv_mr *mr = region(&endpoint, memory + PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	CHECK(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) != 0);
	EXPECT_LINE("ibv_rereg_mr: EINVAL: ", "flags is 0");
	CHECK_CALL(ibv_dereg_mr(mr));
	CHECK(ibv_alloc_mw(endpoint.pd, 9) == NULL);
	EXPECT_LINE("ibv_alloc_mw: EINVAL: ", "type is 9");
	endpoint_close(&endpoint);
	EXPECT_NOTHING();
}

static void changing_states(void)
{
	listen_at("info");
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_qp_attr attributes = { .qp_state = IBV_QPS_RTS };
	CHECK_EQUAL(ibv_modify_qp(endpoint.qp, &attributes, IBV_QP_STATE), EINVAL);
	EXPECT_LINE("ibv_modify_qp: EINVAL: ", "no transition from INIT to RTS");
	attributes.qp_state = IBV_QPS_RTR;
	CHECK_EQUAL(ibv_modify_qp(endpoint.qp, &attributes, IBV_QP_STATE | IBV_QP_TIMEOUT), EINVAL);
	EXPECT_LINE("ibv_modify_qp: EINVAL: ", "lacks", "IBV_QP_DEST_QPN", "must not have IBV_QP_TIMEOUT");
	to_state(endpoint.qp, IBV_QPS_RESET);
	attributes = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 99 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	CHECK_EQUAL(ibv_modify_qp(endpoint.qp, &attributes, mask), EINVAL);
	EXPECT_LINE("ibv_modify_qp: EINVAL: ", "port_num is 99");
	attributes.port_num = 1;
	attributes.pkey_index = 7;
	CHECK_EQUAL(ibv_modify_qp(endpoint.qp, &attributes, mask), EINVAL);
	EXPECT_LINE("ibv_modify_qp: EINVAL: ", "pkey_index is 7", "pkey_tbl_len");
	CHECK_EQUAL(ibv_query_pkey(endpoint.context, 1, 40, &(__be16){ 0 }), -1);
	EXPECT_LINE("ibv_query_pkey: EINVAL: ", "index is 40");
	CHECK_EQUAL(ibv_query_gid(endpoint.context, 3, 0, &(union ibv_gid){ 0 }), -1);
	EXPECT_LINE("ibv_query_gid: EINVAL: ", "port is 3");
	union ibv_gid gid = { .raw = { 0xfe, 0x80 } };
	CHECK_EQUAL(ibv_attach_mcast(endpoint.qp, &gid, 0), EINVAL);
	EXPECT_LINE("ibv_attach_mcast: EINVAL: ", "IBV_QPT_UD");
	endpoint_close(&endpoint);
	EXPECT_NOTHING();
}

/* The calls of a program that was written for RoCE: the refusal says how to get a RoCE port. */
static void a_roce_address(void)
{
	listen_at("info");
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	struct ibv_port_attr port;
	CHECK_CALL(ibv_query_port(endpoint.context, 1, &port));
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		endpoint_close(&endpoint);
		return;
	}
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = endpoint.qp->qp_num, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } },
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	CHECK_EQUAL(ibv_modify_qp(endpoint.qp, &attributes, mask), EINVAL);
	EXPECT_LINE("ibv_modify_qp: EINVAL: ", "sgid_index is 1", "`verbena run --link roce`");
	CHECK(ibv_create_ah(endpoint.pd, &attributes.ah_attr) == NULL);
	EXPECT_LINE("ibv_create_ah: EINVAL: ", "sgid_index is 1", "`verbena run --link roce`");

	/* The GID of the port: no line. */
	attributes.ah_attr.grh.sgid_index = 0;
	CHECK_CALL(ibv_query_gid(endpoint.context, 1, 0, &attributes.ah_attr.grh.dgid));
	struct ibv_ah *own = ibv_create_ah(endpoint.pd, &attributes.ah_attr);
	CHECK(own != NULL);
	CHECK_CALL(ibv_destroy_ah(own));
	EXPECT_NOTHING();

	/* ::ffff:192.0.2.1 is no refusal, and is logged once in a process. */
	attributes.ah_attr.grh.dgid = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 192, 0, 2, 1 } };
	CHECK_CALL(ibv_modify_qp(endpoint.qp, &attributes, mask));
	EXPECT_LINE("ah_attr.grh.dgid is ::ffff:192.0.2.1", "`verbena run --link roce`");
	struct ibv_ah *other = ibv_create_ah(endpoint.pd, &attributes.ah_attr);
	CHECK(other != NULL);
	CHECK_CALL(ibv_destroy_ah(other));
	EXPECT_NOTHING();
	endpoint_close(&endpoint);
}

/* Lines go to VERBENA_LOG_FILE, at its end; and none of them to standard error. */
static void a_file(void)
{
	char name[] = "/tmp/verbena-refusals-XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0);
	CHECK_CALL(setenv("VERBENA_LOG_FILE", name, 1));
	listen_at("info");
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	char text[2][512] = { "" };
	for (int round = 0; round < 2; round++) {
		CHECK(ibv_create_cq(endpoint.context, 0, NULL, NULL, 0) == NULL);
		EXPECT_NOTHING();
		CHECK(pread(file, text[round], sizeof text[round] - 1, 0) > 0);
		CHECK_EQUAL(lines_with(text[round], WORDS("ibv_create_cq: EINVAL: ")), 1);
		CHECK_EQUAL(lines_of(text[round]), 1);
		CHECK_CALL(ftruncate(file, 0));
	}
	/* Where the name is a directory, lines go to standard error, after one that says so. */
	CHECK_CALL(unlink(name));
	CHECK_CALL(mkdir(name, 0700));
	CHECK(ibv_create_cq(endpoint.context, 0, NULL, NULL, 0) == NULL);
	CHECK(ibv_create_cq(endpoint.context, 0, NULL, NULL, 0) == NULL);
	char *written = lines_since();
	EXPECT_AMONG(written, "cannot write to /tmp/verbena-refusals-");
	CHECK_EQUAL(lines_with(written, WORDS("ibv_create_cq: EINVAL: ")), 2);
	CHECK_CALL(rmdir(name));
	close(file);
	endpoint_close(&endpoint);
}

static int send_of(struct endpoint *endpoint, struct ibv_sge *list, int count,
		   enum ibv_wr_opcode opcode, unsigned flags)
{
	struct ibv_send_wr request = {
		.wr_id = 5, .sg_list = list, .num_sge = count, .opcode = opcode, .send_flags = flags
	};
	struct ibv_send_wr *bad = NULL;
	int error = ibv_post_send(endpoint->qp, &request, &bad);
	if (error != 0)
		CHECK(bad == &request);
	return error;
}

static void posting(void)
{
	listen_at("info");
	struct settings settings = endpoint_defaults();
	settings.depth = 2;
	struct pair pair = pair_open(settings);
	static uint8_t memory[4096];
	struct ibv_sge list[64] = { [0] = { .addr = (uintptr_t)memory, .length = sizeof memory } };
	CHECK_EQUAL(send_of(&pair.one, list, 64, IBV_WR_SEND, 0), EINVAL);
	EXPECT_LINE("ibv_post_send: EINVAL: ", "num_sge is 64", "max_send_sge");
	CHECK_EQUAL(send_of(&pair.one, list, -1, IBV_WR_SEND, 0), EINVAL);
	EXPECT_LINE("ibv_post_send: EINVAL: ", "negative");
	CHECK_EQUAL(send_of(&pair.one, list, 1, IBV_WR_SEND, IBV_SEND_INLINE), EINVAL);
	EXPECT_LINE("ibv_post_send: EINVAL: ", "IBV_SEND_INLINE with 4096 bytes", "max_inline_data");
	CHECK_EQUAL(send_of(&pair.one, list, 1, IBV_WR_TSO, 0), EINVAL);
	EXPECT_LINE("ibv_post_send: EINVAL: ", "opcode is IBV_WR_TSO");
	list[0].length = 0;
	struct ibv_recv_wr receive = { .wr_id = 1, .sg_list = list, .num_sge = 1 }, *bad_receive;
	CHECK_CALL(ibv_post_recv(pair.one.qp, &receive, &bad_receive));
	CHECK_CALL(ibv_post_recv(pair.one.qp, &receive, &bad_receive));
	CHECK_EQUAL(ibv_post_recv(pair.one.qp, &receive, &bad_receive), ENOMEM);
	EXPECT_LINE("ibv_post_recv: ENOMEM: ", "2 receive requests", "max_recv_wr");
	to_state(pair.one.qp, IBV_QPS_RESET);
	CHECK_EQUAL(ibv_post_recv(pair.one.qp, &receive, &bad_receive), EINVAL);
	EXPECT_LINE("ibv_post_recv: EINVAL: ", "RESET");
	CHECK_EQUAL(send_of(&pair.one, NULL, 0, IBV_WR_SEND, 0), EINVAL);
	EXPECT_LINE("ibv_post_send: EINVAL: ", "RESET");
	pair_close(&pair);
	EXPECT_NOTHING();
}

static void a_full_send_queue(void)
{
	listen_at("info");
	struct settings settings = endpoint_defaults();
	settings.depth = 2;
	struct pair pair = pair_open(settings);
	/* No receive is posted, so none of them completes. */
	CHECK_CALL(send_of(&pair.one, NULL, 0, IBV_WR_SEND, 0));
	CHECK_CALL(send_of(&pair.one, NULL, 0, IBV_WR_SEND, 0));
	EXPECT_NOTHING();
	CHECK_EQUAL(send_of(&pair.one, NULL, 0, IBV_WR_SEND, 0), ENOMEM);
	EXPECT_LINE("ibv_post_send: ENOMEM: ", "2 requests", "max_send_wr");
	pair_close(&pair);
}

/* A pair with memory at both ends. */
struct scene {
	struct pair pair;
	uint8_t *from, *into;
	struct ibv_mr *source, *target;
};

static struct scene scene_open(int target_access)
{
	listen_at("info");
	struct scene scene = { .pair = pair_open(endpoint_defaults()),
			       .from = private_pages(PAGE),
			       .into = private_pages(PAGE) };
	scene.source = region(&scene.pair.one, scene.from, PAGE, ALL_ACCESS);
	scene.target = region(&scene.pair.other, scene.into, PAGE, target_access);
	return scene;
}

static void scene_close(struct scene *scene)
{
	EXPECT_NOTHING();
	CHECK_CALL(ibv_dereg_mr(scene->source));
	CHECK_CALL(ibv_dereg_mr(scene->target));
	pair_close(&scene->pair);
	EXPECT_NOTHING();
}

/* A write that the responder refuses: a line of the completion, and one of the event, for the same reason. */
static void refused_write(struct scene *scene, uint64_t offset, uint32_t key, const char *why)
{
	post_write(&scene->pair.one, 0xabc, piece_of(scene->source, 0, LENGTH),
		   (uintptr_t)scene->into + offset, key);
	expect(&scene->pair.one, 0xabc, IBV_WC_REM_ACCESS_ERR);
	char *written = lines_since();
	CHECK_EQUAL(lines_of(written), 2);
	EXPECT_AMONG(written, "IBV_WR_RDMA_WRITE wr_id 0xabc: IBV_WC_REM_ACCESS_ERR: ", why);
	EXPECT_AMONG(written, "IBV_EVENT_QP_ACCESS_ERR: ", why);
}

static void a_wrong_key(void)
{
	struct scene scene = scene_open(ALL_ACCESS);
	refused_write(&scene, 0, scene.target->rkey ^ 0x40, "is not valid");
	scene_close(&scene);
}

static void a_missing_right(void)
{
	struct scene scene = scene_open(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	refused_write(&scene, 0, scene.target->rkey, "IBV_ACCESS_REMOTE_WRITE is needed");
	scene_close(&scene);
}

static void a_range_outside(void)
{
	struct scene scene = scene_open(ALL_ACCESS);
	refused_write(&scene, PAGE - LENGTH + 1, scene.target->rkey, "4096 bytes, but ");
	scene_close(&scene);
}

static void another_domain(void)
{
	struct scene scene = scene_open(ALL_ACCESS);
	refused_write(&scene, 0, scene.source->rkey, "another protection domain");
	scene_close(&scene);
}

static void a_right_of_the_queue_pair(void)
{
	struct scene scene = scene_open(ALL_ACCESS);
	to_state(scene.pair.other.qp, IBV_QPS_RESET);
	to_state(scene.pair.one.qp, IBV_QPS_RESET);
	to_init(&scene.pair.one, ALL_ACCESS);
	to_init(&scene.pair.other, IBV_ACCESS_REMOTE_READ);
	pair_connect(&scene.pair, 0x777);
	post_write(&scene.pair.one, 1, piece_of(scene.source, 0, LENGTH), (uintptr_t)scene.into,
		   scene.target->rkey);
	expect(&scene.pair.one, 1, IBV_WC_REM_INV_REQ_ERR);
	char *written = lines_since();
	CHECK_EQUAL(lines_of(written), 2);
	EXPECT_AMONG(written, "IBV_WC_REM_INV_REQ_ERR: ", "qp_access_flags", "IBV_ACCESS_REMOTE_WRITE is needed");
	EXPECT_AMONG(written, "IBV_EVENT_QP_REQ_ERR: ", "qp_access_flags", "IBV_ACCESS_REMOTE_WRITE is needed");
	scene_close(&scene);
}

static void a_local_buffer(void)
{
	struct scene scene = scene_open(ALL_ACCESS);
	struct piece piece = piece_of(scene.source, 0, LENGTH);
	piece.lkey = 0x12345678;
	post_send(&scene.pair.one, 9, piece);
	expect(&scene.pair.one, 9, IBV_WC_LOC_PROT_ERR);
	EXPECT_LINE("IBV_WR_SEND wr_id 0x9: IBV_WC_LOC_PROT_ERR: ", "sg_list[0]", "lkey 0x12345678 is not valid");
	scene_close(&scene);
}

static void a_message_that_is_too_long(void)
{
	struct scene scene = scene_open(ALL_ACCESS);
	post_receive(&scene.pair.other, 0x77, piece_of(scene.target, 0, LENGTH - 1));
	post_send(&scene.pair.one, 9, piece_of(scene.source, 0, LENGTH));
	expect(&scene.pair.one, 9, IBV_WC_REM_INV_REQ_ERR);
	expect(&scene.pair.other, 0x77, IBV_WC_LOC_LEN_ERR);
	char *written = lines_since();
	CHECK_EQUAL(lines_of(written), 2);
	EXPECT_AMONG(written, "IBV_WR_SEND wr_id 0x9: IBV_WC_REM_INV_REQ_ERR: ", "64 bytes");
	EXPECT_AMONG(written, "receive wr_id 0x77 ends with IBV_WC_LOC_LEN_ERR", "has 64 bytes", "have 63");
	scene_close(&scene);
}

static void a_receiver_that_is_not_ready(void)
{
	listen_at("info");
	struct settings settings = endpoint_defaults();
	settings.rnr_retry = 1;
	settings.min_rnr_timer = 1;
	struct pair pair = pair_open(settings);
	CHECK_CALL(send_of(&pair.one, NULL, 0, IBV_WR_SEND, IBV_SEND_SIGNALED));
	expect(&pair.one, 5, IBV_WC_RNR_RETRY_EXC_ERR);
	EXPECT_LINE("IBV_WR_SEND wr_id 0x5: IBV_WC_RNR_RETRY_EXC_ERR: ", "no receive posted", "rnr_retry");
	pair_close(&pair);
	EXPECT_NOTHING();
}

static void nobody_there(void)
{
	listen_at("info");
	struct settings settings = endpoint_defaults();
	settings.timeout = 8;
	settings.retry_count = 1;
	struct endpoint one = endpoint_open(settings);
	connect_to_nobody(&one);
	CHECK_CALL(send_of(&one, NULL, 0, IBV_WR_SEND, IBV_SEND_SIGNALED));
	expect(&one, 5, IBV_WC_RETRY_EXC_ERR);
	EXPECT_LINE("IBV_WR_SEND wr_id 0x5: IBV_WC_RETRY_EXC_ERR: ", "0xabcdef", "timeout is 8", "retry_cnt 1");
	endpoint_close(&one);
	EXPECT_NOTHING();
}

/* Requests that are flushed after a failure, or because the program itself ends the connection, are no refusals. */
static void flushing_is_no_refusal(void)
{
	struct scene scene = scene_open(ALL_ACCESS);
	post_receive(&scene.pair.one, 1, piece_of(scene.source, 0, LENGTH));
	post_receive(&scene.pair.one, 2, piece_of(scene.source, 0, LENGTH));
	endpoint_break(&scene.pair.one);
	expect(&scene.pair.one, 1, IBV_WC_WR_FLUSH_ERR);
	expect(&scene.pair.one, 2, IBV_WC_WR_FLUSH_ERR);
	scene_close(&scene);
}

static void nothing_is_asked_for(const char *level)
{
	listen_at(level);
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	CHECK(ibv_create_cq(endpoint.context, 0, NULL, NULL, 0) == NULL);
	endpoint_close(&endpoint);
	EXPECT_NOTHING();
}

static void off_says_nothing(void)
{
	nothing_is_asked_for("off");
}

static void unset_says_nothing(void)
{
	nothing_is_asked_for(NULL);
}

static void a_level_that_is_none(void)
{
	listen_at("debug");
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	EXPECT_LINE("VERBENA_LOG", "\"debug\"", "\"info\"", "\"off\"");
	struct endpoint other = endpoint_open(endpoint_defaults());
	CHECK(ibv_create_cq(endpoint.context, 0, NULL, NULL, 0) == NULL);
	endpoint_close(&other);
	endpoint_close(&endpoint);
	EXPECT_NOTHING();
}

const struct test tests[] = {
	{ "making_objects", making_objects },
	{ "registering", registering },
	{ "changing_states", changing_states },
	{ "a_roce_address", a_roce_address },
	{ "a_file", a_file },
	{ "posting", posting },
	{ "a_full_send_queue", a_full_send_queue },
	{ "a_wrong_key", a_wrong_key },
	{ "a_missing_right", a_missing_right },
	{ "a_range_outside", a_range_outside },
	{ "another_domain", another_domain },
	{ "a_right_of_the_queue_pair", a_right_of_the_queue_pair },
	{ "a_local_buffer", a_local_buffer },
	{ "a_message_that_is_too_long", a_message_that_is_too_long },
	{ "a_receiver_that_is_not_ready", a_receiver_that_is_not_ready },
	{ "nobody_there", nobody_there },
	{ "flushing_is_no_refusal", flushing_is_no_refusal },
	{ "off_says_nothing", off_says_nothing },
	{ "unset_says_nothing", unset_says_nothing },
	{ "a_level_that_is_none", a_level_that_is_none },
	{ 0 },
};
