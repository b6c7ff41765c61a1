//! A connection's life: greeting, proof, requests, end.
//!
//! The conversation never waits. [`Conversation::pump`] does what can be done and says what it needs next; the event
//! loop brings it back then, and gives what [`Conversation::jobs`] has to the workers. Which requests are carried out
//! beside each other is `lane`'s to say; each is answered when it is done.
//!
//! `entrance` is the part before the session stands, `serving` the part after.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use serde_json::json;
use verbena_rfio_protocol::codec::Field;
use verbena_rfio_protocol::frame::{Kind, Limits};
use verbena_rfio_protocol::reply::{self, Refusal};
use verbena_rfio_protocol::types::Range;
use verbena_rfio_protocol::{Header, Request, Status};

use super::channel::Channel;
use super::greeting::{Authenticator, Known, Origin, Pending};
use super::input::{Frame, Input, NoFrame};
use super::output::Output;
use super::serving::{Finished, Job, Standing, Task};
use crate::auth::tags::Tagger;
use crate::auth::tls;
use crate::server::accounting::Flow;
use crate::server::addresses::Presence;
use crate::server::audit::Who;
use crate::server::budget::{Account, Grant};
use crate::server::engine::{Answer, Segment};
use crate::server::metrics::{Carrier, count};
use crate::server::request_times::Kind as Timed;
use crate::server::service::Service;
use crate::socket::Socket;

/// Frames handled before other conversations get their turn.
const TURN: usize = 32;

/// How long a turn may become before its next frame is left for later.
const LONG_TURN: Duration = Duration::from_millis(1);

/// How fast a payload must come at least once memory is held for it, in bytes a second; besides what every client is
/// allowed to be silent for.
const SLOWEST_PAYLOAD: usize = 64 << 10;

/// Bytes of replies that may wait for those of the next requests of a turn, to leave with them in one system call.
const COLLECTED: usize = 16 << 10;

/// Bytes of a request's body beside its ranges: two paths and what goes with them.
const BODY_WITHOUT_RANGES: usize = 16 << 10;

/// Bytes outside the cache that may wait for one client before its next request is looked at: what a thousand clients
/// that take nothing may hold is then still bounded, and small.
const MOST_OWNED: usize = 128 << 10;

/// What all conversations of a server need.
#[derive(Debug)]
pub struct Context {
    /// The service.
    pub service: Arc<Service>,
    /// Who is let in.
    pub authenticator: Authenticator,
    /// TLS, if it is configured.
    pub tls: RwLock<Option<tls::Server>>,
    /// Whether connections without TLS are refused.
    pub tls_only: bool,
}

impl Context {
    /// The certificate that new connections are shown, and those that are taken from them.
    fn tls(&self) -> Option<tls::Server> {
        self.tls
            .read()
            .unwrap_or_else(|poison| poison.into_inner())
            .clone()
    }

    /// New connections are shown this certificate from now on, and judged by these rules.
    pub fn replace_tls(&self, tls: Option<tls::Server>) {
        *self
            .tls
            .write()
            .unwrap_or_else(|poison| poison.into_inner()) = tls;
    }
}

/// What a conversation wants.
#[derive(Debug)]
#[must_use]
pub enum Next {
    /// To be called when the socket can do this, or the data queue pair has an event.
    Wait(Interest),
    /// To be called again after the others had their turn.
    Again,
    /// To be called again when memory is free.
    Starved,
    /// To be forgotten.
    End,
}

/// What a conversation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Bytes to receive.
    pub readable: bool,
    /// Room to send.
    pub writable: bool,
}

/// A request that will be answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Its header.
    pub header: Header,
    /// How its time is counted.
    kind: Timed,
    /// When it was whole.
    whole: Instant,
}

/// What became of looking after the requests that are under way.
#[derive(Debug)]
pub(super) enum Progress {
    /// Something moved; there may be more.
    Moved,
    /// The event loop has to do this first.
    Next(Next),
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing is known, not even whether it will be TLS.
    Unknown,
    Greeting,
    Proving(Pending),
    /// Known, and waiting for room.
    Waiting(Box<Known>, Asked, Instant),
    Standing(Box<Standing>),
    /// What waits is sent, then the connection ends.
    Ending,
}

