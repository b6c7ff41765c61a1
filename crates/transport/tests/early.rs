//! Early requests (specification 9.7.5.1.3): the responder keeps them, answers like a responder
//! that drops them, and executes them when the missing packet has arrived.

mod support;

use support::adapter::{Adapter, BASE};
use support::packets::{Request, answers};
use support::responder;
use verbena_transport::reliable::{Reliable, Responder};
use verbena_transport::{Disposition, Dropped};
use verbena_wire::aeth::Syndrome;
use verbena_wire::opcode::Operation;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, Psn};

const PSN: Psn = Psn::new(0x00ff_fffe);

struct There {
    responder: Responder,
    adapter: Adapter,
}

impl There {
    fn new(early: u32) -> Self {
        let mut theirs = responder(Reliable::Rc, Mtu::B1024, PSN);
        theirs.early = early;
        Self {
            responder: Responder::new(theirs),
            adapter: Adapter::new(8192),
        }
    }

    /// Handles a write of one byte, the packet's number, to the address of that number.
    fn write(&mut self, number: u32) -> Disposition {
        self.hears(&Request {
            address: BASE + u64::from(number),
            length: 1,
            payload: vec![number as u8],
            ..Request::new(Operation::WriteOnly, PSN.plus(number), 1)
        })
    }

    fn hears(&mut self, request: &Request) -> Disposition {
        let bytes = request.bytes();
        let packet = Packet::parse(&bytes).unwrap();
        let disposition = self.responder.handle(&packet, &mut self.adapter);
        while let Some(early) = self.responder.next_early(&mut self.adapter) {
            let next = self.responder.handle(&early.packet(), &mut self.adapter);
            assert_eq!(next, Disposition::Accepted);
        }
        disposition
    }

    /// Returns PSN and syndrome of each answer.
    fn says(&mut self) -> Vec<(i32, u8)> {
        answers(&mut self.responder, &mut self.adapter)
            .iter()
            .map(|bytes| {
                let headers = Packet::parse(bytes).unwrap().headers;
                let word = match headers.extensions.aeth.unwrap().syndrome {
                    Syndrome::Ack(_) => ACK,
                    Syndrome::Nak(_) => NAK,
                    Syndrome::RnrNak(_) => NOT_READY,
                };
                (headers.bth.psn.since(PSN), word)
            })
            .collect()
    }

    fn written(&self) -> Vec<u8> {
        let memory = &self.adapter.memory;
        memory.iter().copied().filter(|byte| *byte != 0).collect()
    }
}

const ACK: u8 = 0;
const NAK: u8 = 1;
const NOT_READY: u8 = 2;

#[test]
fn early_packets_are_executed_in_order() {
    let mut there = There::new(128);
    let _ = there.write(0);
    assert_eq!(there.says(), [(0, ACK)]);
    assert!(matches!(there.write(2), Disposition::Refused(_)));
    assert_eq!(there.says(), [(1, NAK)]);
    for number in [4, 3, 3, 5] {
        assert_eq!(there.write(number), Disposition::Dropped(Dropped::Gap));
    }
    assert!(there.written().is_empty(), "not before its turn");
    assert!(there.says().is_empty(), "told once");
    assert_eq!(there.write(1), Disposition::Accepted);
    assert_eq!(there.written(), [1, 2, 3, 4, 5]);
    assert_eq!(there.says(), [(5, ACK)]);
    assert_eq!(there.write(4), Disposition::Duplicate);
    assert_eq!(there.says(), [(5, ACK)]);
}

#[test]
fn filling_a_gap_naks_the_next_one() {
    let mut there = There::new(128);
    for number in [1, 3, 4, 6] {
        let _ = there.write(number);
    }
    for (filled, said) in [(0, (2, NAK)), (2, (5, NAK)), (5, (6, ACK))] {
        let _ = there.says();
        assert_eq!(there.write(filled), Disposition::Accepted);
        assert_eq!(there.says(), [said]);
    }
    assert_eq!(there.written(), [1, 2, 3, 4, 5, 6]);
}

