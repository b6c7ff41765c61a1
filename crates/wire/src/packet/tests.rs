use super::*;
use crate::aeth::Syndrome;
use crate::feth::{Placement, Selectivity};
use crate::ids::{PKey, QKey, Qpn, RKey, SrqNumber};
use crate::opcode::{Opcode, Operation, Service};
use crate::psn::Psn;
use proptest::prelude::*;
use std::vec::Vec;

fn opcodes() -> impl Strategy<Value = Opcode> {
    proptest::sample::select(Opcode::all().collect::<Vec<_>>())
}

fn extensions(opcode: Opcode, seed: [u64; 4]) -> Extensions {
    let [a, b, c, d] = seed;
    let mut extensions = Extensions::NONE;
    for header in opcode.headers() {
        let key = RKey(b as u32);
        match header {
            Header::Xrceth => {
                extensions.xrceth = Some(Xrceth {
                    srq: SrqNumber::new(a as u32),
                })
            }
            Header::Deth => {
                extensions.deth = Some(Deth {
                    queue_key: QKey(a as u32),
                    source: Qpn::new(b as u32),
                });
            }
            Header::Feth => {
                let placement = match a % 3 {
                    0 => Placement::Visible,
                    1 => Placement::Persistent,
                    _ => Placement::VisibleAndPersistent,
                };
                let selectivity = if b % 2 == 0 {
                    Selectivity::Range
                } else {
                    Selectivity::Region
                };
                extensions.feth = Some(Feth {
                    placement,
                    selectivity,
                });
            }
            Header::Reth => {
                extensions.reth = Some(Reth {
                    address: a,
                    key,
                    length: c as u32,
                });
            }
            Header::AtomicEth => {
                extensions.atomic_eth = Some(AtomicEth {
                    address: a,
                    key,
                    swap_or_add: c,
                    compare: d,
                });
            }
            Header::Aeth => {
                let known: Vec<_> = (0..=u8::MAX).filter_map(Syndrome::from_bits).collect();
                let syndrome = known[a as usize % known.len()];
                extensions.aeth = Some(Aeth {
                    syndrome,
                    msn: b as u32 & 0x00ff_ffff,
                });
            }
            Header::AtomicAckEth => extensions.atomic_ack_eth = Some(AtomicAckEth { original: a }),
            Header::Immediate => extensions.immediate = Some(Immediate((b as u32).to_be_bytes())),
            Header::Ieth => extensions.ieth = Some(Ieth { key }),
        }
    }
    extensions
}

fn payload_length(opcode: Opcode, wanted: usize) -> usize {
    match opcode.operation().payload() {
        Payload::Message => wanted,
        Payload::Nothing => 0,
        Payload::Exactly(length) => length,
    }
}

fn headers() -> impl Strategy<Value = Headers> {
    (
        opcodes(),
        any::<[u64; 4]>(),
        any::<[bool; 5]>(),
        any::<u16>(),
        any::<u32>(),
        any::<u32>(),
    )
        .prop_map(|(opcode, seed, flags, key, qpn, psn)| Headers {
            bth: Bth {
                opcode,
                solicited_event: flags[0],
                migrated: flags[1],
                partition_key: PKey(key),
                forward_congestion: flags[2],
                backward_congestion: flags[3],
                destination: Qpn::new(qpn),
                ack_request: flags[4],
                psn: Psn::new(psn),
            },
            extensions: extensions(opcode, seed),
        })
}

/// Returns a mask of the bits that are ignored on receipt: headers by opcode, then padding.
fn reserved(packet: &Packet<'_>) -> Vec<u8> {
    let mut mask = bth::RESERVED.to_vec();
    for header in packet.headers.bth.opcode.headers() {
        mask.extend(header.reserved());
    }
    mask.extend(packet.payload.iter().map(|_| 0));
    mask.resize(packet.length(), 0xff);
    mask
}

/// Returns the first byte where the output of `emit` differs from the parsed input, except for
/// reserved bits.
fn differs(bytes: &[u8], packet: &Packet<'_>) -> Option<usize> {
    let mut again = std::vec![0x55; packet.length()];
    assert_eq!(packet.emit(&mut again), Ok(bytes.len()));
    let mask = reserved(packet);
    (0..bytes.len()).find(|&at| bytes[at] & !mask[at] != again[at])
}

