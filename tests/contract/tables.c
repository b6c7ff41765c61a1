/* Queries of a device: tables of GIDs and P_Keys, extended attributes, its clock and its speed.
 *
 * Sources: ibv_query_gid_ex(3), ibv_query_gid_table(3), ibv_get_pkey_index(3), ibv_query_device_ex(3),
 * ibv_query_rt_values_ex(3), ibv_query_qp_data_in_order(3); for ibv_query_port_speed rdma-core 65's header, in units of
 * 100 Mb/s. */

#include <errno.h>
#include <stddef.h>

#include "contract.h"
#include "rdma_core.h"

static void a_key_is_found_where_it_stands(void)
{
	struct ibv_context *context = device_open();
	struct ibv_device_attr device;
	CHECK_CALL(ibv_query_device(context, &device));
	CHECK(device.max_pkeys > 0);
	for (int index = 0; index < device.max_pkeys; index++) {
		__be16 key, earlier;
		CHECK_CALL(ibv_query_pkey(context, 1, index, &key));
		int found = ibv_get_pkey_index(context, 1, key);
		CHECK(found >= 0 && found <= index);
		CHECK_CALL(ibv_query_pkey(context, 1, found, &earlier));
		CHECK_EQUAL(earlier, key);
	}
	CHECK_EQUAL(ibv_get_pkey_index(context, 1, 0x1234), -1);
	CHECK_EQUAL(ibv_get_pkey_index(context, 200, 0xffff), -1);
	CHECK_CALL(ibv_close_device(context));
}

static void the_table_of_gids_is_what_its_entries_are(void)
{
	struct ibv_context *context = device_open();
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_gid_entry table[1024], entry;
	CHECK_CALL(ibv_query_device(context, &device));
	memset(table, 0xa5, sizeof table);
	ssize_t valid = ibv_query_gid_table(context, table, 1024, 0);
	CHECK(valid > 0);
	ssize_t seen = 0;
	for (uint8_t number = 1; number <= device.phys_port_cnt; number++) {
		CHECK_CALL(ibv_query_port(context, number, &port));
		for (int index = 0; index < port.gid_tbl_len; index++) {
			union ibv_gid gid;
			CHECK_CALL(ibv_query_gid(context, number, index, &gid));
			int error = ibv_query_gid_ex(context, number, (uint32_t)index, &entry, 0);
			if (error == ENODATA) {
				/* An unused entry, which reads as zeros where there is no other result. */
				CHECK(gid.global.subnet_prefix == 0 && gid.global.interface_id == 0);
				continue;
			}
			CHECK_EQUAL(error, 0);
			CHECK_EQUAL(entry.gid_index, index);
			CHECK_EQUAL(entry.port_num, number);
			CHECK_EQUAL(memcmp(&entry.gid, &gid, sizeof gid), 0);
			CHECK(seen < valid);
			CHECK_EQUAL(memcmp(&entry, &table[seen], sizeof entry), 0);
			seen++;
		}
		CHECK_EQUAL(ibv_query_gid_ex(context, number, (uint32_t)port.gid_tbl_len, &entry, 0), EINVAL);
	}
	CHECK_EQUAL(seen, valid);
	/* Beyond the last entry; too little space, another port, flags. */
	CHECK_EQUAL(table[valid].gid_index, 0xa5a5a5a5);
	CHECK(ibv_query_gid_table(context, table, (size_t)valid - 1, 0) < 0);
	CHECK(ibv_query_gid_table(context, table, 1024, 1) < 0);
	CHECK_EQUAL(ibv_query_gid_ex(context, 200, 0, &entry, 0), EINVAL);
	CHECK(ibv_query_gid_ex(context, 1, 0, &entry, 1) != 0);
	CHECK_CALL(ibv_close_device(context));
}

