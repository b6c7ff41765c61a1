//! The outcome of a request that is sent as packets, by the transport's state machines alone.

use super::{Case, Defect, Operation, Outcome, Posted};
use adapter::{Adapter, BASE, KEY, SRQ};
use verbena_transport::completion::Status;
use verbena_transport::fault::{Consequence, Next};
use verbena_transport::reliable::{Reliable, Requester, Responder, requester, responder};
use verbena_transport::request::{self, Addressee, Fence, Remote, SendRequest, SendTail};
use verbena_transport::retry::{RetryCount, RnrRetry};
use verbena_transport::state::{Kind, State};
use verbena_transport::unreliable::{
    self, ConnectedConfiguration, ConnectedResponder, DatagramConfiguration, DatagramResponder,
    ReceiveQueue,
};
use verbena_transport::{Access, AtomicOperation, Disposition, Instant};
use verbena_wire::feth::{Feth, Placement, Selectivity};
use verbena_wire::immediate::Immediate;
use verbena_wire::packet::Packet;
use verbena_wire::{AckTimeout, Mtu, PKey, Psn, QKey, Qpn, RKey, RnrTimer, SrqNumber, grh};

#[allow(dead_code)]
#[path = "../../../../transport/tests/support/adapter.rs"]
mod adapter;

pub const PSN: Psn = Psn::new(100);
const MTU: Mtu = Mtu::B1024;
const MEMORY: usize = 8192;
const RECEIVE: u64 = 1;

/// Returns the outcome, as far as the adapter does not add to it: it passes no packets to a queue
/// pair that does not respond, and flushes its own receives in the error state.
pub fn outcome(kind: Kind, shares_receives: bool, state: State, case: Case) -> Outcome {
    let (mut here, mut there) = (Adapter::requesting(MTU, PSN), Adapter::new(MEMORY));
    here.buffers.insert(0, vec![1; case.operation.length()]);
    prepare(&mut there, kind, case);
    let refused = match kind {
        Kind::Uc => connected(&mut here, &mut there, shares_receives, state, case),
        Kind::Ud => datagram(&mut here, &mut there, state, case),
        _ => reliable(&mut here, &mut there, kind, state, case),
    };
    let fails = refused.is_some_and(|one| one.next == Next::ErrorState);
    let is_flushed = fails && !shares_receives && !there.receives.is_empty();
    let ended = there.received.first().map(|one| one.status);
    assert!(
        there.received.len() <= 1 && here.sent.len() == 1,
        "{case:?}"
    );
    Outcome {
        requester: here.sent[0].status,
        receive: ended.or(is_flushed.then_some(Status::Flushed)),
        state: if fails { State::Error } else { state },
        event: refused.and_then(|one| one.event),
    }
}

fn prepare(there: &mut Adapter, kind: Kind, case: Case) {
    let route = if kind == Kind::Ud { grh::LENGTH } else { 0 };
    let room = match case.posted {
        Posted::Nothing => None,
        Posted::Short => Some(1),
        Posted::Right | Posted::Unwritable | Posted::Unmapped => {
            Some(route + case.operation.length())
        }
    };
    if let Some(room) = room {
        there.post_receive(RECEIVE, room as u32);
    }
    if matches!(case.posted, Posted::Unwritable | Posted::Unmapped) {
        there.protected.insert(RECEIVE);
    }
    if case.defect == Defect::Unmapped {
        there.refused.insert("operation");
    }
    if case.defect == Defect::NoRight {
        let all = [Access::Read, Access::Write, Access::Atomic];
        there.unsupported.extend(all);
    }
}

fn operation(case: Case) -> request::Operation {
    let address = match case.defect {
        Defect::BeyondRegion => BASE + MEMORY as u64,
        Defect::Misaligned => BASE + 4,
        _ => BASE,
    };
    let key = match case.defect {
        Defect::WrongKey => RKey(KEY.0 + 1),
        _ => KEY,
    };
    let remote = Remote { address, key };
    let immediate = Some(Immediate([1, 2, 3, 4]));
    match case.operation {
        Operation::Send => request::Operation::Send(SendTail::Nothing),
        Operation::SendInvalidate => request::Operation::Send(SendTail::Invalidate(RKey(1))),
        Operation::Write => request::Operation::Write {
            remote,
            immediate: None,
        },
        Operation::WriteImmediate | Operation::LongWriteImmediate => {
            request::Operation::Write { remote, immediate }
        }
        Operation::Read => request::Operation::Read { remote },
        Operation::Atomic => request::Operation::Atomic {
            remote,
            operation: AtomicOperation::FetchAdd { add: 1 },
        },
        Operation::AtomicWrite => request::Operation::AtomicWrite { remote },
        Operation::Flush => request::Operation::Flush {
            remote,
            feth: Feth {
                placement: Placement::Visible,
                selectivity: Selectivity::Range,
            },
        },
    }
}

fn posted(case: Case, addressee: Addressee) -> adapter::Posted {
    adapter::Posted {
        id: 0,
        request: SendRequest {
            operation: operation(case),
            length: case.operation.length() as u32,
            addressee,
            solicited: false,
        },
        fence: Fence::Off,
    }
}

