//! Middle packets that are made and handled together leave the same state as one by one.

mod support;

use support::adapter::{Adapter, BASE, KEY, Posted};
use support::random::Random;
use verbena_transport::completion::Status;
use verbena_transport::reliable::{Reliable, Requester, Responder, requester};
use verbena_transport::request::{Addressee, Fence, Operation, Remote, SendRequest, SendTail};
use verbena_transport::{Access, Disposition, Instant};
use verbena_wire::icrc;
use verbena_wire::middles::Middles;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, Psn};

const MTU: Mtu = Mtu::B256;
const MEMORY: usize = 1 << 16;
const SPACING: usize = 12 + 256 + icrc::LENGTH;

/// A connection whose packets are made and handled one by one, or middle packets together.
struct Connection {
    here: Adapter,
    there: Adapter,
    requester: Requester,
    responder: Responder,
    together: bool,
    handled_together: u32,
}

impl Connection {
    fn new(seed: u64, together: bool) -> Self {
        let psn = Psn::new(0x00ff_fff0);
        let mut random = Random(seed);
        let mut ours = support::requester(Reliable::Rc, MTU, psn);
        ours.window = 2 + random.below(70) as u32;
        ours.acknowledge_every = 1 + random.below(40) as u32;
        let mut connection = Self::of(ours, together);
        for id in 0..12 {
            let length = random.below(12_000) as u32;
            connection.post(id, length, random.below(2) == 0);
        }
        connection
    }

    /// Returns a connection on which nothing is posted.
    fn empty() -> Self {
        Self::of(
            support::requester(Reliable::Rc, MTU, Psn::new(0x00ff_fff0)),
            true,
        )
    }

    fn of(ours: requester::Configuration, together: bool) -> Self {
        let psn = ours.initial_psn;
        Self {
            here: Adapter::requesting(MTU, psn),
            there: Adapter::new(MEMORY),
            requester: Requester::new(ours),
            responder: Responder::new(support::responder(Reliable::Rc, MTU, psn)),
            together,
            handled_together: 0,
        }
    }

    fn post(&mut self, id: u64, length: u32, is_send: bool) {
        let remote = Remote {
            address: BASE + 1000 * id,
            key: KEY,
        };
        let operation = match is_send {
            true => Operation::Send(SendTail::Nothing),
            false => Operation::Write {
                remote,
                immediate: None,
            },
        };
        let bytes = (0..length).map(|at| (u64::from(at) * (2 * id + 3)) as u8);
        self.here.buffers.insert(id, bytes.collect());
        if is_send {
            self.there.post_receive(id, length);
        }
        let request = SendRequest {
            operation,
            length,
            addressee: Addressee::Connected,
            solicited: false,
        };
        let fence = Fence::Off;
        self.here
            .post(&self.requester, Posted { id, request, fence })
            .unwrap();
    }

    /// Returns the packets that can be sent now.
    fn make(&mut self) -> Vec<Vec<u8>> {
        let mut made = Vec::new();
        let mut buffer = vec![0; 9 * SPACING];
        let now = Instant(1);
        while let Ok(Some(length)) = self
            .requester
            .poll_transmit(now, &mut self.here, &mut buffer)
        {
            made.push(buffer[..length].to_vec());
            let count = match self.together {
                true => {
                    self.requester
                        .poll_transmit_middles(now, &mut self.here, &mut buffer, SPACING)
                }
                false => 0,
            };
            let packets = buffer.as_chunks::<SPACING>().0.iter().take(count);
            made.extend(packets.map(|packet| packet[..SPACING - icrc::LENGTH].to_vec()));
        }
        made
    }

    fn handle(&mut self, packets: &[Vec<u8>]) {
        let mut at = 0;
        while let Some(first) = packets.get(at) {
            let equal = packets[at..]
                .iter()
                .take_while(|next| next.len() == first.len());
            let bytes: Vec<u8> = equal
                .flat_map(|packet| [packet.as_slice(), &[0; icrc::LENGTH]].concat())
                .collect();
            let middles = Middles::at_front(&bytes, first.len() + icrc::LENGTH);
            if let Some(middles) = middles
                && self.together
                && self.responder.handle_middles(&middles, &mut self.there)
            {
                at += middles.count() as usize;
                self.handled_together += middles.count();
                continue;
            }
            let packet = Packet::parse(first).unwrap();
            let disposition = self.responder.handle(&packet, &mut self.there);
            assert_eq!(disposition, Disposition::Accepted);
            at += 1;
        }
    }

