//! A requester and a responder in any state, given packets that may be true, forged, late or doubled: nothing panics,
//! no memory beyond what was granted is touched (the adapter of the transport's tests asserts it), every request
//! completes once and in order, and whatever is said is a packet.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/transport/tests/support/adapter.rs"]
mod adapter;

use adapter::{Adapter, BASE, KEY, SRQ, WINDOW};
use libfuzzer_sys::fuzz_target;
use verbena_transport::reliable::{Reliable, Requester, Responder, requester, responder};
use verbena_transport::request::{
    Addressee, Fence, Operation as Work, Remote, SendRequest, SendTail, WorkId,
};
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_transport::{AtomicOperation, Instant};
use verbena_wire::aeth::{Aeth, Syndrome};
use verbena_wire::atomic::{AtomicAckEth, AtomicEth};
use verbena_wire::bth::Bth;
use verbena_wire::feth::{Feth, Placement, Selectivity};
use verbena_wire::immediate::{Ieth, Immediate};
use verbena_wire::opcode::{Header, Opcode, Payload};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::reth::Reth;
use verbena_wire::xrceth::Xrceth;
use verbena_wire::{AckTimeout, Mtu, PKey, Psn, Qpn, RKey, RnrTimer, SrqNumber};

const FEATURES: Feth = Feth {
    placement: Placement::Visible,
    selectivity: Selectivity::Range,
};
const MTU: Mtu = Mtu::B256;
const LENGTHS: [u32; 8] = [0, 1, 8, 255, 256, 257, 700, 2000];

/// Choices, one a byte; zeros when there are no more.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn length(&mut self) -> u32 {
        LENGTHS[usize::from(self.next()) % LENGTHS.len()]
    }

    fn address(&mut self) -> u64 {
        match self.next() % 8 {
            0 => u64::MAX - u64::from(self.next()),
            1 => BASE - 1,
            2 => BASE + u64::from(self.next()),
            _ => BASE + u64::from(self.next()) * 8,
        }
    }

    fn key(&mut self) -> RKey {
        match self.next() % 8 {
            0 => RKey(0),
            1 => WINDOW,
            _ => KEY,
        }
    }
}

fn request(choices: &mut Choices<'_>, service: Reliable, id: u64) -> SendRequest {
    let remote = Remote {
        address: choices.address(),
        key: choices.key(),
    };
    let length = choices.length();
    let (operation, length) = match choices.next() % 8 {
        0 => (Work::Send(SendTail::Nothing), length),
        1 => (Work::Send(SendTail::Immediate(Immediate([1; 4]))), length),
        2 => (Work::Send(SendTail::Invalidate(choices.key())), length),
        3 => (
            Work::Write {
                remote,
                immediate: None,
            },
            length,
        ),
        4 => (
            Work::Write {
                remote,
                immediate: Some(Immediate([2; 4])),
            },
            length,
        ),
        5 => (Work::Read { remote }, length),
        6 => {
            let operation = match choices.next() % 2 {
                0 => AtomicOperation::FetchAdd { add: 1 },
                _ => AtomicOperation::CompareSwap {
                    compare: 0,
                    swap: 1,
                },
            };
            (Work::Atomic { remote, operation }, 8)
        }
        _ => match choices.next() % 2 {
            0 => (Work::AtomicWrite { remote }, 8),
            _ => (
                Work::Flush {
                    remote,
                    feth: FEATURES,
                },
                length,
            ),
        },
    };
    SendRequest {
        id: WorkId(id),
        operation,
        length,
        addressee: match service {
            Reliable::Rc => Addressee::Connected,
            Reliable::Xrc => Addressee::SharedReceiveQueue(SRQ),
        },
        fence: if choices.next() % 4 == 0 {
            Fence::On
        } else {
            Fence::Off
        },
        solicited: false,
    }
}

/// A packet of any opcode near a PSN.
fn forged(choices: &mut Choices<'_>, service: Reliable, near: Psn) -> Vec<u8> {
    let code = match service {
        Reliable::Rc => choices.next() % 32,
        Reliable::Xrc => 0xa0 | choices.next() % 32,
    };
    let code = if choices.next() % 16 == 0 {
        choices.next()
    } else {
        code
    };
    let Some(opcode) = Opcode::from_code(code) else {
        return Vec::new();
    };
    let mut extensions = Extensions::NONE;
    for header in opcode.headers() {
        let (address, key) = (choices.address(), choices.key());
        match header {
            Header::Xrceth => {
                let srq = if choices.next() % 8 == 0 {
                    SrqNumber::new(1)
                } else {
                    SRQ
                };
                extensions.xrceth = Some(Xrceth { srq });
            }
            Header::Deth => return Vec::new(),
            Header::Feth => extensions.feth = Some(FEATURES),
            Header::Reth => {
                let length = match choices.next() % 16 {
                    0 => u32::MAX,
                    _ => choices.length(),
                };
                extensions.reth = Some(Reth {
                    address,
                    key,
                    length,
                });
            }
            Header::AtomicEth => {
                extensions.atomic_eth = Some(AtomicEth {
                    address,
                    key,
                    swap_or_add: 1,
                    compare: 0,
                });
            }
            Header::Aeth => {
                let Some(syndrome) = Syndrome::from_bits(choices.next() & 0x7f) else {
                    return Vec::new();
                };
                extensions.aeth = Some(Aeth { syndrome, msn: 0 });
            }
            Header::AtomicAckEth => extensions.atomic_ack_eth = Some(AtomicAckEth { original: 9 }),
            Header::Immediate => extensions.immediate = Some(Immediate([3; 4])),
            Header::Ieth => extensions.ieth = Some(Ieth { key }),
        }
    }
    let mut bth = Bth::new(
        opcode,
        Qpn::new(1),
        near.plus((choices.next() as i8) as u32),
    );
    bth.ack_request = choices.next() % 2 == 0;
    if choices.next() % 64 == 0 {
        bth.partition_key = PKey(1);
    }
    let length = match opcode.operation().payload() {
        Payload::Message => choices.length(),
        Payload::Nothing => 0,
        Payload::Exactly(length) => length as u32,
    };
    let data = vec![0x5a; length as usize];
    let packet = Packet {
        headers: Headers { bth, extensions },
        payload: &data,
    };
    let mut bytes = vec![0; packet.length()];
    packet
        .emit(&mut bytes)
        .expect("headers are those of the opcode");
    bytes
}

