//! The requester's rules: which states accept requests, and requests that fail without being sent.

use super::packets::{PSN, reliable_requester, unreliable_requester};
use super::shared_memory::{Settings, address, close, enter, side, state_of, status_of};
use crate::path_under_test;
use crate::rig::{QKEY, Side, request};
use verbena_abi::*;
use verbena_hca::qp::SendRequest;
use verbena_transport::completion::Status;
use verbena_transport::reliable::Reliable;
use verbena_transport::request::{self, Addressee, Operation, Remote, SendTail, Sequence, offers};
use verbena_transport::state::{Kind, Receives, Sends, State};
use verbena_transport::{
    AtomicOperation, Instant, LocalError, ReliableRequesterAccess, RequesterAccess,
};
use verbena_wire::feth::{Feth, Placement, Selectivity};
use verbena_wire::opcode;
use verbena_wire::{QKey, Qpn, RKey};

const KINDS: [Kind; 3] = [Kind::Rc, Kind::Uc, Kind::Ud];

/// The modes of the state machine stand for the states, which the adapter sets.
fn packets_send(kind: Kind, state: State) -> Sends {
    let request = send_request(Operation::Send(SendTail::Nothing), 8, kind);
    let mut buffers = Buffers::of(request);
    let mut room = [0; 4200];
    let made = if kind.is_reliable() {
        let mut requester = reliable_requester(Reliable::Rc);
        match state.sends() {
            Sends::Refused | Sends::Start | Sends::Wait => (),
            Sends::Flushed => requester.flush(&mut Buffers::default()),
        }
        requester.check(&request).unwrap();
        let made = requester.poll_transmit(Instant(1), &mut buffers, &mut room);
        made.unwrap().is_some()
    } else {
        let mut requester = unreliable_requester(kind);
        match state.sends() {
            Sends::Refused | Sends::Start | Sends::Wait => (),
            Sends::Flushed => requester.flush(&mut Buffers::default()),
        }
        requester.check(&request).unwrap();
        let made = requester.poll_transmit(&mut buffers, &mut room);
        made.unwrap().is_some()
    };
    match (made, buffers.ended) {
        (true, _) => Sends::Start,
        (false, Some(Status::Flushed)) => Sends::Flushed,
        (false, other) => panic!("{other:?}"),
    }
}

#[test]
fn requesters_of_packets_follow_the_state() {
    for kind in KINDS {
        for state in State::ALL {
            // In the other states the adapter passes no requests to a requester.
            if matches!(state.sends(), Sends::Start | Sends::Flushed) {
                assert_eq!(
                    packets_send(kind, state),
                    state.sends(),
                    "{kind:?} {state:?}"
                );
            }
        }
    }
}

#[test]
#[ignore = "run by path"]
fn case_posting_follows_the_state() {
    path_under_test().expect("run by path");
    for kind in KINDS {
        for state in State::ALL {
            if state == State::SendQueueError && kind.is_reliable() {
                continue;
            }
            let (a, b) = (side(kind, false), side(kind, false));
            enter(&b, &a, State::ReadyToReceive, Settings::DEFAULT);
            enter(&a, &b, state, Settings::DEFAULT);
            if kind == Kind::Rc {
                b.qp.post_receive(1, &[b.sge(0, 64)]).unwrap();
            }
            let address = address(&a);
            let sges = [a.sge(0, 8)];
            let send = SendRequest {
                address: Some(&address),
                remote_qpn: b.qp.number(),
                remote_qkey: QKEY,
                ..request(IBV_WR_SEND, &sges)
            };
            let posted = a.qp.poster().post(&send);
            let sends = match posted {
                Err(_) => Sends::Refused,
                Ok(()) if state == State::SendQueueDrain => {
                    assert!(
                        (0..100).all(|_| a.cq.take().is_none()),
                        "{kind:?} {state:?}"
                    );
                    Sends::Wait
                }
                Ok(()) => match status_of(a.wait().status) {
                    Status::Success => Sends::Start,
                    Status::Flushed => Sends::Flushed,
                    other => panic!("{kind:?} {state:?}: {other:?}"),
                },
            };
            assert_eq!(sends, state.sends(), "{kind:?} {state:?}");
            let receives = match a.qp.post_receive(2, &[a.sge(0, 8)]) {
                Err(_) => Receives::Refused,
                Ok(()) if a.qp.receives_waiting() == 1 => Receives::Kept,
                Ok(()) => {
                    assert_eq!(a.wait().status, IBV_WC_WR_FLUSH_ERR);
                    Receives::Flushed
                }
            };
            assert_eq!(receives, state.receives(), "{kind:?} {state:?}");
            close(a);
            close(b);
        }
    }
}

