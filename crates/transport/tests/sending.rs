//! The send queue: fence, limits, drain, flush, and requests that cannot be sent.

mod support;

use support::adapter::{Adapter, BASE, KEY, Posted};
use support::network::{Manners, To};
use support::requester;
use support::world::World;
use verbena_transport::completion::Status;
use verbena_transport::reliable::requester::PostError;
use verbena_transport::reliable::{Reliable, Requester};
use verbena_transport::request::{
    Addressee, Fence, MOST_LENGTH, Operation as Work, Remote, SendRequest, SendTail,
};
use verbena_transport::{AtomicOperation, Instant};
use verbena_wire::aeth::{Aeth, Syndrome};
use verbena_wire::bth::Bth;
use verbena_wire::opcode::{Opcode, Operation, Service};
use verbena_wire::packet::{Extensions, Headers, Packet};
use verbena_wire::{Mtu, Psn, Qpn, SrqNumber};

const REMOTE: Remote = Remote {
    address: BASE,
    key: KEY,
};

fn work(id: u64, operation: Work, length: u32) -> Posted {
    let request = SendRequest {
        operation,
        length,
        addressee: Addressee::Connected,
        solicited: false,
    };
    let fence = Fence::Off;
    Posted { id, request, fence }
}

fn write(id: u64, length: u32) -> Posted {
    work(
        id,
        Work::Write {
            remote: REMOTE,
            immediate: None,
        },
        length,
    )
}

fn read(id: u64) -> Posted {
    work(id, Work::Read { remote: REMOTE }, 8)
}

fn world(depth: u32) -> World {
    let psn = Psn::new(0);
    let ours = requester(Reliable::Rc, Mtu::B1024, psn);
    let mut theirs = support::responder(Reliable::Rc, Mtu::B1024, psn);
    theirs.max_dest_rd_atomic = 16;
    let mut world = World::new(0, Manners::default(), ours, theirs, 1 << 16);
    world.traced = true;
    world.here.send_queue.set_max_rd_atomic(depth);
    for id in 0..64 {
        world.here.buffers.insert(id, vec![id as u8; 1 << 16]);
    }
    world
}

/// Returns the operations of the request packets so far.
fn asked(world: &World) -> Vec<Operation> {
    world
        .trace
        .iter()
        .filter(|(to, _)| *to == To::Responder)
        .map(|(_, bytes)| Packet::parse(bytes).unwrap().headers.bth.opcode.operation())
        .collect()
}

fn statuses(adapter: &Adapter) -> Vec<(u64, Status)> {
    adapter
        .sent
        .iter()
        .map(|completion| (completion.id, completion.status))
        .collect()
}

#[test]
fn a_fence_waits_for_reads_and_not_for_writes() {
    let mut world = world(4);
    world.post(read(0));
    world.post(write(1, 8));
    world.post(write(2, 8).fenced());
    world.post(write(3, 8));
    world.transmit();
    assert_eq!(
        asked(&world),
        [Operation::ReadRequest, Operation::WriteOnly]
    );
    while world.step() {}
    assert_eq!(asked(&world).len(), 4);
    assert_eq!(
        statuses(&world.here),
        (0..4).map(|id| (id, Status::Success)).collect::<Vec<_>>()
    );

    let mut world = self::world(4);
    world.post(write(0, 8));
    world.post(write(1, 8).fenced());
    world.transmit();
    assert_eq!(asked(&world).len(), 2);
}

#[test]
fn no_more_reads_and_atomics_are_outstanding_than_allowed() {
    let mut world = world(3);
    for id in 0..20 {
        let operation = Work::Atomic {
            remote: REMOTE,
            operation: AtomicOperation::FetchAdd { add: 1 },
        };
        let request = if id % 2 == 0 {
            read(id)
        } else {
            work(id, operation, 8)
        };
        world.post(request);
    }
    world.transmit();
    assert_eq!(asked(&world).len(), 3);
    let mut most = 0;
    loop {
        let outstanding = asked(&world).len() - world.here.sent.len();
        most = most.max(outstanding);
        if !world.step() {
            break;
        }
    }
    assert_eq!(most, 3);
    assert_eq!(world.here.sent.len(), 20);
}

#[test]
fn a_local_protection_error_fails_in_order() {
    let mut world = world(4);
    world.here.protected.insert(2);
    for id in 0..4 {
        world.post(write(id, 3000));
    }
    while world.step() {}
    let expected = [
        (0, Status::Success),
        (1, Status::Success),
        (2, Status::LocalProtection),
        (3, Status::Flushed),
    ];
    assert_eq!(statuses(&world.here), expected);
    assert!(asked(&world).len() == 6);
}

#[test]
fn a_read_response_into_protected_memory_fails() {
    let mut world = world(4);
    world.here.protected.insert(0);
    world.post(read(0));
    world.post(write(1, 8));
    while world.step() {}
    assert_eq!(
        statuses(&world.here),
        [(0, Status::LocalProtection), (1, Status::Flushed)]
    );
}

