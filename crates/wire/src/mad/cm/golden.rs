//! Messages captured from Linux 6.1's connection manager over rxe, in both directions with Verbena:
//! from the MAD's first byte, without trailing zeros.

use super::ip::Addresses;
use super::*;
use crate::ids::{PKey, QKey, Qpn};
use crate::mtu::Mtu;
use crate::psn::Psn;
use core::net::Ipv4Addr;
use std::vec::Vec;

const REQ: &str = "010702030000000000000002911e748d00100000000000008d741e91000000000000000001061d2f\
    505400fffe12345600000000000000000000110100000001000000a0fc4e87a5ffff30f0ffffffff000000000000000\
    0\
    0000ffff0a09000100000000000000000000ffff0a090002ae526000004000980000000000000000000000000000000\
    0\
    000000000000000000000000000000000000000000000000000000000040dd290000000000000000000000000a09000\
    1\
    0000000000000000000000000a090002";
const MRA: &str = "010702030000000087f854c101061d2f00110000000000008d56123f87f854c100c0";
const REJ: &str = "0107020300000000712acec101061c06001200000000000000000000712acec100000008";
const REP: &str = "010702030000000087f8548101061d2f00130000000000008e56123f87f854810000000000001100\
                   00\
    000000f23e0600010178e0505400fffe123456";
const RTU: &str = "010702030000000000000002911e748d00140000000000008d741e917bdfd6c1";
const DREQ: &str = "0107020300000000000000023f12568e00150000000000008e56123f87f854810001";
const DREP: &str = "010702030000000000000002911e748d00160000000000008d741e917bdfd6c1";
const SIDR_REQ: &str = "010702030000000000000002b84b1dfa0017000000000000fa1d4bb8ffff000000000000011\
                        1\
    1c060040c7d20000000000000000000000000a0900010000000000000000000000000a090002";
const SIDR_REP: &str = "0107020300000000929a768101111c060018000000000000929a76810000000000001100000\
                        0\
    000001111c0601234567";

fn bytes(text: &str) -> [u8; super::super::LENGTH] {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|digit| Some(digit.to_digit(16)? as u8))
        .collect();
    let mut bytes = [0; super::super::LENGTH];
    for (place, [high, low]) in bytes.iter_mut().zip(digits.as_chunks().0) {
        *place = high << 4 | low;
    }
    bytes
}

#[test]
fn linux_messages_round_trip() {
    for text in [REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP] {
        let golden = bytes(text);
        let mad = Mad::parse(&golden).unwrap();
        let message = Message::parse(&mad).unwrap();
        let mut data = [0xee; DATA];
        let again = message.emit(mad.header.transaction, &mut data).unwrap();
        let mut written = [0xee; super::super::LENGTH];
        again.emit(&mut written).unwrap();
        assert_eq!(written, golden, "{message:?}");
    }
}

#[test]
fn a_linux_req_has_the_expected_fields() {
    let golden = bytes(REQ);
    let Ok(Message::Req(req)) = Message::parse(&Mad::parse(&golden).unwrap()) else {
        panic!("not a REQ");
    };
    assert_eq!(ip::space_and_port(req.service_id), Some((0x0106, 7471)));
    assert_eq!(req.ca_guid, 0x5054_00ff_fe12_3456);
    assert_eq!(
        (req.qpn, req.starting_psn),
        (Qpn::new(0x11), Psn::new(0x00fc_4e87))
    );
    assert_eq!((req.responder_resources, req.initiator_depth), (1, 1));
    assert_eq!(
        (req.remote_response_timeout, req.local_response_timeout),
        (20, 20)
    );
    assert_eq!(
        (req.retry_count, req.rnr_retry_count, req.cm_retries),
        (5, 0, 15)
    );
    assert_eq!(
        (req.path_mtu, req.partition_key),
        (Mtu::B1024, PKey::DEFAULT)
    );
    assert_eq!(
        (req.primary.hop_limit, req.primary.ack_timeout.code()),
        (64, 19)
    );
    let (addresses, _) = Addresses::parse(req.private_data).unwrap();
    assert_eq!(addresses.source_port, 0xdd29);
    assert_eq!(addresses.source, Ipv4Addr::new(10, 9, 0, 1));
    assert_eq!(addresses.destination, Ipv4Addr::new(10, 9, 0, 2));
}

#[test]
fn linux_replies_have_the_expected_fields() {
    let golden = bytes(REP);
    let Ok(Message::Rep(rep)) = Message::parse(&Mad::parse(&golden).unwrap()) else {
        panic!("not a REP");
    };
    assert_eq!(
        (rep.local_comm_id, rep.remote_comm_id),
        (0x8e56_123f, 0x87f8_5481)
    );
    assert_eq!(
        (rep.qpn, rep.starting_psn),
        (Qpn::new(0x11), Psn::new(0x00f2_3e06))
    );
    assert_eq!((rep.responder_resources, rep.initiator_depth), (1, 1));
    assert_eq!((rep.target_ack_delay, rep.rnr_retry_count), (15, 7));

    let golden = bytes(REJ);
    let Ok(Message::Rej(rej)) = Message::parse(&Mad::parse(&golden).unwrap()) else {
        panic!("not a REJ");
    };
    assert_eq!((rej.message, rej.reason), (Rejected::Req, 8));

    let golden = bytes(MRA);
    let Ok(Message::Mra(mra)) = Message::parse(&Mad::parse(&golden).unwrap()) else {
        panic!("not an MRA");
    };
    assert_eq!((mra.message, mra.service_timeout), (Rejected::Req, 24));

    let golden = bytes(SIDR_REP);
    let Ok(Message::SidrRep(rep)) = Message::parse(&Mad::parse(&golden).unwrap()) else {
        panic!("not a SIDR_REP");
    };
    assert_eq!(
        (rep.status, rep.qpn, rep.queue_key),
        (0, Qpn::new(0x11), QKey(0x0123_4567))
    );
}
