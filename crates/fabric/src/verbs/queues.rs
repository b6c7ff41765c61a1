//! Completion queues, queue pairs and shared receive queues over verbs.
//!
//! Calls in timed code do their work at once and return a ready future: a future that is a state
//! machine writes its arguments and its result to memory and reads them again in other widths,
//! which stalls the processor. That took 15 ns per call, where a whole read takes 130 ns.

use super::memory::VerbsRegion;
use super::process::VerbsProcess;
use super::wait_limit::WaitLimit;
use crate::completion::{Completion, CompletionKind, CompletionQueue, Status, Wait};
use crate::error::{Error, Result};
use crate::operation::{
    Destination, Operation, Placement, ReceiveRequest, Signal, Slice, WorkRequest,
};
use crate::pair::{Endpoint, QueuePair, SharedReceive, Transport};
use crate::region::Region;
use std::cell::RefCell;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use verbena_verbs as v;
use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::{Change, Connection, Path};

/// Longest sleep of an event wait between checks of the flags.
const EVENT_SLICE: Duration = Duration::from_millis(50);

/// A completion queue.
pub struct VerbsCompletions {
    pub(super) inner: Arc<v::CompletionQueue>,
    pub(super) wait_limit: WaitLimit,
}

#[inline]
fn convert(completion: &v::WorkCompletion) -> Completion {
    let kind = match completion.opcode {
        v::CompletionOpcode::RECEIVE => CompletionKind::Received,
        v::CompletionOpcode::RECEIVE_WRITE => CompletionKind::ReceivedWrite,
        _ => CompletionKind::Initiated,
    };
    Completion {
        id: completion.id,
        status: Status(completion.status.0),
        kind,
        length: completion.length,
        immediate: completion.immediate,
        pair: completion.pair,
        source: completion.source,
    }
}

impl VerbsCompletions {
    /// The common case of latency tests, without copying the completion.
    #[inline(always)]
    fn done_now(&self, how: Wait) -> Result<()> {
        let mut entry = v::Entry::default();
        let come = how == Wait::Poll && matches!(self.inner.poll_entry(&mut entry), Ok(true));
        if come && entry.is_success() {
            return Ok(());
        }
        self.done_later(come.then_some(&entry), how)
    }

    /// The rest of [`CompletionQueue::done`]: the request failed or has not completed yet.
    #[inline(never)]
    fn done_later(&self, failed: Option<&v::Entry>, how: Wait) -> Result<()> {
        if let Some(entry) = failed {
            return convert(&entry.completion()).check().map(drop);
        }
        if how == Wait::Event {
            let mut into = [Completion::default()];
            self.wait_for_event(&mut into)?;
            return into[0].check().map(drop);
        }
        let mut entry = v::Entry::default();
        self.poll_until(&mut entry)?;
        convert(&entry.completion()).check().map(drop)
    }

    #[inline]
    fn poll_until(&self, entry: &mut v::Entry) -> Result<()> {
        let arrived = || match self.inner.poll_entry(entry) {
            Ok(false) => None,
            other => Some(other.map(drop)),
        };
        Ok(self.wait_limit.until("a completion", arrived)??)
    }

    fn wait_for_event(&self, into: &mut [Completion]) -> Result<usize> {
        let Some(channel) = self.inner.channel() else {
            let reason = "the queue was created without events";
            return Err(Error::invalid("CompletionQueue::wait", reason));
        };
        let mut since = None;
        loop {
            let count = self.inner.poll(into, convert)?;
            if count > 0 {
                return Ok(count);
            }
            self.inner.arm()?;
            // A completion between the poll and the arming generates no event.
            let count = self.inner.poll(into, convert)?;
            if count > 0 {
                return Ok(count);
            }
            while !channel.wait(EVENT_SLICE)? {
                self.wait_limit.look("a completion event", &mut since)?;
            }
        }
    }
}

