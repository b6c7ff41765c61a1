//! A reliable connection with its completion queue.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use verbena_rfio_protocol::types::Endpoint;
use verbena_verbs::qp::PairType;
use verbena_verbs::qp::attributes::{Change, Connection};
use verbena_verbs::qp::builder::PairOptions;
use verbena_verbs::{
    AccessFlags, Channel, CompletionOpcode, CompletionQueue, Opcode, QueuePair, ReceiveWork,
    Region, Scratch, Segment, SendFlags, SendTarget, SendWork, Window, WorkCompletion,
};

use super::{Adapter, FabricError};
use crate::random::random;

/// The role of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The server: it initiates all transfers, and no peer may access its memory.
    Initiator,
    /// The client: the server may access memory that the client registered for that.
    Target,
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairCompletion {
    /// Number of a send-queue request.
    Sent(u64),
    /// Number of a receive, its length in bytes and its immediate data.
    Received(u64, u32, Option<u32>),
}

impl std::fmt::Display for PairCompletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sent(id) => write!(f, "of send request {id}"),
            Self::Received(id, length, _) => write!(f, "of receive {id} with {length} bytes"),
        }
    }
}

/// A reliable connection.
pub struct Pair {
    // Declared first, so dropped first: afterwards the adapter accesses no memory on its behalf.
    pair: QueuePair,
    completions: Arc<CompletionQueue>,
    channel: Arc<Channel>,
    adapter: Arc<Adapter>,
    sequence: u32,
    scratch: Mutex<Scratch>,
}

/// Depth of the send queue: a request's blocks, its notice and the previous one.
const SEND_DEPTH: u32 = 128;

/// Depth of the receive queue: an immediate for each read in flight.
const RECEIVE_DEPTH: u32 = 128;

impl Pair {
    /// Creates an unconnected queue pair; receives may be posted.
    ///
    /// # Errors
    /// Creating or initializing it fails.
    pub fn new(adapter: &Arc<Adapter>, purpose: Purpose) -> Result<Self, FabricError> {
        let channel = adapter.context().channel()?;
        let completions = adapter
            .context()
            .completion_queue(SEND_DEPTH + RECEIVE_DEPTH, Some(&channel))?;
        let options = PairOptions {
            send_depth: SEND_DEPTH,
            receive_depth: RECEIVE_DEPTH,
            segments: match purpose {
                Purpose::Initiator => adapter.segments() as u32,
                Purpose::Target => 1,
            },
            ..PairOptions::new(adapter.domain(), PairType::Rc, &completions)
        };
        let pair = options.create()?;
        let access = match purpose {
            Purpose::Initiator => AccessFlags::LOCAL,
            Purpose::Target => AccessFlags::LOCAL.remote_write().remote_read(),
        };
        pair.modify(&Change::to_init(PairType::Rc, adapter.port(), access, 0))?;
        // Unpredictable, as RFC 6528 requires of TCP: a stray packet of an earlier connection does
        // not match.
        let sequence = u32::from_be_bytes(random()) & 0x00ff_ffff;
        let (adapter, scratch) = (Arc::clone(adapter), Mutex::new(Scratch::new()));
        Ok(Self {
            pair,
            completions,
            channel,
            adapter,
            sequence,
            scratch,
        })
    }

    /// Returns the local endpoint, for the peer.
    pub fn endpoint(&self) -> Endpoint {
        self.adapter.endpoint(self.pair.number(), self.sequence)
    }

    /// Connects to the peer's endpoint.
    ///
    /// # Errors
    /// [`FabricError::BadEndpoint`] if it is invalid; errors of the state transitions.
    pub fn connect(&self, peer: &Endpoint) -> Result<(), FabricError> {
        if peer.queue_pair > 0x00ff_ffff
            || peer.sequence > 0x00ff_ffff
            || !(1..=5).contains(&peer.mtu)
        {
            return Err(FabricError::BadEndpoint(format!(
                "queue pair {:#x}, sequence number {:#x}, MTU code {}",
                peer.queue_pair, peer.sequence, peer.mtu
            )));
        }
        let reads = self.adapter.reads().min(peer.reads.max(1));
        let connection = Connection {
            path: self.adapter.path_to(peer),
            peer: peer.queue_pair,
            peer_psn: peer.sequence,
            psn: self.sequence,
            mtu_code: self.adapter.mtu_with(peer),
            reads_served: reads,
            reads_initiated: reads,
            // 4.096 us x 2^14 = 67 ms, seven times: a dead peer is detected within about a second.
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
        };
        self.pair
            .modify(&Change::to_rtr(PairType::Rc, &connection))?;
        self.pair
            .modify(&Change::to_rts(PairType::Rc, &connection))?;
        Ok(())
    }

    /// Posts a receive; `None` is for an immediate without data.
    ///
    /// # Errors
    /// Posting fails.
    #[inline]
    pub fn receive(&self, id: u64, into: Option<Segment<'_>>) -> Result<(), FabricError> {
        let work = ReceiveWork { id, segments: into };
        Ok(self.pair.post_receive(&mut self.scratch(), [work])?)
    }

    /// Maximum number of requests in one list.
    pub const MOST_REQUESTS: usize = SEND_DEPTH as usize - 8;

