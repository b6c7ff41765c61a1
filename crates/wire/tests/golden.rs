//! Packets captured from other implementations: Linux 6.1 rxe and a ConnectX-4 Lx. Each must parse
//! to its known fields and be written again byte for byte, including the ICRC.

use verbena_wire::aeth::{Aeth, Credits, Syndrome};
use verbena_wire::atomic::AtomicEth;
use verbena_wire::opcode::Opcode;
use verbena_wire::packet::Packet;
use verbena_wire::reth::Reth;
use verbena_wire::roce::{self, Checked, Frame, Network, Route, V4};
use verbena_wire::{Error, Psn, QKey, Qpn, RKey};

/// From the IPv4 header to the ICRC.
const SEND_ONLY: &str = "45000050900b40004011967b0a0900030a090002c12112b7003c00000430ffff0000001180\
                         bd34207b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b00\
                         00009d16fedc";
const ACKNOWLEDGE: &str = "45000030851c40004011a18a0a0900020a090003c12112b7001c00001100ffff00000011\
                           00bd34201f000001c754319c";
const READ_REQUEST: &str = "4500003c9c5c400040118a3e0a0900030a090002c1e412b7002800000c00ffff0000001\
                            680dc5f3100005601c47f30000000079a000009c479e768b4";
const COMPARE_SWAP: &str = "450000489f154000401187790a0900030a090002c21112b7003400001300ffff0000001\
                            780f9cd2b00005652a31ea000000008700000000000000000000000000000000024a10a\
                            9b";
const ATOMIC_ACKNOWLEDGE: &str = "450000388cc94000401199d50a0900020a090003c21112b7002400001200ffff0\
                                  000001700f9cd2b1f000001240da8da0376ffbea24fa99b";
const DATAGRAM: &str = "45000058955040004011912e0a0900030a090002d07812b7004400006430ffff00000013005\
                        a7e2311111111000000137b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b\
                        7b7b7b7b7b7b000000a5357224";
/// Without its Ethernet header.
const CONGESTION: &str = "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff400001180\
                          00000000000000000000000000000000000000082fd002a";

const ALL: [&str; 7] = [
    SEND_ONLY,
    ACKNOWLEDGE,
    READ_REQUEST,
    COMPARE_SWAP,
    ATOMIC_ACKNOWLEDGE,
    DATAGRAM,
    CONGESTION,
];

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("a hexadecimal digit"))
        .collect()
}

#[test]
fn golden_frames_round_trip() {
    for text in ALL {
        let golden = bytes(text);
        let frame = Frame::parse(&golden).expect(text);
        let mut again = vec![0; golden.len()];
        assert_eq!(frame.emit(&mut again), Ok(golden.len()));
        assert_eq!(again, golden);
    }
}