fuzz_target!(|input: &[u8]| {
    let mut choices = Choices(input);
    let service = if choices.next() % 2 == 0 {
        Reliable::Rc
    } else {
        Reliable::Xrc
    };
    let initial_psn = Psn::new(0x00ff_fff8);
    let window = 1 + u32::from(choices.next() % 32);
    let max_rd_atomic = u32::from(choices.next() % 4);
    let mut requester = Requester::new(requester::Configuration {
        service,
        destination: Qpn::new(1),
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn,
        ack_timeout: AckTimeout::from_code(choices.next() % 32).expect("five bits"),
        retry_count: RetryCount::new(choices.next() % 8).expect("three bits"),
        rnr_retry: RnrRetry::new(choices.next() % 8).expect("three bits"),
        max_rd_atomic,
        window,
        capacity: 16,
    });
    let mut responder = Responder::new(responder::Configuration {
        service,
        destination: Qpn::new(2),
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn,
        min_rnr_timer: RnrTimer::from_code(1).expect("five bits"),
        max_dest_rd_atomic: usize::from(choices.next() % 4),
    });
    let (mut here, mut there) = (Adapter::new(0), Adapter::new(4096));
    let mut now = Instant(0);
    let (mut posted, mut receives) = (0, 0);
    let mut buffer = [0; 512];
    let mut late: Vec<Vec<u8>> = Vec::new();
    while !choices.0.is_empty() {
        match choices.next() % 16 {
            0..=2 => {
                let request = request(&mut choices, service, posted);
                here.buffers
                    .insert(posted, vec![1; request.length as usize]);
                if requester.post(request).is_ok() {
                    posted += 1;
                }
            }
            3..=5 => {
                let made = requester
                    .poll_transmit(now, &mut here, &mut buffer)
                    .expect("room");
                if let Some(length) = made {
                    let packet = Packet::parse(&buffer[..length]).expect("a packet");
                    assert!(packet.payload.len() <= MTU.bytes() as usize);
                    let _ = responder.handle(&packet, &mut there);
                    late.push(buffer[..length].to_vec());
                }
            }
            6..=7 => {
                let made = responder
                    .poll_transmit(&mut there, &mut buffer)
                    .expect("room");
                if let Some(length) = made {
                    let packet = Packet::parse(&buffer[..length]).expect("a packet");
                    let _ = requester.handle(&packet, now, &mut here);
                }
            }
            8 => {
                let bytes = forged(&mut choices, service, requester.next_psn());
                if let Ok(packet) = Packet::parse(&bytes) {
                    let _ = requester.handle(&packet, now, &mut here);
                }
            }
            9..=10 => {
                let bytes = forged(&mut choices, service, responder.expected_psn());
                if let Ok(packet) = Packet::parse(&bytes) {
                    let _ = responder.handle(&packet, &mut there);
                }
            }
            11 => {
                if let Some(bytes) = late.get(usize::from(choices.next())) {
                    let packet = Packet::parse(bytes).expect("a packet");
                    let _ = responder.handle(&packet, &mut there);
                }
            }
            12 => {
                now = requester
                    .next_timeout()
                    .map_or(now.plus(1), |at| at.max(now));
                requester.handle_timeout(now, &mut here);
            }
            13..=14 => {
                there.post_receive(receives, choices.length());
                receives += 1;
            }
            _ => match choices.next() % 32 {
                0 => requester.flush(&mut here),
                1 => responder.flush(&mut there),
                2 => requester.drain(),
                3 => requester.resume(),
                4 => {
                    let _ = there.refused.insert("read");
                }
                5 => {
                    let _ = there.refused.insert("write");
                }
                6 => there.refused.clear(),
                7 => {
                    let _ = here.protected.insert(u64::from(choices.next()));
                }
                _ => {}
            },
        }
        assert_eq!(
            here.sent.len() + requester.posted(),
            posted as usize,
            "a request is lost"
        );
        let in_order = here
            .sent
            .iter()
            .zip(0..)
            .all(|(completion, id)| completion.id.0 == id);
        assert!(in_order, "completions out of order");
        if requester.has_failed() {
            assert_eq!(requester.next_timeout(), None);
        }
        let taken = receives as usize - there.receives.len();
        let ended = there.received.len();
        assert!(
            ended <= taken && taken <= ended + 1,
            "{taken} receives taken, {ended} ended"
        );
        assert!(
            there
                .received
                .windows(2)
                .all(|pair| pair[0].id < pair[1].id)
        );
    }
    requester.flush(&mut here);
    responder.flush(&mut there);
    assert_eq!(here.sent.len(), posted as usize);
    assert_eq!(
        there.received.len() + there.receives.len(),
        receives as usize
    );
});
