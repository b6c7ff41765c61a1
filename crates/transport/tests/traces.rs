//! Wire traces: packets identical to those of Linux' rxe byte for byte, and the sequences of every
//! operation over a lossless network.

mod support;

use support::adapter::{Adapter, BASE, KEY, Posted};
use support::network::{Manners, To};
use support::world::World;
use support::{requester, responder};
use verbena_transport::completion::Status;
use verbena_transport::reliable::{Reliable, Requester, Responder};
use verbena_transport::request::{
    Addressee, Fence, Operation as Work, Remote, SendRequest, SendTail,
};
use verbena_transport::{AtomicOperation, Instant, unreliable};
use verbena_wire::immediate::Immediate;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, PKey, Psn, QKey, Qpn, RKey};

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("a hexadecimal digit"))
        .collect()
}

/// rxe leaves MigReq clear; adapters set it on a connection that does not migrate, and so does
/// Verbena.
fn as_rxe(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[1] &= !0x40;
    packet
}

fn work(operation: Work, length: u32) -> SendRequest {
    SendRequest {
        operation,
        length,
        addressee: Addressee::Connected,
        solicited: false,
    }
}

fn posted(request: SendRequest) -> Posted {
    let (id, fence) = (0, Fence::Off);
    Posted { id, request, fence }
}

/// Returns the only packet of a request.
fn asked(destination: u32, psn: u32, request: SendRequest, buffer: &[u8]) -> Vec<u8> {
    let mut ours = requester(Reliable::Rc, Mtu::B1024, Psn::new(psn));
    ours.destination = Qpn::new(destination);
    let mut requester = Requester::new(ours);
    let mut adapter = Adapter::requesting(Mtu::B1024, Psn::new(psn));
    adapter.buffers.insert(0, buffer.to_vec());
    adapter.post(&requester, posted(request)).unwrap();
    let mut packet = [0; 1100];
    let length = requester
        .poll_transmit(Instant(0), &mut adapter, &mut packet)
        .unwrap()
        .unwrap();
    assert_eq!(
        requester.poll_transmit(Instant(0), &mut adapter, &mut [0; 1100]),
        Ok(None)
    );
    as_rxe(&packet[..length])
}

const SEND_ONLY: &str = "0430ffff0000001180bd34207b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b\
                         7b7b7b7b7b7b7b7b000000";
const ACKNOWLEDGE: &str = "1100ffff0000001100bd34201f000001";
const READ_REQUEST: &str = "0c00ffff0000001680dc5f3100005601c47f30000000079a000009c4";
const COMPARE_SWAP: &str =
    "1300ffff0000001780f9cd2b00005652a31ea0000000087000000000000000000000000000000000";
const ATOMIC_ACKNOWLEDGE: &str = "1200ffff0000001700f9cd2b1f000001240da8da0376ffbe";
const DATAGRAM: &str = "6430ffff00000013005a7e2311111111000000137b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7\
                        b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b000000";

#[test]
fn requests_equal_packets_of_rxe() {
    let send = work(Work::Send(SendTail::Nothing), 33);
    assert_eq!(asked(0x11, 0xbd3420, send, &[0x7b; 33]), bytes(SEND_ONLY));

    let remote = Remote {
        address: 0x5601_c47f_3000,
        key: RKey(0x79a),
    };
    let read = work(Work::Read { remote }, 2500);
    assert_eq!(asked(0x16, 0xdc5f31, read, &[0; 2500]), bytes(READ_REQUEST));

    let remote = Remote {
        address: 0x5652_a31e_a000,
        key: RKey(0x870),
    };
    let operation = AtomicOperation::CompareSwap {
        compare: 0,
        swap: 0,
    };
    let swap = work(Work::Atomic { remote, operation }, 8);
    assert_eq!(asked(0x17, 0xf9cd2b, swap, &[0; 8]), bytes(COMPARE_SWAP));
}

