//! The life cycle of a connection: handshake, authentication, requests, end.
//!
//! The state machine never blocks. [`Connection::drive`] does everything that is possible now and
//! returns its next need; the event loop calls it again then, and hands the jobs in
//! [`Connection::jobs`] to the workers. `scheduler` decides which requests run concurrently; each
//! is answered when it is done.
//!
//! `handshake` implements the part before the session is established, `serving` the part after it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde_json::json;
use verbena_rfio_auth::tags::Tagger;
use verbena_rfio_auth::tls;
use verbena_rfio_common::socket::Socket;
use verbena_rfio_protocol::codec::Field;
use verbena_rfio_protocol::frame::{Kind, Limits};
use verbena_rfio_protocol::reply::{self, Refusal};
use verbena_rfio_protocol::types::Range;
use verbena_rfio_protocol::{Header, Request, Status};

use super::authenticator::{AuthenticatedClient, Authenticator, ConnectionOrigin, PendingWelcome};
use super::channel::Channel;
use super::input::{Frame, Input, NoFrame};
use super::output::Output;
use super::serving::{EstablishedSession, FinishedRequest, Job, RequestTask};
use crate::addresses::AddressShare;
use crate::audit::ClientIdentity;
use crate::budget::{Account, MemoryGrant};
use crate::engine::{Answer, Segment};
use crate::metrics::{Carrier, Flow, count};
use crate::request_times::RequestKind;
use crate::service::Service;

/// Frames handled per turn before other connections get theirs.
const TURN: usize = 32;

/// Duration of a turn after which its next frame is deferred.
const LONG_TURN: Duration = Duration::from_millis(1);

/// Minimum rate of a payload once memory is reserved for it, in bytes a second; the client's
/// permitted silence comes on top.
const SLOWEST_PAYLOAD: usize = 64 << 10;

/// Bytes of replies that are held back to leave in one system call with the replies to the next
/// requests of the turn.
const COLLECTED: usize = 16 << 10;

/// Bytes of a request's body without its ranges: two paths and their fields.
const BODY_WITHOUT_RANGES: usize = 16 << 10;

/// Bytes outside the cache that may be queued for one client before its next request is looked at.
/// It keeps the memory held by a thousand clients that read nothing bounded and small.
const MOST_OWNED: usize = 128 << 10;

/// State shared by all connections of a server.
#[derive(Debug)]
pub struct Context {
    /// The service.
    pub service: Arc<Service>,
    /// Decides which clients are admitted.
    pub authenticator: Authenticator,
    /// TLS, if configured.
    pub tls: RwLock<Option<tls::TlsServer>>,
    /// Whether connections without TLS are refused.
    pub tls_only: bool,
}

impl Context {
    /// Returns the TLS configuration for new connections: the server's certificate, and the rules
    /// for client certificates.
    fn tls(&self) -> Option<tls::TlsServer> {
        self.tls
            .read()
            .unwrap_or_else(|poison| poison.into_inner())
            .clone()
    }

    /// Replaces the TLS configuration for new connections.
    pub fn replace_tls(&self, tls: Option<tls::TlsServer>) {
        *self
            .tls
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = tls;
    }
}

/// The next need of a connection.
#[derive(Debug)]
#[must_use]
pub enum NextStep {
    /// Call again when the socket is ready for this, or the data queue pair has an event.
    Wait(Interest),
    /// Call again after the other connections had their turn.
    Again,
    /// Call again when memory is free.
    Starved,
    /// Drop the connection.
    End,
}

/// Socket events that a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Bytes to receive.
    pub readable: bool,
    /// Room to send.
    pub writable: bool,
}

/// A request that will be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct AcceptedRequest {
    pub header: Header,
    /// Category under which its latency is recorded.
    kind: RequestKind,
    /// When it had been received completely.
    whole: Instant,
}

