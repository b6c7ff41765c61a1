/* The limits of ibv_query_device are true: exactly so many objects can be made; and the cost of an object does not
 * depend on how many there are.
 *
 * Sources: ibv_query_device(3) (max_*: "maximum number of supported ..."), ibv_alloc_pd(3), ibv_create_ah(3),
 * ibv_create_srq(3), ibv_create_cq(3), ibv_create_qp(3), ibv_alloc_mw(3), errno(3) as each sets it; InfiniBand
 * Architecture Specification, volume 1, 11.2 (each creating verb returns "insufficient resources" beyond the limit),
 * 9.7.6.1.3 (transport timer: 0 disables it). */

#include <dirent.h>
#include <errno.h>
#include <time.h>

#include "contract.h"

static struct endpoint endpoint;

static struct ibv_device_attr limits(void)
{
	endpoint = endpoint_open(endpoint_defaults());
	struct ibv_device_attr attributes;
	CHECK_CALL(ibv_query_device(endpoint.context, &attributes));
	return attributes;
}

/* How many objects of a kind this process, and this test in it, may fall short of the limit: those that it has already,
 * and those that an adapter needs for itself. */
#define IN_USE 16

/* Makes objects until one is refused. */
static void check_limit(const char *name, int limit, void *(*make)(void), int (*end)(void *))
{
	CHECK(limit > 0);
	size_t most = (size_t)limit + 1, made = 0;
	void **objects = calloc(most, sizeof *objects);
	CHECK_POINTER(objects);
	errno = 0;
	while (made < most && (objects[made] = make()) != NULL)
		made++;
	int error = errno;
	if (made > (size_t)limit)
		check_failed(__FILE__, __LINE__, "%s is %d, and %zu can be made", name, limit, made);
	if (made + IN_USE < (size_t)limit)
		check_failed(__FILE__, __LINE__, "%s is %d, and after %zu: %s", name, limit, made,
			     strerror(error));
	CHECK_EQUAL(error, ENOMEM);
	/* A released object can be allocated again. */
	CHECK_CALL(end(objects[made - 1]));
	objects[made - 1] = make();
	CHECK_POINTER(objects[made - 1]);
	for (size_t number = 0; number < made; number++)
		CHECK_CALL(end(objects[number]));
	free(objects);
	endpoint_close(&endpoint);
}

static void *make_pd(void)
{
	return ibv_alloc_pd(endpoint.context);
}

static int end_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void protection_domains(void)
{
	check_limit("max_pd", limits().max_pd, make_pd, end_pd);
}

static void *make_ah(void)
{
	struct ibv_ah_attr path = { .dlid = endpoint.lid, .port_num = 1 };
	return ibv_create_ah(endpoint.pd, &path);
}

static int end_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

static void address_handles(void)
{
	check_limit("max_ah", limits().max_ah, make_ah, end_ah);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attributes = { .attr = { .max_wr = 1, .max_sge = 1 } };
	return ibv_create_srq(endpoint.pd, &attributes);
}

static int end_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void shared_receive_queues(void)
{
	check_limit("max_srq", limits().max_srq, make_srq, end_srq);
}

static void *make_cq(void)
{
	return ibv_create_cq(endpoint.context, 1, NULL, NULL, 0);
}

static int end_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void completion_queues(void)
{
	check_limit("max_cq", limits().max_cq, make_cq, end_cq);
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = endpoint.cq,
		.recv_cq = endpoint.cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	return ibv_create_qp(endpoint.pd, &attributes);
}

static int end_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

/* A limit that no machine can reach is no limit: some 100,000 queue pairs are a few hundred mebibytes. */
static void queue_pairs(void)
{
	enum { TRIABLE = 1 << 17 };
	int limit = limits().max_qp;
	if (limit > TRIABLE)
		check_failed(__FILE__, __LINE__,
			     "max_qp is %d, which cannot be tested; report the enforced limit", limit);
	check_limit("max_qp", limit, make_qp, end_qp);
}

