//! The part of a connection after the session is established: passes requests to the engine and
//! sends data by RDMA or with the reply.
//!
//! The engine does not know which. A request may offer a window of the client's memory. The data of
//! a read are then written there by RDMA before the reply is sent, and the data of a write are
//! fetched from there by an RDMA read before the engine sees them. Small data, and data without a
//! free staging slot, travel with the reply all the same.
//!
//! Many requests may be in progress (`scheduler`). The queue pair has one transfer at a time;
//! the others wait for it in order of arrival.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use verbena_rfio_common::fabric::FabricError;
use verbena_rfio_protocol::order::Order;
use verbena_rfio_protocol::reply::{Connected, Done, Refusal};
use verbena_rfio_protocol::request::Write;
use verbena_rfio_protocol::types::{Endpoint, Window};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request, Status};

use super::confinement::Confinement;
use super::connection::{
    AcceptedRequest, Connection, Context, NextStep, ServingProgress, Stage, pinned, shrink_grant,
};
use super::input::{Frame, NoFrame};
use super::scheduler::{NewRequest, RequestKey, Scheduler};
use super::scopes::Scopes;
use crate::budget::MemoryGrant;
use crate::caps::Resource;
use crate::engine::{Answer, Engine, ExistingName, READ_PAST_CACHE, READ_WITHOUT_MEMORY};
use crate::export::Access;
use crate::fabric::{self, Arrived, DataPair};
use crate::metrics::{Carrier, Flow, count};
use crate::quota::Share;
use crate::sessions::SessionEntry;

/// Data up to this length in bytes travel with the reply even if the client offered a window: the
/// reply is sent anyway.
const WITH_THE_REPLY: usize = 16 << 10;

/// A request with the memory that it needs.
#[derive(Debug)]
pub struct RequestTask {
    accepted: AcceptedRequest,
    request: Request,
    /// Whether it may replace an existing name.
    existing: ExistingName,
    frame: Frame,
    grant: Option<MemoryGrant>,
}

impl RequestTask {
    pub(super) fn new(accepted: AcceptedRequest, mut frame: Frame, request: Request) -> Self {
        // The body has been decoded.
        frame.body = Vec::new();
        Self {
            accepted,
            request,
            existing: ExistingName::Replaced,
            frame,
            grant: None,
        }
    }
}

/// State for carrying out a session's requests. It lives until the last of them has ended, even if
/// the session ended earlier.
#[derive(Debug)]
struct ServingState {
    engine: Engine,
    _share: Share,
}

/// A request for a worker.
#[derive(Debug)]
pub struct Job {
    serving: Arc<ServingState>,
    key: RequestKey,
    task: RequestTask,
    arrived: Option<Arrived>,
}

/// A request's result from a worker.
#[derive(Debug)]
pub struct FinishedRequest {
    key: RequestKey,
    task: RequestTask,
    answer: Answer,
}

impl Job {
    /// Carries out the request; may block on storage.
    pub fn run(self) -> FinishedRequest {
        let Self {
            serving,
            key,
            mut task,
            arrived,
        } = self;
        let incoming = arrived
            .as_ref()
            .map_or(&task.frame.payload[..], Arrived::bytes);
        let answer = match task.existing {
            ExistingName::Replaced => serving.engine.execute(&task.request, incoming),
            ExistingName::Kept => serving.engine.execute_on_new(&task.request, incoming),
        };
        // The data are written; their memory is released before the reply waits for a slow client.
        drop(arrived);
        task.frame.payload = Vec::new();
        task.frame.grant = None;
        task.frame.body_grant = None;
        FinishedRequest { key, task, answer }
    }
}

/// An established session.
#[derive(Debug)]
pub(super) struct EstablishedSession {
    data: Option<DataPair>,
    transfer: Option<Transfer>,
    /// Whether the transfer was found unfinished since the connection was last called; the adapter
    /// signals its end.
    looked: bool,
    /// Transfers that wait for the queue pair.
    due: VecDeque<Transfer>,
    scheduler: Scheduler<RequestTask>,
    version: u16,
    serving: Arc<ServingState>,
    rights: Access,
    confinement: Option<Confinement>,
    entry: SessionEntry,
    scopes: Option<Scopes>,
}

/// A transfer on the queue pair.
#[derive(Debug)]
enum Transfer {
    /// The data of an answer, then its reply. Once the data are being sent, the answer is without
    /// them.
    Out(RequestKey, RequestTask, Answer),
    /// The data of a write.
    In(RequestKey, RequestTask),
}

