//! Point-to-point messages.

use super::cause::Cause;
use super::envelope::Envelope;
use super::matching::{Origin, Wanted};
use super::notice::{Content, Notice};
use super::world::Rank;
use crate::adapter::{Action, Kind, Pair, Placement, Request};
use crate::cluster::CacheState;
use crate::kernel::{JoinHandle, Mailbox, Time};
use crate::profile::{Channel, Rendezvous};
use crate::stage;
use std::rc::Rc;

/// Tag of messages that are distinguished by order alone.
pub(super) const PLAIN: u32 = 0;

impl Rank {
    /// Computes for `span`.
    pub async fn compute(&self, span: Time) {
        self.process.compute(span).await;
    }

    /// Computes for `span` as a stage of an operation.
    pub(super) async fn spend(&self, stage: &'static str, span: Time) {
        let start = self.process.now();
        self.compute(span).await;
        self.ended(stage, start);
    }

    /// Copies data as a stage of an operation.
    pub(super) async fn copy(&self, stage: &'static str, bytes: u64) {
        let start = self.process.now();
        self.process.copy(bytes, CacheState::Cold).await;
        self.ended(stage, start);
    }

    fn ended(&self, stage: &'static str, start: Time) {
        let (sim, node) = (self.process.sim(), self.world.node(self.number));
        sim.span(stage, node, start, self.process.now());
    }

    /// Delivers a small protocol message to the peer, which is notified on arrival.
    pub(super) async fn deliver(&self, to: usize, bytes: u64, content: Content) {
        self.deliver_and_tell(to, bytes, content, None).await;
    }

    /// Like [`Rank::deliver`], and sends to `completed`, if given, when the request has completed.
    pub(super) async fn deliver_and_tell(
        &self,
        to: usize,
        bytes: u64,
        content: Content,
        completed: Option<&Mailbox<Cause>>,
    ) {
        let mpi = &self.world.mpi;
        let placement = match mpi.inline.is_some_and(|most| bytes <= most.0) {
            true => Placement::Inline,
            false => Placement::Reference,
        };
        let kind = match mpi.channel {
            Channel::Write => Kind::Write,
            Channel::Send | Channel::Socket => Kind::Send,
        };
        let (rank, world) = (self.number, &self.world);
        let emptied = world.relations(rank).accounts.settle(to);
        let pair = world.pair(rank, to, 0);
        let mut request = [Request::new(kind, bytes, placement)];
        let doorbell = self.process.write_doorbell(&pair, &request).await;
        let sent = self.cause();
        request[0].notice = Some(Notice {
            emptied: emptied as u32,
            ..self.notice(to, content)
        });
        request[0].completed = completed.map(|to| Rank::told(sent, to));
        self.process.ring(&pair, doorbell, request);
    }

    /// Posts a request, and sends to `completed` when it has completed.
    pub(super) async fn post_and_tell(
        &self,
        pair: &Rc<Pair>,
        request: Request,
        completed: &Mailbox<Cause>,
    ) {
        let mut request = [request];
        let doorbell = self.process.write_doorbell(pair, &request).await;
        request[0].completed = Some(Rank::told(self.cause(), completed));
        self.process.ring(pair, doorbell, request);
    }

    /// Returns a notice of a message that is posted now.
    pub(super) fn notice(&self, to: usize, content: Content) -> Notice {
        Notice {
            from: self.number as u32,
            to: to as u32,
            sent: self.process.now(),
            emptied: 0,
            content,
        }
    }

    /// Returns a callback that reports an effect of a posted request to `to`.
    pub(super) fn told(sent: Cause, to: &Mailbox<Cause>) -> Action {
        let to = to.clone();
        Box::new(move || to.send(sent))
    }

    /// Detects a message sent by `deliver`. A rank whose processor was idle has waited for it.
    pub(super) async fn find(&self) {
        let wakeup = self.world.mpi.wakeup.filter(|_| self.process.is_idle());
        if let Some(wakeup) = wakeup {
            self.spend(stage::WAKEUP, wakeup).await;
        }
        match self.world.mpi.channel {
            Channel::Write => self.process.notice().await,
            Channel::Send | Channel::Socket => self.process.take_completion().await,
        }
    }

    /// Sends a message; returns when its buffer may be reused.
    pub async fn send(&self, to: usize, bytes: u64) {
        self.send_marked(to, bytes, PLAIN).await;
    }

    /// Sends a message with a tag.
    pub async fn send_marked(&self, to: usize, bytes: u64, tag: u32) {
        self.send_by(to, bytes, tag, true).await;
    }

