//! The outcome of a request on the shared-memory path under test.

use super::{Case, Defect, Operation, Outcome, Posted};
use crate::rig::{ALL, QKEY, Side, request};
use verbena_abi::*;
use verbena_hca::ah::AddressHandle;
use verbena_hca::qp::SendRequest;
use verbena_hca_memory::region::Region;
use verbena_transport::completion::Status;
use verbena_transport::fault::Event;
use verbena_transport::state::{Kind, State};

const MEMORY: usize = 8192;
/// 1 ms: the peer is in this process, so only a missing answer takes longer.
const TIMEOUT: u8 = 8;
const RIGHTS: u32 = ALL | IBV_ACCESS_FLUSH_GLOBAL;

const fn type_of(kind: Kind) -> ibv_qp_type {
    match kind {
        Kind::Uc => IBV_QPT_UC,
        Kind::Ud => IBV_QPT_UD,
        Kind::Rc => IBV_QPT_RC,
        Kind::XrcInitiator => IBV_QPT_XRC_SEND,
        Kind::XrcTarget => IBV_QPT_XRC_RECV,
    }
}

pub fn status_of(status: ibv_wc_status) -> Status {
    match status {
        IBV_WC_SUCCESS => Status::Success,
        IBV_WC_LOC_LEN_ERR => Status::LocalLength,
        IBV_WC_LOC_QP_OP_ERR => Status::LocalQpOperation,
        IBV_WC_LOC_PROT_ERR => Status::LocalProtection,
        IBV_WC_WR_FLUSH_ERR => Status::Flushed,
        IBV_WC_REM_INV_REQ_ERR => Status::RemoteInvalidRequest,
        IBV_WC_LOC_ACCESS_ERR => Status::LocalAccess,
        IBV_WC_REM_ACCESS_ERR => Status::RemoteAccess,
        IBV_WC_REM_OP_ERR => Status::RemoteOperation,
        IBV_WC_RETRY_EXC_ERR => Status::RetryExceeded,
        IBV_WC_RNR_RETRY_EXC_ERR => Status::RnrRetryExceeded,
        other => panic!("status {other}"),
    }
}

pub fn state_of(side: &Side) -> State {
    State::from_code(side.qp.state()).unwrap()
}

