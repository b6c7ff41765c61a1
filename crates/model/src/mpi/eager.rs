//! Eager messages: sent at once, in one piece or several, each copied or read from its buffer.

use super::cause::Cause;
use super::envelope::Envelope;
use super::matching::Origin;
use super::notice::{Content, EventKind, Exchange};
use super::world::{Rank, World};
use crate::kernel::{Mailbox, Time};
use crate::profile::{Bytes, Channel, Mpi};
use crate::stage;
use std::rc::Rc;

/// Memory from which the adapter reads an eager message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A copy in a buffer of the library.
    Copy,
    /// The sender's buffer.
    Buffer,
}

impl Mpi {
    /// Returns whether a message goes without a rendezvous, and from which memory.
    pub(super) fn eagerly(&self, bytes: u64, blocking: bool) -> Option<Source> {
        let own = |value: Option<Bytes>| value.filter(|_| blocking);
        let eager = own(self.blocking_eager).unwrap_or(self.eager);
        let zero_copy = own(self.blocking_zero_copy).or(self.zero_copy);
        let can = self.channel != Channel::Socket;
        let from = match can && zero_copy.is_some_and(|least| bytes >= least.0) {
            true => Source::Buffer,
            false => Source::Copy,
        };
        (bytes <= eager.0).then_some(from)
    }
}

impl World {
    /// Handles the arrival of an eager message or its first piece.
    pub(super) fn arrive_eagerly(
        self: &Rc<Self>,
        to: usize,
        (sent, tag): (Cause, u32),
        bytes: u64,
        rest: Option<Exchange>,
    ) {
        let envelope = Envelope::Eager {
            bytes,
            sent,
            early: self.early(),
            rest,
        };
        let source = sent.rank;
        self.arrive(to, Origin { source, tag }, envelope);
    }
}

impl Rank {
    /// Returns the length of the first piece of an eager message.
    pub(super) fn first_piece(&self, bytes: u64) -> u64 {
        self.world.mpi.piece.map_or(bytes, |most| bytes.min(most.0))
    }

    /// Returns the lengths of the pieces after the first.
    fn further_pieces(&self, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let most = self.world.mpi.piece.map_or(u64::MAX, |most| most.0);
        let rest = bytes - bytes.min(most);
        (0..rest.div_ceil(most)).map(move |number| (rest - number * most).min(most))
    }

    /// Returns the lengths of all pieces, at least one.
    pub(super) fn all_pieces(&self, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        std::iter::once(self.first_piece(bytes)).chain(self.further_pieces(bytes))
    }

    /// Spends the processor time of a piece.
    pub(super) async fn spend_on_piece(&self, stage: &'static str) {
        let span = self.world.mpi.piece_overhead.unwrap_or_default();
        if span > Time::ZERO {
            self.spend(stage, span).await;
        }
    }

    pub(super) async fn send_eagerly(&self, to: usize, bytes: u64, origin: Origin, from: Source) {
        let copied = from == Source::Copy;
        if !copied {
            self.register(bytes).await;
        }
        self.take_credit(to).await;
        let completions = (!copied).then(|| Mailbox::new(self.process.sim()));
        let first = self.first_piece(bytes);
        let rest = (first < bytes).then(|| self.open());
        let told = Content::Eager {
            bytes,
            tag: origin.tag,
            rest,
        };
        self.send_piece(to, first, told, completions.as_ref()).await;
        for piece in self.further_pieces(bytes) {
            self.spend_on_piece(stage::SEND).await;
            let event = rest.map(|rest| Content::Event(rest.event(EventKind::Piece)));
            let told = event.unwrap_or(Content::Nothing);
            self.send_piece(to, piece, told, completions.as_ref()).await;
        }
        self.process.occupy(self.world.plan.after);
        if let Some(completions) = completions {
            for _ in self.all_pieces(bytes) {
                self.wait_for(&completions).await;
                self.process.take_completion().await;
            }
        }
    }

    /// Sends a piece: a copy, or one that is reported to `completions`.
    async fn send_piece(
        &self,
        to: usize,
        bytes: u64,
        told: Content,
        completions: Option<&Mailbox<Cause>>,
    ) {
        let whole = bytes + self.world.mpi.header.0;
        match completions {
            None => {
                self.copy(stage::COPY_OUT, bytes).await;
                self.deliver(to, whole, told).await;
            }
            Some(completions) => {
                self.deliver_and_tell(to, whole, told, Some(completions))
                    .await;
            }
        }
    }

    /// Receives the pieces of an eager message after the first.
    pub(super) async fn take_pieces(&self, bytes: u64, rest: Exchange) {
        let event = rest.event(EventKind::Piece);
        let pieces = self.mail(event);
        for piece in self.further_pieces(bytes) {
            self.wait_for(&pieces).await;
            self.find().await;
            self.spend_on_piece(stage::MATCH).await;
            self.copy(stage::COPY_IN, piece).await;
        }
        self.release_mail(event);
    }
}
