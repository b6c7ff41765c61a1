//! The part of a conversation after the session stands: requests to the engine, data by RDMA or with the reply.
//!
//! The engine does not know which. A request may offer a window of the client's memory; then the data of a read go there
//! by RDMA writes before the reply is sent, and the data of a write are fetched from there by an RDMA read before the
//! engine sees them. Data that are small, or that no staging slot is free for, go with the reply all the same.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use serde_json::json;
use verbena_rfio_protocol::reply::{Connected, Refusal};
use verbena_rfio_protocol::request::Write;
use verbena_rfio_protocol::types::{Endpoint, Window};
use verbena_rfio_protocol::{Header, Reply, Request, Status};

use super::conversation::{Context, Conversation, Next, Stage, settle};
use super::input::{Frame, NoFrame};
use crate::fabric::FabricError;
use crate::server::budget::Grant;
use crate::server::engine::{Answer, Engine, FRUGAL, MEAGRE};
use crate::server::export::Access;
use crate::server::fabric::{self, Arrived, DataPair};
use crate::server::metrics::{Carrier, count};
use crate::server::quota::{Resource, Share};

/// Data up to this size go with the reply even when the client offered a window: the reply goes anyway.
const WITH_THE_REPLY: usize = 16 << 10;

/// A request on its way to a worker, with all it needs.
#[derive(Debug)]
pub struct Job {
    standing: Box<Standing>,
    request: Request,
    frame: Frame,
    arrived: Option<Arrived>,
    grant: Grant,
}

/// A request that comes back from a worker.
#[derive(Debug)]
pub struct Finished {
    job: Job,
    answer: Answer,
}

impl Job {
    /// Does the work; may wait for storage.
    pub fn run(mut self) -> Finished {
        let incoming = self
            .arrived
            .as_ref()
            .map_or(&self.frame.payload[..], Arrived::bytes);
        let answer = self.standing.engine.execute(&self.request, incoming);
        // The data are written; their memory goes back before the reply waits for a slow client.
        self.arrived = None;
        self.frame.payload = Vec::new();
        self.frame.grant = None;
        self.frame.body_grant = None;
        Finished { job: self, answer }
    }
}

/// A session that stands.
#[derive(Debug)]
pub(super) struct Standing {
    data: Option<DataPair>,
    waiting: Option<Waiting>,
    engine: Engine,
    rights: Access,
    _share: Share,
}

/// What follows a transfer.
#[derive(Debug)]
enum Waiting {
    /// The reply to a read whose data are on their way.
    Reply(
        Header,
        Reply,
        #[allow(dead_code, reason = "held until the data are sent")] Grant,
    ),
    /// The write whose data are on their way.
    Write(Frame, Request, Grant),
}

impl Standing {
    pub(super) fn new(engine: Engine, rights: Access, share: Share) -> Self {
        Self {
            data: None,
            waiting: None,
            engine,
            rights,
            _share: share,
        }
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.engine.holds_nothing()
    }

    pub(super) fn is_transferring(&self) -> bool {
        self.waiting.is_some()
    }

    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.data.as_ref().map(DataPair::events)
    }

    /// Whether a request may use the window that it offers.
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

