/* UD: the 40 bytes in front, the source address, keys, lengths, multicast.
 *
 * Source: InfiniBand Architecture Specification, volume 1, 9.8.3 (unreliable datagram), 10.5
 * (multicast), 11.4.2.1 (GRH in the receive buffer); man ibv_attach_mcast(3), ibv_poll_cq(3). */

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "endpoint.h"
#include "peer.h"
#include "work.h"

#define GRH 40
#define LENGTH 8192
#define QKEY 0x11111111
#define SEED 41
#define MULTICAST_LID 0xc001
#define LISTENERS 3

static struct settings datagrams(void)
{
	struct settings settings = endpoint_defaults();
	settings.type = IBV_QPT_UD;
	return settings;
}

struct station {
	struct endpoint endpoint;
	uint8_t *memory;
	struct ibv_mr *mr;
};

static struct station station_open(void)
{
	struct station station = { .endpoint = endpoint_open(datagrams()) };
	endpoint_connect(&station.endpoint, (struct address){ 0 });
	station.memory = aligned_alloc(4096, LENGTH);
	CHECK_POINTER(station.memory);
	memset(station.memory, 0xee, LENGTH);
	station.mr = region(&station.endpoint, station.memory, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	return station;
}

static void station_close(struct station *station)
{
	CHECK_CALL(ibv_dereg_mr(station->mr));
	endpoint_close(&station->endpoint);
}

static struct ibv_ah *way_to(struct station *station, struct ibv_ah_attr where)
{
	where.port_num = 1;
	struct ibv_ah *ah = ibv_create_ah(station->endpoint.pd, &where);
	CHECK_POINTER(ah);
	return ah;
}

static void post_datagram(struct station *station, struct ibv_ah *ah, uint32_t number,
			  uint32_t qkey, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)station->memory,
		.length = length,
		.lkey = station->mr->lkey,
	};
	struct ibv_send_wr request = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = 0x01020304,
		.wr.ud = { .ah = ah, .remote_qpn = number, .remote_qkey = qkey },
	};
	struct ibv_send_wr *bad = NULL;
	CHECK_CALL(ibv_post_send(station->endpoint.qp, &request, &bad));
}

/* Waits for one datagram and answers with its completion. */
static struct ibv_wc arrival(struct station *station, uint32_t length)
{
	struct ibv_wc wc = completion(&station->endpoint);
	CHECK_EQUAL(wc.status, IBV_WC_SUCCESS);
	CHECK_EQUAL(wc.opcode, IBV_WC_RECV);
	CHECK_EQUAL(wc.byte_len, GRH + length);
	CHECK_EQUAL(wc.imm_data, 0x01020304);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	pattern_check(station->memory + GRH, length, SEED);
	/* The bytes after it are unchanged. */
	CHECK_EQUAL(station->memory[GRH + length], 0xee);
	return wc;
}

static void receive_one(struct peer *parent)
{
	struct station station = station_open();
	struct address own = endpoint_address(&station.endpoint), theirs;
	post_receive(&station.endpoint, 7, piece_of(station.mr, 0, LENGTH));
	peer_tell(parent, &own, sizeof own);
	peer_hear(parent, &theirs, sizeof theirs);
	struct ibv_wc wc = arrival(&station, 1000);
	CHECK_EQUAL(wc.wr_id, 7);
	CHECK_EQUAL(wc.src_qp, theirs.qp_number);
	CHECK_EQUAL(wc.slid, theirs.lid);
	peer_meet(parent);
	station_close(&station);
}

static void one_datagram(void)
{
	struct peer peer = peer_start(receive_one);
	struct station station = station_open();
	struct address own = endpoint_address(&station.endpoint), theirs;
	peer_tell(&peer, &own, sizeof own);
	peer_hear(&peer, &theirs, sizeof theirs);
	struct ibv_ah *ah = way_to(&station, (struct ibv_ah_attr){ .dlid = theirs.lid });
	pattern_fill(station.memory, 1000, SEED);
	/* Another key first: it is dropped silently. */
	post_datagram(&station, ah, theirs.qp_number, QKEY + 1, 500);
	expect(&station.endpoint, 1, IBV_WC_SUCCESS);
	/* To a number without a queue pair: the same. */
	post_datagram(&station, ah, 0xabcdef, QKEY, 500);
	expect(&station.endpoint, 1, IBV_WC_SUCCESS);
	post_datagram(&station, ah, theirs.qp_number, QKEY, 1000);
	expect(&station.endpoint, 1, IBV_WC_SUCCESS);
	peer_meet(&peer);
	peer_end(&peer);
	CHECK_CALL(ibv_destroy_ah(ah));
	station_close(&station);
}