#[test]
fn a_flush_completes_all_requests_in_order_and_stops_timers() {
    let mut world = world(4);
    for id in 0..10 {
        world.post(write(id, 5000));
    }
    world.transmit();
    world.requester.flush(&mut world.here);
    assert_eq!(
        statuses(&world.here),
        (0..10).map(|id| (id, Status::Flushed)).collect::<Vec<_>>()
    );
    assert_eq!(world.requester.next_timeout(), None);
    world.here.sent.clear();
    let before = asked(&world).len();
    // Later posts are flushed, and late answers have no effect.
    world.post(write(11, 8));
    while world.step() {}
    assert_eq!(statuses(&world.here), [(11, Status::Flushed)]);
    assert_eq!(asked(&world).len(), before);
}

#[test]
fn no_more_than_the_window_is_in_flight() {
    let psn = Psn::new(0x00ff_ffc0);
    for (window, every) in [
        (1, 64),
        (2, 64),
        (63, 64),
        (64, 64),
        (65, 64),
        (128, 64),
        (124, 62),
    ] {
        let mut ours = requester(Reliable::Rc, Mtu::B256, psn);
        (ours.window, ours.acknowledge_every) = (window, every);
        let theirs = support::responder(Reliable::Rc, Mtu::B256, psn);
        let mut world = World::new(0, Manners::default(), ours, theirs, 1 << 17);
        world.traced = true;
        world.here.buffers.insert(0, vec![1; 1 << 16]);
        world.post(write(0, 1 << 16));
        let mut acknowledged = psn;
        let mut seen = 0;
        while world.step() {
            for (to, bytes) in &world.trace[seen..] {
                let bth = Packet::parse(bytes).unwrap().headers.bth;
                match to {
                    To::Requester => acknowledged = bth.psn.next(),
                    To::Responder => assert!(bth.psn.since(acknowledged) < window as i32),
                }
            }
            seen = world.trace.len();
        }
        assert_eq!(
            statuses(&world.here),
            [(0, Status::Success)],
            "window {window}"
        );
    }
}

#[test]
fn impossible_requests_are_refused() {
    let requester = Requester::new(requester(Reliable::Rc, Mtu::B1024, Psn::new(0)));
    let check = |posted: Posted| requester.check(&posted.request);
    let too_long = MOST_LENGTH + 1;
    assert_eq!(check(write(0, too_long)), Err(PostError::Length(too_long)));
    assert_eq!(check(write(0, MOST_LENGTH)), Ok(()));
    let operation = AtomicOperation::FetchAdd { add: 1 };
    let atomic = Work::Atomic {
        remote: REMOTE,
        operation,
    };
    assert_eq!(check(work(0, atomic, 4)), Err(PostError::Length(4)));
    let mut elsewhere = work(0, Work::Send(SendTail::Nothing), 4);
    elsewhere.request.addressee = Addressee::SharedReceiveQueue(SrqNumber::new(1));
    assert_eq!(check(elsewhere), Err(PostError::Addressee));
}

#[test]
fn too_short_a_packet_buffer_loses_nothing() {
    let mut world = world(4);
    world.post(write(0, 100));
    let mut short = [0; 50];
    assert!(
        world
            .requester
            .poll_transmit(Instant(1), &mut world.here, &mut short)
            .is_err()
    );
    while world.step() {}
    assert_eq!(statuses(&world.here), [(0, Status::Success)]);
}

/// The longest message at the smallest MTU uses half of all PSNs: nothing else is outstanding with
/// it.
#[test]
fn the_longest_message_is_sent_alone() {
    let mut ours = requester(Reliable::Rc, Mtu::B256, Psn::new(77));
    ours.window = 1 << 24;
    let mut requester = Requester::new(ours);
    let mut adapter = Adapter::requesting(Mtu::B256, Psn::new(77));
    let mut buffer = [0; 400];
    adapter.buffers.insert(0, vec![0; 8]);
    let long = work(1, Work::Read { remote: REMOTE }, MOST_LENGTH);
    for posted in [write(0, 8), long, write(2, 8)] {
        adapter.post(&requester, posted).unwrap();
    }
    let mut sends = |requester: &mut Requester, adapter: &mut Adapter| {
        let length = requester
            .poll_transmit(Instant(0), adapter, &mut buffer)
            .unwrap()?;
        let bth = Packet::parse(&buffer[..length]).unwrap().headers.bth;
        Some((bth.opcode.operation(), bth.psn.value()))
    };
    assert_eq!(
        sends(&mut requester, &mut adapter),
        Some((Operation::WriteOnly, 77))
    );
    assert_eq!(
        sends(&mut requester, &mut adapter),
        None,
        "with the write it would be too much"
    );
    let opcode = Opcode::new(Service::Rc, Operation::Acknowledge).unwrap();
    let syndrome = Syndrome::from_bits(0x1f).unwrap();
    let extensions = Extensions {
        aeth: Some(Aeth { syndrome, msn: 1 }),
        ..Extensions::NONE
    };
    let bth = Bth::new(opcode, Qpn::new(0x11), Psn::new(77));
    let acknowledgement = Packet {
        headers: Headers { bth, extensions },
        payload: &[],
    };
    let _ = requester.handle(&acknowledgement, Instant(0), &mut adapter);
    assert_eq!(statuses(&adapter), [(0, Status::Success)]);
    assert_eq!(
        sends(&mut requester, &mut adapter),
        Some((Operation::ReadRequest, 78))
    );
    assert_eq!(sends(&mut requester, &mut adapter), None);
}
