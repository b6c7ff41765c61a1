//! Every path follows the same rules: for each type of queue pair, each state of the responder and
//! each request, the rules of `verbena_transport` give the outcome; the state machines for packets,
//! and the shared-memory path under test, must have the same.

mod packets;
mod posting;
mod shared_memory;

use crate::path_under_test;
use verbena_transport::completion::Status;
use verbena_transport::fault::{Answer, Event, Fault, Next, ReceiveFate, Responder};
use verbena_transport::state::{Kind, State};

/// A request's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Send,
    /// Invalidates a key that does not exist.
    SendInvalidate,
    Write,
    WriteImmediate,
    /// A write with immediate of several packets.
    LongWriteImmediate,
    Read,
    Atomic,
    AtomicWrite,
    Flush,
}

impl Operation {
    /// Returns the length of the message in bytes.
    const fn length(self) -> usize {
        match self {
            Operation::LongWriteImmediate => 3000,
            Operation::Atomic | Operation::AtomicWrite => 8,
            _ => 64,
        }
    }

    const fn consumes_receive(self) -> bool {
        !matches!(
            self,
            Operation::Write
                | Operation::Read
                | Operation::Atomic
                | Operation::AtomicWrite
                | Operation::Flush
        )
    }
}

/// The receive that is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    Nothing,
    Right,
    /// Shorter than the message.
    Short,
    /// Its memory may not be written.
    Unwritable,
    /// Its memory is no longer mapped.
    Unmapped,
}

/// An error in the request, or in the responder's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    WrongKey,
    BeyondRegion,
    /// The key is valid, but its memory is no longer mapped.
    Unmapped,
    Misaligned,
    /// `qp_access_flags` is empty.
    NoRight,
    /// `max_dest_rd_atomic` is 0.
    NoResources,
    WrongQueueKey,
    /// The shared receive queue of XRC does not exist.
    NoSharedQueue,
}

/// A request, and the fault that the responder must find.
#[derive(Clone, Copy, Debug)]
struct Case {
    operation: Operation,
    posted: Posted,
    defect: Defect,
    fault: Option<Fault>,
    /// Whether the message has taken its receive when the fault is found.
    takes_receive: bool,
}

/// The result at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    requester: Status,
    /// Status of the receive; none if it is still posted.
    receive: Option<Status>,
    /// State of the responder.
    state: State,
    event: Option<Event>,
}

const fn case(operation: Operation, posted: Posted, defect: Defect, fault: Option<Fault>) -> Case {
    Case {
        operation,
        posted,
        defect,
        fault,
        takes_receive: true,
    }
}

const fn without_receive(case: Case) -> Case {
    Case {
        takes_receive: false,
        ..case
    }
}

/// The requests of connected queue pairs. Unreliable ones have those that their service has.
fn cases() -> Vec<Case> {
    use Defect::{BeyondRegion, Misaligned, NoResources, NoRight, None as No, WrongKey};
    use Operation::{Atomic, AtomicWrite, Flush, LongWriteImmediate, Read, Send};
    use Operation::{SendInvalidate, Write, WriteImmediate};
    use Posted::{Nothing, Right, Short, Unwritable};
    let mut cases = vec![
        case(Send, Right, No, None),
        case(Send, Nothing, No, Some(Fault::ReceiverNotReady)),
        case(Send, Short, No, Some(Fault::ReceiveTooSmall)),
        case(Send, Unwritable, No, Some(Fault::ReceiveProtection)),
        case(Send, Posted::Unmapped, No, Some(Fault::ReceiveProtection)),
        case(SendInvalidate, Right, WrongKey, Some(Fault::Invalidate)),
        case(WriteImmediate, Right, No, None),
        case(WriteImmediate, Short, No, None),
        case(WriteImmediate, Nothing, No, Some(Fault::ReceiverNotReady)),
        case(WriteImmediate, Right, WrongKey, Some(Fault::RemoteAccess)),
        // The receive comes before the key, as in the specification's figure of the checks.
        case(
            WriteImmediate,
            Nothing,
            WrongKey,
            Some(Fault::ReceiverNotReady),
        ),
        without_receive(case(
            WriteImmediate,
            Right,
            NoRight,
            Some(Fault::UnsupportedOpcode),
        )),
        case(
            WriteImmediate,
            Right,
            Defect::Unmapped,
            Some(Fault::Operation),
        ),
        case(Write, Nothing, Defect::Unmapped, Some(Fault::Operation)),
        case(LongWriteImmediate, Right, No, None),
        // The first packet is refused, which does not show that the last needs a receive.
        without_receive(case(
            LongWriteImmediate,
            Right,
            WrongKey,
            Some(Fault::RemoteAccess),
        )),
        case(
            LongWriteImmediate,
            Nothing,
            WrongKey,
            Some(Fault::RemoteAccess),
        ),
    ];
    for operation in [Write, Read, Atomic, AtomicWrite, Flush] {
        let with = |defect, fault| case(operation, Nothing, defect, fault);
        cases.push(with(No, None));
        cases.push(with(WrongKey, Some(Fault::RemoteAccess)));
        cases.push(with(BeyondRegion, Some(Fault::RemoteAccess)));
        if operation != Flush {
            cases.push(with(NoRight, Some(Fault::UnsupportedOpcode)));
        }
        if operation != Write {
            cases.push(with(NoResources, Some(Fault::UnsupportedOpcode)));
        }
        if matches!(operation, Atomic | AtomicWrite) {
            cases.push(with(Misaligned, Some(Fault::MisalignedAtomic)));
        }
    }
    cases
}

