//! Each kind of invalid request: the answer, the receive, the queue pair state (9.9.3), and the
//! status of the requester's work request (9.9.2).

mod support;

use support::adapter::{Adapter, Posted, WINDOW};
use support::packets::{Request, answers};
use support::{requester, responder};
use verbena_transport::completion::Status;
use verbena_transport::fault::{Class, Event, Fault};
use verbena_transport::reliable::{Reliable, Requester, Responder};
use verbena_transport::request::{Addressee, Fence, Operation as Work, SendRequest, SendTail};
use verbena_transport::{Access, Disposition, Dropped, Instant};
use verbena_wire::aeth::Syndrome;
use verbena_wire::opcode::Operation;
use verbena_wire::packet::Packet;
use verbena_wire::{Mtu, Psn, RKey, SrqNumber};

const PSN: Psn = Psn::new(0x00ff_ffff);

/// An invalid request and its expected consequences.
struct Case {
    name: &'static str,
    /// Valid requests, then an invalid one.
    requests: Vec<Request>,
    prepare: fn(&mut Adapter),
    depth: usize,
    fault: Fault,
    class: Class,
    /// The syndrome of the answer, if there is one.
    syndrome: Option<u8>,
    /// The status of the current receive, if there is one.
    receive: Option<Status>,
    event: Option<Event>,
    /// The status of the requester's work request.
    status: Status,
}

fn after(packets: u32) -> Psn {
    PSN.plus(packets)
}

fn request(operation: Operation, payload: usize) -> Request {
    Request::new(operation, PSN, payload)
}

fn second(operation: Operation, payload: usize) -> Request {
    Request::new(operation, after(1), payload)
}

fn invalid(name: &'static str, fault: Fault, requests: Vec<Request>) -> Case {
    Case {
        name,
        requests,
        prepare: |adapter| adapter.post_receive(1, 4096),
        depth: 4,
        fault,
        class: Class::C,
        syndrome: Some(0x61),
        receive: None,
        event: Some(Event::InvalidRequest),
        status: Status::RemoteInvalidRequest,
    }
}

fn access(name: &'static str, request: Request) -> Case {
    Case {
        syndrome: Some(0x62),
        event: Some(Event::AccessViolation),
        status: Status::RemoteAccess,
        ..invalid(name, Fault::RemoteAccess, vec![request])
    }
}

