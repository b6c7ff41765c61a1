//! A process's share of its UDP port, 4791 or a private one: its slot, descriptors to wait on, and
//! pending answers.

use super::fallback::{self, Fallback};
use super::group::Memberships;
use super::management_port::ManagementPort;
use super::pace::Pace;
use super::path::Senders;
use super::port_probe::ProbeCache;
use super::shared_port::SharedPort;
use super::steering::SLOTS;
use super::udp_port::UdpPort;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use verbena_hca_os::errno::Result;
use verbena_hca_os::lock::Lock;
use verbena_hca_os::readiness::is_ready;
use verbena_hca_os::socket::Socket;
use verbena_hca_os::tcp::Tcp;
use verbena_hca_os::udp::{Inbox, Udp};
use verbena_hca_shm::registry::{BLOCK, Identity, Registry};

/// The UDP port of this process.
pub struct Port {
    shared: SharedPort,
    /// The slot of this process, once it has queue pair numbers.
    slot: OnceLock<u32>,
    pub(super) inbox: Lock<Inbox>,
    /// Decides when polls check the sockets.
    pub(super) pace: Pace,
    /// Queue pairs with pending answers.
    pending_acks: Mutex<Vec<u32>>,
    /// Length of `pending_acks`, readable without the lock.
    talking: AtomicU32,
    /// Sending sockets.
    pub senders: Senders,
    /// Sending sockets for management datagrams, which report ICMP errors.
    pub(super) management_senders: Senders,
    pub(super) management: ManagementPort,
    /// Results of port probes.
    pub probe_cache: ProbeCache,
    /// Multicast groups that this process has joined.
    pub groups: Memberships,
    /// TCP fallback.
    pub fallback: Arc<Fallback>,
}

impl Port {
    /// Opens the port.
    ///
    /// # Errors
    /// As [`SharedPort::join`], [`Memberships::new`] and [`Fallback::new`].
    pub fn open() -> Result<Port> {
        let fallback = Arc::new(Fallback::new()?);
        let shared = SharedPort::join()?;
        let udp_port = shared.udp_port();
        Ok(Port {
            shared,
            slot: OnceLock::new(),
            inbox: Lock::default(),
            pace: Pace::default(),
            pending_acks: Mutex::default(),
            talking: AtomicU32::new(0),
            senders: Senders::that_forget_failures(udp_port, &fallback),
            management_senders: Senders::that_keep_failures(udp_port, &fallback),
            management: ManagementPort::default(),
            probe_cache: ProbeCache::default(),
            groups: Memberships::new()?,
            fallback,
        })
    }

    /// Allocates a block of queue pair numbers that map to a slot which no other process reads.
    /// Returns its first number.
    ///
    /// # Errors
    /// ENOMEM if all slots are taken, or all numbers of this process's slot are.
    pub fn allocate_block(&self, registry: &Registry, identity: Identity) -> Result<u32> {
        if let Some(slot) = self.slot.get() {
            let blocks = self.udp_port().blocks();
            let more = (blocks.start + slot + SLOTS..blocks.end).step_by(SLOTS as usize);
            return registry.allocate_block_of(identity, more);
        }
        // The first block is for management, and its slot belongs to no process. A block among the
        // next 63 comes with its slot.
        let start = self.udp_port().blocks().start;
        let first = registry
            .allocate_block_of(identity, start + 1..start + SLOTS)
            .inspect_err(|_| {
                eprintln!(
                    "verbena: {} processes already share UDP port {}, the maximum",
                    SLOTS - 1,
                    self.udp_port().port()
                );
            })?;
        let slot = first / BLOCK - start;
        self.fallback.take_slot(self.udp_port(), slot);
        let _ = self.slot.set(slot);
        self.forget_old_packets();
        Ok(first)
    }

    /// Drops packets for the previous owner of the slot, which must not reach queue pairs that
    /// reuse its numbers.
    fn forget_old_packets(&self) {
        /// More than a socket buffers. The limit holds even if a peer keeps sending.
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

    /// Returns the UDP port at which this process receives.
    #[inline]
    pub fn udp_port(&self) -> UdpPort {
        self.shared.udp_port()
    }

    /// Returns the socket of this process's slot, if it has one.
    #[inline]
    pub fn socket(&self) -> Option<&Udp> {
        self.shared.slot(*self.slot.get()?)
    }

    #[inline]
    pub(super) fn has_to_answer(&self) -> bool {
        self.talking.load(Ordering::Acquire) > 0
    }

    /// Returns whether a packet or an answer is pending.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        let groups = self.groups.as_fd();
        self.has_to_answer()
            || self
                .socket()
                .is_some_and(|socket| is_ready([socket.as_fd(), groups]))
    }

    /// Returns the slot of this process, once it has queue pair numbers.
    #[inline]
    pub fn slot_number(&self) -> Option<u32> {
        self.slot.get().copied()
    }

    /// Returns the socket of slot 0, shared by all processes: the first block, with the management
    /// queue pairs, maps there.
    #[inline]
    pub fn management_socket(&self) -> Option<&Udp> {
        self.shared.slot(0)
    }

    /// Returns the listener for processes that want to share the port.
    pub fn listener(&self) -> &Socket {
        self.shared.listener()
    }

    /// Hands the slots to processes that have connected.
    pub fn serve_callers(&self) {
        self.shared.serve();
    }

    /// Returns all descriptors that a forked child must close.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let of_slots = self.shared.descriptors().map(|fd| fd.as_raw_fd());
        of_slots
            .chain(self.groups.descriptors())
            .chain(self.fallback.descriptors())
            .collect()
    }

    /// Returns the listener for fallback connections, if they are enabled.
    pub(super) fn fallback_listener(&self) -> Option<&Tcp> {
        self.shared
            .fallback()
            .filter(|_| fallback::chosen() == Ok(true))
    }

    /// Returns the descriptors that become readable when a fallback connection arrives or is passed
    /// to this process.
    pub fn fallback_descriptors(&self) -> Vec<RawFd> {
        let listener = self.fallback_listener().map(Tcp::as_fd);
        let passed = self.fallback.passed().map(Socket::as_fd);
        let both = listener.into_iter().chain(passed);
        both.map(|fd| fd.as_raw_fd()).collect()
    }

    /// Notes queue pairs with pending answers.
    #[inline]
    pub(super) fn note_pending_acks(&self, numbers: impl IntoIterator<Item = u32>) {
        let mut numbers = numbers.into_iter().peekable();
        if numbers.peek().is_none() {
            return;
        }
        let mut pending_acks = self.pending_acks.lock().unwrap_or_else(|e| e.into_inner());
        pending_acks.extend(numbers);
        self.talking
            .store(pending_acks.len() as u32, Ordering::Release);
    }

    /// Takes the queue pairs with pending answers, each once, however many packets it received.
    #[inline]
    pub(super) fn take_pending_acks(&self) -> Vec<u32> {
        if self.talking.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut numbers = {
            let mut pending_acks = self.pending_acks.lock().unwrap_or_else(|e| e.into_inner());
            self.talking.store(0, Ordering::Release);
            std::mem::take(&mut *pending_acks)
        };
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
