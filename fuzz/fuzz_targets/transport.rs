//! Fuzzes a requester and a responder in any state with genuine, forged, late or duplicated
//! packets: nothing panics, no memory outside the granted range is accessed (asserted by the
//! adapter of the transport's tests), every request completes once and in order, and everything
//! sent parses as a packet.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/transport/tests/support/adapter.rs"]
mod adapter;
mod forged;

use adapter::{Adapter, Posted, SRQ};
use forged::{Choices, FETH, forged};
use libfuzzer_sys::fuzz_target;
use verbena_transport::reliable::{Reliable, Requester, Responder, requester, responder};
use verbena_transport::request::{
    Addressee, Fence, Operation as Work, Remote, SendRequest, SendTail,
};
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_transport::{AtomicOperation, Instant};
use verbena_wire::immediate::Immediate;
use verbena_wire::packet::Packet;
use verbena_wire::{AckTimeout, Mtu, PKey, Psn, Qpn, RnrTimer};

const MTU: Mtu = Mtu::B256;

fn request(choices: &mut Choices<'_>, service: Reliable, id: u64) -> Posted {
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
            _ => (Work::Flush { remote, feth: FETH }, length),
        },
    };
    let request = SendRequest {
        operation,
        length,
        addressee: match service {
            Reliable::Rc => Addressee::Connected,
            Reliable::Xrc => Addressee::SharedReceiveQueue(SRQ),
        },
        solicited: false,
    };
    let fence = match choices.next() % 4 {
        0 => Fence::On,
        _ => Fence::Off,
    };
    Posted { id, request, fence }
}

/// Handles a request packet and then the early ones that waited for it.
fn serve(responder: &mut Responder, packet: &Packet<'_>, there: &mut Adapter) {
    let _ = responder.handle(packet, there);
    while let Some(early) = responder.next_early(there) {
        let _ = responder.handle(&early.packet(), there);
    }
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
    let max_rd_atomic = 1 + u32::from(choices.next() % 4);
    let mut requester = Requester::new(requester::Configuration {
        service,
        destination: Qpn::new(1),
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn,
        ack_timeout: AckTimeout::from_code(choices.next() % 32).expect("five bits"),
        retry_count: RetryCount::new(choices.next() % 8).expect("three bits"),
        rnr_retry: RnrRetry::new(choices.next() % 8).expect("three bits"),
        window,
        acknowledge_every: 64,
    });
    let mut responder = Responder::new(responder::Configuration {
        service,
        destination: Qpn::new(2),
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn,
        min_rnr_timer: RnrTimer::from_code(1).expect("five bits"),
        max_dest_rd_atomic: usize::from(choices.next() % 4),
        early: u32::from(choices.next() % 64),
    });
    let (mut here, mut there) = (Adapter::requesting(MTU, initial_psn), Adapter::new(4096));
    here.send_queue.set_max_rd_atomic(max_rd_atomic);
    let mut now = Instant(0);
    let (mut posted, mut receives) = (0, 0);
    let mut buffer = [0; 512];
    let mut late: Vec<Vec<u8>> = Vec::new();
    while !choices.0.is_empty() {
        match choices.next() % 16 {
            0..=2 => {
                let new = request(&mut choices, service, posted);
                let length = new.request.length as usize;
                here.buffers.insert(posted, vec![1; length]);
                if here.send_queue.len() < 16 && here.post(&requester, new).is_ok() {
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
                    serve(&mut responder, &packet, &mut there);
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
                let bytes = forged(&mut choices, service.service(), requester.sent_until());
                if let Ok(packet) = Packet::parse(&bytes) {
                    let _ = requester.handle(&packet, now, &mut here);
                }
            }
            9..=10 => {
                let bytes = forged(&mut choices, service.service(), responder.expected_psn());
                if let Ok(packet) = Packet::parse(&bytes) {
                    serve(&mut responder, &packet, &mut there);
                }
            }
            11 => {
                if let Some(bytes) = late.get(usize::from(choices.next())) {
                    let packet = Packet::parse(bytes).expect("a packet");
                    serve(&mut responder, &packet, &mut there);
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
            here.sent.len() + here.send_queue.len(),
            posted as usize,
            "a request is lost"
        );
        let in_order = here
            .sent
            .iter()
            .zip(0..)
            .all(|(completion, id)| completion.id == id);
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
