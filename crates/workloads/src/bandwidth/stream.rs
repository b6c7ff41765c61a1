//! A stream of messages with so many in flight, over one or several links, posted one by one or in lists.

use crate::wiring::Wired;
use verbena_fabric::*;

/// Longest list posted at once.
pub const LONGEST_LIST: usize = 64;
/// Of the messages of a link, every so many is signalled, or more often with a small window.
const SIGNAL_EVERY: u64 = 16;

/// What flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    Write,
    Read,
    Send,
}

/// A stream to run.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    pub flow: Flow,
    pub size: usize,
    /// Messages in flight, over all links.
    pub window: u64,
    /// Messages posted with one doorbell.
    pub list: usize,
    /// Buffers used in turn.
    pub buffers: usize,
    /// Bytes from one buffer to the next.
    pub stride: usize,
    /// Where buffers begin at the peer.
    pub arrival: usize,
    pub placement: Placement,
    /// Messages of a link for which one completion is asked, fewer with a small window.
    pub signal_every: u64,
}

impl Stream {
    /// Writes of `size` by reference over one buffer.
    pub fn new(flow: Flow, size: usize) -> Stream {
        Stream {
            flow,
            size,
            window: 64,
            list: 1,
            buffers: 1,
            stride: size,
            arrival: size.next_multiple_of(64),
            placement: Placement::Reference,
            signal_every: SIGNAL_EVERY,
        }
    }

    /// Bytes of region that it needs.
    pub fn region(&self) -> usize {
        self.arrival + self.stride * self.buffers + self.size + 128
    }

    /// Sends `count` messages over `links` in turn and returns when all are complete.
    pub async fn run<F: Fabric>(
        &self,
        wired: &Wired<F>,
        links: &[usize],
        count: u64,
    ) -> Result<()> {
        let turns = links.len() as u64;
        let every = self.signal_every.min((self.window / turns / 2).max(1));
        let slices: Vec<[Slice<'_, F::Region>; 1]> = (0..self.buffers)
            .map(|i| [Slice::new(&wired.region, self.local(i), self.size)])
            .collect();
        let template =
            WorkRequest::<F>::new(0, Operation::Send, &slices[0]).placement(self.placement);
        let mut list = [template; LONGEST_LIST];
        let mut covered = vec![0u64; links.len()];
        let mut into = [Completion::default(); 16];
        let (mut posted, mut completed) = (0u64, 0u64);
        while completed < count {
            while posted < count {
                let link = (posted % turns) as usize;
                let end = &wired.links[links[link]];
                let number = (self.list as u64).min(count - posted).min(self.window);
                if posted - completed + number > self.window {
                    break;
                }
                for (i, request) in list[..number as usize].iter_mut().enumerate() {
                    let index = posted + i as u64;
                    let buffer = (index % self.buffers as u64) as usize;
                    covered[link] += 1;
                    // The last message over each link ends the stream, so it must be seen.
                    let last = index + turns >= count || i as u64 + 1 == number && turns > 1;
                    let signalled = covered[link] >= every || last;
                    request.operation = self.operation(wired.remotes[end.peer], buffer);
                    request.local = &slices[buffer];
                    request.destination = match self.flow {
                        Flow::Send => end.destination(),
                        _ => Destination::Connected,
                    };
                    request.signal = if signalled {
                        Signal::Signalled
                    } else {
                        Signal::Silent
                    };
                    request.id = covered[link];
                    if signalled {
                        covered[link] = 0;
                    }
                }
                end.pair.post_send(&list[..number as usize]).await?;
                posted += number;
            }
            let got = wired.sends.wait(&mut into, wired.setup.wait).await?;
            for completion in &into[..got] {
                completed += completion.check()?.id;
            }
        }
        Ok(())
    }

    fn local(&self, buffer: usize) -> usize {
        match self.flow {
            Flow::Read => self.arrival + buffer * self.stride,
            _ => 0,
        }
    }

    #[inline]
    fn operation(&self, remote: RemoteRegion, buffer: usize) -> Operation {
        match self.flow {
            Flow::Write => Operation::Write {
                to: remote.at(self.arrival + buffer * self.stride),
            },
            Flow::Read => Operation::Read { from: remote.at(0) },
            Flow::Send => Operation::Send,
        }
    }

    /// The other side of sends: receives `count` messages, keeping the queue filled. `filled` receives are posted.
    pub async fn drain<F: Fabric>(&self, wired: &Wired<F>, link: usize, count: u64) -> Result<()> {
        let mut into = [Completion::default(); 16];
        let mut received = 0;
        while received < count {
            let got = wired.receives.wait(&mut into, wired.setup.wait).await?;
            for completion in &into[..got] {
                completion.check()?;
            }
            received += got as u64;
            wired
                .post_receives(link, (self.arrival, self.size), got)
                .await?;
        }
        Ok(())
    }
}