static void longest_datagram(void)
{
	struct station station = station_open();
	struct address own = endpoint_address(&station.endpoint);
	struct ibv_port_attr port;
	CHECK_CALL(ibv_query_port(station.endpoint.context, 1, &port));
	uint32_t mtu = 128u << port.active_mtu;
	CHECK(mtu + GRH <= LENGTH);
	post_receive(&station.endpoint, 2, piece_of(station.mr, 0, LENGTH));
	struct station sender = station_open();
	struct ibv_ah *way = way_to(&sender, (struct ibv_ah_attr){ .dlid = own.lid });
	pattern_fill(sender.memory, mtu, SEED);
	post_datagram(&sender, way, own.qp_number, QKEY, mtu);
	expect(&sender.endpoint, 1, IBV_WC_SUCCESS);
	arrival(&station, mtu);
	/* One byte more does not fit into a packet. */
	post_datagram(&sender, way, own.qp_number, QKEY, mtu + 1);
	expect(&sender.endpoint, 1, IBV_WC_LOC_LEN_ERR);
	CHECK_CALL(ibv_destroy_ah(way));
	station_close(&sender);
	station_close(&station);
}

/* With a GRH in the address handle the receiver finds the sender's GID in its buffer, and can
 * answer by it. */
static void grh_names_the_sender(void)
{
	struct station receiver = station_open(), sender = station_open();
	struct address to = endpoint_address(&receiver.endpoint);
	union ibv_gid gid;
	CHECK_CALL(ibv_query_gid(sender.endpoint.context, 1, 0, &gid));
	struct ibv_ah *ah = way_to(&sender, (struct ibv_ah_attr){
						    .dlid = to.lid,
						    .is_global = 1,
						    .grh = { .dgid = gid, .hop_limit = 3 },
					    });
	post_receive(&receiver.endpoint, 2, piece_of(receiver.mr, 0, LENGTH));
	pattern_fill(sender.memory, 100, SEED);
	post_datagram(&sender, ah, to.qp_number, QKEY, 100);
	expect(&sender.endpoint, 1, IBV_WC_SUCCESS);
	struct ibv_wc wc = arrival(&receiver, 100);
	CHECK(wc.wc_flags & IBV_WC_GRH);
	struct ibv_grh grh;
	memcpy(&grh, receiver.memory, sizeof grh);
	CHECK(memcmp(&grh.sgid, &gid, sizeof gid) == 0);
	CHECK(memcmp(&grh.dgid, &gid, sizeof gid) == 0);
	CHECK_EQUAL(grh.next_hdr, 0x1b);
	struct ibv_ah *back = ibv_create_ah_from_wc(receiver.endpoint.pd, &wc, &grh, 1);
	CHECK_POINTER(back);
	CHECK_CALL(ibv_destroy_ah(back));
	CHECK_CALL(ibv_destroy_ah(ah));
	station_close(&sender);
	station_close(&receiver);
}

/* A group of this host alone: transient, link-local. */
static const union ibv_gid group = {
	.raw = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 },
};

static void listen_to_the_group(struct peer *parent)
{
	struct station station = station_open();
	CHECK_CALL(ibv_attach_mcast(station.endpoint.qp, &group, MULTICAST_LID));
	post_receive(&station.endpoint, 7, piece_of(station.mr, 0, LENGTH));
	peer_meet(parent);
	arrival(&station, 300);
	CHECK_CALL(ibv_detach_mcast(station.endpoint.qp, &group, MULTICAST_LID));
	memset(station.memory, 0xee, LENGTH);
	post_receive(&station.endpoint, 8, piece_of(station.mr, 0, LENGTH));
	peer_meet(parent);
	/* The second datagram was sent before the other process reports: it would have arrived. */
	peer_meet(parent);
	expect_none(&station.endpoint);
	station_close(&station);
}

static void multicast_reaches_all_who_listen(void)
{
	struct peer peers[LISTENERS];
	for (int each = 0; each < LISTENERS; each++)
		peers[each] = peer_start(listen_to_the_group);
	struct station station = station_open();
	struct ibv_ah *ah = way_to(&station, (struct ibv_ah_attr){
						     .dlid = MULTICAST_LID,
						     .is_global = 1,
						     .grh = { .dgid = group, .hop_limit = 1 },
					     });
	for (int each = 0; each < LISTENERS; each++)
		peer_meet(&peers[each]);
	pattern_fill(station.memory, 300, SEED);
	post_datagram(&station, ah, 0xffffff, QKEY, 300);
	expect(&station.endpoint, 1, IBV_WC_SUCCESS);
	for (int each = 0; each < LISTENERS; each++)
		peer_meet(&peers[each]);
	/* All have left. */
	post_datagram(&station, ah, 0xffffff, QKEY, 300);
	expect(&station.endpoint, 1, IBV_WC_SUCCESS);
	for (int each = 0; each < LISTENERS; each++)
		peer_meet(&peers[each]);
	for (int each = 0; each < LISTENERS; each++)
		peer_end(&peers[each]);
	CHECK_CALL(ibv_destroy_ah(ah));
	station_close(&station);
}

const struct test tests[] = {
	{ "one_datagram", one_datagram },
	{ "longest_datagram", longest_datagram },
	{ "grh_names_the_sender", grh_names_the_sender },
	{ "multicast_reaches_all_who_listen", multicast_reaches_all_who_listen },
	{ 0 },
};
