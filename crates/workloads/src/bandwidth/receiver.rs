//! The receiver of a stream. Reading the data takes time, so buffers are not free at once: the
//! receiver gives the sender credit in short messages, and a stream ends when the last message has
//! been read.

use super::stream::{Arrived, Stream};
use crate::wiring::Wired;
use verbena_fabric::*;

/// Maximum number of credit messages in flight.
const CREDITS: u64 = 4;
/// Length of a credit message in bytes.
const CREDIT: usize = 8;
/// Receive requests reserved for other messages.
const SPARE: usize = 16;

impl Stream {
    fn gives_credit(&self) -> bool {
        self.flow.is_received() && self.arrived == Arrived::Read
    }

    /// Returns the number of receive requests that the receiver posts.
    fn receives(&self, depth: u32) -> usize {
        let most = depth as usize - SPARE;
        match self.arrived {
            Arrived::Left => most,
            Arrived::Read => most.min(self.buffers / 2),
        }
    }

    fn messages_a_credit(&self, depth: u32) -> u64 {
        (self.receives(depth) as u64 / CREDITS).max(1)
    }

    /// Posts the initial receives of this side.
    pub async fn prepare<F: Fabric>(
        &self,
        wired: &Wired<F>,
        link: usize,
        side: Side,
    ) -> Result<()> {
        match side {
            Side::Receiver => {
                for buffer in 0..self.receives(wired.setup.depth) {
                    self.post_receive(wired, link, buffer).await?;
                }
                Ok(())
            }
            Side::Sender if self.gives_credit() => {
                let number = 2 * CREDITS as usize;
                wired
                    .post_receives(link, (self.credit_at(), CREDIT), number)
                    .await
            }
            Side::Sender => Ok(()),
        }
    }

    /// Returns the offset of credit messages: behind all buffers.
    fn credit_at(&self) -> usize {
        (self.region() - 64).next_multiple_of(8) - 8
    }

    /// Posts a receive; its id is the buffer, for the completion.
    async fn post_receive<F: Fabric>(
        &self,
        wired: &Wired<F>,
        link: usize,
        buffer: usize,
    ) -> Result<()> {
        let buffer = buffer % self.buffers;
        let place = (self.arrival_of(buffer), self.size);
        wired.post_receive(link, buffer as u64, place).await
    }

    /// Receives `count` messages, keeping the queue filled.
    pub async fn drain<F: Fabric>(&self, wired: &Wired<F>, link: usize, count: u64) -> Result<()> {
        let mut into = [Completion::default(); 16];
        let mut received = 0;
        let mut giving = CreditReturn::default();
        let depth = wired.setup.depth;
        let ahead = self.receives(depth);
        while received < count {
            let got = wired.receives.wait(&mut into, wired.setup.wait).await?;
            if self.arrived == Arrived::Left {
                for completion in &into[..got] {
                    completion.check()?;
                }
                received += got as u64;
                let place = (self.arrival, self.size);
                wired.post_receives(link, place, got).await?;
                continue;
            }
            for completion in &into[..got] {
                let place = completion.check()?.id as usize;
                let buffer = match completion.kind {
                    // The sender has chosen the address.
                    CompletionKind::ReceivedWrite => self.buffer(received),
                    _ => place,
                };
                self.read(wired, buffer).await?;
                self.post_receive(wired, link, place + ahead).await?;
                received += 1;
                if received % self.messages_a_credit(depth) == 0 || received == count {
                    giving.give(wired, link).await?;
                }
            }
        }
        giving.end(wired).await
    }
}

/// The role of a process on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Sender,
    Receiver,
}

/// Credit messages of the receiver; each waits for the completion of the previous one.
#[derive(Default)]
struct CreditReturn {
    on_its_way: bool,
}

impl CreditReturn {
    async fn give<F: Fabric>(&mut self, wired: &Wired<F>, link: usize) -> Result<()> {
        self.end(wired).await?;
        self.on_its_way = true;
        let (signal, placement) = (Signal::Signalled, Placement::Reference);
        wired
            .post(link, Operation::Send, (0, CREDIT), signal, placement)
            .await
    }

    async fn end<F: Fabric>(&mut self, wired: &Wired<F>) -> Result<()> {
        match std::mem::take(&mut self.on_its_way) {
            true => wired.sends.done(wired.setup.wait).await,
            false => Ok(()),
        }
    }
}

/// Credit of the sender of `count` messages.
pub(super) struct Credit<'a> {
    stream: &'a Stream,
    count: u64,
    /// Messages known to have been read.
    read: u64,
}

impl Credit<'_> {
    pub(super) fn of(stream: &Stream, count: u64) -> Credit<'_> {
        let read = match stream.gives_credit() {
            true => 0,
            false => u64::MAX,
        };
        Credit {
            stream,
            count,
            read,
        }
    }

    /// Waits until there are receive requests for this many messages.
    #[inline]
    pub(super) async fn until<F: Fabric>(&mut self, wired: &Wired<F>, messages: u64) -> Result<()> {
        if self.read == u64::MAX {
            return Ok(());
        }
        let ahead = self.stream.receives(wired.setup.depth) as u64;
        while messages > self.read + ahead {
            self.take(wired).await?;
        }
        Ok(())
    }

    pub(super) async fn until_all_is_read<F: Fabric>(mut self, wired: &Wired<F>) -> Result<()> {
        while self.read < self.count {
            self.take(wired).await?;
        }
        Ok(())
    }

    async fn take<F: Fabric>(&mut self, wired: &Wired<F>) -> Result<()> {
        let credit = wired.receives.one(wired.setup.wait).await?;
        let place = (self.stream.credit_at(), CREDIT);
        // Credit uses one connection: streams over several are not received.
        wired.post_receive(0, credit.id, place).await?;
        let each = self.stream.messages_a_credit(wired.setup.depth);
        self.read = (self.read + each).min(self.count);
        Ok(())
    }
}