impl Conversation {
    pub(super) fn serve(
        &mut self,
        context: &Context,
        frame: Frame,
        request: Request,
        now: Instant,
    ) -> Result<Option<Next>, NoFrame> {
        let Stage::Standing(standing) = &mut self.stage else {
            return Err(NoFrame::Violation(
                "request before the session stands".into(),
            ));
        };
        let header = frame.header;
        if standing.rights == Access::ReadOnly && request.changes() {
            let answer = Answer::refusal(Status::errno(libc::EROFS), "this user may only read");
            self.send(context, header, answer, None);
            return Ok(None);
        }
        if let Request::Connect(connect) = &request {
            let answer = self.connect(context, &connect.endpoint, now);
            self.send(context, header, answer, None);
            return Ok(None);
        }
        if let Some(window) = request.window()
            && let Err(refusal) = standing.admit(&request, window, now)
        {
            self.send(
                context,
                header,
                Answer {
                    outcome: Err(refusal),
                    data: Vec::new(),
                },
                None,
            );
            return Ok(None);
        }
        let request = match self.account.has_too_much_pinned() {
            true => Engine::meagre(&request).unwrap_or(request),
            false => request,
        };
        let (request, grant) = match standing.engine.demand(&request) {
            0 => (request, self.account.nothing()),
            demand => match (self.account.take(demand), Engine::frugal(&request)) {
                (Some(grant), _) => (request, grant),
                (None, Some(frugal)) => {
                    count(&context.service.metrics.scarcities, 1);
                    (frugal, self.account.nothing())
                }
                (None, None) => {
                    count(&context.service.metrics.scarcities, 1);
                    self.held = Some((frame, request));
                    return Ok(Some(Next::Starved));
                }
            },
        };
        if let Request::Write(Write {
            window: Some(window),
            range,
            ..
        }) = &request
        {
            let (window, length) = (window.clone(), range.length as usize);
            return Ok(self.fetch(context, frame, request, grant, &window, length));
        }
        if let Some(answer) = standing.engine.execute_quickly(&request) {
            self.deliver(context, header, &request, answer, grant);
            return Ok(None);
        }
        Ok(Some(self.work(frame, request, None, grant)))
    }

    fn work(
        &mut self,
        frame: Frame,
        request: Request,
        arrived: Option<Arrived>,
        grant: Grant,
    ) -> Next {
        let Stage::Standing(standing) = std::mem::replace(&mut self.stage, Stage::Away) else {
            unreachable!("only a session that stands has work");
        };
        Next::Work(Box::new(Job {
            standing,
            request,
            frame,
            arrived,
            grant,
        }))
    }

    /// Takes a worker's result.
    pub(super) fn take_back(&mut self, finished: Finished, context: &Context) {
        let Finished { job, answer } = finished;
        self.stage = Stage::Standing(job.standing);
        self.deliver(context, job.frame.header, &job.request, answer, job.grant);
    }