/// A connection.
#[derive(Debug)]
pub struct Conversation {
    pub(super) channel: Option<Channel>,
    pub(super) stage: Stage,
    input: Input,
    output: Output,
    pub(super) incoming_tags: Option<Tagger>,
    pub(super) outgoing_tags: Option<Tagger>,
    /// A request that waits for memory.
    pub(super) held: Option<Task>,
    /// What workers are to do.
    pub(super) jobs: Vec<Job>,
    pub(super) who: Who,
    /// Whose memory it takes.
    pub(super) account: Account,
    pub(super) origin: Origin,
    /// What the session takes of its address's limits.
    pub(super) presence: Option<Presence>,
    /// Whether a rate holds its next request back.
    is_held_back: bool,
    begun: Instant,
    /// Whether replies were left to wait for those to the requests that have come already.
    collects: bool,
    /// When bytes last moved towards a client that has some waiting.
    moved: Instant,
    /// When it last asked for something.
    asked: Instant,
    /// Data queue pairs that this session has had.
    pub(super) pairs: u64,
    /// Since when memory is held for a payload that the client has begun to send, and how long that is.
    owed: Option<(Instant, usize)>,
}

impl Conversation {
    /// A connection that was just accepted; the socket must not wait.
    pub fn new(socket: Socket, origin: Origin, context: &Context, now: Instant) -> Self {
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
            who: Who {
                user: String::new(),
                peer: origin.to_string(),
                session,
            },
            account: context.service.buffers.stranger(),
            origin,
            presence: None,
            is_held_back: false,
            begun: now,
            collects: false,
            moved: now,
            asked: now,
            pairs: 0,
            owed: None,
        }
    }

    /// Whether the peer has not proved yet who it is.
    pub fn is_stranger(&self) -> bool {
        matches!(
            self.stage,
            Stage::Unknown | Stage::Greeting | Stage::Proving(_) | Stage::Waiting(..)
        )
    }

    /// When the connection was accepted.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// What the client has let the service wait for longer than it may, if it has.
    pub fn stall(&self, now: Instant, patience: Duration) -> Option<&'static str> {
        let has_data = self.is_transferring() || self.output.waiting() > 0;
        if has_data && now.duration_since(self.moved) > patience {
            return Some("took no data for too long");
        }
        let (since, length) = self.owed?;
        let allowed = patience + Duration::from_secs((length / SLOWEST_PAYLOAD) as u64);
        (now.duration_since(since) > allowed).then_some("left a request unfinished for too long")
    }

    /// Whether nothing is under way for the client.
    pub fn is_idle(&self) -> bool {
        let busy = matches!(&self.stage, Stage::Standing(standing) if standing.is_busy());
        self.output.waiting() == 0 && self.held.is_none() && !busy
    }

    /// Whether the client's host has all that was sent: what has not arrived is lost when a
    /// connection ends that has requests waiting.
    pub fn is_delivered(&self) -> bool {
        self.channel.as_ref().is_none_or(Channel::is_delivered)
    }

    /// Why the session is to end, if an administrator or a ban wants that.
    pub fn is_to_end(&self) -> Option<String> {
        match &self.stage {
            Stage::Standing(standing) => standing.is_to_end().map(str::to_owned),
            _ => None,
        }
    }

    /// Since when the session does nothing and holds nothing, if it stands. One whose rate holds it back may have asked for
    /// something.
    pub fn idle_since(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Standing(standing)
                if self.is_idle() && !self.is_held_back && standing.holds_nothing() =>
            {
                Some(self.asked)
            }
            _ => None,
        }
    }

    /// Counts the session as the limits by address are now, whether it asks for anything or not.
    pub fn follow_limits(&mut self, now: Instant) {
        if let Some(presence) = &mut self.presence {
            presence.follow(now);
        }
    }

    /// Says why the session ends, for its record; the first reason counts.
    pub fn ends(&self, why: &'static str) {
        if let Stage::Standing(standing) = &self.stage {
            standing.ends(why);
        }
    }

    /// Who this is, for logs.
    pub fn who(&self) -> &Who {
        &self.who
    }

    /// Tells users apart, strangers each for themselves: sessions of one user share what one gets.
    pub fn payer(&self) -> usize {
        self.account.identity()
    }

    /// The number and the descriptor of the data queue pair, whose events the conversation wants to be called for.
    pub fn fabric_events(&self) -> Option<(u64, BorrowedFd<'_>)> {
        match &self.stage {
            Stage::Standing(standing) => standing.events().map(|events| (self.pairs, events)),
            _ => None,
        }
    }

    fn is_transferring(&self) -> bool {
        matches!(&self.stage, Stage::Standing(standing) if standing.is_transferring())
    }

    fn is_left(&self) -> bool {
        self.channel.as_ref().is_some_and(Channel::is_left)
    }

    /// Does what can be done now.
    pub fn pump(&mut self, context: &Context, now: Instant) -> Next {
        let begun = Instant::now();
        if let Stage::Standing(standing) = &mut self.stage {
            standing.look_again();
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
                        // Whatever ends the session, what was asked for before has its replies.
                        let _ = self.flush(now);
                    }
                    return self.end(context, end);
                }
            }
        }
        match self.push(Next::Again, now) {
            Ok(_) => Next::Again,
            Err(end) => self.end(context, end),
        }
    }

    /// Sends the replies that were collected, before the turn ends; what is next then, and `None` if that made room for more.
    fn push(&mut self, next: Next, now: Instant) -> Result<Option<Next>, NoFrame> {
        if !self.collects {
            return Ok(Some(next));
        }
        let writable = self.flush(now)?;
        Ok(match next {
            Next::Wait(interest) if writable || interest.readable => Some(Next::Wait(Interest {
                writable,
                ..interest
            })),
            Next::Wait(_) => None,
            next => Some(next),
        })
    }

    /// Sends what waits, as far as the client takes it; whether anything is left.
    fn flush(&mut self, now: Instant) -> Result<bool, NoFrame> {
        let transferring = self.is_transferring();
        let channel = self
            .channel
            .as_mut()
            .expect("a conversation has its channel between steps");
        let sent = self.output.flush(channel).map_err(NoFrame::Broken)?;
        let flushed = channel.flush().map_err(NoFrame::Broken)?;
        if sent > 0 || (self.output.waiting() == 0 && !transferring) {
            self.moved = now;
        }
        Ok(self.output.waiting() > 0 || !flushed)
    }

    /// What workers are to do; each result goes to [`Conversation::resume`], in whichever order they come.
    pub fn jobs(&mut self) -> std::vec::Drain<'_, Job> {
        self.jobs.drain(..)
    }

    /// Takes a worker's result; `pump` must follow.
    pub fn resume(&mut self, finished: Finished, context: &Context) {
        self.take_back(finished, context);
    }

    fn step(&mut self, context: &Context, now: Instant) -> Result<Option<Next>, NoFrame> {
        self.collects = self.input.has_begun() && (1..COLLECTED).contains(&self.output.waiting());
        let writable = self.collects || self.flush(now)?;
        let wait = |readable| Ok(Some(Next::Wait(Interest { readable, writable })));
        if let Stage::Standing(_) = &self.stage
            && let Some(next) = self.go_on(context, now)
        {
            return match next {
                Progress::Moved => Ok(None),
                Progress::Next(next) => Ok(Some(next)),
            };
        }
        // Nobody waits for data that are on their way to a client that is gone: what the adapter tries yet, for timeout
        // and retries, is in vain, and would keep others from the file.
        if self.is_transferring() && self.is_left() {
            return Err(NoFrame::End);
        }
        match &self.stage {
            Stage::Ending if !writable => return Err(NoFrame::End),
            Stage::Ending => return wait(false),
            _ if self.is_full(context) => {
                // It is not the client who leaves a request unfinished: nothing of it is taken meanwhile.
                self.owed = None;
                return wait(false);
            }
            _ => {}
        }
        if self.held.is_none() && !self.may_ask(context, now) {
            self.owed = None;
            // Nothing of the client is read, so that its end would not be found.
            if self.is_left() {
                return Err(NoFrame::End);
            }
            return match writable {
                true => wait(false),
                false => Ok(Some(Next::Starved)),
            };
        }
        if matches!(self.stage, Stage::Unknown) {
            return match self.recognise(context) {
                Err(NoFrame::Later) => wait(true),
                other => other.map(|()| None),
            };
        }
        if matches!(self.stage, Stage::Waiting(..)) {
            return Ok(self.wait_for_room(context, now));
        }
        if let Some(task) = self.held.take() {
            return self.serve(context, task);
        }
        let frame = self.next_frame(context);
        // What has come and was not looked at yet is nobody's debt.
        self.owed = match (&frame, self.input.owed(), self.owed) {
            (Err(NoFrame::Later), Some(length), None) => Some((now, length)),
            (Err(NoFrame::Later), Some(_), before) => before,
            _ => None,
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(NoFrame::Later) => return wait(true),
            Err(NoFrame::Starved) => return Ok(Some(Next::Starved)),
            Err(other) => return Err(other),
        };
        let whole = Instant::now();
        self.asked = whole;
        let asked = |request: &Request| Asked {
            header: frame.header,
            kind: Timed::of(request),
            whole,
        };
        match Request::decode(frame.header.kind.operation(), &frame.body) {
            Ok(request) if frame.header.payload > 0 && !request.brings_data() => Err(
                NoFrame::Violation(format!("{} does not bring data", request.name())),
            ),
            Ok(request) if matches!(self.stage, Stage::Standing(_)) => {
                if let Stage::Standing(standing) = &self.stage {
                    let bytes = frame.header.payload.into();
                    standing.moved(&request, Flow::Received, Carrier::Stream, bytes);
                }
                if let Some(presence) = &self.presence {
                    presence.has_asked();
                }
                let asked = asked(&request);
                self.serve(context, Task::new(asked, frame, request))
            }
            Ok(request) => {
                let asked = asked(&request);
                self.greet(context, asked, request).map(|()| None)
            }
            Err(malformed) => Err(NoFrame::Violation(malformed.to_string())),
        }
    }

    /// Whether the rate of the client's address leaves something for its next request.
    fn may_ask(&mut self, context: &Context, now: Instant) -> bool {
        let before = self.is_held_back;
        self.is_held_back = match (&self.stage, &mut self.presence) {
            (Stage::Standing(_), Some(presence)) => !presence.may_ask(now),
            _ => false,
        };
        if self.is_held_back && !before {
            count(&context.service.metrics.held_back, 1);
        }
        !self.is_held_back
    }

    /// Whether as much is under way for the client as may be, so that nothing further is looked at.
    fn is_full(&self, context: &Context) -> bool {
        let limits = &context.service.limits;
        let waiting = self.output.waiting();
        let (has_room, promised) = match &self.stage {
            Stage::Standing(standing) => (standing.has_room(), standing.promised()),
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
            Stage::Standing(_) => Limits {
                body: BODY_WITHOUT_RANGES + service.limits.ranges * Range::SMALLEST,
                payload: service.limits.payload,
            },
            _ => Limits::STRANGER,
        };
        let channel = self
            .channel
            .as_mut()
            .expect("a conversation has its channel between steps");
        let frame = self
            .input
            .next(channel, limits, &mut self.incoming_tags, &self.account)?;
        if frame.header.kind.is_reply() {
            return Err(NoFrame::Violation("a client does not reply".into()));
        }
        Ok(frame)
    }

    /// Plain or TLS, by the first byte.
    fn recognise(&mut self, context: &Context) -> Result<(), NoFrame> {
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
                    "client wants TLS, which is not configured".into(),
                ));
            }
            (TLS_HANDSHAKE, Some(tls), _) => {
                if let Some(Channel::Plain(socket)) = self.channel.take() {
                    self.channel = Some(Channel::encrypt(socket, tls).map_err(NoFrame::Broken)?);
                }
            }
            (_, _, Origin::Remote(_)) if context.tls_only => {
                return Err(NoFrame::Violation(
                    "client does not use TLS, which is required".into(),
                ));
            }
            _ => {}
        }
        self.stage = Stage::Greeting;
        Ok(())
    }

    /// Queues a reply, and the data that go with it.
    pub(super) fn send(
        &mut self,
        context: &Context,
        asked: Asked,
        answer: Answer,
        grant: Option<Grant>,
    ) {
        let request = asked.header;
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
                settle(
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
        metrics.times.observe(asked.kind, asked.whole.elapsed());
        for segment in answer.data {
            self.output.push_data(segment, grant.clone());
        }
    }

    fn end(&mut self, context: &Context, why: NoFrame) -> Next {
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
                    .record(&self.who, "violation", json!({ "what": what }));
            }
            NoFrame::Broken(error) if self.is_stranger() => {
                if let Some(why) = tls::why_refused_here(&error) {
                    let reason = format!("the client's certificate: {why}");
                    self.note_refusal(context, &Refusal::new(Status::errno(libc::EACCES), reason));
                }
            }
            NoFrame::Broken(error) => {
                context.service.audit.record(
                    &self.who,
                    "broken",
                    json!({ "what": error.to_string() }),
                );
            }
            _ if !self.is_stranger() => context.service.audit.record(&self.who, "end", json!({})),
            _ => {}
        }
        Next::End
    }
}

/// Makes a grant what an answer needs: the bytes of its frame and of its data outside the cache, and the blocks that it
/// pins.
pub(super) fn settle(grant: &mut Grant, frame: usize, data: &[Segment], block: usize) {
    let owned = data.iter().map(|segment| match segment {
        Segment::Owned(bytes) => bytes.len(),
        Segment::Block(..) => 0,
    });
    grant.shrink(frame + owned.sum::<usize>());
    grant.pin(pinned(data, block));
}

/// Bytes of the cache that data hold, in whole blocks.
pub(super) fn pinned(data: &[Segment], block: usize) -> usize {
    let is_pinned = |segment: &&Segment| matches!(segment, Segment::Block(..));
    data.iter().filter(is_pinned).count() * block
}

impl AsFd for Conversation {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel
            .as_ref()
            .expect("a conversation has its channel between steps")
            .as_fd()
    }
}