fn table() -> Vec<Case> {
    use Operation::*;
    let wrong_key = RKey(0x43);
    vec![
        invalid(
            "MIDDLE without FIRST",
            Fault::MissingFirst,
            vec![request(SendMiddle, 1024)],
        ),
        invalid(
            "LAST without FIRST",
            Fault::MissingFirst,
            vec![request(WriteLast, 8)],
        ),
        Case {
            receive: Some(Status::RemoteInvalidRequest),
            event: None,
            ..invalid(
                "ONLY within a SEND",
                Fault::MissingLast,
                vec![request(SendFirst, 1024), second(WriteOnly, 8)],
            )
        },
        invalid(
            "SEND within a WRITE",
            Fault::MissingLast,
            vec![
                Request {
                    length: 2000,
                    ..request(WriteFirst, 1024)
                },
                second(SendMiddle, 1024),
            ],
        ),
        invalid(
            "a short FIRST",
            Fault::PacketLength,
            vec![request(SendFirst, 1023)],
        ),
        invalid(
            "a long ONLY",
            Fault::PacketLength,
            vec![request(SendOnly, 1025)],
        ),
        invalid(
            "an empty LAST",
            Fault::PacketLength,
            vec![
                Request {
                    length: 2000,
                    ..request(WriteFirst, 1024)
                },
                second(WriteLast, 0),
            ],
        ),
        invalid(
            "a WRITE shorter than it says",
            Fault::MessageLength,
            vec![Request {
                length: 9,
                ..request(WriteOnly, 8)
            }],
        ),
        invalid(
            "a WRITE longer than it says",
            Fault::MessageLength,
            vec![Request {
                length: 1024,
                ..request(WriteFirst, 1024)
            }],
        ),
        invalid(
            "a READ of more than 2^31 bytes",
            Fault::MessageLength,
            vec![Request {
                length: (1 << 31) + 1,
                ..request(ReadRequest, 0)
            }],
        ),
        Case {
            receive: Some(Status::LocalLength),
            event: None,
            prepare: |adapter| adapter.post_receive(1, 63),
            ..invalid(
                "a receive too small",
                Fault::ReceiveTooSmall,
                vec![request(SendOnly, 64)],
            )
        },
        Case {
            receive: Some(Status::LocalLength),
            event: None,
            prepare: |adapter| adapter.post_receive(1, 1025),
            ..invalid(
                "a receive too small for the last packet",
                Fault::ReceiveTooSmall,
                vec![request(SendFirst, 1024), second(SendLast, 2)],
            )
        },
        Case {
            class: Class::A,
            syndrome: Some(0x63),
            receive: Some(Status::LocalProtection),
            event: None,
            status: Status::RemoteOperation,
            prepare: |adapter| {
                adapter.post_receive(1, 64);
                adapter.protected.insert(1);
            },
            ..invalid(
                "a receive into protected memory",
                Fault::ReceiveProtection,
                vec![request(SendOnly, 64)],
            )
        },
        access(
            "a WRITE by a wrong key",
            Request {
                key: wrong_key,
                ..request(WriteOnly, 8)
            },
        ),
        access(
            "a READ by a wrong key",
            Request {
                key: wrong_key,
                length: 8,
                ..request(ReadRequest, 0)
            },
        ),
        access(
            "an atomic by a wrong key",
            Request {
                key: wrong_key,
                ..request(FetchAdd, 0)
            },
        ),
        access(
            "a READ beyond the region",
            Request {
                length: 1 << 20,
                ..request(ReadRequest, 0)
            },
        ),
        access(
            "a READ at the end of all addresses",
            Request {
                address: u64::MAX - 3,
                length: 8,
                ..request(ReadRequest, 0)
            },
        ),
        Case {
            receive: Some(Status::LocalAccess),
            event: None,
            ..access(
                "a WRITE with immediate by a wrong key",
                Request {
                    key: wrong_key,
                    ..request(WriteOnlyImmediate, 8)
                },
            )
        },
        invalid(
            "a misaligned atomic",
            Fault::MisalignedAtomic,
            vec![Request {
                address: support::adapter::BASE + 4,
                ..request(CompareSwap, 0)
            }],
        ),
        Case {
            depth: 0,
            ..invalid(
                "a READ where none is allowed",
                Fault::UnsupportedOpcode,
                vec![Request {
                    length: 8,
                    ..request(ReadRequest, 0)
                }],
            )
        },
        Case {
            depth: 1,
            ..invalid(
                "more READs than there are resources",
                Fault::TooManyReads,
                vec![
                    Request {
                        length: 8,
                        ..request(ReadRequest, 0)
                    },
                    Request {
                        length: 8,
                        ..second(ReadRequest, 0)
                    },
                ],
            )
        },
        Case {
            class: Class::A,
            syndrome: Some(0x63),
            event: Some(Event::Fatal),
            status: Status::RemoteOperation,
            prepare: |adapter| {
                adapter.refused.insert("operation");
            },
            ..invalid(
                "memory that has no atomics",
                Fault::Operation,
                vec![request(FetchAdd, 0)],
            )
        },
        Case {
            prepare: |adapter| {
                adapter.unsupported.insert(Access::Write);
            },
            ..invalid(
                "a WRITE of nothing to a queue pair that is not set up for it",
                Fault::UnsupportedOpcode,
                vec![request(WriteOnly, 0)],
            )
        },
        Case {
            prepare: |adapter| {
                adapter.unsupported.insert(Access::Read);
            },
            ..invalid(
                "a READ of a queue pair that is not set up for it",
                Fault::UnsupportedOpcode,
                vec![request(ReadRequest, 0)],
            )
        },
        invalid(
            "an unknown shared receive queue",
            Fault::NoSharedReceiveQueue,
            vec![Request {
                service: Reliable::Xrc,
                srq: SrqNumber::new(1),
                ..request(SendOnly, 8)
            }],
        ),
        Case {
            class: Class::J,
            syndrome: None,
            receive: Some(Status::RemoteInvalidRequest),
            event: None,
            // No answer is sent.
            status: Status::RetryExceeded,
            ..invalid(
                "a key that cannot be invalidated",
                Fault::Invalidate,
                vec![Request {
                    invalidate: RKey(1),
                    ..request(SendOnlyInvalidate, 8)
                }],
            )
        },
    ]
}