/// A request that its own queue pair cannot execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    /// One byte more than the service allows.
    TooLong,
    /// Fewer than eight bytes.
    ShortWord,
    WrongLocalKey,
    /// `max_rd_atomic` is 0.
    NoReads,
    /// The service has no packet for it.
    NotOffered,
}

/// Returns the status by the rules.
fn by_the_rules(kind: Kind, defect: Defect, length: u64, most: u32) -> Status {
    match defect {
        Defect::TooLong => request::check_message(length, most).unwrap_err(),
        Defect::ShortWord => request::check_word(length).unwrap_err(),
        Defect::WrongLocalKey => Status::LocalProtection,
        Defect::NoReads | Defect::NotOffered => {
            assert!(defect == Defect::NoReads || kind == Kind::Uc);
            Status::LocalQpOperation
        }
    }
}

/// The operations with each defect, and the length of the message.
fn defects(kind: Kind, most: u32) -> Vec<(ibv_wr_opcode, Defect, u32)> {
    let mut defects = vec![
        (IBV_WR_SEND, Defect::WrongLocalKey, 8),
        (IBV_WR_SEND, Defect::TooLong, most + 1),
    ];
    if offers(kind, opcode::Kind::Write) {
        defects.push((IBV_WR_RDMA_WRITE, Defect::WrongLocalKey, 8));
        defects.push((IBV_WR_RDMA_WRITE, Defect::TooLong, most + 1));
    }
    if kind == Kind::Uc {
        defects.push((IBV_WR_SEND_WITH_INV, Defect::NotOffered, 8));
    }
    if kind == Kind::Rc {
        for code in [
            IBV_WR_RDMA_READ,
            IBV_WR_ATOMIC_FETCH_AND_ADD,
            IBV_WR_ATOMIC_WRITE,
        ] {
            defects.push((code, Defect::NoReads, 8));
            defects.push((code, Defect::WrongLocalKey, 8));
        }
        defects.push((IBV_WR_FLUSH, Defect::NoReads, 8));
        defects.push((IBV_WR_RDMA_READ, Defect::TooLong, most + 1));
        defects.push((IBV_WR_ATOMIC_FETCH_AND_ADD, Defect::ShortWord, 7));
        defects.push((IBV_WR_ATOMIC_WRITE, Defect::ShortWord, 7));
    }
    defects
}

#[test]
fn requesters_of_packets_fail_by_the_rules() {
    for kind in KINDS {
        let most = if kind == Kind::Ud { 1024 } else { 1 << 31 };
        for (code, defect, length) in defects(kind, most) {
            // The adapter checks the limit of reads, and their buffers, before it starts a request.
            let is_read = matches!(code, IBV_WR_RDMA_READ | IBV_WR_ATOMIC_FETCH_AND_ADD);
            if defect == Defect::NoReads || is_read && defect == Defect::WrongLocalKey {
                continue;
            }
            let expected = by_the_rules(kind, defect, length.into(), most);
            let found = packets_fail(kind, code, defect, length);
            assert_eq!(found, expected, "{kind:?} {code} {defect:?}");
        }
    }
}

fn packets_fail(kind: Kind, code: ibv_wr_opcode, defect: Defect, length: u32) -> Status {
    use verbena_transport::reliable::requester::PostError as ReliableError;
    use verbena_transport::unreliable::PostError as UnreliableError;
    let request = send_request(operation(code), length, kind);
    let mut buffers = Buffers {
        refuses: defect == Defect::WrongLocalKey,
        ..Buffers::of(request)
    };
    let mut room = [0; 4200];
    let has_failed = if kind.is_reliable() {
        let mut requester = reliable_requester(Reliable::Rc);
        match requester.check(&request) {
            Ok(()) => (),
            Err(ReliableError::Length(_)) => return Status::LocalLength,
            Err(other) => panic!("{other}"),
        }
        let made = requester.poll_transmit(Instant(1), &mut buffers, &mut room);
        assert_eq!(made, Ok(None));
        requester.has_failed()
    } else {
        let mut requester = unreliable_requester(kind);
        match requester.check(&request) {
            Ok(()) => (),
            Err(UnreliableError::Length { .. }) => return Status::LocalLength,
            Err(UnreliableError::Operation) => return Status::LocalQpOperation,
            Err(other) => panic!("{other}"),
        }
        let made = requester.poll_transmit(&mut buffers, &mut room);
        assert_eq!(made, Ok(None));
        requester.has_failed()
    };
    assert!(has_failed);
    buffers.ended.unwrap()
}