impl CompletionQueue for VerbsCompletions {
    #[inline]
    async fn poll(&self, into: &mut [Completion]) -> Result<usize> {
        Ok(self.inner.poll(into, convert)?)
    }

    /// Avoids the detour over a list.
    #[inline]
    async fn one(&self, how: Wait) -> Result<Completion> {
        if how == Wait::Event {
            let mut into = [Completion::default()];
            self.wait_for_event(&mut into)?;
            return into[0].check();
        }
        let mut entry = v::Entry::default();
        self.poll_until(&mut entry)?;
        convert(&entry.completion()).check()
    }

    #[inline(always)]
    fn done(&self, how: Wait) -> impl Future<Output = Result<()>> {
        ready(self.done_now(how))
    }

    #[inline]
    async fn wait(&self, into: &mut [Completion], how: Wait) -> Result<usize> {
        match how {
            Wait::Event => self.wait_for_event(into),
            Wait::Poll => {
                let arrived = || match self.inner.poll(into, convert) {
                    Ok(0) => None,
                    other => Some(other),
                };
                Ok(self.wait_limit.until("a completion", arrived)??)
            }
        }
    }
}

/// A peer's address.
pub struct VerbsAddress(pub(super) Arc<v::AddressHandle>);

/// A queue pair.
pub struct VerbsPair {
    pub(super) inner: v::QueuePair,
    pub(super) transport: Transport,
    pub(super) endpoint: Endpoint,
    pub(super) port: super::process::Port,
    pub(super) scratch: RefCell<v::Scratch>,
}

pub(super) fn pair_type(transport: Transport) -> PairType {
    match transport {
        Transport::Rc => PairType::Rc,
        Transport::Uc => PairType::Uc,
        Transport::Ud => PairType::Ud,
        Transport::XrcInitiator => PairType::XrcSend,
        Transport::XrcTarget => PairType::XrcReceive,
    }
}

#[inline]
fn check(call: &'static str, local: &[Slice<'_, VerbsRegion>]) -> Result<()> {
    for slice in local {
        if slice.region.part(slice.offset, slice.length).is_none() {
            return Err(beyond(call, slice));
        }
    }
    Ok(())
}

#[cold]
fn beyond(call: &'static str, slice: &Slice<'_, VerbsRegion>) -> Error {
    let (length, offset, have) = (slice.length, slice.offset, slice.region.length());
    Error::invalid(
        call,
        format!("{length} bytes at {offset} of a region of {have}"),
    )
}

#[inline(always)]
fn segment<'a>(call: &'static str, slice: &Slice<'a, VerbsRegion>) -> Result<v::Segment<'a>> {
    let part = slice.region.part(slice.offset, slice.length);
    part.ok_or_else(|| beyond(call, slice))
}

#[inline]
fn segments<'a>(
    local: &'a [Slice<'a, VerbsRegion>],
) -> impl Iterator<Item = v::Segment<'a>> + use<'a> {
    local
        .iter()
        .filter_map(|slice| slice.region.part(slice.offset, slice.length))
}

#[inline]
fn opcode(operation: Operation) -> v::Opcode {
    match operation {
        Operation::Write { to } => v::Opcode::Write(to.address, to.key),
        Operation::WriteImmediate { to, immediate } => {
            v::Opcode::WriteImmediate(to.address, to.key, immediate)
        }
        Operation::Read { from } => v::Opcode::Read(from.address, from.key),
        Operation::Send => v::Opcode::Send,
        Operation::SendImmediate { immediate } => v::Opcode::SendImmediate(immediate),
        Operation::CompareSwap { at, compare, swap } => {
            v::Opcode::CompareSwap(at.address, at.key, compare, swap)
        }
        Operation::FetchAdd { at, add } => v::Opcode::FetchAdd(at.address, at.key, add),
    }
}

#[inline]
fn flags(signal: Signal, placement: Placement) -> v::SendFlags {
    let flags = match signal {
        Signal::Silent => v::SendFlags::SILENT,
        Signal::Signalled => v::SendFlags::SIGNALED,
        Signal::Solicited => v::SendFlags::SIGNALED.solicited(),
    };
    match placement {
        Placement::Reference => flags,
        Placement::Inline => flags.inline(),
    }
}