/// Returns a requester with as many outstanding packets as the case has requests, each a request of
/// its own.
fn asking(case: &Case, service: Reliable) -> (Requester, Adapter) {
    let mut asker = Requester::new(requester(service, Mtu::B1024, PSN));
    let mut adapter = Adapter::requesting(Mtu::B1024, PSN);
    let mut buffer = [0; 4200];
    for id in 0..=case.requests.len() as u64 {
        adapter.buffers.insert(id, vec![0; 8]);
        let request = SendRequest {
            operation: Work::Send(SendTail::Nothing),
            length: 8,
            addressee: match service {
                Reliable::Rc => Addressee::Connected,
                Reliable::Xrc => Addressee::SharedReceiveQueue(support::adapter::SRQ),
            },
            solicited: false,
        };
        let fence = Fence::Off;
        let posted = Posted { id, request, fence };
        adapter.post(&asker, posted).unwrap();
    }
    while asker
        .poll_transmit(Instant(0), &mut adapter, &mut buffer)
        .unwrap()
        .is_some()
    {}
    (asker, adapter)
}

#[test]
fn each_invalid_request_is_answered_by_its_error_class() {
    for case in table() {
        let name = case.name;
        let service = case.requests[0].service;
        let mut theirs = responder(service, Mtu::B1024, PSN);
        theirs.max_dest_rd_atomic = case.depth;
        let mut responder = Responder::new(theirs);
        let mut adapter = Adapter::new(8192);
        (case.prepare)(&mut adapter);

        let (last, right) = case.requests.split_last().unwrap();
        for request in right {
            let bytes = request.bytes();
            let disposition = responder.handle(&Packet::parse(&bytes).unwrap(), &mut adapter);
            assert_eq!(disposition, Disposition::Accepted, "{name}");
        }
        let before = adapter.memory.clone();
        let bytes = last.bytes();
        let disposition = responder.handle(&Packet::parse(&bytes).unwrap(), &mut adapter);
        let Disposition::Refused(consequence) = disposition else {
            panic!("{name}: {disposition:?}");
        };
        assert_eq!(
            (consequence.fault, consequence.class),
            (case.fault, case.class),
            "{name}"
        );
        assert_eq!(consequence.event, case.event, "{name}");
        let told = case.syndrome.map(|_| case.status);
        assert_eq!(consequence.requester_status(), told, "{name}");
        assert!(adapter.memory == before, "{name}: memory was changed");
        let ended: Vec<_> = adapter
            .received
            .iter()
            .map(|completion| completion.status)
            .collect();
        assert_eq!(
            ended,
            case.receive.into_iter().collect::<Vec<_>>(),
            "{name}"
        );
        assert!(responder.has_failed(), "{name}");

        // The answer is the last packet, at the PSN of the invalid request.
        let said = answers(&mut responder, &mut adapter);
        let answer = said.last().map(|bytes| Packet::parse(bytes).unwrap());
        let aeth = answer.and_then(|answer| answer.headers.extensions.aeth);
        assert_eq!(
            aeth.map(|aeth| aeth.syndrome.bits()),
            case.syndrome,
            "{name}"
        );
        if let Some(answer) = answer {
            assert_eq!(answer.headers.bth.psn, last.psn, "{name}");
        }
        // A failed responder stays failed.
        let again = responder.handle(&Packet::parse(&bytes).unwrap(), &mut adapter);
        assert_eq!(again, Disposition::Dropped(Dropped::State), "{name}");
        assert!(answers(&mut responder, &mut adapter).is_empty(), "{name}");

        // The NAK acknowledges the requests before the invalid one; reads are answered by their
        // data.
        if matches!(case.fault, Fault::TooManyReads) {
            continue;
        }
        let (mut asker, mut adapter) = asking(&case, service);
        if let Some(answer) = answer {
            let _ = asker.handle(&answer, Instant(1), &mut adapter);
        } else {
            while let Some(at) = asker.next_timeout() {
                asker.handle_timeout(at, &mut adapter);
            }
        }
        let mut statuses: Vec<_> = adapter
            .sent
            .iter()
            .map(|completion| completion.status)
            .collect();
        assert_eq!(statuses.pop(), Some(Status::Flushed), "{name}");
        let acknowledged = if answer.is_some() { right.len() } else { 0 };
        assert_eq!(statuses[acknowledged], case.status, "{name}");
        assert!(
            statuses[..acknowledged]
                .iter()
                .all(|status| *status == Status::Success),
            "{name}"
        );
        assert!(asker.has_failed(), "{name}");
    }
}

