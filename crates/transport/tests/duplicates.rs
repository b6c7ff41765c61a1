//! Duplicate requests: none executes twice, and the requester gets the answer that it missed
//! (specification 9.7.4.1.1, 9.7.5.1.4).

mod support;

use support::adapter::{Adapter, BASE, KEY};
use support::packets::{Request, answers};
use support::responder;
use verbena_transport::reliable::{Reliable, Responder};
use verbena_transport::{Disposition, Dropped};
use verbena_wire::opcode::Operation;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, Psn, RKey};

const PSN: Psn = Psn::new(10);

fn started(depth: usize) -> (Responder, Adapter) {
    let mut theirs = responder(Reliable::Rc, Mtu::B1024, PSN);
    theirs.max_dest_rd_atomic = depth;
    let mut adapter = Adapter::new(8192);
    adapter.memory = (0..8192u32).map(|at| (at % 251) as u8).collect();
    (Responder::new(theirs), adapter)
}

fn handle(responder: &mut Responder, adapter: &mut Adapter, request: &Request) -> Disposition {
    responder.handle(&Packet::parse(&request.bytes()).unwrap(), adapter)
}

/// Returns operation, PSN relative to the first, and payload of each answer.
fn said(responder: &mut Responder, adapter: &mut Adapter) -> Vec<(Operation, u32, Vec<u8>)> {
    answers(responder, adapter)
        .iter()
        .map(|bytes| {
            let packet = Packet::parse(bytes).unwrap();
            let bth = packet.headers.bth;
            (
                bth.opcode.operation(),
                bth.psn.value() - PSN.value(),
                packet.payload.to_vec(),
            )
        })
        .collect()
}

fn read(psn: Psn, skipped: u32, length: u32) -> Request {
    let address = BASE + u64::from(skipped);
    Request {
        address,
        length,
        ..Request::new(Operation::ReadRequest, psn, 0)
    }
}

#[test]
fn a_duplicate_atomic_is_answered_without_execution() {
    let (mut responder, mut adapter) = started(2);
    let request = Request::new(Operation::FetchAdd, PSN, 0);
    let original = u64::from_ne_bytes(adapter.memory[..8].try_into().unwrap());
    assert_eq!(
        handle(&mut responder, &mut adapter, &request),
        Disposition::Accepted
    );
    let first = answers(&mut responder, &mut adapter);
    assert_eq!(
        handle(&mut responder, &mut adapter, &request),
        Disposition::Duplicate
    );
    assert_eq!(answers(&mut responder, &mut adapter), first);
    assert_eq!(adapter.atomics, 1);
    let result = Packet::parse(&first[0])
        .unwrap()
        .headers
        .extensions
        .atomic_ack_eth;
    assert_eq!(result.unwrap().original, original);
}

#[test]
fn a_duplicate_read_is_answered_from_its_start_psn() {
    use Operation::*;
    let (mut responder, mut adapter) = started(2);
    let whole = adapter.memory[..2500].to_vec();
    let _ = handle(&mut responder, &mut adapter, &read(PSN, 0, 2500));
    assert_eq!(responder.expected_psn(), PSN.plus(3));
    let expected = vec![
        (ReadResponseFirst, 0, whole[..1024].to_vec()),
        (ReadResponseMiddle, 1, whole[1024..2048].to_vec()),
        (ReadResponseLast, 2, whole[2048..].to_vec()),
    ];
    assert_eq!(said(&mut responder, &mut adapter), expected);

    let again = read(PSN.plus(1), 1024, 1476);
    assert_eq!(
        handle(&mut responder, &mut adapter, &again),
        Disposition::Duplicate
    );
    let expected = vec![
        (ReadResponseFirst, 1, whole[1024..2048].to_vec()),
        (ReadResponseLast, 2, whole[2048..].to_vec()),
    ];
    assert_eq!(said(&mut responder, &mut adapter), expected);

    let last = read(PSN.plus(2), 2048, 452);
    assert_eq!(
        handle(&mut responder, &mut adapter, &last),
        Disposition::Duplicate
    );
    let expected = vec![(ReadResponseOnly, 2, whole[2048..].to_vec())];
    assert_eq!(said(&mut responder, &mut adapter), expected);
    assert_eq!(responder.expected_psn(), PSN.plus(3));
}

#[test]
fn a_duplicate_read_with_other_arguments_is_dropped() {
    let (mut responder, mut adapter) = started(2);
    let _ = handle(&mut responder, &mut adapter, &read(PSN, 0, 2500));
    let _ = said(&mut responder, &mut adapter);
    let others = [
        read(PSN, 0, 2501),
        read(PSN, 8, 2500),
        read(PSN, 0, 1024),
        read(PSN.plus(1), 0, 2500),
        Request {
            key: RKey(KEY.0 + 1),
            ..read(PSN, 0, 2500)
        },
        Request::new(Operation::FetchAdd, PSN, 0),
    ];
    for other in others {
        let disposition = handle(&mut responder, &mut adapter, &other);
        assert_eq!(
            disposition,
            Disposition::Dropped(Dropped::Forgotten),
            "{other:?}"
        );
        assert_eq!(said(&mut responder, &mut adapter), vec![]);
    }
    // Read access may have been revoked meanwhile.
    adapter.refused.insert("read");
    let disposition = handle(&mut responder, &mut adapter, &read(PSN, 0, 2500));
    assert_eq!(disposition, Disposition::Dropped(Dropped::Forgotten));
}

