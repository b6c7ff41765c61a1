//! What a process has of port 4791, or of the one that stands in for it: its slot, what it waits on, what it still has to say.

use super::group::Memberships;
use super::inquiry::Neighbours;
use super::management::Interface;
use super::pace::Pace;
use super::path::Senders;
use super::pool::{Pool, SLOTS};
use super::residence::Residence;
use super::tunnel::{self, Tunnels};
use crate::errno::Result;
use crate::lock::Lock;
use crate::process::Member;
use crate::shm::registry::BLOCK;
use crate::sys::readiness::is_ready;
use crate::sys::socket::Socket;
use crate::sys::tcp::Tcp;
use crate::sys::udp::{Inbox, Udp};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The port of this process.
pub struct Port {
    pool: Pool,
    /// Which slot is ours, once there are numbers of it.
    slot: OnceLock<u32>,
    pub(super) inbox: Lock<Inbox>,
    /// When polls look at the sockets.
    pub(super) pace: Pace,
    /// Queue pairs that have something to answer.
    talkative: Mutex<Vec<u32>>,
    /// How often they were noted, so that looking costs nothing.
    talking: AtomicU32,
    /// The sockets that send.
    pub senders: Senders,
    /// Those that management datagrams leave from, of which we want to hear when they did not arrive.
    pub(super) management_senders: Senders,
    pub(super) management: Interface,
    /// Who is reached at a private port.
    pub neighbours: Neighbours,
    /// The multicast groups that we have joined.
    pub groups: Memberships,
    /// What goes over TCP.
    pub tunnels: Arc<Tunnels>,
}

impl Port {
    /// Opens the port.
    ///
    /// # Errors
    /// As [`Pool::join`] and [`Memberships::new`].
    pub fn open() -> Result<Port> {
        let tunnels = Arc::new(Tunnels::new()?);
        let pool = Pool::join()?;
        let residence = pool.residence();
        Ok(Port {
            pool,
            slot: OnceLock::new(),
            inbox: Lock::default(),
            pace: Pace::default(),
            talkative: Mutex::default(),
            talking: AtomicU32::new(0),
            senders: Senders::that_forget_failures(residence, &tunnels),
            management_senders: Senders::that_keep_failures(residence, &tunnels),
            management: Interface::default(),
            neighbours: Neighbours::default(),
            groups: Memberships::new()?,
            tunnels,
        })
    }

    /// A block of queue pair numbers that lead to a slot which no other process reads; returns its first number.
    ///
    /// # Errors
    /// ENOMEM, when as many processes as there are slots have one each, or this one has all numbers of its slot.
    pub fn allocate_block(&self, member: &Member) -> Result<u32> {
        let (registry, identity) = (&member.registry, member.identity);
        if let Some(slot) = self.slot.get() {
            let blocks = self.residence().blocks();
            let more = (blocks.start + slot + SLOTS..blocks.end).step_by(SLOTS as usize);
            return registry.allocate_block_of(identity, more);
        }
        // Numbers of the first block are for management, and its slot is nobody's. Who has one of the next has its slot.
        let start = self.residence().blocks().start;
        let first = registry
            .allocate_block_of(identity, start + 1..start + SLOTS)
            .inspect_err(|_| {
                eprintln!(
                    "verbena: {} processes share UDP port {} already, as many as can",
                    SLOTS - 1,
                    self.residence().port()
                );
            })?;
        let slot = first / BLOCK - start;
        self.tunnels.take_slot(self.residence(), slot);
        let _ = self.slot.set(slot);
        self.forget_old_packets();
        Ok(first)
    }

    /// What came for whoever had the slot before us is not for queue pairs that have its numbers now.
    fn forget_old_packets(&self) {
        /// More than a socket keeps. Who sends without end will not keep us.
        const MOST: usize = 10_000;
        if let Some(socket) = self.socket() {
            let mut inbox = self.inbox.lock();
            for _ in 0..MOST {
                if inbox.receive(socket) == 0 {
                    return;
                }
            }
        }
    }

    /// At which port we are reached.
    pub fn residence(&self) -> Residence {
        self.pool.residence()
    }

    /// The socket that we read, once we have one.
    #[inline]
    pub fn socket(&self) -> Option<&Udp> {
        self.pool.slot(*self.slot.get()?)
    }

    /// Whether an answer is owed.
    #[inline]
    pub(super) fn has_to_answer(&self) -> bool {
        self.talking.load(Ordering::Acquire) > 0
    }

    /// Whether a packet waits, or an answer that is owed.
    pub(super) fn has_some(&self) -> bool {
        let groups = self.groups.as_fd();
        self.has_to_answer()
            || self
                .socket()
                .is_some_and(|socket| is_ready([socket.as_fd(), groups]))
    }

    /// The slot that we read, once we have one.
    pub(super) fn slot_number(&self) -> Option<u32> {
        self.slot.get().copied()
    }

    /// The slot that is everybody's: of the first block, where the management queue pairs are.
    pub fn management_socket(&self) -> Option<&Udp> {
        self.pool.slot(0)
    }

    /// Where processes call that want to share the port.
    pub fn listener(&self) -> &Socket {
        self.pool.listener()
    }

    /// Lets those who call share the port.
    pub fn serve_callers(&self) {
        self.pool.serve();
    }

    /// All descriptors that a forked child must not keep.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let pool = self.pool.descriptors().map(|fd| fd.as_raw_fd());
        pool.chain(self.groups.descriptors())
            .chain(self.tunnels.descriptors())
            .collect()
    }

    /// Where other hosts connect that want a tunnel, if they can.
    pub(super) fn tunnel_listener(&self) -> Option<&Tcp> {
        self.pool.tunnels().filter(|_| tunnel::chosen() == Ok(true))
    }

    /// What can be read when somebody wants a tunnel, or one is handed to us.
    pub fn tunnel_callers(&self) -> Vec<RawFd> {
        let listener = self.tunnel_listener().map(Tcp::as_fd);
        let handed = self.tunnels.handed().map(Socket::as_fd);
        let both = listener.into_iter().chain(handed);
        both.map(|fd| fd.as_raw_fd()).collect()
    }

    /// Queue pairs have something to answer.
    pub(super) fn note_talkative(&self, numbers: impl IntoIterator<Item = u32>) {
        let mut numbers = numbers.into_iter().peekable();
        if numbers.peek().is_none() {
            return;
        }
        let mut talkative = self.talkative.lock().unwrap_or_else(|e| e.into_inner());
        talkative.extend(numbers);
        self.talking
            .store(talkative.len() as u32, Ordering::Release);
    }

    /// Takes those that have: each once, however many packets it was sent.
    pub(super) fn take_talkative(&self) -> Vec<u32> {
        if self.talking.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut numbers = {
            let mut talkative = self.talkative.lock().unwrap_or_else(|e| e.into_inner());
            self.talking.store(0, Ordering::Release);
            std::mem::take(&mut *talkative)
        };
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