fn datagram_cases() -> Vec<Case> {
    use Defect::{None as No, WrongQueueKey};
    use Operation::Send;
    use Posted::{Nothing, Right, Short, Unwritable};
    vec![
        case(Send, Right, No, None),
        case(Send, Nothing, No, Some(Fault::ReceiverNotReady)),
        case(Send, Short, No, Some(Fault::ReceiveTooSmall)),
        case(Send, Unwritable, No, Some(Fault::ReceiveProtection)),
        case(Send, Posted::Unmapped, No, Some(Fault::ReceiveProtection)),
        // Not a fault: dropped before anything else.
        without_receive(case(Send, Right, WrongQueueKey, None)),
    ]
}

fn cases_of(kind: Kind) -> Vec<Case> {
    let is_unreliable = |case: &Case| {
        !matches!(
            case.operation,
            Operation::SendInvalidate
                | Operation::Read
                | Operation::Atomic
                | Operation::AtomicWrite
                | Operation::Flush
        )
    };
    // The receive of an XRC write may belong to a third process, which learns of a write only after
    // its key was checked.
    let is_of_one_process = |case: &Case| {
        case.operation != Operation::WriteImmediate
            || !matches!(case.defect, Defect::WrongKey | Defect::Unmapped)
    };
    match kind {
        Kind::Ud => datagram_cases(),
        Kind::Uc => cases().into_iter().filter(is_unreliable).collect(),
        Kind::Rc => cases(),
        _ => {
            let named = [Operation::Send, Operation::Write, Operation::Read];
            let others = [Operation::Atomic, Operation::AtomicWrite, Operation::Flush];
            let nameless = named.into_iter().chain(others).map(|operation| {
                let fault = Some(Fault::NoSharedReceiveQueue);
                case(operation, Posted::Nothing, Defect::NoSharedQueue, fault)
            });
            let all = cases().into_iter().filter(is_of_one_process);
            all.chain(nameless).collect()
        }
    }
}

/// Returns the outcome by the rules.
fn by_the_rules(kind: Kind, shares_receives: bool, state: State, case: Case) -> Outcome {
    let unanswered = Outcome {
        requester: match kind.is_reliable() {
            true => Status::RetryExceeded,
            false => Status::Success,
        },
        receive: None,
        state,
        event: None,
    };
    if !state.responds() || case.defect == Defect::WrongQueueKey {
        return unanswered;
    }
    let Some(fault) = case.fault else {
        let is_consumed = case.operation.consumes_receive();
        return Outcome {
            requester: Status::Success,
            receive: is_consumed.then_some(Status::Success),
            ..unanswered
        };
    };
    let found = fault.consequence(Responder::of(kind, shares_receives));
    let ended = match found.receive {
        ReceiveFate::Completed(status) if case.takes_receive && case.posted != Posted::Nothing => {
            Some(status)
        }
        _ => None,
    };
    let is_flushed = found.next == Next::ErrorState
        && case.posted != Posted::Nothing
        && ended.is_none()
        && !shares_receives;
    Outcome {
        requester: match found.answer {
            Answer::RnrNak => Status::RnrRetryExceeded,
            _ => found.requester_status().unwrap_or(unanswered.requester),
        },
        receive: ended.or(is_flushed.then_some(Status::Flushed)),
        state: match found.next {
            Next::SameState => state,
            Next::ErrorState => State::Error,
        },
        // The receive's completion replaces the event, except for a datagram.
        event: found.event.filter(|_| ended.is_none() || kind == Kind::Ud),
    }
}

/// Calls `check` for each type of queue pair, receive queue, state of the responder, and request.
fn for_each(mut check: impl FnMut(Kind, bool, State, Case)) {
    for kind in [Kind::Rc, Kind::Uc, Kind::Ud, Kind::XrcInitiator] {
        for shares_receives in [false, true] {
            if kind == Kind::XrcInitiator && !shares_receives {
                continue;
            }
            for state in State::ALL {
                if state == State::SendQueueError && kind.is_reliable() {
                    continue;
                }
                for case in cases_of(kind) {
                    check(kind, shares_receives, state, case);
                }
            }
        }
    }
}

fn compare(subject: impl Fn(Kind, bool, State, Case) -> Outcome) {
    let mut wrong = Vec::new();
    for_each(|kind, shares_receives, state, case| {
        let expected = by_the_rules(kind, shares_receives, state, case);
        let found = subject(kind, shares_receives, state, case);
        if found != expected {
            wrong.push(format!(
                "{kind:?}, shared receives: {shares_receives}, {state:?}, {case:?}\n  by the \
                 rules: {expected:?}\n  found:        {found:?}"
            ));
        }
    });
    assert!(
        wrong.is_empty(),
        "{}\n{} differ",
        wrong.join("\n"),
        wrong.len()
    );
}

#[test]
fn packets_are_answered_by_the_rules() {
    compare(packets::outcome);
}

#[test]
#[ignore = "run by path"]
fn case_requests_are_answered_by_the_rules() {
    path_under_test().expect("run by path");
    compare(shared_memory::outcome);
}