#[inline]
fn target<'a>(destination: &Destination<'a, VerbsProcess>) -> v::SendTarget<'a> {
    match *destination {
        Destination::Connected => v::SendTarget::Connected,
        Destination::Datagram { address, pair, key } => {
            v::SendTarget::Datagram(&address.0, pair, key)
        }
        Destination::SharedReceive(number) => v::SendTarget::SharedReceive(number),
    }
}

#[cold]
fn refused(call: &str, error: v::PostError) -> Error {
    Error::adapter(call, error.to_string())
}

impl QueuePair<VerbsProcess> for VerbsPair {
    fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    async fn connect(&self, remote: &Endpoint) -> Result<()> {
        let kind = pair_type(self.transport);
        let connection = Connection {
            path: self.port.path_to(remote),
            peer: remote.pair,
            peer_psn: remote.psn,
            psn: self.endpoint.psn,
            mtu_code: self.port.mtu_code_to(remote),
            reads_served: self.port.reads,
            reads_initiated: self.port.reads,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
        };
        self.inner.modify(&Change::to_rtr(kind, &connection))?;
        self.inner.modify(&Change::to_rts(kind, &connection))?;
        Ok(())
    }

    #[inline(always)]
    fn post_send(
        &self,
        list: &[WorkRequest<'_, VerbsProcess>],
    ) -> impl Future<Output = Result<()>> {
        ready(match list {
            // Latency tests post one request with one slice at a time.
            [request] if request.local.len() == 1 => self.send_one(request, &request.local[0]),
            _ => self.send_list(list),
        })
    }

    #[inline(always)]
    fn post_receive(
        &self,
        list: &[ReceiveRequest<'_, VerbsRegion>],
    ) -> impl Future<Output = Result<()>> {
        ready(receive(self, list))
    }
}

impl VerbsPair {
    #[inline(always)]
    fn send_one(
        &self,
        request: &WorkRequest<'_, VerbsProcess>,
        slice: &Slice<'_, VerbsRegion>,
    ) -> Result<()> {
        let segment = segment("QueuePair::post_send", slice)?;
        let flags = flags(request.signal, request.placement);
        let work = (request.id, opcode(request.operation), flags);
        let to = target(&request.destination);
        self.inner
            .post_one(&mut self.scratch.borrow_mut(), work, segment, to)
            .map_err(|error| refused("ibv_post_send", error))
    }

    #[inline(never)]
    fn send_list(&self, list: &[WorkRequest<'_, VerbsProcess>]) -> Result<()> {
        for request in list {
            check("QueuePair::post_send", request.local)?;
        }
        let requests = list.iter().map(|request| v::SendWork {
            id: request.id,
            opcode: opcode(request.operation),
            flags: flags(request.signal, request.placement),
            segments: segments(request.local),
            target: target(&request.destination),
        });
        self.inner
            .post_send(&mut self.scratch.borrow_mut(), requests)
            .map_err(|error| refused("ibv_post_send", error))
    }
}

/// A destination of receive requests.
trait Receives {
    /// Names of the interface call and of the verbs call.
    const CALLS: [&'static str; 2];

    fn one(&self, id: u64, segment: v::Segment<'_>) -> std::result::Result<(), v::PostError>;

    fn list<'a>(
        &self,
        work: impl Iterator<Item = v::ReceiveWork<impl Iterator<Item = v::Segment<'a>>>>,
    ) -> std::result::Result<(), v::PostError>;
}

/// Posts receive requests, with a fast path for latency tests, which repost one request with one
/// slice at a time.
#[inline(always)]
fn receive<To: Receives>(to: &To, list: &[ReceiveRequest<'_, VerbsRegion>]) -> Result<()> {
    let [call, verb] = To::CALLS;
    let posted = match list {
        [request] if request.local.len() == 1 => {
            to.one(request.id, segment(call, &request.local[0])?)
        }
        _ => receive_list(to, list)?,
    };
    posted.map_err(|error| refused(verb, error))
}

#[inline(never)]
fn receive_list<To: Receives>(
    to: &To,
    list: &[ReceiveRequest<'_, VerbsRegion>],
) -> Result<std::result::Result<(), v::PostError>> {
    for request in list {
        check(To::CALLS[0], request.local)?;
    }
    Ok(to.list(list.iter().map(|request| v::ReceiveWork {
        id: request.id,
        segments: segments(request.local),
    })))
}

impl Receives for VerbsPair {
    const CALLS: [&'static str; 2] = ["QueuePair::post_receive", "ibv_post_recv"];

    #[inline(always)]
    fn one(&self, id: u64, segment: v::Segment<'_>) -> std::result::Result<(), v::PostError> {
        self.inner.post_receive_one(id, segment)
    }

    fn list<'a>(
        &self,
        work: impl Iterator<Item = v::ReceiveWork<impl Iterator<Item = v::Segment<'a>>>>,
    ) -> std::result::Result<(), v::PostError> {
        self.inner
            .post_receive(&mut self.scratch.borrow_mut(), work)
    }
}

impl super::process::Port {
    /// Returns the path MTU: the smaller MTU of both ports (`enum ibv_mtu` rises with the size).
    fn mtu_code_to(&self, remote: &Endpoint) -> u32 {
        match remote.mtu_code {
            // The peer did not report it.
            0 => self.mtu_code,
            theirs => self.mtu_code.min(u32::from(theirs)),
        }
    }

    pub(super) fn path_to(&self, remote: &Endpoint) -> Path {
        Path {
            lid: remote.lid,
            gid: self.global.then_some(v::Gid(remote.gid)),
            source_gid: self.gid_index,
            traffic_class: self.traffic_class,
            service_level: self.service_level,
            port: self.number,
        }
    }
}

/// A shared receive queue.
pub struct VerbsSharedReceive {
    pub(super) inner: Arc<v::SharedReceiveQueue>,
    pub(super) scratch: RefCell<v::Scratch>,
}

impl SharedReceive<VerbsRegion> for VerbsSharedReceive {
    fn number(&self) -> u32 {
        self.inner.number()
    }

    #[inline(always)]
    fn post_receive(
        &self,
        list: &[ReceiveRequest<'_, VerbsRegion>],
    ) -> impl Future<Output = Result<()>> {
        ready(receive(self, list))
    }
}

impl Receives for VerbsSharedReceive {
    const CALLS: [&'static str; 2] = ["SharedReceive::post_receive", "ibv_post_srq_recv"];

    #[inline(always)]
    fn one(&self, id: u64, segment: v::Segment<'_>) -> std::result::Result<(), v::PostError> {
        self.inner.post_receive_one(id, segment)
    }

    fn list<'a>(
        &self,
        work: impl Iterator<Item = v::ReceiveWork<impl Iterator<Item = v::Segment<'a>>>>,
    ) -> std::result::Result<(), v::PostError> {
        self.inner
            .post_receive(&mut self.scratch.borrow_mut(), work)
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::Port;
    use super::*;

    #[test]
    fn the_mtu_fits_both_ports_and_the_traffic_class_is_set() {
        let port = Port {
            number: 1,
            lid: 0,
            gid: v::Gid([0; 16]),
            gid_index: 0,
            global: true,
            traffic_class: 104,
            service_level: 3,
            partition: 0,
            mtu_code: 3,
            reads: 16,
        };
        let to = |mtu_code| {
            port.mtu_code_to(&Endpoint {
                mtu_code,
                ..Endpoint::default()
            })
        };
        assert_eq!([to(0), to(2), to(3), to(5)], [3, 2, 3, 3]);
        let path = port.path_to(&Endpoint::default());
        assert_eq!((path.traffic_class, path.service_level), (104, 3));
    }
}