impl EstablishedSession {
    pub(super) fn new(
        engine: Engine,
        rights: Access,
        confinement: Option<Confinement>,
        scopes: Option<Scopes>,
        share: Share,
        version: u16,
        entry: SessionEntry,
    ) -> Self {
        let serving = ServingState {
            engine,
            _share: share,
        };
        Self {
            data: None,
            transfer: None,
            looked: false,
            due: VecDeque::new(),
            scheduler: Scheduler::new(version),
            version,
            serving: Arc::new(serving),
            rights,
            confinement,
            scopes,
            entry,
        }
    }

    pub(super) fn is_to_end(&self) -> Option<&str> {
        self.entry.is_to_end()
    }

    /// Counts file data moved by a request.
    pub(super) fn moved(&self, request: &Request, flow: Flow, carrier: Carrier, bytes: u64) {
        self.serving.engine.moved(request, flow, carrier, bytes);
    }

    /// Records why the session ends; the first reason counts.
    pub(super) fn ends(&self, why: &'static str) {
        self.serving.engine.ends(why);
    }

    pub(super) fn has_no_open_files(&self) -> bool {
        self.serving.engine.has_no_open_files()
    }

    pub(super) fn is_transferring(&self) -> bool {
        self.transfer.is_some()
    }

    /// Returns whether any request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        !self.scheduler.is_empty()
    }

    /// Returns whether one more request may be accepted.
    pub(super) fn has_room(&self) -> bool {
        self.scheduler.has_room()
    }

    /// Returns the maximum length of the data of all pending answers, in bytes.
    pub(super) fn promised(&self) -> usize {
        self.scheduler.promised()
    }

    /// Causes the transfer to be checked again.
    pub(super) fn look_again(&mut self) {
        self.looked = false;
    }

    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.data.as_ref().map(DataPair::events)
    }

    /// Checks that a request may use the window that it offers.
    fn admit(&mut self, request: &Request, window: &Window, now: Instant) -> Result<(), Refusal> {
        let wanted = match request {
            Request::Read(read) => u64::from(read.range.length),
            Request::Write(write) => u64::from(write.range.length),
            Request::ReadVector(vector) => vector
                .ranges
                .iter()
                .map(|range| u64::from(range.length))
                .sum(),
            _ => 0,
        };
        if wanted > u64::from(window.length)
            || window.address.checked_add(window.length.into()).is_none()
        {
            return Err(Refusal::new(
                Status::errno(libc::EINVAL),
                "the window is smaller than the data",
            ));
        }
        let Some(data) = &mut self.data else {
            return Err(Refusal::new(
                Status::NOT_SUPPORTED,
                "the session has no data queue pair",
            ));
        };
        data.admit(now).map_err(|error| {
            self.data = None;
            Refusal::new(
                Status::errno(libc::EACCES),
                format!("the data queue pair is not admitted: {error}"),
            )
        })
    }
}

/// Returns the answer to a canceled request.
fn canceled_answer() -> Answer {
    Answer::refusal(Status::errno(libc::ECANCELED), "cancelled by the client")
}

impl Connection {
    /// Returns the session, which must be established.
    fn established(&mut self) -> &mut EstablishedSession {
        match &mut self.stage {
            Stage::Established(established) => established,
            _ => unreachable!("only a session that stands serves"),
        }
    }