static void extended_attributes_begin_with_the_plain_ones(void)
{
	struct ibv_context *context = device_open();
	struct ibv_device_attr plain;
	struct ibv_device_attr_ex extended;
	struct ibv_query_device_ex_input asked = { 0 };
	CHECK_CALL(ibv_query_device(context, &plain));
	memset(&extended, 0, sizeof extended);
	CHECK_CALL(ibv_query_device_ex(context, NULL, &extended));
	/* Without the padding behind its last field. */
	CHECK_EQUAL(memcmp(&extended.orig_attr, &plain, offsetof(struct ibv_device_attr, phys_port_cnt) + 1), 0);
	CHECK_EQUAL(extended.phys_port_cnt_ex, plain.phys_port_cnt);
	/* A device with a clock says how fast it is. */
	CHECK(extended.completion_timestamp_mask != 0);
	CHECK(extended.hca_core_clock != 0);
	/* Unknown mask bits are not answered. */
	CHECK_CALL(ibv_query_device_ex(context, &asked, &extended));
	asked.comp_mask = 1;
	CHECK_EQUAL(ibv_query_device_ex(context, &asked, &extended), EINVAL);
	CHECK_CALL(ibv_close_device(context));
}

static void the_clock_goes_forward(void)
{
	struct ibv_context *context = device_open();
	struct ibv_device_attr_ex device;
	CHECK_CALL(ibv_query_device_ex(context, NULL, &device));
	uint64_t last = 0;
	for (int turn = 0; turn < 1000; turn++) {
		struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
		CHECK_CALL(ibv_query_rt_values_ex(context, &values));
		CHECK_EQUAL(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
		uint64_t now = (uint64_t)values.raw_clock.tv_sec * SECOND + (uint64_t)values.raw_clock.tv_nsec;
		CHECK(now >= last && now <= device.completion_timestamp_mask);
		last = now;
	}
	CHECK(last > 0);
	CHECK_CALL(ibv_close_device(context));
}

static void the_speed_is_that_of_width_and_lanes(void)
{
	int (*ibv_query_port_speed)(struct ibv_context *, uint32_t, uint64_t *) =
		newer_call("ibv_query_port_speed", "IBVERBS_1.16");
	CHECK_POINTER(ibv_query_port_speed);
	struct ibv_context *context = device_open();
	struct ibv_port_attr port;
	uint64_t speed = 0;
	CHECK_CALL(ibv_query_port(context, 1, &port));
	CHECK_CALL(ibv_query_port_speed(context, 1, &speed));
	/* Data rates of a lane in 100 Mb/s: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR. */
	static const struct { uint8_t code; unsigned rate; } lanes[] = {
		{ 1, 25 }, { 2, 50 }, { 4, 100 }, { 8, 100 }, { 16, 140 }, { 32, 250 }, { 64, 500 }, { 128, 1000 },
	};
	unsigned width = port.active_width == 1 ? 1 : port.active_width == 2 ? 4 : port.active_width == 4 ? 8 :
			 port.active_width == 8 ? 12 : 2, lane = 0;
	for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
		if (lanes[i].code == port.active_speed)
			lane = lanes[i].rate;
	CHECK_EQUAL(speed, width * lane);
	CHECK_EQUAL(ibv_query_port_speed(context, 200, &speed), EINVAL);
	CHECK_CALL(ibv_close_device(context));
}

static void nothing_is_promised_of_the_order_of_bytes(void)
{
	struct endpoint endpoint = endpoint_open(endpoint_defaults());
	for (enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE; opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD; opcode++)
		CHECK_EQUAL(ibv_query_qp_data_in_order(endpoint.qp, opcode, 0), 0);
	endpoint_close(&endpoint);
}

const struct test tests[] = {
	{ "a_key_is_found_where_it_stands", a_key_is_found_where_it_stands },
	{ "the_table_of_gids_is_what_its_entries_are", the_table_of_gids_is_what_its_entries_are },
	{ "extended_attributes_begin_with_the_plain_ones", extended_attributes_begin_with_the_plain_ones },
	{ "the_clock_goes_forward", the_clock_goes_forward },
	{ "the_speed_is_that_of_width_and_lanes", the_speed_is_that_of_width_and_lanes },
	{ "nothing_is_promised_of_the_order_of_bytes", nothing_is_promised_of_the_order_of_bytes },
	{ 0 },
};
