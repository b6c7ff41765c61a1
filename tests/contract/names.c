/* Names, rates and files of sysfs: calls that need no device, against rdma-core's own library for every argument that it knows.
 *
 * Sources: ibv_get_device_name(3), ibv_get_device_guid(3), ibv_event_type_str(3), ibv_rate_to_mbps(3), ibv_rate_to_mult(3);
 * the library of rdma-core that the distribution installs. */

#include "rdma_core.h"

#include "contract.h"

/* From infiniband/driver.h, which distributions do not install. */
int ibv_read_sysfs_file(const char *directory, const char *file, char *buffer, size_t size);
const char *ibv_get_sysfs_path(void);

/* A newer library may know names that the reference does not; the names that the reference knows must be equal. */
static void same_or_newer(const char *call, int of, const char *ours, const char *theirs)
{
	CHECK_POINTER(ours);
	if (strcmp(ours, theirs) != 0 && !strstr(theirs, "unknown") && !strstr(theirs, "invalid"))
		check_failed(__FILE__, __LINE__, "%s(%d) is \"%s\" and not \"%s\"", call, of, ours, theirs);
}

static void names_are_rdma_core_s(void)
{
	const char *(*node)(enum ibv_node_type) = rdma_core_call("ibv_node_type_str");
	const char *(*state)(enum ibv_port_state) = rdma_core_call("ibv_port_state_str");
	const char *(*event)(enum ibv_event_type) = rdma_core_call("ibv_event_type_str");
	const char *(*status)(enum ibv_wc_status) = rdma_core_call("ibv_wc_status_str");
	for (int of = -3; of < 64; of++) {
		same_or_newer("ibv_node_type_str", of, ibv_node_type_str(of), node(of));
		same_or_newer("ibv_port_state_str", of, ibv_port_state_str(of), state(of));
		same_or_newer("ibv_event_type_str", of, ibv_event_type_str(of), event(of));
		same_or_newer("ibv_wc_status_str", of, ibv_wc_status_str(of), status(of));
	}
	CHECK_EQUAL(strcmp(ibv_node_type_str(IBV_NODE_CA), node(IBV_NODE_CA)), 0);
	CHECK_EQUAL(strcmp(ibv_port_state_str(IBV_PORT_ACTIVE), state(IBV_PORT_ACTIVE)), 0);
}

static void rates_are_rdma_core_s(void)
{
	int (*to_mbps)(enum ibv_rate) = rdma_core_call("ibv_rate_to_mbps");
	int (*to_mult)(enum ibv_rate) = rdma_core_call("ibv_rate_to_mult");
	enum ibv_rate (*of_mbps)(int) = rdma_core_call("mbps_to_ibv_rate");
	enum ibv_rate (*of_mult)(int) = rdma_core_call("mult_to_ibv_rate");
	int known = 0;
	for (int rate = -3; rate < 256; rate++) {
		if (to_mbps(rate) != -1) {
			known++;
			CHECK_EQUAL(ibv_rate_to_mbps(rate), to_mbps(rate));
			CHECK_EQUAL(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
		}
		if (to_mult(rate) != -1) {
			CHECK_EQUAL(ibv_rate_to_mult(rate), to_mult(rate));
			CHECK_EQUAL(mult_to_ibv_rate(ibv_rate_to_mult(rate)), rate);
		}
	}
	CHECK(known > 15);
	CHECK_EQUAL(ibv_rate_to_mbps(-1), -1);
	CHECK_EQUAL(ibv_rate_to_mult(255), -1);
	for (int mbps = -5; mbps < 2000000; mbps++)
		if (of_mbps(mbps) != IBV_RATE_MAX)
			CHECK_EQUAL(mbps_to_ibv_rate(mbps), of_mbps(mbps));
	for (int mult = -5; mult < 1000; mult++)
		if (of_mult(mult) != IBV_RATE_MAX)
			CHECK_EQUAL(mult_to_ibv_rate(mult), of_mult(mult));
	CHECK_EQUAL(mbps_to_ibv_rate(2501), IBV_RATE_MAX);
	CHECK_EQUAL(mult_to_ibv_rate(-1), IBV_RATE_MAX);
}

static void a_device_has_one_name_and_one_guid(void)
{
	int devices;
	struct ibv_device **list = ibv_get_device_list(&devices);
	CHECK_POINTER(list);
	CHECK(devices > 0);
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK_POINTER(context);
	struct ibv_device_attr attributes;
	CHECK_CALL(ibv_query_device(context, &attributes));
	CHECK(ibv_get_device_guid(list[0]) != 0);
	CHECK_EQUAL(ibv_get_device_guid(list[0]), attributes.node_guid);
	CHECK_EQUAL(strcmp(ibv_get_device_name(list[0]), list[0]->name), 0);
	CHECK(strlen(ibv_get_device_name(list[0])) > 0);
	CHECK(ibv_get_device_name(NULL) == NULL);
	/* The list may be freed before the device. */
	struct ibv_device *device = context->device;
	ibv_free_device_list(list);
	CHECK(strlen(ibv_get_device_name(device)) > 0);
	CHECK_EQUAL(ibv_get_device_guid(device), attributes.node_guid);
	CHECK_CALL(ibv_close_device(context));
}

/* A file of `length` bytes, the last of them a line's end or not. */
static void write_file(const char *path, size_t length, char last)
{
	char text[64];
	memset(text, 'x', sizeof text);
	text[length ? length - 1 : 0] = last;
	FILE *file = fopen(path, "w");
	CHECK_POINTER(file);
	CHECK_EQUAL(fwrite(text, 1, length, file), length);
	CHECK_EQUAL(fclose(file), 0);
}

static void files_of_sysfs_are_read_as_rdma_core_reads_them(void)
{
	int (*theirs)(const char *, const char *, char *, size_t) = rdma_core_call("ibv_read_sysfs_file");
	CHECK_EQUAL(strcmp(ibv_get_sysfs_path(), "/sys"), 0);
	char directory[] = "/tmp/verbena-sysfs-XXXXXX";
	CHECK_POINTER(mkdtemp(directory));
	char path[64];
	snprintf(path, sizeof path, "%s/value", directory);
	for (size_t length = 0; length <= 12; length++)
		for (int ends = 0; ends < 2; ends++) {
			write_file(path, length, ends ? '\n' : 'y');
			for (size_t size = 1; size <= 14; size++) {
				char mine[16] = "????????????????", other[16] = "????????????????";
				int read = ibv_read_sysfs_file(directory, "value", mine, size);
				CHECK_EQUAL(read, theirs(directory, "value", other, size));
				/* A refused or empty file leaves the buffer unspecified. */
				if (read > 0)
					CHECK_EQUAL(memcmp(mine, other, sizeof mine), 0);
			}
		}
	CHECK_CALL(unlink(path));
	char none[16];
	CHECK_EQUAL(ibv_read_sysfs_file(directory, "value", none, sizeof none), -1);
	CHECK_CALL(rmdir(directory));
}

const struct test tests[] = {
	{ "names_are_rdma_core_s", names_are_rdma_core_s },
	{ "rates_are_rdma_core_s", rates_are_rdma_core_s },
	{ "a_device_has_one_name_and_one_guid", a_device_has_one_name_and_one_guid },
	{ "files_of_sysfs_are_read_as_rdma_core_reads_them", files_of_sysfs_are_read_as_rdma_core_reads_them },
	{ 0 },
};
