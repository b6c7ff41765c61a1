//! Transfers over the kernel's sockets: both sides copy, in pieces, and a target's processor serves
//! one-sided access.

use super::cause::Cause;
use super::notice::{Content, Event, EventKind, Exchange};
use super::world::{Rank, World};
use crate::stage;
use std::rc::Rc;

impl World {
    /// Has a rank serve an access whose first piece has arrived from another rank.
    pub(super) fn serve(
        self: &Rc<Self>,
        to: usize,
        (sent, exchange): (Cause, Exchange),
        out: u64,
        back: u64,
    ) {
        let target = self.rank(to);
        let piece = exchange.event(EventKind::Piece);
        target.mail(piece).send(sent);
        self.cluster.sim().start(async move {
            target.drain(out, piece).await;
            let answer = exchange.event(EventKind::Answer);
            target.stream(sent.rank, back, answer, None).await;
        });
    }
}

impl Rank {
    /// Sends `out` bytes to a rank, whose processor answers with `back` bytes.
    pub(super) async fn ask(&self, peer: usize, out: u64, back: u64) {
        let exchange = self.open();
        let access = Content::Access {
            exchange,
            out,
            back,
        };
        let piece = exchange.event(EventKind::Piece);
        self.stream(peer, out, piece, Some(access)).await;
        self.drain(back, exchange.event(EventKind::Answer)).await;
    }

    /// Sends bytes in pieces; each is `event` at the receiver, or the first is `first`.
    pub(super) async fn stream(&self, to: usize, bytes: u64, event: Event, first: Option<Content>) {
        let header = self.world.mpi.header.0;
        let mut first = first;
        for piece in self.all_pieces(bytes) {
            self.spend_on_piece(stage::SEND).await;
            self.copy(stage::COPY_OUT, piece).await;
            let told = first.take().unwrap_or(Content::Event(event));
            self.deliver(to, piece + header, told).await;
        }
    }

    /// Receives bytes in pieces, which are `event`.
    pub(super) async fn drain(&self, bytes: u64, event: Event) {
        let pieces = self.mail(event);
        for piece in self.all_pieces(bytes) {
            self.wait_for(&pieces).await;
            self.find().await;
            self.spend_on_piece(stage::MATCH).await;
            self.copy(stage::COPY_IN, piece).await;
        }
        self.release_mail(event);
        self.spend(stage::MATCH, self.world.mpi.overhead).await;
    }
}