    /// Gives the session a data queue pair, in place of an earlier one.
    fn connect(&mut self, context: &Context, peer: &Endpoint, now: Instant) -> Answer {
        let Some(fabric) = &context.service.fabric else {
            return Answer::refusal(Status::NOT_SUPPORTED, "this server has no adapter");
        };
        let Stage::Standing(standing) = &mut self.stage else {
            unreachable!("looked at by the caller")
        };
        standing.data = None;
        let share = match context
            .service
            .quotas
            .take(&self.who.user, Resource::QueuePair)
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
                standing.data = Some(data);
                self.pairs += 1;
                Answer {
                    outcome: Ok(Reply::Connected(Connected { endpoint, token })),
                    data: Vec::new(),
                }
            }
            Err(error) => Answer::refusal(Status::COMMUNICATION, error.to_string()),
        }
    }

    /// Starts to read what a write brings from the client's window.
    fn fetch(
        &mut self,
        context: &Context,
        frame: Frame,
        request: Request,
        grant: Grant,
        window: &Window,
        length: usize,
    ) -> Option<Next> {
        if length == 0 {
            return Some(self.work(frame, request, None, grant));
        }
        let Stage::Standing(standing) = &mut self.stage else {
            unreachable!("looked at by the caller")
        };
        let slot = context
            .service
            .fabric
            .as_ref()
            .and_then(|fabric| fabric.staging().take(&self.account));
        let (Some(data), Some(slot)) = (&mut standing.data, slot) else {
            self.held = Some((frame, request));
            return Some(Next::Starved);
        };
        match data.fetch(slot, window, length) {
            Ok(()) => standing.waiting = Some(Waiting::Write(frame, request, grant)),
            Err(error) => self.lose_pair(context, frame.header, &error),
        }
        None
    }

    /// Sends an answer: its data by RDMA where the client offered a window and they are worth it, else with the reply.
    fn deliver(
        &mut self,
        context: &Context,
        header: Header,
        request: &Request,
        answer: Answer,
        grant: Grant,
    ) {
        // A block is not kept for a few bytes of it, nor for a user who keeps many.
        let answer = answer.released(match self.account.has_too_much_pinned() {
            true => MEAGRE,
            false => FRUGAL,
        });
        let length = answer.length();
        let Stage::Standing(standing) = &mut self.stage else {
            unreachable!("only a session that stands answers")
        };
        let (Some(window), Some(data), Some(fabric)) = (
            request.window(),
            &mut standing.data,
            &context.service.fabric,
        ) else {
            return self.send(context, header, answer, Some(grant));
        };
        let is_cached = data.can_gather(&answer.data);
        let slot = if is_cached {
            None
        } else {
            fabric.staging().take(&self.account)
        };
        let reply = match answer.outcome {
            Ok(reply) if length > WITH_THE_REPLY && (is_cached || slot.is_some()) => reply,
            // The control connection can always carry them.
            outcome => {
                return self.send(
                    context,
                    header,
                    Answer {
                        outcome,
                        data: answer.data,
                    },
                    Some(grant),
                );
            }
        };
        let mut grant = grant;
        settle(&mut grant, 0, &answer.data, context.service.limits.block);
        // With checksums the client sees for itself whether the data are there.
        let notice = (!request.wants_checksums()).then_some(header.id as u32);
        match data.send(answer.data, slot, window, notice) {
            Ok(()) => {
                context.service.metrics.sent(Carrier::Fabric, length as u64);
                standing.waiting = Some(Waiting::Reply(header, reply, grant));
            }
            Err(error) => self.lose_pair(context, header, &error),
        }
    }

    /// Goes on after a transfer; `None` while it lasts.
    pub(super) fn finish_transfer(&mut self, context: &Context) -> Option<Next> {
        let Stage::Standing(standing) = &mut self.stage else {
            return Some(Next::Again);
        };
        let result = match standing.data.as_mut().map(DataPair::finish) {
            Some(Ok(None)) => return None,
            Some(result) => result,
            None => Err(FabricError::Late("the transfer")),
        };
        match (result, standing.waiting.take()?) {
            (
                Ok(Some(fabric::Finished::Arrived(arrived))),
                Waiting::Write(frame, request, grant),
            ) => {
                context
                    .service
                    .metrics
                    .received(Carrier::Fabric, arrived.bytes().len() as u64);
                return Some(self.work(frame, request, Some(arrived), grant));
            }
            (Ok(Some(fabric::Finished::Sent)), Waiting::Reply(header, reply, _)) => {
                self.send(
                    context,
                    header,
                    Answer {
                        outcome: Ok(reply),
                        data: Vec::new(),
                    },
                    None,
                );
            }
            (result, waiting) => {
                let header = match waiting {
                    Waiting::Reply(header, ..) => header,
                    Waiting::Write(frame, ..) => frame.header,
                };
                let error = result
                    .err()
                    .unwrap_or(FabricError::Late("the right completion"));
                self.lose_pair(context, header, &error);
            }
        }
        Some(Next::Again)
    }

    /// The pair failed: it goes, the request is refused, the session stays.
    fn lose_pair(&mut self, context: &Context, header: Header, error: &FabricError) {
        if let Stage::Standing(standing) = &mut self.stage {
            standing.data = None;
            standing.waiting = None;
        }
        count(&context.service.metrics.fabric_failures, 1);
        context.service.audit.record(
            &self.who,
            "queue pair lost",
            json!({ "what": error.to_string() }),
        );
        let reason = format!("the data queue pair failed and is gone: {error}");
        self.send(
            context,
            header,
            Answer::refusal(Status::COMMUNICATION, reason),
            None,
        );
    }
}