    /// Sends a message with a tag as a call does that returns before: by the limits of such sends.
    pub async fn send_in_background(&self, to: usize, bytes: u64, tag: u32) {
        self.send_by(to, bytes, tag, false).await;
    }

    async fn send_by(&self, to: usize, bytes: u64, tag: u32, blocking: bool) {
        let mpi = &self.world.mpi;
        let origin = Origin {
            source: self.number,
            tag,
        };
        if self.world.nodes[to] == self.world.nodes[self.number] {
            return Box::pin(self.send_inside(to, bytes, origin)).await;
        }
        self.spend(stage::SEND, mpi.overhead).await;
        if let Some(way) = mpi.eagerly(bytes, blocking) {
            return self.send_eagerly(to, bytes, origin, way).await;
        }
        // Fragments are registered one by one, and sockets copy.
        if self.rendezvous() != Rendezvous::Pipeline && mpi.channel != Channel::Socket {
            self.register(bytes).await;
        }
        self.take_credit(to).await;
        let exchange = self.open();
        let told = Content::Rendezvous {
            bytes,
            tag,
            exchange,
        };
        self.deliver(to, mpi.header.0, told).await;
        self.process.occupy(self.world.plan.after);
        // Boxed, as in `receive_wanted`, to keep eager messages small.
        Box::pin(self.move_data(to, bytes, exchange)).await;
    }

    /// Receives the next message from a rank.
    pub async fn receive(&self, from: usize) {
        self.receive_marked(from, PLAIN).await;
    }

    /// Receives the next message from a rank with a tag.
    pub async fn receive_marked(&self, from: usize, tag: u32) {
        let wanted = Wanted {
            source: Some(from),
            tag: Some(tag),
        };
        self.receive_wanted(wanted).await;
    }

    /// Receives the next matching message and returns its size in bytes.
    pub async fn receive_wanted(&self, wanted: Wanted) -> u64 {
        let mpi = &self.world.mpi;
        let inbox = &self.world.relations(self.number).inbox;
        if let Some(passing) = mpi.unexpected_search {
            self.compute(passing * inbox.passed_for(wanted) as u64)
                .await;
        }
        let began = self.process.now();
        let (origin, envelope) = match inbox.find(wanted) {
            Some(letter) => letter,
            None => {
                let _inside = self.inside();
                inbox.wait(self.process.sim(), wanted).await
            }
        };
        self.goes_on(began, envelope.sent());
        let from = origin.source;
        match envelope {
            Envelope::Local(local) => Box::pin(self.receive_inside(local)).await,
            Envelope::Eager {
                bytes, early, rest, ..
            } => {
                let seen = self.find_message(from, early.as_ref(), mpi.overhead).await;
                self.copy(stage::COPY_IN, self.first_piece(bytes)).await;
                self.used(seen).await;
                if let Some(rest) = rest {
                    Box::pin(self.take_pieces(bytes, rest)).await;
                }
                bytes
            }
            Envelope::Rendezvous {
                bytes,
                early,
                exchange,
                ..
            } => {
                let seen = self
                    .find_message(from, early.as_ref(), mpi.overhead * 2)
                    .await;
                self.used(seen).await;
                Box::pin(self.take_data(from, bytes, exchange)).await;
                bytes
            }
        }
    }

    /// Starts a send that proceeds in the background.
    pub fn begin_send(&self, to: usize, bytes: u64) -> JoinHandle<()> {
        self.begin_send_marked(to, bytes, PLAIN)
    }

    pub(super) fn begin_send_marked(&self, to: usize, bytes: u64, tag: u32) -> JoinHandle<()> {
        let own = self.clone();
        self.process
            .sim()
            .spawn(async move { own.send_in_background(to, bytes, tag).await })
    }

    /// Starts a receive that proceeds in the background.
    pub fn begin_receive(&self, from: usize) -> JoinHandle<()> {
        self.begin_receive_marked(from, PLAIN)
    }

    pub(super) fn begin_receive_marked(&self, from: usize, tag: u32) -> JoinHandle<()> {
        let own = self.clone();
        self.process
            .sim()
            .spawn(async move { own.receive_marked(from, tag).await })
    }

    /// Sends to one rank and receives from another at the same time.
    pub async fn exchange(&self, to: usize, bytes: u64, from: usize) {
        self.exchange_marked(to, bytes, from, PLAIN).await;
    }

    /// The same with a tag.
    pub async fn exchange_marked(&self, to: usize, bytes: u64, from: usize, tag: u32) {
        let receive = self.begin_receive_marked(from, tag);
        self.send_marked(to, bytes, tag).await;
        receive.await;
    }
}
