//! Messages inside a node.
//!
//! Up to the buffer size both copies find the data in the cache, piece by piece if the library
//! divides messages: the receiver copies a piece while the sender copies the next one. The receiver
//! of short messages copies one while the sender copies the next message. Above the buffer size the
//! data pass through memory and one buffer, which the receiver must have emptied before the sender
//! fills it again.

use super::envelope::{Envelope, Local};
use super::matching::Origin;
use super::world::{Rank, World};
use crate::cluster::CacheState;
use crate::kernel::Mailbox;
use std::rc::Rc;

/// Buffered messages that the receiver may lag behind.
const AHEAD: usize = 8;

impl Rank {
    /// Returns where the data of a message to or from `peer` are when they are copied.
    fn state(&self, peer: usize, bytes: u64) -> CacheState {
        match bytes <= self.world.mpi.intranode_buffer.0 {
            true => CacheState::OtherCore(self.world.cores(self.number, peer)),
            false => CacheState::Cold,
        }
    }

    /// Iterates over the sizes of a message's pieces; there is at least one.
    fn pieces(&self, bytes: u64, state: CacheState) -> impl Iterator<Item = u64> + use<> {
        let piece = match (state, self.world.mpi.intranode_piece) {
            (CacheState::OtherCore(_), Some(piece)) => piece.0.max(1),
            _ => bytes.max(1),
        };
        let number = bytes.div_ceil(piece).max(1);
        (0..number).map(move |index| piece.min(bytes - index * piece))
    }

    pub(super) async fn send_inside(&self, to: usize, bytes: u64, origin: Origin) {
        self.compute(self.world.mpi.intranode).await;
        let state = self.state(to, bytes);
        let buffer = match state {
            CacheState::OtherCore(_) => None,
            CacheState::Cold => Some(self.world.buffer(self.number, to).acquire().await),
        };
        let mut pieces = self.pieces(bytes, state);
        let first = pieces.next().unwrap_or_default();
        self.process.copy(first, state).await;
        let sim = self.process.sim().clone();
        let (taken, rest) = (Mailbox::new(&sim), Mailbox::new(&sim));
        let world: Rc<World> = self.world.clone();
        // The cache line with the flag has to reach the other core.
        let cores = self.world.cores(self.number, to);
        let flag = self.process.node().cpu().load_from(cores);
        let due = sim.now() + flag;
        let local = Local {
            bytes,
            sent: self.cause(),
            rest: rest.clone(),
            taken: taken.clone(),
        };
        let behind = world.relations(to).inbox.behind(self.number) >= AHEAD;
        let timer = sim.clone();
        sim.start(async move {
            timer.sleep_until(due).await;
            world.arrive(to, origin, Envelope::Local(local));
        });
        for piece in pieces {
            self.process.copy(piece, state).await;
            let (timer, rest, cause) = (sim.clone(), rest.clone(), self.cause());
            sim.start(async move {
                timer.sleep_until(cause.at + flag).await;
                rest.send(cause);
            });
        }
        if state == CacheState::Cold || behind {
            self.wait_for(&taken).await;
        }
        drop(buffer);
    }

    pub(super) async fn receive_inside(&self, local: Local) -> u64 {
        self.compute(self.world.mpi.intranode).await;
        let state = self.state(local.sent.rank, local.bytes);
        for (number, piece) in self.pieces(local.bytes, state).enumerate() {
            if number > 0 {
                self.wait_for(&local.rest).await;
            }
            self.process.copy(piece, state).await;
        }
        local.taken.send(self.cause());
        local.bytes
    }
}