    /// Accepts a request and reserves the memory that it needs.
    pub(super) fn serve(
        &mut self,
        context: &Context,
        mut task: RequestTask,
    ) -> Result<Option<NextStep>, NoFrame> {
        let accepted = task.accepted;
        if let Request::Cancel(cancel) = &task.request {
            return self.cancel(context, accepted, cancel.id).map(|()| None);
        }
        // A close only releases something, so it is accepted even when the service stops.
        if !matches!(task.request, Request::Close(_))
            && let Err(refusal) = context.service.refuse_if_stopping()
        {
            let answer = Answer {
                outcome: Err(refusal),
                data: Vec::new(),
            };
            self.send(context, accepted, answer, None);
            return Ok(None);
        }
        let established = self.established();
        if established.rights == Access::ReadOnly && task.request.changes() {
            let answer = Answer::refusal(Status::errno(libc::EROFS), "this user may only read");
            self.send(context, accepted, answer, None);
            return Ok(None);
        }
        if let Some(confinement) = &mut established.confinement
            && let Err(refusal) = confinement.admit(&task.request)
        {
            let answer = Answer {
                outcome: Err(refusal),
                data: Vec::new(),
            };
            self.send(context, accepted, answer, None);
            return Ok(None);
        }
        let serving = Arc::clone(&established.serving);
        if let Some(scopes) = &established.scopes {
            let is_writable = |handle| serving.engine.is_writable(handle);
            match scopes.admit(&mut task.request, is_writable) {
                Ok(existing) => task.existing = existing,
                Err(refusal) => {
                    let answer = Answer {
                        outcome: Err(refusal),
                        data: Vec::new(),
                    };
                    self.send(context, accepted, answer, None);
                    return Ok(None);
                }
            }
        }
        if self.account.has_too_much_pinned()
            && let Some(meagre) = Engine::shortened_past_cache(&task.request)
        {
            task.request = meagre;
        }
        task.grant = match serving.engine.memory_demand(&task.request) {
            0 => Some(self.account.nothing()),
            demand => self.account.take(demand),
        };
        if task.grant.is_none() {
            count(&context.service.metrics.scarcities, 1);
            let Some(frugal) = Engine::shortened_without_memory(&task.request) else {
                self.held = Some(task);
                return Ok(Some(NextStep::Starved));
            };
            task.request = frugal;
            task.grant = Some(self.account.nothing());
        }
        let promised = serving.engine.max_answer_bytes(&task.request);
        if let Some(address_share) = &self.address_share {
            let brought = window_length(&task.request).max(accepted.header.payload as usize);
            address_share.charge_bytes(promised.max(brought.min(context.service.limits.payload)));
        }
        self.established().scheduler.add(NewRequest {
            id: accepted.header.id,
            order: Order::of(&task.request),
            promised,
            is_read_only: task.request.is_read_only(),
            task,
        });
        Ok(None)
    }

    /// Charges the rate limit of the client's address with the actual length of an answer's data
    /// instead of the requested one.
    fn correct_rate(&self, task: &RequestTask, has: usize) {
        if let (Some(address_share), Stage::Established(established)) =
            (&self.address_share, &self.stage)
        {
            let promised = established.serving.engine.max_answer_bytes(&task.request);
            address_share.refund_bytes(promised.saturating_sub(has));
        }
    }

    /// Cancels a request, as far as that is still possible.
    fn cancel(
        &mut self,
        context: &Context,
        accepted: AcceptedRequest,
        id: u64,
    ) -> Result<(), NoFrame> {
        let established = self.established();
        if established.version < ANY_ORDER {
            let what = "Cancel in a session of version 2".into();
            return Err(NoFrame::Violation(what));
        }
        if let Some(task) = established.scheduler.cancel(id) {
            self.correct_rate(&task, 0);
            self.send(context, task.accepted, canceled_answer(), None);
        }
        let answer = Answer {
            outcome: Ok(Reply::Cancelled(Done {})),
            data: Vec::new(),
        };
        self.send(context, accepted, answer, None);
        Ok(())
    }

    /// Continues work in progress: a transfer that may have ended, one that waits for the queue
    /// pair, or a request that may begin. Returns `None` if there is nothing to do.
    pub(super) fn go_on(&mut self, context: &Context, now: Instant) -> Option<ServingProgress> {
        let established = self.established();
        if established.is_transferring() && !established.looked {
            if let Some(next) = self.finish_transfer(context) {
                return Some(ServingProgress::NextStep(next));
            }
            self.established().looked = true;
        }
        let established = self.established();
        if !established.is_transferring()
            && let Some(transfer) = established.due.pop_front()
        {
            return Some(match transfer {
                Transfer::Out(key, task, answer) => self.send_out(context, key, task, answer),
                Transfer::In(key, task) => self.fetch(context, key, task),
            });
        }
        let (key, task) = established.scheduler.next()?;
        self.begin(context, key, task, now);
        Some(ServingProgress::Moved)
    }

    fn begin(&mut self, context: &Context, key: RequestKey, mut task: RequestTask, now: Instant) {
        if let Request::Connect(connect) = &task.request {
            let answer = self.connect(context, &connect.endpoint, now);
            return self.conclude(context, key, task, answer);
        }
        let established = self.established();
        if let Some(window) = task.request.window()
            && let Err(refusal) = established.admit(&task.request, window, now)
        {
            self.correct_rate(&task, 0);
            let answer = Answer {
                outcome: Err(refusal),
                data: Vec::new(),
            };
            return self.conclude(context, key, task, answer);
        }
        if let Request::Write(Write {
            window: Some(_),
            range,
            ..
        }) = &task.request
            && range.length > 0
        {
            return established.due.push_back(Transfer::In(key, task));
        }
        if let Some(answer) = established.serving.engine.execute_quickly(&task.request) {
            task.frame.body_grant = None;
            return self.deliver(context, key, task, answer);
        }
        self.work(key, task, None);
    }

