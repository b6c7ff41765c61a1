//! Rendezvous in fragments: the registration of one fragment overlaps with the transfer of others.
//!
//! Meanwhile the beginning of a message may be copied through preregistered buffers. The receiver
//! registers a fragment of the rest, announces its location, and continues with the next; the
//! sender registers its own and writes. Source: Open MPI's frequently asked questions, "How does
//! the OpenFabrics BTL work for long messages, without mpi_leave_pinned"; copies alone are
//! MVAPICH's R3.

use super::cause::Cause;
use super::notice::{Content, EventKind, Exchange};
use super::world::Rank;
use crate::kernel::{JoinHandle, Mailbox};
use crate::stage;

#[derive(Debug, PartialEq, Eq)]
struct Cut {
    /// Sizes of the copied pieces.
    pieces: Vec<u64>,
    /// Sizes of the zero-copy fragments.
    fragments: Vec<u64>,
    /// Number of either in flight.
    depth: usize,
}

fn pieces(bytes: u64, most: u64) -> Vec<u64> {
    let whole = (0..bytes / most).map(|_| most);
    let rest = Some(bytes % most).filter(|rest| *rest > 0);
    whole.chain(rest).collect()
}

impl Rank {
    fn cut(&self, bytes: u64) -> Cut {
        let mpi = &self.world.mpi;
        let pipeline = mpi
            .pipeline
            .as_ref()
            .expect("the profile was read with one");
        let copied = pipeline.copied.map_or(0, |copied| copied.0.min(bytes));
        Cut {
            pieces: pieces(copied, pipeline.buffer.unwrap_or(mpi.eager).0),
            fragments: pieces(bytes - copied, pipeline.fragment.0),
            depth: pipeline.depth.0 as usize,
        }
    }

    /// Sends the data in fragments; `answers` are the receiver's, one for each.
    pub(super) async fn send_in_fragments(
        &self,
        to: usize,
        bytes: u64,
        exchange: Exchange,
        answers: &Mailbox<Cause>,
    ) {
        let cut = self.cut(bytes);
        let copies = self.begin_copies_out(to, &cut, exchange);
        let completions = Mailbox::new(self.process.sim());
        let ports = self.ports_for(bytes);
        for (port, &fragment) in (0..).zip(&cut.fragments) {
            self.wait_for(answers).await;
            self.find().await;
            self.spend(stage::MATCH, self.world.mpi.overhead).await;
            self.register(fragment).await;
            self.write_piece(to, fragment, port % ports, &completions, exchange)
                .await;
        }
        copies.await;
        for _ in &cut.fragments {
            self.wait_for(&completions).await;
            self.process.take_completion().await;
        }
    }

    fn begin_copies_out(&self, to: usize, cut: &Cut, exchange: Exchange) -> JoinHandle<()> {
        let (own, pieces, depth) = (self.clone(), cut.pieces.clone(), cut.depth);
        self.process.sim().spawn(async move {
            let left = Mailbox::new(own.process.sim());
            let mut under_way = 0;
            for piece in pieces {
                if under_way == depth {
                    own.wait_for(&left).await;
                    own.process.take_completion().await;
                    under_way -= 1;
                }
                own.spend_on_piece(stage::SEND).await;
                own.copy(stage::COPY_OUT, piece).await;
                let header = own.world.mpi.header.0;
                let told = Content::Event(exchange.event(EventKind::Piece));
                own.deliver_and_tell(to, piece + header, told, Some(&left))
                    .await;
                under_way += 1;
            }
            for _ in 0..under_way {
                own.wait_for(&left).await;
                own.process.take_completion().await;
            }
        })
    }

    pub(super) async fn receive_in_fragments(&self, from: usize, bytes: u64, exchange: Exchange) {
        let cut = self.cut(bytes);
        let copies = self.begin_copies_in(&cut, exchange);
        let done = exchange.event(EventKind::Done);
        let written = self.mail(done);
        let header = self.world.mpi.header.0;
        for (number, &fragment) in cut.fragments.iter().enumerate() {
            if number >= cut.depth {
                self.wait_for(&written).await;
                self.process.notice().await;
            }
            self.register(fragment).await;
            let answer = Content::Event(exchange.event(EventKind::Answer));
            self.deliver(from, header, answer).await;
        }
        for _ in 0..cut.fragments.len().min(cut.depth) {
            self.wait_for(&written).await;
            self.process.notice().await;
        }
        self.release_mail(done);
        copies.await;
    }

    fn begin_copies_in(&self, cut: &Cut, exchange: Exchange) -> JoinHandle<()> {
        let (own, pieces) = (self.clone(), cut.pieces.clone());
        self.process.sim().spawn(async move {
            let event = exchange.event(EventKind::Piece);
            let arrived = own.mail(event);
            for piece in pieces {
                own.wait_for(&arrived).await;
                own.find().await;
                own.spend_on_piece(stage::MATCH).await;
                own.copy(stage::COPY_IN, piece).await;
            }
            own.release_mail(event);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn all_fragments_but_the_last_have_full_length() {
        assert_eq!(pieces(10, 4), [4, 4, 2]);
        assert_eq!(pieces(8, 4), [4, 4]);
        assert_eq!(pieces(3, 4), [3]);
        assert_eq!(pieces(0, 4), []);
    }
}
