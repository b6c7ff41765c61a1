//! Zero-copy messages: both sides agree first, then one of them moves the data.

use super::cause::Cause;
use super::envelope::Envelope;
use super::matching::Origin;
use super::notice::{Content, EventKind, Exchange};
use super::world::{Rank, World};
use crate::adapter::{Kind, Placement, Request};
use crate::kernel::Mailbox;
use crate::profile::{Channel, Rendezvous};
use crate::stage;
use std::rc::Rc;

impl World {
    /// Handles the arrival of the request of a rendezvous.
    pub(super) fn asks_for_rendezvous(
        self: &Rc<Self>,
        to: usize,
        (sent, tag): (Cause, u32),
        bytes: u64,
        exchange: Exchange,
    ) {
        let envelope = Envelope::Rendezvous {
            bytes,
            sent,
            early: self.early(),
            exchange,
        };
        let source = sent.rank;
        self.arrive(to, Origin { source, tag }, envelope);
    }
}

impl Rank {
    pub(super) fn rendezvous(&self) -> Rendezvous {
        self.world.mpi.rendezvous.unwrap_or_default()
    }

    /// Performs the sender's side after the request to the receiver.
    pub(super) async fn move_data(&self, to: usize, bytes: u64, exchange: Exchange) {
        let answer = exchange.event(EventKind::Answer);
        let answers = self.mail(answer);
        self.wait_for(&answers).await;
        self.find().await;
        self.spend(stage::MATCH, self.world.mpi.overhead).await;
        if self.world.mpi.channel == Channel::Socket {
            let piece = exchange.event(EventKind::Piece);
            Box::pin(self.stream(to, bytes, piece, None)).await;
        } else {
            match self.rendezvous() {
                Rendezvous::Write => Box::pin(self.write_data(to, bytes, exchange)).await,
                Rendezvous::Read => (),
                Rendezvous::Pipeline => {
                    let sent = self.send_in_fragments(to, bytes, exchange, &answers);
                    Box::pin(sent).await;
                }
            }
        }
        self.release_mail(answer);
    }

    /// Performs the receiver's side after request and receive have matched.
    pub(super) async fn take_data(&self, from: usize, bytes: u64, exchange: Exchange) {
        let header = self.world.mpi.header.0;
        let answer = Content::Event(exchange.event(EventKind::Answer));
        let told = self.deliver(from, header, answer);
        if self.world.mpi.channel == Channel::Socket {
            Box::pin(told).await;
            let piece = exchange.event(EventKind::Piece);
            return Box::pin(self.drain(bytes, piece)).await;
        }
        match self.rendezvous() {
            Rendezvous::Write => {
                self.register(bytes).await;
                Box::pin(told).await;
                let done = exchange.event(EventKind::Done);
                let written = self.mail(done);
                for _ in 0..self.ports_for(bytes) {
                    self.wait_for(&written).await;
                }
                self.release_mail(done);
                self.process.notice().await;
            }
            Rendezvous::Read => {
                self.register(bytes).await;
                Box::pin(self.read_data(from, bytes)).await;
                Box::pin(told).await;
            }
            Rendezvous::Pipeline => {
                Box::pin(told).await;
                Box::pin(self.receive_in_fragments(from, bytes, exchange)).await;
            }
        }
    }

    /// Returns the number of ports that share a message's data.
    pub(super) fn ports_for(&self, bytes: u64) -> u64 {
        match bytes >= self.world.mpi.stripe.0 {
            true => self.world.cluster.system().ports,
            false => 1,
        }
    }

    /// Writes a piece of the data, followed by the end message.
    pub(super) async fn write_piece(
        &self,
        to: usize,
        bytes: u64,
        port: u64,
        completions: &Mailbox<Cause>,
        exchange: Exchange,
    ) {
        let mut requests = [
            Request::new(Kind::Write, bytes, Placement::Reference),
            Request::new(Kind::Write, self.world.mpi.header.0, Placement::Inline),
        ];
        let pair = self.world.pair(self.number, to, port as usize);
        let doorbell = self.process.write_doorbell(&pair, &requests).await;
        let sent = self.cause();
        requests[0].completed = Some(Rank::told(sent, completions));
        let done = Content::Event(exchange.event(EventKind::Done));
        requests[1].notice = Some(self.notice(to, done));
        self.process.ring(&pair, doorbell, requests);
    }

    /// Writes all data, over the ports that share the message.
    async fn write_data(&self, to: usize, bytes: u64, exchange: Exchange) {
        let ports = self.ports_for(bytes);
        let completions: Mailbox<Cause> = Mailbox::new(self.process.sim());
        for port in 0..ports {
            let share = bytes / ports + u64::from(port < bytes % ports);
            self.write_piece(to, share, port, &completions, exchange)
                .await;
        }
        for _ in 0..ports {
            self.wait_for(&completions).await;
            self.process.take_completion().await;
        }
    }

    /// Reads all data as the receiver, over the ports that share the message.
    async fn read_data(&self, from: usize, bytes: u64) {
        let ports = self.ports_for(bytes);
        let completions: Mailbox<Cause> = Mailbox::new(self.process.sim());
        for port in 0..ports {
            let share = bytes / ports + u64::from(port < bytes % ports);
            let pair = self.world.pair(self.number, from, port as usize);
            let request = Request::new(Kind::Read, share, Placement::Reference);
            self.post_and_tell(&pair, request, &completions).await;
        }
        for _ in 0..ports {
            self.wait_for(&completions).await;
            self.process.take_completion().await;
        }
    }
}