    fn work(&mut self, key: RequestKey, task: RequestTask, arrived: Option<Arrived>) {
        let serving = Arc::clone(&self.established().serving);
        self.jobs.push(Job {
            serving,
            key,
            task,
            arrived,
        });
    }

    /// Accepts a worker's result.
    pub(super) fn accept_result(&mut self, finished: FinishedRequest, context: &Context) {
        let FinishedRequest { key, task, answer } = finished;
        if matches!(self.stage, Stage::Established(_)) {
            self.deliver(context, key, task, answer);
        }
    }

    /// Connects a data queue pair for the session, replacing an earlier one.
    fn connect(&mut self, context: &Context, peer: &Endpoint, now: Instant) -> Answer {
        let Some(fabric) = &context.service.fabric else {
            return Answer::refusal(Status::NOT_SUPPORTED, "this server has no adapter");
        };
        self.established().data = None;
        let share = match context
            .service
            .quotas
            .take(&self.client.user, Resource::QueuePair)
        {
            Ok(share) => share,
            Err(exhausted) => {
                count(&context.service.metrics.caps, 1);
                return Answer::refusal(
                    Status::errno(libc::EBUSY),
                    format!("queue pairs: {exhausted}"),
                );
            }
        };
        match DataPair::connect(fabric, peer, share, now) {
            Ok((data, endpoint, token)) => {
                self.established().data = Some(data);
                self.pairs += 1;
                Answer {
                    outcome: Ok(Reply::Connected(Connected { endpoint, token })),
                    data: Vec::new(),
                }
            }
            Err(error) => Answer::refusal(Status::COMMUNICATION, error.to_string()),
        }
    }

    /// Starts to read a write's data from the client's window.
    fn fetch(&mut self, context: &Context, key: RequestKey, task: RequestTask) -> ServingProgress {
        let established = match &mut self.stage {
            Stage::Established(established) => established,
            _ => unreachable!("only a session that stands serves"),
        };
        let (Some(data), Some(window)) = (&mut established.data, task.request.window()) else {
            let answer = Answer::refusal(
                Status::COMMUNICATION,
                "the data queue pair failed before the data were read",
            );
            self.conclude(context, key, task, answer);
            return ServingProgress::Moved;
        };
        let slot = context
            .service
            .fabric
            .as_ref()
            .and_then(|fabric| fabric.staging().take(&self.account));
        let Some(slot) = slot else {
            established.due.push_front(Transfer::In(key, task));
            return ServingProgress::NextStep(NextStep::Starved);
        };
        match data.fetch(slot, window, window_length(&task.request)) {
            Ok(()) => {
                established.transfer = Some(Transfer::In(key, task));
                established.looked = false;
            }
            Err(error) => self.drop_queue_pair(context, key, task, &error),
        }
        ServingProgress::Moved
    }

    /// Sends an answer: its data by RDMA if the client offered a window and they are long enough,
    /// else with the reply.
    fn deliver(
        &mut self,
        context: &Context,
        key: RequestKey,
        mut task: RequestTask,
        answer: Answer,
    ) {
        self.correct_rate(&task, answer.length());
        // A block is not pinned for a few of its bytes, nor for a user that pins many.
        let mut answer = answer.released(match self.account.has_too_much_pinned() {
            true => READ_PAST_CACHE,
            false => READ_WITHOUT_MEMORY,
        });
        // Counted already while waiting for the queue pair; the grant has space for a copy of the
        // whole vector.
        if let (Some(grant), Request::ReadVector(_)) = (&mut task.grant, &task.request) {
            let block = context.service.limits.block;
            grant.pin(pinned(&answer.data, block));
            if self.account.has_too_much_pinned() {
                answer = answer.released(usize::MAX);
                grant.pin(0);
            }
        }
        let established = self.established();
        let has_way = task.request.window().is_some() && established.data.is_some();
        if has_way
            && answer.outcome.is_ok()
            && answer.length() > WITH_THE_REPLY
            && !established.scheduler.is_canceled(key)
        {
            established.due.push_back(Transfer::Out(key, task, answer));
        } else {
            self.conclude(context, key, task, answer);
        }
    }