#[test]
fn answers_equal_packets_of_rxe() {
    let mut theirs = responder(Reliable::Rc, Mtu::B1024, Psn::new(0xbd3420));
    theirs.destination = Qpn::new(0x11);
    let mut responder = Responder::new(theirs.clone());
    let mut adapter = Adapter::new(0);
    adapter.post_receive(0, 33);
    let mut packet = [0; 1100];
    let asked = bytes(SEND_ONLY);
    let _ = responder.handle(&Packet::parse(&asked).unwrap(), &mut adapter);
    let length = responder
        .poll_transmit(&mut adapter, &mut packet)
        .unwrap()
        .unwrap();
    assert_eq!(as_rxe(&packet[..length]), bytes(ACKNOWLEDGE));
    assert_eq!(adapter.receive_buffers[&0], [0x7b; 33]);

    theirs.destination = Qpn::new(0x17);
    theirs.initial_psn = Psn::new(0xf9cd2b);
    let mut responder = Responder::new(theirs);
    adapter.memory = 0x240d_a8da_0376_ffbeu64.to_ne_bytes().to_vec();
    // The same atomic, on this adapter's memory.
    let mut asked = bytes(COMPARE_SWAP);
    asked[12..20].copy_from_slice(&BASE.to_be_bytes());
    asked[20..24].copy_from_slice(&KEY.0.to_be_bytes());
    let _ = responder.handle(&Packet::parse(&asked).unwrap(), &mut adapter);
    let length = responder
        .poll_transmit(&mut adapter, &mut packet)
        .unwrap()
        .unwrap();
    assert_eq!(as_rxe(&packet[..length]), bytes(ATOMIC_ACKNOWLEDGE));
}

#[test]
fn datagrams_equal_packets_of_rxe() {
    let mut requester = unreliable::Requester::new(unreliable::Configuration {
        service: unreliable::Service::Datagram(Qpn::new(0x13)),
        partition_key: PKey::DEFAULT,
        mtu: Mtu::B1024,
        initial_psn: Psn::new(0x5a7e23),
    });
    let mut adapter = Adapter::new(0);
    adapter.buffers.insert(0, vec![0x7b; 33]);
    let addressee = Addressee::Datagram {
        queue_pair: Qpn::new(0x13),
        queue_key: QKey(0x1111_1111),
    };
    let request = SendRequest {
        addressee,
        ..work(Work::Send(SendTail::Nothing), 33)
    };
    adapter
        .post_unreliable(&requester, posted(request))
        .unwrap();
    let mut packet = [0; 1100];
    let length = requester
        .poll_transmit(&mut adapter, &mut packet)
        .unwrap()
        .unwrap();
    assert_eq!(as_rxe(&packet[..length]), bytes(DATAGRAM));
    assert_eq!(adapter.sent[0].status, Status::Success);
}

/// Returns direction, operation, PSN relative to the first, payload length, and A for an
/// acknowledgement request.
fn trace(request: SendRequest) -> Vec<String> {
    let psn = Psn::new(0x00ff_fffe);
    let ours = requester(Reliable::Rc, Mtu::B1024, psn);
    let theirs = responder(Reliable::Rc, Mtu::B1024, psn);
    let mut world = World::new(0, Manners::default(), ours, theirs, 8192);
    world.traced = true;
    world.there.post_receive(0, 4096);
    world.here.buffers.insert(0, vec![9; 4096]);
    world.post(posted(request));
    while world.step() {}
    assert_eq!(world.here.sent[0].status, Status::Success);
    world
        .trace
        .iter()
        .map(|(to, bytes)| {
            let packet = Packet::parse(bytes).unwrap();
            let bth = packet.headers.bth;
            let arrow = if *to == To::Responder { ">" } else { "<" };
            let ask = if bth.ack_request { " A" } else { "" };
            let number = bth.psn.since(psn);
            format!(
                "{arrow} {} {number} {}{ask}",
                bth.opcode,
                packet.payload.len()
            )
        })
        .collect()
}