/// With the checksum filled in, the ones' complement sum over pseudo-header and datagram is all
/// ones.
#[test]
fn filling_the_udp_checksum_keeps_the_icrc() {
    for text in ALL {
        let mut frame = bytes(text);
        roce::fill_checksum(&mut frame);
        let sum_of = |bytes: &[u8]| -> u32 {
            let word =
                |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            bytes.chunks(2).map(word).sum()
        };
        let mut sum =
            17 + (frame.len() - 20) as u32 + sum_of(&frame[12..20]) + sum_of(&frame[20..]);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        assert_eq!(sum, 0xffff, "{text}");
        assert_ne!(frame[26..28], [0, 0]);
        assert!(Frame::parse(&frame).is_ok(), "{text}");
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    for text in ALL {
        let golden = bytes(text);
        for bit in 0..golden.len() * 8 {
            let mut flipped = golden.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // The ICRC does not cover the UDP checksum and the congestion bits of the BTH. (IPv4's
            // checksum covers the IPv4 header.)
            let uncovered = (26..28).contains(&(bit / 8)) || bit / 8 == 32;
            let parsed = Frame::parse(&flipped);
            assert_eq!(parsed.is_ok(), uncovered, "bit {bit}: {parsed:?}");
        }
    }
}

#[test]
fn send_only_of_33_bytes_is_parsed() {
    let golden = bytes(SEND_ONLY);
    let Frame { route, packet } = Frame::parse(&golden).unwrap();
    let Network::V4(V4 {
        identification,
        source,
        destination,
        ..
    }) = route.network
    else {
        panic!("{route:?}");
    };
    assert_eq!(
        (identification, source, destination),
        (0x900b, [10, 9, 0, 3], [10, 9, 0, 2])
    );
    assert_eq!((route.source_port, route.destination_port), (0xc121, 4791));
    let bth = packet.headers.bth;
    assert_eq!(bth.opcode.to_string(), "RC SEND Only");
    assert_eq!(
        (bth.destination, bth.psn),
        (Qpn::new(0x11), Psn::new(0xbd3420))
    );
    assert!(bth.ack_request && !bth.migrated && !bth.solicited_event);
    assert_eq!(packet.payload, [0x7b; 33]);
}

#[test]
fn an_acknowledgement_is_parsed() {
    let golden = bytes(ACKNOWLEDGE);
    let packet = Frame::parse(&golden).unwrap().packet;
    let syndrome = Syndrome::Ack(Credits::UNLIMITED);
    assert_eq!(
        packet.headers.extensions.aeth,
        Some(Aeth { syndrome, msn: 1 })
    );
}

#[test]
fn a_read_request_is_parsed() {
    let golden = bytes(READ_REQUEST);
    let packet = Frame::parse(&golden).unwrap().packet;
    let reth = Reth {
        address: 0x5601_c47f_3000,
        key: RKey(0x79a),
        length: 2500,
    };
    assert_eq!(packet.headers.extensions.reth, Some(reth));
}

#[test]
fn compare_swap_and_its_acknowledgement_are_parsed() {
    let golden = bytes(COMPARE_SWAP);
    let request = Frame::parse(&golden).unwrap().packet.headers;
    let operands = AtomicEth {
        address: 0x5652_a31e_a000,
        key: RKey(0x870),
        swap_or_add: 0,
        compare: 0,
    };
    assert_eq!(request.extensions.atomic_eth, Some(operands));
    let golden = bytes(ATOMIC_ACKNOWLEDGE);
    let answer = Frame::parse(&golden).unwrap().packet.headers;
    assert_eq!(answer.bth.psn, request.bth.psn);
    let original = answer.extensions.atomic_ack_eth.unwrap().original;
    assert_eq!(original, 0x240d_a8da_0376_ffbe);
}

#[test]
fn a_datagram_is_parsed() {
    let golden = bytes(DATAGRAM);
    let packet = Frame::parse(&golden).unwrap().packet;
    let deth = packet.headers.extensions.deth.unwrap();
    assert_eq!(
        (deth.queue_key, deth.source),
        (QKey(0x1111_1111), Qpn::new(0x13))
    );
    assert_eq!(packet.payload.len(), 33);
}

#[test]
fn a_congestion_notification_is_parsed() {
    let golden = bytes(CONGESTION);
    let packet = Frame::parse(&golden).unwrap().packet;
    assert_eq!(packet.headers.bth.opcode, Opcode::CNP);
    assert!(packet.headers.bth.backward_congestion);
    assert_eq!(packet.payload, [0; 16]);
}

/// A UDP socket receives everything but the identification.
#[test]
fn a_socket_recovers_the_ip_identification() {
    for text in ALL {
        let golden = bytes(text);
        let route = Frame::parse(&golden).unwrap().route;
        let Network::V4(network) = route.network else {
            panic!("{route:?}")
        };
        let seen = Route {
            network: Network::V4(V4 {
                identification: 0,
                ..network
            }),
            ..route
        };
        let (packet, checked) = roce::open(&seen, &golden[28..]).unwrap();
        assert_eq!(checked, Checked::WithIdentification(network.identification));
        assert!(Packet::parse(packet).is_ok());

        let mut damaged = golden[28..].to_vec();
        damaged[9] ^= 0x10;
        assert!(matches!(
            roce::open(&seen, &damaged),
            Err(Error::Icrc { .. })
        ));
    }
}

#[test]
fn a_sealed_packet_equals_the_golden_one() {
    let golden = bytes(SEND_ONLY);
    let route = Frame::parse(&golden).unwrap().route;
    let mut buffer = golden[28..].to_vec();
    let length = buffer.len() - 4;
    buffer[length..].fill(0);
    assert_eq!(roce::seal(&route, length, &mut buffer), Ok(length + 4));
    assert_eq!(buffer, golden[28..]);
    assert!(roce::seal(&route, length, &mut buffer[..length + 3]).is_err());
}
