use super::*;
use crate::ids::{Gid, Lid, PKey, QKey, Qpn};
use crate::mtu::Mtu;
use crate::psn::Psn;
use crate::timer::AckTimeout;
use proptest::prelude::*;
use std::vec::Vec;

/// A REQ as sent by Linux 6.1's rdma_cm for `rping` over rxe.
fn rping() -> Req<'static> {
    Req {
        local_comm_id: 0x1234_5678,
        service_id: 0x0000_0000_0106_1c06,
        ca_guid: 0x0050_56ff_fe00_0001,
        queue_key: QKey(0),
        qpn: Qpn::new(0x19),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: 20,
        transport: Transport::Rc,
        flow_control: false,
        starting_psn: Psn::new(0x00ab_cdef),
        local_response_timeout: 20,
        retry_count: 7,
        partition_key: PKey::DEFAULT,
        path_mtu: Mtu::B1024,
        rnr_retry_count: 7,
        cm_retries: 15,
        shared_receive_queue: false,
        primary: Path {
            local_lid: Lid::PERMISSIVE,
            remote_lid: Lid::PERMISSIVE,
            local_gid: Gid::from_ipv4([10, 9, 0, 2]),
            remote_gid: Gid::from_ipv4([10, 9, 0, 3]),
            flow_label: 0x041ae,
            rate: 0,
            traffic_class: 0,
            hop_limit: 0x40,
            service_level: 0,
            subnet_local: false,
            ack_timeout: AckTimeout::from_code(19).unwrap(),
        },
        alternate: Path::NONE,
        private_data: &[0x5a; 92],
    }
}

#[test]
fn req_fields_are_at_the_offsets_of_linux() {
    let mut data = [0xee; DATA];
    let mad = Message::Req(rping()).emit(7, &mut data).unwrap();
    assert_eq!(mad.header.attribute, 0x10);
    let data = mad.data;
    assert_eq!(data[8..16], [0, 0, 0, 0, 0x01, 0x06, 0x1c, 0x06]);
    assert_eq!(data[32..36], [0, 0, 0x19, 1]);
    assert_eq!(data[39], 1);
    assert_eq!(data[43], 0xa0);
    assert_eq!(data[44..48], [0xab, 0xcd, 0xef, 0xa7]);
    assert_eq!(
        data[48..56],
        [0xff, 0xff, 0x37, 0xf0, 0xff, 0xff, 0xff, 0xff]
    );
    assert_eq!(data[68..72], [10, 9, 0, 2]);
    assert_eq!(data[84..88], [10, 9, 0, 3]);
    assert_eq!(data[88..96], [0x04, 0x1a, 0xe0, 0, 0, 0x40, 0, 0x98]);
    assert_eq!(data[96..140], [0; 44]);
    assert_eq!(data[140..], [0x5a; 92]);
}

/// Attribute, offset of a byte in the data, its value, and the expected field: one row per field
/// that shares its byte or follows a reserved one.
#[test]
fn reply_fields_are_at_the_offsets_of_linux() {
    let mut data = [0; DATA];
    let rep = Rep {
        local_comm_id: 1,
        remote_comm_id: 2,
        queue_key: QKey(3),
        qpn: Qpn::new(0x04_0506),
        starting_psn: Psn::new(0x07_0809),
        responder_resources: 10,
        initiator_depth: 11,
        target_ack_delay: 12,
        failover_accepted: 1,
        flow_control: true,
        rnr_retry_count: 7,
        shared_receive_queue: true,
        ca_guid: 13,
        private_data: &[14; 196],
    };
    let data = Message::Rep(rep).emit(7, &mut data).unwrap().data;
    assert_eq!(data[12..16], [4, 5, 6, 0]);
    assert_eq!(
        data[20..28],
        [7, 8, 9, 0, 10, 11, 12 << 3 | 1 << 1 | 1, 7 << 5 | 1 << 4]
    );
    assert_eq!(data[35], 13);
    assert_eq!(data[36..], [14; 196]);

    let mut data = [0; DATA];
    let sidr = SidrRep {
        request_id: 1,
        status: 2,
        information_length: 3,
        qpn: Qpn::new(4),
        service_id: 5,
        queue_key: QKey(6),
        information: &[7; 72],
        private_data: &[8; 136],
    };
    let data = Message::SidrRep(sidr).emit(7, &mut data).unwrap().data;
    assert_eq!(data[4..6], [2, 3]);
    assert_eq!(data[8..12], [0, 0, 4, 0]);
    assert_eq!(data[19..24], [5, 0, 0, 0, 6]);
    assert_eq!((data[24], data[95], data[96]), (7, 7, 8));
}

#[test]
fn an_invalid_mtu_is_named_with_its_offset() {
    let mut data = [0; DATA];
    let header = Message::Req(rping()).emit(7, &mut data).unwrap().header;
    data[50] = 0x67;
    assert_eq!(
        Message::parse(&Mad {
            header,
            data: &data
        }),
        Err(Error::Value {
            field: "CM REQ path MTU",
            at: 74,
            found: 6,
            expected: "1 to 5"
        })
    );
}

proptest! {
    /// Random bytes parsed as a message are written as bytes that parse as the same message, and a
    /// second round trip changes nothing. Every bit that is not reserved survives: the table has
    /// the number of bits that can be lost.
    #[test]
    fn cm_message_bytes_round_trip(
        attribute in 0x10u16..0x19, bytes in proptest::collection::vec(any::<u8>(), DATA)) {
        let header = Header {
            class: Class::COMMUNICATION,
            class_version: CLASS_VERSION,
            method: Method::SEND,
            status: 0,
            class_specific: 0,
            transaction: 9,
            attribute,
            modifier: 0,
        };
        let data: [u8; DATA] = bytes.try_into().unwrap();
        let Ok(message) = Message::parse(&Mad { header, data: &data }) else { return Ok(()); };
        let mut once = [0; DATA];
        let again = message.emit(9, &mut once).unwrap();
        prop_assert_eq!(again.header, header);
        prop_assert_eq!(Message::parse(&again), Ok(message));
        let lost: Vec<usize> = (0..DATA).filter(|&at| data[at] != again.data[at]).collect();
        let reserved: &[(usize, usize)] = match attribute {
            0x10 => &[(4, 8), (24, 28), (36, 39), (40, 43), (50, 52), (90, 92), (94, 96),
                (134, 136), (138, 140)],
            0x11 => &[(8, 10)],
            0x12 => &[(8, 10)],
            0x13 => &[(15, 20), (23, 24), (27, 28)],
            0x15 => &[(11, 12)],
            0x17 => &[(6, 8)],
            0x18 => &[(6, 8), (11, 12)],
            _ => &[],
        };
        for at in lost {
            prop_assert!(reserved.iter().any(|range| (range.0..range.1).contains(&at)),
                "byte {} of {:#x}", at, attribute);
        }
    }
}