#[test]
fn every_operation_has_its_packet_sequence() {
    let remote = Remote {
        address: BASE,
        key: KEY,
    };
    let immediate = Some(Immediate([1, 2, 3, 4]));
    let tail = SendTail::Immediate(Immediate([1, 2, 3, 4]));
    let key = support::adapter::WINDOW;
    let operation = AtomicOperation::FetchAdd { add: 1 };
    let feth = verbena_wire::feth::Feth {
        placement: verbena_wire::feth::Placement::Visible,
        selectivity: verbena_wire::feth::Selectivity::Range,
    };
    let table: [(SendRequest, &[&str]); 14] = [
        (
            work(Work::Send(SendTail::Nothing), 2500),
            &[
                "> RC SEND First 0 1024",
                "> RC SEND Middle 1 1024",
                "> RC SEND Last 2 452 A",
                "< RC Acknowledge 2 0",
            ],
        ),
        (
            work(Work::Send(SendTail::Nothing), 0),
            &["> RC SEND Only 0 0 A", "< RC Acknowledge 0 0"],
        ),
        (
            work(Work::Send(tail), 1025),
            &[
                "> RC SEND First 0 1024",
                "> RC SEND Last with Immediate 1 1 A",
                "< RC Acknowledge 1 0",
            ],
        ),
        (
            work(Work::Send(tail), 7),
            &[
                "> RC SEND Only with Immediate 0 7 A",
                "< RC Acknowledge 0 0",
            ],
        ),
        (
            work(Work::Send(SendTail::Invalidate(key)), 7),
            &[
                "> RC SEND Only with Invalidate 0 7 A",
                "< RC Acknowledge 0 0",
            ],
        ),
        (
            work(Work::Send(SendTail::Invalidate(key)), 2048),
            &[
                "> RC SEND First 0 1024",
                "> RC SEND Last with Invalidate 1 1024 A",
                "< RC Acknowledge 1 0",
            ],
        ),
        (
            work(
                Work::Write {
                    remote,
                    immediate: None,
                },
                3072,
            ),
            &[
                "> RC RDMA WRITE First 0 1024",
                "> RC RDMA WRITE Middle 1 1024",
                "> RC RDMA WRITE Last 2 1024 A",
                "< RC Acknowledge 2 0",
            ],
        ),
        (
            work(Work::Write { remote, immediate }, 1025),
            &[
                "> RC RDMA WRITE First 0 1024",
                "> RC RDMA WRITE Last with Immediate 1 1 A",
                "< RC Acknowledge 1 0",
            ],
        ),
        (
            work(Work::Write { remote, immediate }, 0),
            &[
                "> RC RDMA WRITE Only with Immediate 0 0 A",
                "< RC Acknowledge 0 0",
            ],
        ),
        (
            work(Work::Read { remote }, 2500),
            &[
                "> RC RDMA READ Request 0 0 A",
                "< RC RDMA READ Response First 0 1024",
                "< RC RDMA READ Response Middle 1 1024",
                "< RC RDMA READ Response Last 2 452",
            ],
        ),
        (
            work(Work::Read { remote }, 0),
            &[
                "> RC RDMA READ Request 0 0 A",
                "< RC RDMA READ Response Only 0 0",
            ],
        ),
        (
            work(Work::Atomic { remote, operation }, 8),
            &["> RC FetchAdd 0 0 A", "< RC ATOMIC Acknowledge 0 0"],
        ),
        (
            work(Work::AtomicWrite { remote }, 8),
            &[
                "> RC ATOMIC WRITE 0 8 A",
                "< RC RDMA READ Response Only 0 0",
            ],
        ),
        (
            work(Work::Flush { remote, feth }, 4096),
            &["> RC FLUSH 0 0 A", "< RC RDMA READ Response Only 0 0"],
        ),
    ];
    for (request, sequence) in table {
        assert_eq!(trace(request), sequence);
    }
}

#[test]
fn long_messages_request_intermediate_acknowledgements() {
    let psn = Psn::new(0);
    let mut world = World::new(
        0,
        Manners::default(),
        requester(Reliable::Rc, Mtu::B256, psn),
        responder(Reliable::Rc, Mtu::B256, psn),
        1 << 18,
    );
    world.traced = true;
    world.here.buffers.insert(0, vec![9; 1 << 17]);
    let remote = Remote {
        address: BASE,
        key: KEY,
    };
    let write = Work::Write {
        remote,
        immediate: None,
    };
    world.post(posted(work(write, 1 << 17)));
    while world.step() {}
    assert_eq!(world.here.sent[0].status, Status::Success);
    let asks: Vec<_> = world
        .trace
        .iter()
        .filter(|(to, _)| *to == To::Responder)
        .map(|(_, bytes)| Packet::parse(bytes).unwrap().headers.bth)
        .filter(|bth| bth.ack_request)
        .map(|bth| bth.psn.value() + 1)
        .collect();
    assert_eq!(asks, [64, 128, 192, 256, 320, 384, 448, 512]);
}

/// Messages of 32 packets over whole intervals do not split the intervals.
#[test]
fn window_end_requests_nothing_while_an_answer_is_near() {
    let psn = Psn::new(0);
    let mut ours = requester(Reliable::Rc, Mtu::B256, psn);
    (ours.window, ours.acknowledge_every) = (124, 62);
    let theirs = responder(Reliable::Rc, Mtu::B256, psn);
    let mut world = World::new(0, Manners::default(), ours, theirs, 1 << 18);
    world.traced = true;
    world.here.buffers.insert(0, vec![9; 1 << 18]);
    let remote = Remote {
        address: BASE,
        key: KEY,
    };
    let write = Work::Write {
        remote,
        immediate: None,
    };
    for _ in 0..4 {
        world.post(posted(work(write, 1 << 18)));
    }
    while world.step() {}
    assert_eq!(world.here.sent.len(), 4);
    let asks = world
        .trace
        .iter()
        .filter(|(to, _)| *to == To::Responder)
        .filter(|(_, bytes)| Packet::parse(bytes).unwrap().headers.bth.ack_request)
        .count();
    assert_eq!(asks, 4 * 1024_usize.div_ceil(62));
}