/// Result of checking the requests in progress.
#[derive(Debug)]
pub(super) enum ServingProgress {
    /// Something progressed; there may be more.
    Moved,
    /// The event loop has to do this first.
    NextStep(NextStep),
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing received yet; plain or TLS is undecided.
    Unknown,
    Handshake,
    Proving(PendingWelcome),
    /// Authenticated, and waiting for a free session.
    Waiting(Box<AuthenticatedClient>, AcceptedRequest, Instant),
    Established(Box<EstablishedSession>),
    /// Pending output is sent, then the connection ends.
    Ending,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) channel: Option<Channel>,
    pub(super) stage: Stage,
    input: Input,
    output: Output,
    pub(super) incoming_tags: Option<Tagger>,
    pub(super) outgoing_tags: Option<Tagger>,
    /// A request that waits for memory.
    pub(super) held: Option<RequestTask>,
    /// Jobs for the workers.
    pub(super) jobs: Vec<Job>,
    pub(super) client: ClientIdentity,
    /// The account charged for its memory.
    pub(super) account: Account,
    pub(super) origin: ConnectionOrigin,
    /// The session's share of its address's limits.
    pub(super) address_share: Option<AddressShare>,
    /// Whether a rate limit delays its next request.
    is_held_back: bool,
    begun: Instant,
    /// Whether replies are held back to be sent with those to requests already received.
    collects: bool,
    /// When output last progressed towards a client that has some pending.
    moved: Instant,
    /// When the client last sent a request.
    accepted: Instant,
    /// Number of data queue pairs that this session has had.
    pub(super) pairs: u64,
    /// Since when memory is reserved for a payload that the client has begun to send, and the
    /// payload's length.
    owed: Option<(Instant, usize)>,
}

impl Connection {
    /// Creates the state of a connection just accepted; the socket must be non-blocking.
    pub fn new(socket: Socket, origin: ConnectionOrigin, context: &Context, now: Instant) -> Self {
        count(&context.service.metrics.connections, 1);
        let session = context.service.next_session();
        Self {
            channel: Some(Channel::Plain(socket)),
            stage: Stage::Unknown,
            input: Input::default(),
            output: Output::default(),
            incoming_tags: None,
            outgoing_tags: None,
            held: None,
            jobs: Vec::new(),
            client: ClientIdentity {
                user: String::new(),
                peer: origin.to_string(),
                session,
            },
            account: context.service.buffers.unauthenticated(),
            origin,
            address_share: None,
            is_held_back: false,
            begun: now,
            collects: false,
            moved: now,
            accepted: now,
            pairs: 0,
            owed: None,
        }
    }