    /// Starts to write an answer's data to the client's window.
    fn send_out(
        &mut self,
        context: &Context,
        key: RequestKey,
        mut task: RequestTask,
        mut answer: Answer,
    ) -> ServingProgress {
        let established = match &mut self.stage {
            Stage::Established(established) => established,
            _ => unreachable!("only a session that stands answers"),
        };
        let (Some(window), Some(data), Some(fabric)) = (
            task.request.window(),
            &mut established.data,
            &context.service.fabric,
        ) else {
            self.conclude(context, key, task, answer);
            return ServingProgress::Moved;
        };
        let is_cached = data.can_gather(&answer.data);
        let slot = if is_cached {
            None
        } else {
            fabric.staging().take(&self.account)
        };
        if !is_cached && slot.is_none() || established.scheduler.is_canceled(key) {
            // The control connection can always carry the data.
            self.conclude(context, key, task, answer);
            return ServingProgress::Moved;
        }
        if let Some(grant) = &mut task.grant {
            shrink_grant(grant, 0, &answer.data, context.service.limits.block);
        }
        // With checksums the client can verify by itself that the data have arrived.
        let notice = (!task.request.wants_checksums()).then_some(task.accepted.header.id as u32);
        let length = answer.length();
        match data.send(std::mem::take(&mut answer.data), slot, window, notice) {
            Ok(()) => {
                let request = &task.request;
                established.moved(request, Flow::Sent, Carrier::Fabric, length as u64);
                established.transfer = Some(Transfer::Out(key, task, answer));
                established.looked = false;
            }
            Err(error) => self.drop_queue_pair(context, key, task, &error),
        }
        ServingProgress::Moved
    }

    /// Ends a request: queues its answer, unless it was canceled, and allows requests that waited
    /// for it to begin.
    fn conclude(&mut self, context: &Context, key: RequestKey, task: RequestTask, answer: Answer) {
        let answer = match self.established().scheduler.end(key) {
            true => canceled_answer(),
            false => answer,
        };
        let bytes = answer.length() as u64;
        self.established()
            .moved(&task.request, Flow::Sent, Carrier::Stream, bytes);
        self.send(context, task.accepted, answer, task.grant);
    }

    /// Continues after a transfer; returns `None` while it lasts.
    fn finish_transfer(&mut self, context: &Context) -> Option<NextStep> {
        let established = self.established();
        let result = match established.data.as_mut().map(DataPair::finish) {
            Some(Ok(None)) => return None,
            Some(result) => result,
            None => Err(FabricError::Late("the transfer")),
        };
        match (result, established.transfer.take()?) {
            (Ok(Some(fabric::FinishedTransfer::Arrived(arrived))), Transfer::In(key, task)) => {
                let bytes = arrived.bytes().len() as u64;
                established.moved(&task.request, Flow::Received, Carrier::Fabric, bytes);
                self.work(key, task, Some(arrived));
            }
            (Ok(Some(fabric::FinishedTransfer::Sent)), Transfer::Out(key, mut task, answer)) => {
                // Memory granted for the data is released before the reply waits for the client.
                task.grant = None;
                self.conclude(context, key, task, answer);
            }
            (result, Transfer::Out(key, task, _) | Transfer::In(key, task)) => {
                let error = result
                    .err()
                    .unwrap_or(FabricError::Late("the right completion"));
                self.drop_queue_pair(context, key, task, &error);
            }
        }
        Some(NextStep::Again)
    }

    /// Handles a failure of the queue pair: destroys it and refuses the request; the session
    /// continues.
    fn drop_queue_pair(
        &mut self,
        context: &Context,
        key: RequestKey,
        mut task: RequestTask,
        error: &FabricError,
    ) {
        let established = self.established();
        established.data = None;
        established.transfer = None;
        count(&context.service.metrics.fabric_failures, 1);
        context.service.audit.record(
            &self.client,
            "queue pair lost",
            json!({ "what": error.to_string() }),
        );
        let reason = format!("the data queue pair failed: {error}");
        task.grant = None;
        let answer = Answer::refusal(Status::COMMUNICATION, reason);
        self.conclude(context, key, task, answer);
    }
}

/// Returns the length of a write's data in bytes.
fn window_length(request: &Request) -> usize {
    match request {
        Request::Write(write) => write.range.length as usize,
        _ => 0,
    }
}
