//! Fuzzes the parsers of packets, whole frames and MADs: accepted input encodes to the same bytes,
//! except for reserved fields.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_wire::mad::{self, Mad, cm};
use verbena_wire::packet::Packet;
use verbena_wire::roce::{Checked, Frame, Network, open};
use verbena_wire::{bth, icrc};

/// Returns a mask of the bits that a receiver ignores.
fn reserved(packet: &Packet<'_>) -> Vec<u8> {
    let mut mask = bth::RESERVED.to_vec();
    for header in packet.headers.bth.opcode.headers() {
        mask.extend(header.reserved());
    }
    mask.extend(packet.payload.iter().map(|_| 0));
    mask.resize(packet.length(), 0xff);
    mask
}

fn packet(input: &[u8]) {
    let Ok(packet) = Packet::parse(input) else {
        return;
    };
    let mut again = vec![0x55; packet.length()];
    assert_eq!(packet.emit(&mut again), Ok(input.len()));
    let mask = reserved(&packet);
    for at in 0..input.len() {
        assert_eq!(input[at] & !mask[at], again[at], "byte {at}");
    }
    assert_eq!(Packet::parse(&again), Ok(packet));
}

/// Parses the input as a frame, then a frame around the same packet with correct ICRC and lengths,
/// which random input never has.
fn frame(input: &[u8]) {
    let _ = Frame::parse(input);
    let start = match input.first().map(|first| first >> 4) {
        Some(4) => 28,
        Some(6) => 48,
        _ => return,
    };
    if input.len() < start + bth::LENGTH + icrc::LENGTH || input.len() > 65_535 {
        return;
    }
    let Ok(model) = Frame::parse(GOLDEN) else {
        unreachable!("the golden frame is right");
    };
    let Ok(inside) = Packet::parse(&input[start..input.len() - icrc::LENGTH]) else {
        return;
    };
    let Network::V4(mut network) = model.route.network else {
        unreachable!("the golden frame is IPv4");
    };
    network.identification = u16::from_be_bytes([input[4], input[5]]);
    let mut made = model;
    made.route.network = Network::V4(network);
    made.packet = inside;
    let mut bytes = vec![0; made.length()];
    let length = made
        .emit(&mut bytes)
        .expect("room for it and a length that IP can say");
    assert_eq!(Frame::parse(&bytes[..length]), Ok(made));
    // The same packet as a UDP socket receives it.
    let (seen, checked) = open(&model.route, &bytes[28..]).expect("an identification");
    assert_eq!(Packet::parse(seen), Ok(inside));
    if let Checked::WithIdentification(found) = checked {
        assert_eq!(found, network.identification);
    }
}

fn datagram(input: &[u8]) {
    let Ok(mad) = Mad::parse(input) else {
        return;
    };
    let mut again = [0x55; mad::LENGTH];
    mad.emit(&mut again).expect("room for it");
    assert_eq!(Mad::parse(&again), Ok(mad));
    if let Ok(message) = cm::Message::parse(&mad) {
        let mut data = [0x55; mad::DATA];
        let again = message
            .emit(mad.header.transaction, &mut data)
            .expect("room for it");
        assert_eq!(cm::Message::parse(&again), Ok(message));
    }
}

/// RC ACKNOWLEDGE, as sent by Linux 6.1 rxe.
const GOLDEN: &[u8] = &[
    0x45, 0x00, 0x00, 0x30, 0x85, 0x1c, 0x40, 0x00, 0x40, 0x11, 0xa1, 0x8a, 0x0a, 0x09, 0x00, 0x02,
    0x0a, 0x09, 0x00, 0x03, 0xc1, 0x21, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff,
    0x00, 0x00, 0x00, 0x11, 0x00, 0xbd, 0x34, 0x20, 0x1f, 0x00, 0x00, 0x01, 0xc7, 0x54, 0x31, 0x9c,
];

fuzz_target!(|input: &[u8]| {
    packet(input);
    frame(input);
    datagram(input);
});