/* Processor time of this process, all threads. */
static uint64_t work_done(void)
{
	struct timespec time;
	CHECK_CALL(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* The cost of creating one more queue pair beside `crowd` others, and of destroying one of these. */
struct cost {
	uint64_t one_more, end_of_one;
};

static struct cost cost_among(void *(*make)(void), size_t crowd)
{
	enum { SOME = 2000 };
	static void *some[SOME];
	void **beside = calloc(crowd, sizeof *beside);
	CHECK_POINTER(beside);
	for (size_t number = 0; number < crowd; number++) {
		beside[number] = make();
		CHECK_POINTER(beside[number]);
	}
	struct cost cost = { .one_more = UINT64_MAX };
	/* The least of three: others on the machine cost caches. */
	for (unsigned round = 0; round < 3; round++) {
		uint64_t before = work_done();
		for (unsigned number = 0; number < SOME; number++) {
			some[number] = make();
			CHECK_POINTER(some[number]);
		}
		for (unsigned number = 0; number < SOME; number++)
			CHECK_CALL(end_qp(some[number]));
		uint64_t took = (work_done() - before) / SOME;
		cost.one_more = took < cost.one_more ? took : cost.one_more;
	}
	uint64_t before = work_done();
	for (size_t number = 0; number < crowd; number++)
		CHECK_CALL(end_qp(beside[number]));
	cost.end_of_one = (work_done() - before) / crowd;
	free(beside);
	return cost;
}

/* Among ten times as many it takes about the same. */
static bool costs_the_same(void *(*make)(void), size_t many)
{
	enum { MARGIN = 4 };
	struct cost few = cost_among(make, many / 10), crowd = cost_among(make, many);
	printf("among %zu: one more %llu ns, end of one %llu ns; among %zu: %llu ns, %llu ns\n",
	       many / 10, (unsigned long long)few.one_more, (unsigned long long)few.end_of_one, many,
	       (unsigned long long)crowd.one_more, (unsigned long long)crowd.end_of_one);
	return crowd.one_more < MARGIN * few.one_more &&
	       crowd.end_of_one < MARGIN * few.end_of_one;
}

/* A cost that grows with their number exceeds the margin each time; the load of other processes does not. */
static void check_cost(void *(*make)(void), size_t many)
{
	enum { TRIES = 3 };
	unsigned try = 1;
	while (!costs_the_same(make, many))
		CHECK(try++ < TRIES);
}

/* A sanitizer's allocator is many times slower, and its own costs hide the measured ones. */
#ifdef __SANITIZE_ADDRESS__
#define MANY ((size_t)40000)
#else
#define MANY ((size_t)300000)
#endif

static void queue_pairs_cost_the_same_among_many(void)
{
	enum { ROOM = 4096 };
	size_t limit = (size_t)limits().max_qp;
	CHECK(limit > 2 * ROOM);
	check_cost(make_qp, limit - ROOM < MANY ? limit - ROOM : MANY);
	endpoint_close(&endpoint);
}

static struct ibv_xrcd *domain;

static void *make_target(void)
{
	struct ibv_qp_init_attr_ex attributes = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = domain,
	};
	return ibv_create_qp_ex(endpoint.context, &attributes);
}

static void xrc_targets_cost_the_same_among_many(void)
{
	(void)limits();
	struct ibv_xrcd_init_attr private = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	domain = ibv_open_xrcd(endpoint.context, &private);
	CHECK_POINTER(domain);
	check_cost(make_target, 20000);
	CHECK_CALL(ibv_close_xrcd(domain));
	endpoint_close(&endpoint);
}

/* Threads that this process has had: their numbers as seen in a while. */
static unsigned threads_seen(uint64_t duration)
{
	enum { MOST = 4096 };
	static long known[MOST];
	unsigned count = 0;
	uint64_t deadline = now() + duration;
	while (now() < deadline && count < MOST) {
		DIR *tasks = opendir("/proc/self/task");
		CHECK_POINTER(tasks);
		for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
			long thread = strtol(entry->d_name, NULL, 10);
			unsigned at = 0;
			while (at < count && known[at] != thread)
				at++;
			if (thread != 0 && at == count && count < MOST)
				known[count++] = thread;
		}
		closedir(tasks);
	}
	return count;
}

/* A request to a queue pair that does not exist, without a timeout, waits; it does not load the machine with threads. A
 * handful is more than any adapter needs for it. */
static void a_request_to_nobody_starts_no_threads(void)
{
	enum { FEW = 16 };
	struct settings settings = endpoint_defaults();
	settings.timeout = 0;
	struct endpoint one = endpoint_open(settings);
	connect_to_nobody(&one);
	uint8_t *memory = private_pages(PAGE);
	struct ibv_mr *mr = region(&one, memory, PAGE, ALL_ACCESS);
	post_send(&one, 1, piece_of(mr, 0, 64));
	unsigned threads = threads_seen(2 * SECOND);
	if (threads > FEW)
		check_failed(__FILE__, __LINE__, "at least %u threads in 2 s for one request",
			     threads);
	expect_none(&one);
	endpoint_break(&one);
	expect(&one, 1, IBV_WC_WR_FLUSH_ERR);
	CHECK_CALL(ibv_dereg_mr(mr));
	endpoint_close(&one);
}

const struct test tests[] = {
	{ "protection_domains", protection_domains },
	{ "address_handles", address_handles },
	{ "shared_receive_queues", shared_receive_queues },
	{ "completion_queues", completion_queues },
	{ "queue_pairs", queue_pairs },
	{ "queue_pairs_cost_the_same_among_many", queue_pairs_cost_the_same_among_many },
	{ "xrc_targets_cost_the_same_among_many", xrc_targets_cost_the_same_among_many },
	{ "a_request_to_nobody_starts_no_threads", a_request_to_nobody_starts_no_threads },
	{ 0 },
};