    /// Returns whether the peer is not authenticated yet.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        matches!(
            self.stage,
            Stage::Unknown | Stage::Handshake | Stage::Proving(_) | Stage::Waiting(..)
        )
    }

    /// Returns when the connection was accepted.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// Returns a description of the client's stall, if it has kept the service waiting for longer
    /// than allowed.
    pub fn stall(&self, now: Instant, timeout: Duration) -> Option<&'static str> {
        let has_data = self.is_transferring() || self.output.waiting() > 0;
        if has_data && now.duration_since(self.moved) > timeout {
            return Some("received no data for too long");
        }
        let (since, length) = self.owed?;
        let allowed = timeout + Duration::from_secs((length / SLOWEST_PAYLOAD) as u64);
        (now.duration_since(since) > allowed).then_some("left a request unfinished for too long")
    }

    /// Returns whether nothing is in progress for the client.
    pub fn is_idle(&self) -> bool {
        let busy = matches!(&self.stage, Stage::Established(established) if established.is_busy());
        self.output.waiting() == 0 && self.held.is_none() && !busy
    }

    /// Returns whether the client's host has acknowledged all that was sent. Undelivered data are
    /// lost when a connection ends that has unread requests.
    pub fn is_delivered(&self) -> bool {
        self.channel.as_ref().is_none_or(Channel::is_delivered)
    }

    /// Returns the reason if an administrator or a ban requires the session to end.
    pub(crate) fn is_to_end(&self) -> Option<String> {
        match &self.stage {
            Stage::Established(established) => established.is_to_end().map(str::to_owned),
            _ => None,
        }
    }

    /// Returns since when an established session has been idle and holding nothing. A session
    /// delayed by its rate limit does not count as idle, since it may have sent a request.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Established(established)
                if self.is_idle() && !self.is_held_back && established.has_no_open_files() =>
            {
                Some(self.accepted)
            }
            _ => None,
        }
    }

    /// Updates the session's counting to the current limits by address, whether or not it sends
    /// requests.
    pub(crate) fn follow_limits(&mut self, now: Instant) {
        if let Some(address_share) = &mut self.address_share {
            address_share.apply_rules(now);
        }
    }

    /// Records why the session ends; the first reason counts.
    pub fn ends(&self, why: &'static str) {
        if let Stage::Established(established) = &self.stage {
            established.ends(why);
        }
    }

    /// Returns the identity for logs.
    pub fn client(&self) -> &ClientIdentity {
        &self.client
    }

    /// Returns a number that identifies the user: sessions of one user share their quota. Each
    /// unauthenticated connection has its own.
    pub(crate) fn charged_user(&self) -> usize {
        self.account.identity()
    }

    /// Returns the number and the descriptor of the data queue pair whose events the connection
    /// waits for.
    pub(crate) fn fabric_events(&self) -> Option<(u64, BorrowedFd<'_>)> {
        match &self.stage {
            Stage::Established(established) => {
                established.events().map(|events| (self.pairs, events))
            }
            _ => None,
        }
    }

    fn is_transferring(&self) -> bool {
        matches!(&self.stage, Stage::Established(established) if established.is_transferring())
    }

    fn is_closed_by_peer(&self) -> bool {
        self.channel
            .as_ref()
            .is_some_and(Channel::is_closed_by_peer)
    }

    /// Does everything that is possible now.
    pub fn drive(&mut self, context: &Context, now: Instant) -> NextStep {
        let begun = Instant::now();
        if let Stage::Established(established) = &mut self.stage {
            established.look_again();
        }
        for _ in 0..TURN {
            match self.step(context, now) {
                Ok(None) if begun.elapsed() < LONG_TURN => {}
                Ok(None) => break,
                Ok(Some(next)) => match self.push(next, now) {
                    Ok(None) => {}
                    Ok(Some(next)) => return next,
                    Err(end) => return self.end(context, end),
                },
                Err(end) => {
                    if self.collects {
                        // Replies to earlier requests are sent, for any kind of end.
                        let _ = self.flush(now);
                    }
                    return self.end(context, end);
                }
            }
        }
        match self.push(NextStep::Again, now) {
            Ok(_) => NextStep::Again,
            Err(end) => self.end(context, end),
        }
    }

    /// Sends the replies held back, before the turn ends. Returns the next step, or `None` if
    /// sending has freed space for more.
    fn push(&mut self, next: NextStep, now: Instant) -> Result<Option<NextStep>, NoFrame> {
        if !self.collects {
            return Ok(Some(next));
        }
        let writable = self.flush(now)?;
        Ok(match next {
            NextStep::Wait(interest) if writable || interest.readable => {
                Some(NextStep::Wait(Interest {
                    writable,
                    ..interest
                }))
            }
            NextStep::Wait(_) => None,
            next => Some(next),
        })
    }

    /// Sends pending output as far as the client takes it; returns whether any is left.
    fn flush(&mut self, now: Instant) -> Result<bool, NoFrame> {
        let transferring = self.is_transferring();
        let channel = self
            .channel
            .as_mut()
            .expect("a connection has its channel between steps");
        let sent = self.output.flush(channel).map_err(NoFrame::Broken)?;
        let flushed = channel.flush().map_err(NoFrame::Broken)?;
        if sent > 0 || (self.output.waiting() == 0 && !transferring) {
            self.moved = now;
        }
        Ok(self.output.waiting() > 0 || !flushed)
    }

    /// Returns the jobs for the workers. Each result is passed to [`Connection::resume`], in any
    /// order.
    pub fn jobs(&mut self) -> std::vec::Drain<'_, Job> {
        self.jobs.drain(..)
    }

    /// Accepts a worker's result; call [`Connection::drive`] afterwards.
    pub fn resume(&mut self, finished: FinishedRequest, context: &Context) {
        self.accept_result(finished, context);
    }

    fn step(&mut self, context: &Context, now: Instant) -> Result<Option<NextStep>, NoFrame> {
        self.collects = self.input.has_begun() && (1..COLLECTED).contains(&self.output.waiting());
        let writable = self.collects || self.flush(now)?;
        let wait = |readable| Ok(Some(NextStep::Wait(Interest { readable, writable })));
        if let Stage::Established(_) = &self.stage
            && let Some(next) = self.go_on(context, now)
        {
            return match next {
                ServingProgress::Moved => Ok(None),
                ServingProgress::NextStep(next) => Ok(Some(next)),
            };
        }
        // If the client has closed the connection, data in transfer are of no use: the adapter's
        // retransmissions until timeout and retry limit are in vain, and would keep others from the
        // file.
        if self.is_transferring() && self.is_closed_by_peer() {
            return Err(NoFrame::End);
        }
        match &self.stage {
            Stage::Ending if !writable => return Err(NoFrame::End),
            Stage::Ending => return wait(false),
            _ if self.is_full(context) => {
                // The server pauses reading here, so an unfinished request is not the client's
                // fault.
                self.owed = None;
                return wait(false);
            }
            _ => {}
        }
        if self.held.is_none() && !self.may_read_request(context, now) {
            self.owed = None;
            // Nothing is read from the client, so its disconnect is checked explicitly.
            if self.is_closed_by_peer() {
                return Err(NoFrame::End);
            }
            return match writable {
                true => wait(false),
                false => Ok(Some(NextStep::Starved)),
            };
        }
        if matches!(self.stage, Stage::Unknown) {
            return match self.detect_tls(context) {
                Err(NoFrame::Later) => wait(true),
                other => other.map(|()| None),
            };
        }
        if matches!(self.stage, Stage::Waiting(..)) {
            return Ok(self.wait_for_admission(context, now));
        }
        if let Some(task) = self.held.take() {
            return self.serve(context, task);
        }
        let frame = self.next_frame(context);
        // Received bytes that were not looked at yet do not count against the client.
        self.owed = match (&frame, self.input.owed(), self.owed) {
            (Err(NoFrame::Later), Some(length), None) => Some((now, length)),
            (Err(NoFrame::Later), Some(_), before) => before,
            _ => None,
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(NoFrame::Later) => return wait(true),
            Err(NoFrame::Starved) => return Ok(Some(NextStep::Starved)),
            Err(other) => return Err(other),
        };
        let whole = Instant::now();
        self.accepted = whole;
        let accepted = |request: &Request| AcceptedRequest {
            header: frame.header,
            kind: RequestKind::of(request),
            whole,
        };
        match Request::decode(frame.header.kind.operation(), &frame.body) {
            Ok(request) if frame.header.payload > 0 && !request.brings_data() => Err(
                NoFrame::Violation(format!("{} does not bring data", request.name())),
            ),
            Ok(request) if matches!(self.stage, Stage::Established(_)) => {
                if let Stage::Established(established) = &self.stage {
                    let bytes = frame.header.payload.into();
                    established.moved(&request, Flow::Received, Carrier::Stream, bytes);
                }
                if let Some(address_share) = &self.address_share {
                    address_share.charge_request();
                }
                let accepted = accepted(&request);
                self.serve(context, RequestTask::new(accepted, frame, request))
            }
            Ok(request) => {
                let accepted = accepted(&request);
                self.handle_handshake(context, accepted, request)
                    .map(|()| None)
            }
            Err(malformed) => Err(NoFrame::Violation(malformed.to_string())),
        }
    }

    /// Returns whether the rate limit of the client's address permits its next request.
    fn may_read_request(&mut self, context: &Context, now: Instant) -> bool {
        let before = self.is_held_back;
        self.is_held_back = match (&self.stage, &mut self.address_share) {
            (Stage::Established(_), Some(address_share)) => !address_share.may_read_request(now),
            _ => false,
        };
        if self.is_held_back && !before {
            count(&context.service.metrics.held_back, 1);
        }
        !self.is_held_back
    }

    /// Returns whether the client has reached its limits, so that no further request is read.
    fn is_full(&self, context: &Context) -> bool {
        let limits = &context.service.limits;
        let waiting = self.output.waiting();
        let (has_room, promised) = match &self.stage {
            Stage::Established(established) => (established.has_room(), established.promised()),
            _ => (true, 0),
        };
        !has_room
            || waiting >= limits.waiting
            || (promised > 0 && waiting + promised >= limits.payload)
            || self.output.waiting_outside_the_cache() >= MOST_OWNED
    }

    fn next_frame(&mut self, context: &Context) -> Result<Frame, NoFrame> {
        let service = &context.service;
        let limits = match self.stage {
            Stage::Established(_) => Limits {
                body: BODY_WITHOUT_RANGES + service.limits.ranges * Range::SMALLEST,
                payload: service.limits.payload,
            },
            _ => Limits::STRANGER,
        };
        let channel = self
            .channel
            .as_mut()
            .expect("a connection has its channel between steps");
        let frame = self
            .input
            .next(channel, limits, &mut self.incoming_tags, &self.account)?;
        if frame.header.kind.is_reply() {
            return Err(NoFrame::Violation("a client does not reply".into()));
        }
        Ok(frame)
    }

    /// Distinguishes plain from TLS by the first byte.
    fn detect_tls(&mut self, context: &Context) -> Result<(), NoFrame> {
        const TLS_HANDSHAKE: u8 = 22;
        let Some(Channel::Plain(socket)) = &self.channel else {
            return Err(NoFrame::Violation("channel recognised twice".into()));
        };
        let first = match socket.peek() {
            Ok(Some(first)) => first,
            Ok(None) => return Err(NoFrame::End),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(NoFrame::Later),
            Err(error) => return Err(NoFrame::Broken(error)),
        };
        let tls = context.tls();
        match (first, &tls, &self.origin) {
            (TLS_HANDSHAKE, None, _) => {
                return Err(NoFrame::Violation(
                    "the client requires TLS, which is not configured".into(),
                ));
            }
            (TLS_HANDSHAKE, Some(tls), _) => {
                if let Some(Channel::Plain(socket)) = self.channel.take() {
                    self.channel = Some(Channel::encrypt(socket, tls).map_err(NoFrame::Broken)?);
                }
            }
            (_, _, ConnectionOrigin::Remote(_)) if context.tls_only => {
                return Err(NoFrame::Violation(
                    "the client does not use TLS, which is required".into(),
                ));
            }
            _ => {}
        }
        self.stage = Stage::Handshake;
        Ok(())
    }

    /// Queues a reply and its data.
    pub(super) fn send(
        &mut self,
        context: &Context,
        accepted: AcceptedRequest,
        answer: Answer,
        grant: Option<MemoryGrant>,
    ) {
        let request = accepted.header;
        let body = reply::encode(&answer.outcome);
        let payload = answer.length();
        let header = Header {
            kind: Kind::reply(request.kind.operation()),
            body: body.len() as u32,
            payload: payload as u32,
            id: request.id,
        };
        let raw = header.emit();
        let mut bytes = Vec::with_capacity(raw.len() + body.len() + 16);
        bytes.extend_from_slice(&raw);
        bytes.extend_from_slice(&body);
        if let Some(tagger) = &mut self.outgoing_tags {
            bytes.extend_from_slice(&tagger.tag(&raw, &body));
        }
        let grant = grant
            .map(|mut grant| {
                shrink_grant(
                    &mut grant,
                    bytes.len(),
                    &answer.data,
                    context.service.limits.block,
                );
                grant
            })
            .filter(|grant| !grant.is_empty())
            .map(Arc::new);
        self.output.push_frame(bytes, grant.clone());
        let metrics = &context.service.metrics;
        metrics
            .times
            .observe(accepted.kind, accepted.whole.elapsed());
        for segment in answer.data {
            self.output.push_data(segment, grant.clone());
        }
    }

    fn end(&mut self, context: &Context, why: NoFrame) -> NextStep {
        let metrics = &context.service.metrics;
        self.ends(match &why {
            NoFrame::Violation(_) => "violation",
            NoFrame::Broken(_) => "broken",
            _ => "left",
        });
        match why {
            NoFrame::Violation(what) => {
                count(&metrics.violations, 1);
                context
                    .service
                    .audit
                    .record(&self.client, "violation", json!({ "what": what }));
            }
            NoFrame::Broken(error) if self.is_unauthenticated() => {
                if let Some(why) = tls::rejection_reason(&error) {
                    let reason = format!("the client's certificate: {why}");
                    self.note_refusal(context, &Refusal::new(Status::errno(libc::EACCES), reason));
                }
            }
            NoFrame::Broken(error) => {
                context.service.audit.record(
                    &self.client,
                    "broken",
                    json!({ "what": error.to_string() }),
                );
            }
            _ if !self.is_unauthenticated() => {
                context.service.audit.record(&self.client, "end", json!({}))
            }
            _ => {}
        }
        NextStep::End
    }
}

/// Reduces a grant to an answer's needs: the bytes of its frame and of its data outside the cache,
/// and the blocks that it pins.
pub(super) fn shrink_grant(grant: &mut MemoryGrant, frame: usize, data: &[Segment], block: usize) {
    let owned = data.iter().map(|segment| match segment {
        Segment::Owned(bytes) => bytes.len(),
        Segment::Block(..) => 0,
    });
    grant.shrink(frame + owned.sum::<usize>());
    grant.pin(pinned(data, block));
}

/// Returns the bytes of cache that `data` pins, in whole blocks.
pub(super) fn pinned(data: &[Segment], block: usize) -> usize {
    let is_pinned = |segment: &&Segment| matches!(segment, Segment::Block(..));
    data.iter().filter(is_pinned).count() * block
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel
            .as_ref()
            .expect("a connection has its channel between steps")
            .as_fd()
    }
}