    fn answer(&mut self) -> bool {
        let mut buffer = [0; 64];
        let made = self
            .responder
            .poll_transmit(&mut self.there, &mut buffer)
            .unwrap();
        if let Some(length) = made {
            let packet = Packet::parse(&buffer[..length]).unwrap();
            let disposition = self.requester.handle(&packet, Instant(1), &mut self.here);
            assert_eq!(disposition, Disposition::Accepted);
        }
        made.is_some()
    }
}

#[test]
fn state_is_the_same_as_after_single_packets() {
    let mut together = 0;
    for seed in 0..100 {
        let mut one = Connection::new(seed, false);
        let mut other = Connection::new(seed, true);
        while one.here.send_queue.len() > 0 {
            let packets = one.make();
            assert!(packets == other.make(), "seed {seed}");
            let requesters = [&one, &other].map(|it| format!("{:?}", it.requester));
            assert_eq!(requesters[0], requesters[1], "seed {seed}");
            one.handle(&packets);
            other.handle(&packets);
            let responders = [&one, &other].map(|it| format!("{:?}", it.responder));
            assert_eq!(responders[0], responders[1], "seed {seed}");
            assert!(one.answer(), "seed {seed}: nothing was acknowledged");
            assert!(other.answer());
        }
        assert!(one.there.memory == other.there.memory, "seed {seed}");
        assert!(one.there.receive_buffers == other.there.receive_buffers);
        assert_eq!(one.there.received, other.there.received);
        assert_eq!(one.here.sent, other.here.sent);
        let is_done = |sent: &support::adapter::SendCompletion| sent.status == Status::Success;
        assert!(other.here.sent.iter().all(is_done));
        together += other.handled_together;
    }
    assert!(together > 5_000, "{together}");
}

/// Returns the packets behind the first in one buffer, with space for their ICRCs.
fn behind_first(packets: &[Vec<u8>]) -> Vec<u8> {
    let sealed = packets[1..]
        .iter()
        .map(|packet| [packet.as_slice(), &[0; icrc::LENGTH]].concat());
    sealed.flatten().collect()
}

#[test]
fn packets_that_cannot_be_handled_together_change_nothing() {
    type Change = fn(&mut Connection);
    let changes: [(&str, bool, Change); 5] = [
        ("no right to write", false, |it| {
            it.there.refused.insert("write");
        }),
        ("memory that is not mapped", false, |it| {
            it.there.refused.insert("operation");
        }),
        ("queue pair without the right", false, |it| {
            it.there.unsupported.insert(Access::Write);
        }),
        ("receive that may not be written", true, |it| {
            it.there.protected.insert(0);
        }),
        ("failed", true, |it| it.responder.flush(&mut it.there)),
    ];
    for (name, is_send, change) in changes {
        let mut connection = Connection::empty();
        connection.post(0, 5_000, is_send);
        let packets = connection.make();
        connection.handle(&packets[..1]);
        let bytes = behind_first(&packets);
        let middles = Middles::at_front(&bytes, SPACING).unwrap();
        change(&mut connection);
        let before = format!("{:?}", connection.responder);
        let accepted = connection
            .responder
            .handle_middles(&middles, &mut connection.there);
        assert!(!accepted, "{name}");
        assert_eq!(format!("{:?}", connection.responder), before, "{name}");
    }
}

#[test]
fn packets_behind_a_gap_or_before_their_message_are_not_handled_together() {
    let mut connection = Connection::empty();
    connection.post(0, 5_000, false);
    let packets = connection.make();
    let bytes = behind_first(&packets);
    let middles = Middles::at_front(&bytes, SPACING).unwrap();
    let later = Middles::at_front(&bytes[SPACING..], SPACING).unwrap();
    let Connection {
        responder, there, ..
    } = &mut connection;
    assert!(
        !responder.handle_middles(&middles, there),
        "no first packet"
    );
    let first = Packet::parse(&packets[0]).unwrap();
    assert_eq!(responder.handle(&first, there), Disposition::Accepted);
    assert!(!responder.handle_middles(&later, there), "a gap");
    assert!(responder.handle_middles(&middles, there));
    assert!(!responder.handle_middles(&middles, there), "duplicates");
}

#[test]
fn packets_wait_while_an_earlier_one_is_missing() {
    let mut connection = Connection::empty();
    connection.post(0, 5_000, false);
    let packets = connection.make();
    connection.handle(&packets[..1]);
    let early = Packet::parse(&packets[4]).unwrap();
    let refused = connection.responder.handle(&early, &mut connection.there);
    assert!(matches!(refused, Disposition::Refused(_)));
    let bytes = behind_first(&packets);
    let middles = Middles::at_front(&bytes, SPACING).unwrap();
    // The responder has asked for the packet, and keeps the early one.
    assert!(
        !connection
            .responder
            .handle_middles(&middles, &mut connection.there)
    );
}