pub fn reliable_requester(service: Reliable) -> Requester {
    Requester::new(requester::Configuration {
        service,
        destination: Qpn::new(2),
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn: PSN,
        ack_timeout: AckTimeout::from_code(8).unwrap(),
        retry_count: RetryCount::new(1).unwrap(),
        rnr_retry: RnrRetry::Limited(0),
        window: 128,
        acknowledge_every: 64,
    })
}

pub fn unreliable_requester(kind: Kind) -> unreliable::Requester {
    unreliable::Requester::new(unreliable::Configuration {
        service: match kind {
            Kind::Uc => unreliable::Service::Connected(Qpn::new(2)),
            _ => unreliable::Service::Datagram(Qpn::new(1)),
        },
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn: PSN,
    })
}

/// Returns the first refusal that counts.
fn refusal(disposition: Disposition, before: Option<Consequence>) -> Option<Consequence> {
    match disposition {
        Disposition::Refused(consequence) => before.or(Some(consequence)),
        _ => before,
    }
}

fn reliable(
    here: &mut Adapter,
    there: &mut Adapter,
    kind: Kind,
    state: State,
    case: Case,
) -> Option<Consequence> {
    let (service, addressee) = match kind {
        Kind::Rc => (Reliable::Rc, Addressee::Connected),
        _ => {
            let wrong = SrqNumber::new(SRQ.value() + 1);
            let is_wrong = case.defect == Defect::NoSharedQueue;
            let queue = if is_wrong { wrong } else { SRQ };
            (Reliable::Xrc, Addressee::SharedReceiveQueue(queue))
        }
    };
    let mut requester = reliable_requester(service);
    let mut responder = Responder::new(responder::Configuration {
        service,
        destination: Qpn::new(1),
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn: PSN,
        min_rnr_timer: RnrTimer::from_code(1).unwrap(),
        max_dest_rd_atomic: if case.defect == Defect::NoResources {
            0
        } else {
            4
        },
        early: 128,
    });
    here.post(&requester, posted(case, addressee)).unwrap();
    let mut now = Instant(1);
    let mut refused = None;
    let mut buffer = [0; 4200];
    loop {
        while let Some(length) = requester.poll_transmit(now, here, &mut buffer).unwrap() {
            if state.responds() {
                let packet = Packet::parse(&buffer[..length]).unwrap();
                refused = refusal(responder.handle(&packet, there), refused);
            }
        }
        let mut quiet = true;
        while let Some(length) = responder.poll_transmit(there, &mut buffer).unwrap() {
            quiet = false;
            let packet = Packet::parse(&buffer[..length]).unwrap();
            let _ = requester.handle(&packet, now, here);
        }
        match (quiet, requester.next_timeout()) {
            (false, _) => (),
            (true, Some(at)) => {
                now = at;
                requester.handle_timeout(now, here);
            }
            (true, None) => return refused,
        }
    }
}

fn connected(
    here: &mut Adapter,
    there: &mut Adapter,
    shares_receives: bool,
    state: State,
    case: Case,
) -> Option<Consequence> {
    let mut requester = unreliable_requester(Kind::Uc);
    let mut responder = ConnectedResponder::new(ConnectedConfiguration {
        partition_key: PKey::DEFAULT,
        mtu: MTU,
        initial_psn: PSN,
        receive_queue: match shares_receives {
            true => ReceiveQueue::Shared,
            false => ReceiveQueue::Own,
        },
    });
    here.post_unreliable(&requester, posted(case, Addressee::Connected))
        .unwrap();
    let mut refused = None;
    let mut buffer = [0; 4200];
    while let Some(length) = requester.poll_transmit(here, &mut buffer).unwrap() {
        if state.responds() {
            let packet = Packet::parse(&buffer[..length]).unwrap();
            refused = refusal(responder.handle(&packet, there), refused);
        }
    }
    refused
}

fn datagram(
    here: &mut Adapter,
    there: &mut Adapter,
    state: State,
    case: Case,
) -> Option<Consequence> {
    let mut requester = unreliable_requester(Kind::Ud);
    let mut responder = DatagramResponder::new(DatagramConfiguration {
        partition_key: PKey::DEFAULT,
        queue_key: QKey(7),
        mtu: MTU,
    });
    let queue_key = match case.defect {
        Defect::WrongQueueKey => QKey(8),
        _ => QKey(7),
    };
    let queue_pair = Qpn::new(2);
    let addressee = Addressee::Datagram {
        queue_pair,
        queue_key,
    };
    here.post_unreliable(&requester, posted(case, addressee))
        .unwrap();
    let mut buffer = [0; 4200];
    let length = requester.poll_transmit(here, &mut buffer).unwrap()?;
    if !state.responds() {
        return None;
    }
    let packet = Packet::parse(&buffer[..length]).unwrap();
    refusal(responder.handle(&packet, &[0; grh::LENGTH], there), None)
}