/// A second copy that arrives before the first is executed is not executed again.
#[test]
fn an_early_packet_executed_by_its_copy_is_forgotten() {
    let mut there = There::new(128);
    let add = |number: u32| Request {
        address: BASE,
        ..Request::new(Operation::FetchAdd, PSN.plus(number), 0)
    };
    let _ = there.hears(&add(1));
    let _ = there.hears(&add(1));
    let _ = there.hears(&add(0));
    let _ = there.hears(&add(1));
    assert_eq!(there.adapter.atomics, 2);
    assert_eq!(there.responder.expected_psn(), PSN.plus(2));
}

/// A response uses as many PSNs as it has packets; the early packet behind it keeps its PSN.
#[test]
fn a_missing_read_is_answered_before_later_requests() {
    let mut there = There::new(128);
    let _ = there.write(3);
    let _ = there.says();
    let read = Request {
        address: BASE + 100,
        length: 2500,
        ..Request::new(Operation::ReadRequest, PSN, 0)
    };
    assert_eq!(there.hears(&read), Disposition::Accepted);
    assert_eq!(there.written(), [3]);
    let said = answers(&mut there.responder, &mut there.adapter);
    let numbers: Vec<i32> = said
        .iter()
        .map(|bytes| Packet::parse(bytes).unwrap().headers.bth.psn.since(PSN))
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
}

#[test]
fn an_early_send_without_a_receive_gets_an_rnr_nak() {
    let mut there = There::new(128);
    let send = |number: u32| Request::new(Operation::SendOnly, PSN.plus(number), 8);
    let _ = there.write(2);
    let bytes = send(1).bytes();
    let _ = there
        .responder
        .handle(&Packet::parse(&bytes).unwrap(), &mut there.adapter);
    let _ = there.says();
    let bytes = there_write(0);
    let _ = there
        .responder
        .handle(&Packet::parse(&bytes).unwrap(), &mut there.adapter);
    let early = there.responder.next_early(&mut there.adapter).unwrap();
    let refused = there.responder.handle(&early.packet(), &mut there.adapter);
    assert!(matches!(refused, Disposition::Refused(_)));
    assert!(there.responder.next_early(&mut there.adapter).is_none());
    assert_eq!(there.says(), [(1, NOT_READY)]);
    there.adapter.post_receive(0, 8);
    assert_eq!(there.hears(&send(1)), Disposition::Accepted);
    assert_eq!(there.says(), [(2, ACK)]);
    assert_eq!(there.written(), [2]);
}

fn there_write(number: u32) -> Vec<u8> {
    Request {
        address: BASE + u64::from(number),
        length: 1,
        payload: vec![number as u8],
        ..Request::new(Operation::WriteOnly, PSN.plus(number), 1)
    }
    .bytes()
}

#[test]
fn packets_beyond_the_early_limit_are_not_kept() {
    for early in [0, 1, 5] {
        let mut there = There::new(early);
        for number in 1..100 {
            let _ = there.write(number);
        }
        let _ = there.write(0);
        assert_eq!(there.written().len() as u32, early);
        assert_eq!(there.responder.expected_psn(), PSN.plus(1 + early));
    }
}

/// A peer that sends gaps to many queue pairs gets no more memory than the process-wide limit.
#[test]
fn responders_share_a_limit_of_early_packets() {
    let request = |number: u32| Request {
        address: BASE,
        length: 1024,
        payload: vec![7; 1024],
        ..Request::new(Operation::WriteOnly, PSN.plus(number), 1024)
    };
    let mut all: Vec<There> = (0..400).map(|_| There::new(128)).collect();
    for there in &mut all {
        for number in 1..=128 {
            let _ = there.hears(&request(number));
        }
    }
    let mut kept = 0;
    for there in &mut all {
        let _ = there.hears(&request(0));
        kept += there.responder.expected_psn().since(PSN) - 1;
    }
    // 32 MiB, including the overhead of each request; other tests of this process use a little
    // meanwhile.
    assert!((20_000..32_768).contains(&kept), "{kept}");
}