    /// Posts a list of requests, each with its gather list; only the last one completes.
    ///
    /// # Errors
    /// Posting fails.
    pub fn post<'a, S: IntoIterator<Item = Segment<'a>>>(
        &self,
        list: impl ExactSizeIterator<Item = (u64, Opcode, S)>,
    ) -> Result<(), FabricError> {
        let last = list.len().saturating_sub(1);
        let requests = list
            .enumerate()
            .map(|(index, (id, opcode, segments))| SendWork {
                id,
                opcode,
                flags: if index == last {
                    SendFlags::SIGNALED
                } else {
                    SendFlags::SILENT
                },
                segments,
                target: SendTarget::Connected,
            });
        Ok(self.pair.post_send(&mut self.scratch(), requests)?)
    }

    /// Sends a number after the requests posted before, to a receive of the peer. It completes only
    /// on failure, as `id`.
    ///
    /// # Errors
    /// Posting fails.
    #[inline]
    pub fn notify(&self, id: u64, word: u32) -> Result<(), FabricError> {
        let nothing: Option<Segment<'_>> = None;
        let work = SendWork {
            id,
            // The key of a zero-length write is not checked (architecture specification, C9-88).
            opcode: Opcode::WriteImmediate(0, 0, word),
            flags: SendFlags::SILENT,
            segments: nothing,
            target: SendTarget::Connected,
        };
        Ok(self.pair.post_send(&mut self.scratch(), [work])?)
    }

    /// Grants the peer access to part of a region; done when `id` completes.
    ///
    /// # Errors
    /// Posting fails.
    pub fn bind(
        &self,
        id: u64,
        window: &mut Window,
        region: &Region,
        range: std::ops::Range<usize>,
        access: AccessFlags,
    ) -> Result<(), FabricError> {
        let flags = SendFlags::SIGNALED;
        Ok(self
            .pair
            .bind_window(id, window, region, range, access, flags)?)
    }

    /// Revokes the access granted by a window; done when `id` completes.
    ///
    /// # Errors
    /// Posting fails.
    pub fn invalidate(&self, id: u64, window: &Window) -> Result<(), FabricError> {
        Ok(self
            .pair
            .invalidate_window(id, window, SendFlags::SIGNALED)?)
    }

    /// Polls one completion.
    ///
    /// # Errors
    /// [`FabricError::Completion`] for an error completion; errors of polling.
    #[inline]
    pub fn poll(&self) -> Result<Option<PairCompletion>, FabricError> {
        let mut taken = [WorkCompletion::default()];
        if self
            .completions
            .poll(&mut taken, |completion| *completion)?
            == 0
        {
            return Ok(None);
        }
        let [completion] = taken;
        if !completion.status.is_success() {
            return Err(FabricError::Completion {
                id: completion.id,
                status: completion.status,
            });
        }
        Ok(Some(match completion.opcode {
            CompletionOpcode::RECEIVE | CompletionOpcode::RECEIVE_WRITE => {
                PairCompletion::Received(completion.id, completion.length, completion.immediate)
            }
            _ => PairCompletion::Sent(completion.id),
        }))
    }

    /// Polls for at most `at_most` without sleeping.
    ///
    /// # Errors
    /// As [`Pair::poll`].
    pub fn spin(&self, at_most: Duration) -> Result<Option<PairCompletion>, FabricError> {
        let mut since = None;
        loop {
            if let Some(outcome) = self.poll()? {
                return Ok(Some(outcome));
            }
            let now = Instant::now();
            if now.duration_since(*since.get_or_insert(now)) >= at_most {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }

    /// Waits for a completion: first spins, then sleeps on the channel.
    ///
    /// # Errors
    /// [`FabricError::Late`] after `at_most`; as [`Pair::poll`].
    pub fn wait(
        &self,
        at_most: Duration,
        what: &'static str,
    ) -> Result<PairCompletion, FabricError> {
        const SPIN: Duration = Duration::from_micros(50);
        if let Some(outcome) = self.spin(SPIN.min(at_most))? {
            return Ok(outcome);
        }
        let deadline = Instant::now() + at_most;
        loop {
            self.arm()?;
            // A completion between the poll and the arming causes no event.
            if let Some(outcome) = self.poll()? {
                return Ok(outcome);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FabricError::Late(what));
            }
            self.channel.wait(left.min(Duration::from_millis(100)))?;
        }
    }

    /// Requests an event for the next completion.
    ///
    /// # Errors
    /// Arming fails.
    #[inline]
    pub fn arm(&self) -> Result<(), FabricError> {
        Ok(self.completions.arm()?)
    }

    /// Returns the descriptor that becomes readable with an event.
    #[inline]
    pub fn events(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Consumes pending events without blocking.
    ///
    /// # Errors
    /// Reading an event fails.
    pub fn drain_events(&self) -> Result<(), FabricError> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        while poll(
            &mut [PollFd::new(&self.channel.as_fd(), PollFlags::IN)],
            Some(&now),
        ) == Ok(1)
        {
            self.channel.wait(Duration::from_millis(1))?;
        }
        Ok(())
    }

    fn scratch(&self) -> std::sync::MutexGuard<'_, Scratch> {
        self.scratch
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queue pair {:#x}", self.pair.number())
    }
}
