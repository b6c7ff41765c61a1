//! Writes one frame per opcode, with several payloads, for IPv4 and IPv6, as input for other
//! decoders: `frames DIRECTORY` makes `frames.pcap` (link type raw IP) and `frames.txt`, one line
//! per frame: opcode in hexadecimal, destination queue pair, PSN, frame in hexadecimal.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

use verbena_wire::aeth::{Aeth, Credits, Syndrome};
use verbena_wire::atomic::{AtomicAckEth, AtomicEth};
use verbena_wire::bth::Bth;
use verbena_wire::deth::Deth;
use verbena_wire::feth::{Feth, Placement, Selectivity};
use verbena_wire::immediate::{Ieth, Immediate};
use verbena_wire::opcode::{Header, Opcode, Payload};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::reth::Reth;
use verbena_wire::roce::{Frame, Network, Route, V4, V6};
use verbena_wire::xrceth::Xrceth;
use verbena_wire::{Gid, Psn, QKey, Qpn, RKey, SrqNumber, udp};

fn extensions(opcode: Opcode) -> Extensions {
    let mut extensions = Extensions::NONE;
    let key = RKey(0x0102_0304);
    let address = 0x7f00_1122_3344_5568;
    for header in opcode.headers() {
        match header {
            Header::Xrceth => {
                extensions.xrceth = Some(Xrceth {
                    srq: SrqNumber::new(0x77),
                })
            }
            Header::Deth => {
                extensions.deth = Some(Deth {
                    queue_key: QKey(0x1111_1111),
                    source: Qpn::new(0x99),
                });
            }
            Header::Feth => {
                extensions.feth = Some(Feth {
                    placement: Placement::Visible,
                    selectivity: Selectivity::Range,
                });
            }
            Header::Reth => {
                extensions.reth = Some(Reth {
                    address,
                    key,
                    length: 4096,
                })
            }
            Header::AtomicEth => {
                extensions.atomic_eth = Some(AtomicEth {
                    address,
                    key,
                    swap_or_add: 5,
                    compare: 6,
                });
            }
            Header::Aeth => {
                extensions.aeth = Some(Aeth {
                    syndrome: Syndrome::Ack(Credits::UNLIMITED),
                    msn: 12,
                });
            }
            Header::AtomicAckEth => {
                extensions.atomic_ack_eth = Some(AtomicAckEth { original: 0xfeed });
            }
            Header::Immediate => extensions.immediate = Some(Immediate([1, 2, 3, 4])),
            Header::Ieth => extensions.ieth = Some(Ieth { key }),
        }
    }
    extensions
}

fn routes() -> [Route; 2] {
    let v4 = Network::V4(V4 {
        tos: 2,
        identification: 0x1234,
        dont_fragment: true,
        ttl: 64,
        source: [10, 9, 0, 2],
        destination: [10, 9, 0, 3],
    });
    let mut source = [0; 16];
    source[..2].copy_from_slice(&[0xfd, 0x01]);
    source[15] = 2;
    let mut destination = source;
    destination[15] = 3;
    let v6 = Network::V6(V6 {
        traffic_class: 2,
        flow_label: 0x12345,
        hop_limit: 64,
        source: Gid(source),
        destination: Gid(destination),
    });
    [v4, v6].map(|network| Route {
        network,
        source_port: 0xc123,
        destination_port: udp::PORT,
        udp_checksum: 0,
    })
}

fn payloads(opcode: Opcode) -> &'static [usize] {
    match opcode.operation().payload() {
        Payload::Message => &[0, 1, 2, 3, 4, 33, 1024],
        Payload::Nothing => &[0],
        Payload::Exactly(8) => &[8],
        Payload::Exactly(_) => &[16],
    }
}

fn main() -> io::Result<()> {
    let Some(directory) = env::args_os().nth(1) else {
        return Err(io::Error::other("usage: frames DIRECTORY"));
    };
    // pcap header: microseconds, version 2.4, UTC, whole packets, link type 101 (raw IP).
    let mut capture: Vec<u8> = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101] {
        capture.extend(word.to_le_bytes());
    }
    let mut list = String::new();
    let mut psn = Psn::new(0x00ff_fff0);
    for route in routes() {
        for opcode in Opcode::all() {
            for &length in payloads(opcode) {
                let data: Vec<u8> = (0..length).map(|byte| byte as u8 | 0x80).collect();
                let mut bth = Bth::new(opcode, Qpn::new(0x0001_2345), psn);
                bth.ack_request = opcode.operation().is_request();
                let headers = Headers {
                    bth,
                    extensions: extensions(opcode),
                };
                let frame = Frame {
                    route,
                    packet: Packet {
                        headers,
                        payload: &data,
                    },
                };
                let mut bytes = vec![0; frame.length()];
                frame.emit(&mut bytes).map_err(io::Error::other)?;
                let length = bytes.len() as u32;
                for word in [0, psn.value(), length, length] {
                    capture.extend(word.to_le_bytes());
                }
                capture.extend(&bytes);
                let code = opcode.code();
                let _ = write!(
                    list,
                    "{code:02x} {:#x} {} ",
                    bth.destination.value(),
                    psn.value()
                );
                for byte in &bytes {
                    let _ = write!(list, "{byte:02x}");
                }
                list.push('\n');
                psn = psn.next();
            }
        }
    }
    let directory = Path::new(&directory);
    fs::write(directory.join("frames.pcap"), capture)?;
    fs::write(directory.join("frames.txt"), list)
}
