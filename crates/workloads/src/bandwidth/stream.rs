//! A stream of messages with a fixed number in flight, over one or several links, posted singly or
//! in lists.

use super::receiver::Credit;
use crate::wiring::Wired;
use verbena_fabric::*;

/// Maximum number of requests posted at once.
pub const LONGEST_LIST: usize = 64;
/// Interval of signalled messages on a link; shorter with a small window.
const SIGNAL_EVERY: u64 = 16;
/// Messages in flight.
const WINDOW: u64 = 64;
/// Total size of buffers used in turn, in bytes: larger than a core's share of the caches, at both
/// ends.
pub const FOOTPRINT: usize = 64 << 20;
/// Minimum number of buffers for large messages: some in flight, and some being read.
const LEAST_BUFFERS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Write,
    WriteImmediate,
    Read,
    Send,
}

impl Flow {
    /// Returns whether a message consumes a receive request and so notifies the receiver.
    pub fn is_received(self) -> bool {
        matches!(self, Flow::Send | Flow::WriteImmediate)
    }
}

/// The handling of received data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// It is not read.
    Left,
    /// The notified process reads it: the receiver of messages, the initiator of reads; for plain
    /// writes none.
    Read,
}

#[derive(Debug, Clone, Copy)]
pub struct Stream {
    pub flow: Flow,
    pub size: usize,
    /// Messages in flight, over all links.
    pub window: u64,
    /// Messages per doorbell.
    pub list: usize,
    /// Buffers used in turn, at both ends.
    pub buffers: usize,
    pub arrived: Arrived,
    /// Offset of the receive buffers.
    pub arrival: usize,
    pub placement: Placement,
    /// Messages of a link per signalled completion; fewer with a small window.
    pub signal_every: u64,
}

impl Stream {
    /// Returns a stream by reference over one buffer, which stays in the caches and is not read.
    pub fn new(flow: Flow, size: usize) -> Stream {
        Stream {
            flow,
            size,
            window: WINDOW,
            list: 1,
            buffers: 1,
            arrived: Arrived::Left,
            arrival: size.next_multiple_of(64),
            placement: Placement::Reference,
            signal_every: SIGNAL_EVERY,
        }
    }

    /// Returns a stream like that of a program that processes its data: buffers used in turn,
    /// larger than the caches, and read on arrival.
    pub fn as_used(flow: Flow, size: usize) -> Stream {
        let one = Stream::new(flow, size);
        let buffers = (FOOTPRINT / one.stride()).max(LEAST_BUFFERS);
        Stream {
            buffers,
            // A message must not arrive in a buffer that is still to be read.
            window: WINDOW.min(buffers as u64 / 4),
            arrived: Arrived::Read,
            ..one
        }
    }

    /// Returns the distance between buffers in bytes.
    fn stride(&self) -> usize {
        self.size.next_multiple_of(64)
    }

    /// Returns the total size of the buffers in bytes.
    pub fn footprint(&self) -> usize {
        self.stride() * self.buffers
    }

    /// Returns the required size of the region in bytes.
    pub fn region(&self) -> usize {
        self.arrival + self.footprint() + self.size + 128
    }

    /// Sends `count` messages over `links` in turn and returns when all are complete and, if
    /// required, read.
    pub async fn run<F: Fabric>(
        &self,
        wired: &Wired<F>,
        links: &[usize],
        count: u64,
    ) -> Result<()> {
        let turns = links.len() as u64;
        let every = self.signal_every.min((self.window / turns / 2).max(1));
        let mut credit = Credit::of(self, count);
        let mut covered = vec![0u64; links.len()];
        let mut into = [Completion::default(); 16];
        let (mut posted, mut completed) = (0u64, 0u64);
        while completed < count {
            while posted < count {
                let link = (posted % turns) as usize;
                let number = (self.list as u64).min(count - posted).min(self.window);
                if posted - completed + number > self.window {
                    break;
                }
                credit.until(wired, posted + number).await?;
                let mark = |i: u64, covered: &mut u64| {
                    *covered += 1;
                    // The last message over each link ends the stream, so it must be signalled.
                    let last = posted + i + turns >= count || i + 1 == number && turns > 1;
                    match *covered >= every || last {
                        true => (Signal::Signalled, std::mem::take(covered)),
                        false => (Signal::Silent, *covered),
                    }
                };
                let covered = &mut covered[link];
                self.post(wired, links[link], posted, number, |i| mark(i, covered))
                    .await?;
                posted += number;
            }
            let got = wired.sends.wait(&mut into, wired.setup.wait).await?;
            let before = completed;
            for completion in &into[..got] {
                completed += completion.check()?.id;
            }
            if self.flow == Flow::Read && self.arrived == Arrived::Read {
                for message in before..completed {
                    self.read(wired, self.buffer(message)).await?;
                }
            }
        }
        credit.until_all_is_read(wired).await
    }

    /// Posts `number` messages with one doorbell, beginning with `first`; `mark` returns a
    /// message's signalling and id.
    #[inline]
    async fn post<F: Fabric>(
        &self,
        wired: &Wired<F>,
        link: usize,
        first: u64,
        number: u64,
        mut mark: impl FnMut(u64) -> (Signal, u64),
    ) -> Result<()> {
        let end = &wired.links[link];
        let remote = wired.remotes[end.peer];
        let request = |i: u64, local, (signal, id)| {
            let operation = self.operation(remote, self.buffer(first + i));
            let request = WorkRequest::<F>::new(id, operation, local)
                .signal(signal)
                .placement(self.placement);
            match self.flow {
                Flow::Send | Flow::WriteImmediate => request.to(end.destination()),
                Flow::Write | Flow::Read => request,
            }
        };
        let slice = |i: u64| {
            let at = self.local(self.buffer(first + i));
            [Slice::new(&wired.region, at, self.size)]
        };
        if number == 1 {
            return end.pair.post_send(&[request(0, &slice(0), mark(0))]).await;
        }
        let slices: [_; LONGEST_LIST] = std::array::from_fn(|i| slice(i as u64));
        let mut list = [request(0, &slices[0], (Signal::Silent, 0)); LONGEST_LIST];
        let list = &mut list[..number as usize];
        for (i, one) in list.iter_mut().enumerate() {
            *one = request(i as u64, &slices[i], mark(i as u64));
        }
        end.pair.post_send(list).await
    }

    /// Returns the buffer of a message.
    #[inline]
    pub(super) fn buffer(&self, message: u64) -> usize {
        (message % self.buffers as u64) as usize
    }

    /// Returns the offset of a receive buffer.
    #[inline]
    pub(super) fn arrival_of(&self, buffer: usize) -> usize {
        self.arrival + buffer * self.stride()
    }

    /// Reads the received data of a buffer with the CPU.
    pub(super) async fn read<F: Fabric>(&self, wired: &Wired<F>, buffer: usize) -> Result<()> {
        let at = self.arrival_of(buffer);
        wired.region.consume(at, self.size).await
    }

    #[inline]
    fn local(&self, buffer: usize) -> usize {
        match self.flow {
            Flow::Read => self.arrival_of(buffer),
            _ => buffer * self.stride(),
        }
    }

    #[inline]
    fn operation(&self, remote: RemoteRegion, buffer: usize) -> Operation {
        let to = remote.at(self.arrival_of(buffer));
        match self.flow {
            Flow::Write => Operation::Write { to },
            Flow::WriteImmediate => Operation::WriteImmediate { to, immediate: 0 },
            Flow::Read => Operation::Read {
                from: remote.at(buffer * self.stride()),
            },
            Flow::Send => Operation::Send,
        }
    }
}