proptest! {
    #[test]
    fn packets_round_trip(
        headers in headers(), data in proptest::collection::vec(any::<u8>(), 0..4097)) {
        let payload = &data[..payload_length(headers.bth.opcode, data.len()).min(data.len())];
        prop_assume!(payload.len() == payload_length(headers.bth.opcode, payload.len()));
        let packet = Packet { headers, payload };
        let mut bytes = std::vec![0xaa; packet.length()];
        let written = packet.emit(&mut bytes).unwrap();
        prop_assert_eq!(written, bytes.len());
        prop_assert_eq!(written % 4, 0);
        prop_assert_eq!(Packet::parse(&bytes), Ok(packet));
        // A buffer that is one byte short stays unchanged.
        let mut short = std::vec![0xaa; written - 1];
        prop_assert_eq!(packet.emit(&mut short),
            Err(EmitError::Room { needed: written, found: written - 1 }));
        prop_assert!(short.iter().all(|byte| *byte == 0xaa));
    }

    #[test]
    fn packet_bytes_round_trip(
        code in opcodes(), mut bytes in proptest::collection::vec(any::<u8>(), 12..200)) {
        bytes[0] = code.code();
        // Most random flags have a wrong transport version or pad count; here most inputs should be
        // valid packets.
        bytes[1] &= 0xc0;
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert_eq!(differs(&bytes, &packet), None);
        }
    }

    #[test]
    fn a_truncated_packet_is_refused(headers in headers(), keep: prop::sample::Index) {
        let data = [7; 24];
        let payload = &data[..payload_length(headers.bth.opcode, data.len())];
        let packet = Packet { headers, payload };
        let mut bytes = std::vec![0; packet.length()];
        packet.emit(&mut bytes).unwrap();
        let keep = keep.index(headers.length());
        let refused = matches!(Packet::parse(&bytes[..keep]), Err(Error::Truncated { .. }));
        prop_assert!(refused);
    }
}

#[test]
fn headers_foreign_to_the_opcode_are_refused() {
    let opcode = Opcode::new(Service::Rc, Operation::SendOnly).unwrap();
    let bth = Bth::new(opcode, Qpn::new(2), Psn::new(3));
    let mut buffer = [0; 64];
    let immediate = Some(Immediate([0; 4]));
    let extra = Headers {
        bth,
        extensions: Extensions {
            immediate,
            ..Extensions::NONE
        },
    };
    let header = Header::Immediate;
    assert_eq!(
        extra.emit_around(0, &mut buffer),
        Err(EmitError::Extra { opcode, header })
    );

    let opcode = Opcode::new(Service::Rc, Operation::WriteOnlyImmediate).unwrap();
    let bth = Bth::new(opcode, Qpn::new(2), Psn::new(3));
    let missing = Headers {
        bth,
        extensions: Extensions {
            immediate,
            ..Extensions::NONE
        },
    };
    let header = Header::Reth;
    assert_eq!(
        missing.emit_around(0, &mut buffer),
        Err(EmitError::Missing { opcode, header })
    );
}

#[test]
fn unexpected_payload_is_refused_by_parse_and_emit() {
    let opcode = Opcode::new(Service::Rc, Operation::Acknowledge).unwrap();
    let bth = Bth::new(opcode, Qpn::new(2), Psn::new(3));
    let aeth = Some(Aeth {
        syndrome: Syndrome::from_bits(0x1f).unwrap(),
        msn: 1,
    });
    let headers = Headers {
        bth,
        extensions: Extensions {
            aeth,
            ..Extensions::NONE
        },
    };
    let mut bytes = [0; 20];
    let expected = "no payload";
    assert_eq!(
        Packet {
            headers,
            payload: &[1; 4]
        }
        .emit(&mut bytes),
        Err(EmitError::Payload {
            opcode,
            expected,
            found: 4
        })
    );
    Packet {
        headers,
        payload: &[],
    }
    .emit(&mut bytes)
    .unwrap();
    assert_eq!(
        Packet::parse(&bytes),
        Err(Error::Trailing {
            what: "packet without payload",
            at: 16,
            extra: 4
        })
    );
}

#[test]
fn an_invalid_pad_count_is_refused() {
    let opcode = Opcode::new(Service::Rc, Operation::SendOnly).unwrap();
    let bth = Bth::new(opcode, Qpn::new(2), Psn::new(3));
    let headers = Headers {
        bth,
        extensions: Extensions::NONE,
    };
    let mut bytes = [0; 16];
    Packet {
        headers,
        payload: &[1; 3],
    }
    .emit(&mut bytes)
    .unwrap();
    assert!(Packet::parse(&bytes).is_ok());
    assert!(matches!(
        Packet::parse(&bytes[..15]),
        Err(Error::Value {
            field: "BTH pad count",
            ..
        })
    ));
    assert!(matches!(
        Packet::parse(&bytes[..12]),
        Err(Error::Truncated { what: "pad", .. })
    ));
}