#[test]
#[ignore = "run by path"]
fn case_requests_fail_at_the_requester_by_the_rules() {
    path_under_test().expect("run by path");
    for kind in KINDS {
        let most = if kind == Kind::Ud { 4096 } else { 1 << 31 };
        for (code, defect, length) in defects(kind, most) {
            let expected = by_the_rules(kind, defect, length.into(), most);
            let (a, b) = (side(kind, false), side(kind, false));
            let settings = Settings {
                max_rd_atomic: if defect == Defect::NoReads { 0 } else { 4 },
                ..Settings::DEFAULT
            };
            enter(&b, &a, State::ReadyToSend, Settings::DEFAULT);
            enter(&a, &b, State::ReadyToSend, settings);
            post(&a, &b, code, defect, length);
            let name = format!("{kind:?} {code} {defect:?}");
            assert_eq!(status_of(a.wait().status), expected, "{name}");
            assert_eq!(state_of(&a), kind.after_failed_send(), "{name}");
            // Behind a failed request all others are flushed.
            post(&a, &b, IBV_WR_SEND, Defect::WrongLocalKey, 8);
            assert_eq!(status_of(a.wait().status), Status::Flushed, "{name}");
            assert_eq!(state_of(&b), State::ReadyToSend, "{name}");
            close(a);
            close(b);
        }
    }
}

fn post(a: &Side, b: &Side, code: ibv_wr_opcode, defect: Defect, length: u32) {
    let address = address(a);
    let sge = ibv_sge {
        length,
        lkey: match defect {
            Defect::WrongLocalKey => 0xdead_0000,
            _ => a.region.key(),
        },
        ..a.sge(0, 8)
    };
    a.post(&SendRequest {
        remote_address: b.address(0),
        rkey: b.region.key(),
        address: Some(&address),
        remote_qpn: b.qp.number(),
        remote_qkey: QKEY,
        ..request(code, &[sge])
    });
}

fn operation(code: ibv_wr_opcode) -> Operation {
    let remote = Remote {
        address: 0,
        key: RKey(1),
    };
    match code {
        IBV_WR_SEND => Operation::Send(SendTail::Nothing),
        IBV_WR_SEND_WITH_INV => Operation::Send(SendTail::Invalidate(RKey(1))),
        IBV_WR_RDMA_WRITE => Operation::Write {
            remote,
            immediate: None,
        },
        IBV_WR_RDMA_READ => Operation::Read { remote },
        IBV_WR_ATOMIC_WRITE => Operation::AtomicWrite { remote },
        IBV_WR_FLUSH => Operation::Flush {
            remote,
            feth: Feth {
                placement: Placement::Visible,
                selectivity: Selectivity::Range,
            },
        },
        _ => Operation::Atomic {
            remote,
            operation: AtomicOperation::FetchAdd { add: 1 },
        },
    }
}

fn send_request(operation: Operation, length: u32, kind: Kind) -> request::SendRequest {
    request::SendRequest {
        operation,
        length,
        addressee: match kind {
            Kind::Ud => Addressee::Datagram {
                queue_pair: Qpn::new(2),
                queue_key: QKey(7),
            },
            _ => Addressee::Connected,
        },
        solicited: false,
    }
}

/// A request, its buffers and its completion.
#[derive(Default)]
struct Buffers {
    request: Option<request::SendRequest>,
    /// Whether the buffers may not be accessed.
    refuses: bool,
    ended: Option<Status>,
}

impl Buffers {
    fn of(request: request::SendRequest) -> Buffers {
        Buffers {
            request: Some(request),
            ..Buffers::default()
        }
    }
}

impl RequesterAccess for Buffers {
    fn request(&self, at: usize) -> Option<request::SendRequest> {
        self.request.filter(|_| at == 0)
    }

    fn gather(&mut self, _: usize, _: u32, _: &mut [u8]) -> Result<(), LocalError> {
        match self.refuses {
            true => Err(LocalError),
            false => Ok(()),
        }
    }

    fn complete(&mut self, status: Status) {
        self.request = None;
        self.ended = Some(status);
    }
}

impl ReliableRequesterAccess for Buffers {
    fn sequence(&self, at: usize) -> Option<Sequence> {
        let request = self.request(at)?;
        Some(Sequence {
            first: PSN,
            packets: 1,
            answer: request.operation.answer(),
        })
    }

    fn scatter(&mut self, _: usize, _: u32, _: &[u8]) -> Result<(), LocalError> {
        Ok(())
    }
}