#[test]
fn a_gap_is_nakked_once_until_it_closes() {
    let mut responder = Responder::new(responder(Reliable::Rc, Mtu::B1024, PSN));
    let mut adapter = Adapter::new(64);
    let write = |packets| Request::new(Operation::WriteOnly, after(packets), 8).bytes();
    let mut handle = |packets, adapter: &mut Adapter| {
        let bytes = write(packets);
        let disposition = responder.handle(&Packet::parse(&bytes).unwrap(), adapter);
        (disposition, answers(&mut responder, adapter))
    };
    let (disposition, said) = handle(2, &mut adapter);
    assert!(matches!(disposition, Disposition::Refused(told) if told.class == Class::B));
    let nak = Packet::parse(&said[0]).unwrap().headers;
    assert_eq!(nak.bth.psn, PSN);
    assert_eq!(nak.extensions.aeth.unwrap().syndrome.bits(), 0x60);
    assert_eq!(
        handle(1, &mut adapter),
        (Disposition::Dropped(Dropped::Gap), vec![])
    );
    let (disposition, said) = handle(0, &mut adapter);
    assert_eq!((disposition, said.len()), (Disposition::Accepted, 1));
    // A new gap is NAKed again.
    let (disposition, said) = handle(4, &mut adapter);
    assert!(matches!(disposition, Disposition::Refused(_)));
    assert_eq!(Packet::parse(&said[0]).unwrap().headers.bth.psn, after(1));
}

#[test]
fn an_rnr_nak_carries_the_rnr_timer() {
    for operation in [Operation::SendOnly, Operation::WriteOnlyImmediate] {
        let mut responder = Responder::new(responder(Reliable::Rc, Mtu::B1024, PSN));
        let mut adapter = Adapter::new(64);
        let bytes = request(operation, 8).bytes();
        let packet = Packet::parse(&bytes).unwrap();
        assert!(matches!(
            responder.handle(&packet, &mut adapter),
            Disposition::Refused(told) if told.fault == Fault::ReceiverNotReady
        ));
        let said = answers(&mut responder, &mut adapter);
        let aeth = Packet::parse(&said[0])
            .unwrap()
            .headers
            .extensions
            .aeth
            .unwrap();
        assert!(matches!(aeth.syndrome, Syndrome::RnrNak(timer) if timer.code() == 1));
        assert!(
            adapter.memory.iter().all(|byte| *byte == 0),
            "nothing was written"
        );
        // The packet behind it is dropped silently: it will be retransmitted.
        let next = second(Operation::WriteOnly, 8).bytes();
        let next = Packet::parse(&next).unwrap();
        assert_eq!(
            responder.handle(&next, &mut adapter),
            Disposition::Dropped(Dropped::Gap)
        );
        assert!(answers(&mut responder, &mut adapter).is_empty());
        adapter.post_receive(1, 8);
        assert_eq!(
            responder.handle(&packet, &mut adapter),
            Disposition::Accepted
        );
        assert_eq!(responder.handle(&next, &mut adapter), Disposition::Accepted);
        assert_eq!(adapter.received.len(), 1);
    }
}

#[test]
fn a_key_is_invalidated_once_and_reported() {
    use verbena_transport::completion::Tail;
    let mut responder = Responder::new(responder(Reliable::Rc, Mtu::B1024, PSN));
    let mut adapter = Adapter::new(64);
    adapter.post_receive(1, 8);
    let bytes = request(Operation::SendOnlyInvalidate, 8).bytes();
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(
        responder.handle(&packet, &mut adapter),
        Disposition::Accepted
    );
    assert_eq!(
        responder.handle(&packet, &mut adapter),
        Disposition::Duplicate
    );
    assert_eq!(adapter.received.len(), 1);
    assert_eq!(adapter.received[0].tail, Tail::Invalidated(WINDOW));
}

/// Late packets: a NAK that is unsent when its gap closes is not sent; its acknowledgement of
/// earlier packets is.
#[test]
fn an_obsolete_nak_is_withdrawn() {
    let mut responder = Responder::new(responder(Reliable::Rc, Mtu::B1024, PSN));
    let mut adapter = Adapter::new(64);
    for (packets, ack_request) in [(0, true), (2, true), (1, false)] {
        let request = Request::new(Operation::WriteOnly, after(packets), 8);
        let bytes = Request {
            ack_request,
            ..request
        }
        .bytes();
        let _ = responder.handle(&Packet::parse(&bytes).unwrap(), &mut adapter);
    }
    let said = answers(&mut responder, &mut adapter);
    let answer = Packet::parse(&said[0]).unwrap().headers;
    assert_eq!((said.len(), answer.bth.psn), (1, PSN));
    assert!(matches!(
        answer.extensions.aeth.unwrap().syndrome,
        Syndrome::Ack(_)
    ));
}
