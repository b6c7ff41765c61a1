//! Transfers over the kernel's sockets: both sides copy, in pieces, and a target's processor serves
//! one-sided access.

use super::cause::Cause;
use super::world::Rank;
use crate::kernel::Mailbox;
use crate::stage;

impl Rank {
    /// Sends `out` bytes to a rank, whose processor answers with `back` bytes.
    pub(super) async fn ask(&self, peer: usize, out: u64, back: u64) {
        let sim = self.process.sim().clone();
        let (there, here) = (Mailbox::new(&sim), Mailbox::new(&sim));
        let (served, answer) = (there.clone(), here.clone());
        let (world, from) = (self.world.clone(), self.number);
        // Starts in the target's part of the simulation.
        let serve = move || {
            let target = world.rank(peer);
            sim.clone().start(async move {
                target.drain(out, &served).await;
                target.stream(from, back, &answer, || ()).await;
            });
        };
        self.stream(peer, out, &there, serve).await;
        self.drain(back, &here).await;
    }

    /// Sends bytes in pieces; calls `first` when the first has arrived.
    pub(super) async fn stream(
        &self,
        to: usize,
        bytes: u64,
        there: &Mailbox<Cause>,
        first: impl FnOnce() + 'static,
    ) {
        let header = self.world.mpi.header.0;
        let mut first = Some(first);
        for piece in self.all_pieces(bytes) {
            self.spend_on_piece(stage::SEND).await;
            self.copy(stage::COPY_OUT, piece).await;
            let (there, first) = (there.clone(), first.take());
            self.deliver(to, piece + header, move |sent| {
                there.send(sent);
                if let Some(first) = first {
                    first();
                }
            })
            .await;
        }
    }

    /// Receives bytes in pieces.
    pub(super) async fn drain(&self, bytes: u64, here: &Mailbox<Cause>) {
        for piece in self.all_pieces(bytes) {
            self.wait_for(here).await;
            self.find().await;
            self.spend_on_piece(stage::MATCH).await;
            self.copy(stage::COPY_IN, piece).await;
        }
        self.spend(stage::MATCH, self.world.mpi.overhead).await;
    }
}