#[test]
fn replaced_responses_are_forgotten() {
    let (mut responder, mut adapter) = started(2);
    let request = |number| Request::new(Operation::FetchAdd, PSN.plus(number), 0);
    for number in 0..3 {
        assert_eq!(
            handle(&mut responder, &mut adapter, &request(number)),
            Disposition::Accepted
        );
        assert_eq!(said(&mut responder, &mut adapter).len(), 1);
    }
    let oldest = handle(&mut responder, &mut adapter, &request(0));
    assert_eq!(oldest, Disposition::Dropped(Dropped::Forgotten));
    assert_eq!(
        handle(&mut responder, &mut adapter, &request(1)),
        Disposition::Duplicate
    );
    assert_eq!(adapter.atomics, 3);
}

/// A late duplicate is no reason to refuse a new request.
#[test]
fn a_pending_duplicate_yields_to_a_new_request() {
    let (mut responder, mut adapter) = started(1);
    let _ = handle(&mut responder, &mut adapter, &read(PSN, 0, 8));
    assert_eq!(said(&mut responder, &mut adapter).len(), 1);
    assert_eq!(
        handle(&mut responder, &mut adapter, &read(PSN, 0, 8)),
        Disposition::Duplicate
    );
    let next = read(PSN.plus(1), 8, 8);
    assert_eq!(
        handle(&mut responder, &mut adapter, &next),
        Disposition::Accepted
    );
    let said = said(&mut responder, &mut adapter);
    assert_eq!(
        said,
        vec![(
            Operation::ReadResponseOnly,
            1,
            adapter.memory[8..16].to_vec()
        )]
    );
}

/// A requester that retransmits early may receive the first answer meanwhile and report that it has
/// read; then its access right is revoked.
#[test]
fn a_revoked_right_ends_only_the_duplicate_response() {
    let (mut responder, mut adapter) = started(2);
    let _ = handle(&mut responder, &mut adapter, &read(PSN, 0, 3000));
    assert_eq!(said(&mut responder, &mut adapter).len(), 3);
    let again = handle(&mut responder, &mut adapter, &read(PSN, 0, 3000));
    assert_eq!(again, Disposition::Duplicate);
    let mut buffer = [0; 1200];
    let first = responder.poll_transmit(&mut adapter, &mut buffer);
    assert!(first.unwrap().is_some());
    adapter.refused.insert("read");
    assert_eq!(said(&mut responder, &mut adapter), []);
    assert!(!responder.has_failed());
    adapter.refused.clear();
    let _ = handle(&mut responder, &mut adapter, &read(PSN.plus(3), 8, 8));
    let next = (
        Operation::ReadResponseOnly,
        3,
        adapter.memory[8..16].to_vec(),
    );
    assert_eq!(said(&mut responder, &mut adapter), vec![next]);
}

#[test]
fn a_duplicate_message_is_acknowledged_but_not_placed() {
    let (mut responder, mut adapter) = started(2);
    adapter.post_receive(1, 100);
    adapter.post_receive(2, 100);
    let request = Request::new(Operation::SendOnly, PSN, 100);
    let _ = handle(&mut responder, &mut adapter, &request);
    let first = answers(&mut responder, &mut adapter);
    assert_eq!(
        handle(&mut responder, &mut adapter, &request),
        Disposition::Duplicate
    );
    assert_eq!(answers(&mut responder, &mut adapter), first);
    assert_eq!((adapter.received.len(), adapter.receives.len()), (1, 1));

    let request = Request::new(Operation::WriteOnly, PSN.plus(1), 8);
    let _ = handle(&mut responder, &mut adapter, &request);
    adapter.memory[0] = 77;
    assert_eq!(
        handle(&mut responder, &mut adapter, &request),
        Disposition::Duplicate
    );
    assert_eq!(adapter.memory[0], 77);
}

/// The cumulative acknowledgement is sent after the responses under way, regardless of duplicates.
#[test]
fn acknowledgements_coalesce_behind_responses() {
    use Operation::*;
    let (mut responder, mut adapter) = started(4);
    let steps = [
        Request::new(WriteOnly, PSN, 8),
        read(PSN.plus(1), 4096, 8),
        Request::new(WriteOnly, PSN.plus(2), 8),
        Request::new(WriteOnly, PSN.plus(3), 8),
        // Duplicates.
        read(PSN.plus(1), 4096, 8),
        Request::new(WriteOnly, PSN, 8),
    ];
    for step in &steps {
        let _ = handle(&mut responder, &mut adapter, step);
    }
    let order: Vec<_> = said(&mut responder, &mut adapter)
        .into_iter()
        .map(|(operation, psn, _)| (operation, psn))
        .collect();
    assert_eq!(order, vec![(ReadResponseOnly, 1), (Acknowledge, 3)]);
}
