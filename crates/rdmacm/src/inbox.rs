//! The inbox of management datagrams (MADs) from other hosts: the adapter fills it, and the thread
//! takes from it.

use crate::watch::{Source, Watch};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use verbena_fabric_protocol::Datagram;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_net::roce::udp_port::UdpPort;
use verbena_hca_os::doorbell::Doorbell;
use verbena_hca_os::errno::Result;

/// Capacity of the inbox. Further MADs are dropped, and retransmitted by their senders.
const MOST: usize = 4096;

/// Another host: local port number, source GID, destination GID.
pub type Host = (u8, [u8; 16], [u8; 16]);

/// The private UDP ports of a host's Verbena adapters.
pub struct PrivatePorts {
    /// The host.
    pub host: Host,
    /// Its private ports.
    pub found: Vec<UdpPort>,
}

/// The inbox that MADs wait in until the thread takes them.
pub struct Inbox {
    cm_mads: Mutex<VecDeque<CmMad>>,
    /// Results of asking hosts for private ports.
    private_ports: Mutex<Vec<PrivatePorts>>,
    /// Answers of a fabric's subnet administration.
    administration: Mutex<Vec<Datagram>>,
    /// Whether another host has probed for processes here.
    is_probed: AtomicBool,
    bell: Doorbell,
}

impl Inbox {
    /// Returns an empty inbox.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub fn new() -> Result<Inbox> {
        Ok(Inbox {
            cm_mads: Mutex::default(),
            private_ports: Mutex::default(),
            administration: Mutex::default(),
            is_probed: AtomicBool::new(false),
            bell: Doorbell::new()?,
        })
    }

    /// Registers the inbox with the thread.
    ///
    /// # Errors
    /// Those of [`Watch::add`].
    pub fn open(&self, watch: &mut Watch) -> Result<()> {
        watch.add(&self.bell, Source::Inbox)
    }

    /// Adds a MAD.
    pub(crate) fn put(&self, cm_mad: CmMad) {
        let mut cm_mads = self.cm_mads.lock().unwrap_or_else(PoisonError::into_inner);
        if cm_mads.len() < MOST {
            cm_mads.push_back(cm_mad);
            self.bell.ring();
        }
    }

    /// Adds the result of asking a host for private ports.
    pub fn put_private_ports(&self, private_ports: PrivatePorts) {
        let mut all = self
            .private_ports
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(private_ports);
        self.bell.ring();
    }

    /// Takes the results of asking hosts for private ports.
    pub fn take_private_ports(&self) -> Vec<PrivatePorts> {
        std::mem::take(
            &mut *self
                .private_ports
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Adds an answer of subnet administration.
    pub(crate) fn put_administration(&self, answer: &Datagram) {
        let all = self.administration.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST {
            all.push(answer.clone());
            self.bell.ring();
        }
    }

    /// Takes the answers of subnet administration.
    pub(crate) fn take_administration(&self) -> Vec<Datagram> {
        let all = self.administration.lock();
        std::mem::take(&mut *all.unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that another host has probed for processes here.
    pub(crate) fn note_probe(&self) {
        if !self.is_probed.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// Returns whether another host has probed since the last call.
    pub fn was_probed(&self) -> bool {
        self.is_probed.swap(false, Ordering::AcqRel)
    }

    /// Takes all MADs.
    pub fn take(&self) -> VecDeque<CmMad> {
        self.bell.clear();
        std::mem::take(&mut *self.cm_mads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