pub fn side(kind: Kind, shares_receives: bool) -> Side {
    let side = Side::with(type_of(kind), RIGHTS, MEMORY, shares_receives);
    side.qp.set_cookie(1);
    // SAFETY: the descriptor belongs to the side's context; no pointers are passed.
    let set = unsafe { libc::fcntl(side.context.events.fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    assert_eq!(set, 0);
    side
}

/// Returns the next event of the responder, besides those that report no fault.
fn event(side: &Side) -> Option<Event> {
    loop {
        match side.context.events.next().ok()?.kind {
            IBV_EVENT_QP_REQ_ERR => return Some(Event::InvalidRequest),
            IBV_EVENT_QP_ACCESS_ERR => return Some(Event::AccessViolation),
            IBV_EVENT_QP_FATAL => return Some(Event::Fatal),
            IBV_EVENT_COMM_EST | IBV_EVENT_QP_LAST_WQE_REACHED => (),
            other => panic!("event {other}"),
        }
    }
}

pub fn address(side: &Side) -> std::sync::Arc<AddressHandle> {
    let vector = ibv_ah_attr {
        dlid: 1,
        port_num: 1,
        ..Default::default()
    };
    AddressHandle::create(
        &side.context.process,
        side.context.device,
        &side.pd,
        &vector,
    )
    .unwrap()
}

fn post_receive(side: &Side, sge: ibv_sge) {
    match &side.srq {
        Some(srq) => srq.post(1, &[sge]).unwrap(),
        None => side.qp.post_receive(1, &[sge]).unwrap(),
    }
}

/// Moves a new queue pair, with its receive, to a state.
pub fn enter(side: &Side, peer: &Side, state: State, settings: Settings) {
    let modify = |state| {
        let attributes = ibv_qp_attr {
            qp_state: state,
            ..Default::default()
        };
        side.qp.modify(&attributes, IBV_QP_STATE).unwrap();
    };
    if state == State::Reset {
        return;
    }
    side.init_with(settings.access);
    if let Some(sge) = settings.receive {
        post_receive(side, sge);
    }
    if state == State::Initialized {
        return;
    }
    side.ready_to_receive(peer.qp.number(), settings.max_dest_rd_atomic);
    if state == State::ReadyToReceive {
        return;
    }
    side.ready_to_send(TIMEOUT, 0, settings.max_rd_atomic);
    match state {
        State::SendQueueDrain => modify(IBV_QPS_SQD),
        State::SendQueueError => {
            let address = address(side);
            let wrong = ibv_sge {
                lkey: 0xdead_0000,
                ..side.sge(0, 8)
            };
            side.post(&SendRequest {
                address: Some(&address),
                remote_qpn: peer.qp.number(),
                ..request(IBV_WR_SEND, &[wrong])
            });
            assert_eq!(side.wait().status, IBV_WC_LOC_PROT_ERR);
        }
        State::Error => modify(IBV_QPS_ERR),
        _ => (),
    }
    assert_eq!(state_of(side), state);
}

#[derive(Clone, Copy)]
pub struct Settings {
    pub access: u32,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub receive: Option<ibv_sge>,
}

impl Settings {
    pub const DEFAULT: Settings = Settings {
        access: ALL,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        receive: None,
    };
}

/// Destroys a side, so that many pairs in succession do not exhaust the adapter.
pub fn close(side: Side) {
    side.qp.destroy().unwrap();
    if let Some(srq) = &side.srq {
        srq.destroy().unwrap();
    }
    side.region.deregister().unwrap();
}

/// Returns the completions that come while nothing else is to do. The progress thread may hold the
/// work that they come from.
fn drain(side: &Side) -> Vec<ibv_wc> {
    while side.context.process.progress_before_sleep() {}
    (0..50)
        .filter_map(|_| side.cq.take().map(|completion| completion.wc))
        .collect()
}

pub fn outcome(kind: Kind, shares_receives: bool, state: State, case: Case) -> Outcome {
    let target = match kind {
        Kind::XrcInitiator => Kind::XrcTarget,
        same => same,
    };
    let (a, b) = (side(kind, false), side(target, shares_receives));
    let read_only = Region::register(&b.pd, b.address(0), MEMORY as u64, b.address(0), 0).unwrap();
    let unmapped = Unmapped::of(&b);
    let route = if kind == Kind::Ud { 40 } else { 0 };
    let room = route + case.operation.length();
    let receive = match case.posted {
        Posted::Nothing => None,
        Posted::Short => Some(b.sge(0, 1)),
        Posted::Right => Some(b.sge(0, room)),
        Posted::Unwritable => Some(ibv_sge {
            lkey: read_only.key(),
            ..b.sge(0, room)
        }),
        Posted::Unmapped => Some(ibv_sge {
            addr: unmapped.address,
            length: room as u32,
            lkey: unmapped.region.key(),
        }),
    };
    let settings = Settings {
        access: if case.defect == Defect::NoRight {
            0
        } else {
            ALL
        },
        max_dest_rd_atomic: if case.defect == Defect::NoResources {
            0
        } else {
            4
        },
        receive,
        ..Settings::DEFAULT
    };
    enter(&b, &a, state, settings);
    enter(&a, &b, State::ReadyToSend, Settings::DEFAULT);
    drain(&b);
    while event(&b).is_some() {}

    let posted = post(&a, &b, &unmapped, case);
    let requester = status_of(a.wait().status);
    assert!(posted && a.cq.take().is_none(), "{case:?}");
    let received = drain(&b);
    assert!(received.len() <= 1, "{case:?}");
    let outcome = Outcome {
        requester,
        receive: received.first().map(|wc| status_of(wc.status)),
        state: state_of(&b),
        event: event(&b),
    };
    read_only.deregister().unwrap();
    unmapped.close();
    close(a);
    close(b);
    outcome
}

/// A region whose memory is no longer mapped. Shared memory stays where the program has it, so the
/// adapter has no other mapping of it.
struct Unmapped {
    address: u64,
    region: Region,
}

impl Unmapped {
    fn of(side: &Side) -> Unmapped {
        let address = map(std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE, 0);
        let at = address as u64;
        let region = Region::register(&side.pd, at, MEMORY as u64, at, RIGHTS).unwrap();
        // The range stays reserved, so nothing else is mapped there meanwhile.
        map(address, libc::PROT_NONE, libc::MAP_FIXED);
        Unmapped {
            address: at,
            region,
        }
    }

    fn close(self) {
        self.region.deregister().unwrap();
        // SAFETY: the range was mapped by `of`, and nothing uses it.
        assert_eq!(unsafe { libc::munmap(self.address as *mut _, MEMORY) }, 0);
    }
}

fn map(address: *mut libc::c_void, rights: i32, flags: i32) -> *mut libc::c_void {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | flags;
    // SAFETY: the kernel chooses the address, or it is that of a mapping that only the kernel uses.
    let memory = unsafe { libc::mmap(address, MEMORY, rights, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory
}

/// Posts the request of a case at `a`.
fn post(a: &Side, b: &Side, unmapped: &Unmapped, case: Case) -> bool {
    let opcode = match case.operation {
        Operation::Send => IBV_WR_SEND,
        Operation::SendInvalidate => IBV_WR_SEND_WITH_INV,
        Operation::Write => IBV_WR_RDMA_WRITE,
        Operation::WriteImmediate | Operation::LongWriteImmediate => IBV_WR_RDMA_WRITE_WITH_IMM,
        Operation::Read => IBV_WR_RDMA_READ,
        Operation::Atomic => IBV_WR_ATOMIC_FETCH_AND_ADD,
        Operation::AtomicWrite => IBV_WR_ATOMIC_WRITE,
        Operation::Flush => IBV_WR_FLUSH,
    };
    let offset = match case.defect {
        Defect::BeyondRegion => MEMORY,
        Defect::Misaligned => 4,
        _ => 0,
    };
    let (remote_address, rkey) = match case.defect {
        Defect::WrongKey => (b.address(0), b.region.key() ^ 0x5500),
        Defect::Unmapped => (unmapped.address, unmapped.region.key()),
        _ => (b.address(offset), b.region.key()),
    };
    let address = address(a);
    let sges = [a.sge(0, case.operation.length())];
    let is_flush = case.operation == Operation::Flush;
    let request = SendRequest {
        immediate: if opcode == IBV_WR_SEND_WITH_INV {
            rkey
        } else {
            0
        },
        remote_address,
        rkey,
        compare_add: if is_flush { 64 } else { 1 },
        swap: if is_flush { IBV_FLUSH_GLOBAL.into() } else { 0 },
        address: Some(&address),
        srq: match (&b.srq, case.defect) {
            (Some(srq), Defect::NoSharedQueue) => srq.number() ^ 0x80,
            (Some(srq), _) => srq.number(),
            (None, _) => 0,
        },
        remote_qpn: b.qp.number(),
        remote_qkey: match case.defect {
            Defect::WrongQueueKey => QKEY + 1,
            _ => QKEY,
        },
        ..request(opcode, if is_flush { &[] } else { &sges })
    };
    a.qp.poster().post(&request).is_ok()
}
