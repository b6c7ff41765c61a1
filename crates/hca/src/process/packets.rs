//! The process as the adapter of packets ([`crate::roce`]), and its management datagrams.

use crate::counters::Counters;
use crate::process::Process;
use crate::qp::Qp;
use crate::roce::adapter::Adapter;
use crate::roce::management::{self, CmMad};
use crate::roce::port::Port;
use crate::roce::receive::Packets;
use crate::roce::udp_port::UdpPort;
use std::net::Ipv6Addr;
use std::sync::Arc;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::udp::{Address, Arrived};

impl Adapter for Process {
    type QueuePair = Qp;

    #[inline]
    fn port(&self) -> Option<&Port> {
        self.ports.roce()
    }

    #[inline]
    fn counters(&self) -> &Counters {
        &self.counters
    }

    #[inline]
    fn queue_pair(&self, number: u32) -> Option<Arc<Qp>> {
        self.queue_pairs.find(number)
    }

    fn members(&self, port: u8, group: &[u8; 16]) -> Vec<Arc<Qp>> {
        self.groups.members(port, group)
    }

    fn is_stopping(&self) -> bool {
        self.activity.is_stopping()
    }

    fn wake(&self) {
        self.activity.ring();
    }

    fn management_slot(self: &Arc<Process>) -> Result<u32> {
        Process::management_slot(self)
    }
}

impl Process {
    /// Returns whether a queue pair has requests or completions that the program has not seen the
    /// end of.
    pub fn has_unseen_completions(&self, queue_pair: u32) -> bool {
        let queue_pair = self.queue_pairs.find(queue_pair);
        queue_pair.is_some_and(|queue_pair| queue_pair.has_unseen_completions())
    }

    /// Returns the slot of this process, which its conversations carry in bits 0 to 5 of their
    /// communication IDs (`SLOT_BITS` of `roce::steering`).
    ///
    /// # Errors
    /// ENODEV without a RoCE port; ENOMEM when no slot is left.
    pub fn management_slot(self: &Arc<Process>) -> Result<u32> {
        self.join()?;
        let port = self.ports.roce().ok_or(Errno(libc::ENODEV))?;
        if port.slot_number().is_none() {
            // Allocating the first queue pair number acquires a slot.
            let number = self.allocate_number()?;
            self.membership.release_number(number);
        }
        port.slot_number().ok_or(Errno::ENOMEM)
    }

    /// Returns whether a slot belongs to this process.
    pub fn has_management_slot(&self, slot: u32) -> bool {
        let port = self.ports.roce();
        port.and_then(Port::slot_number) == Some(slot)
    }

    /// As [`management::send`].
    ///
    /// # Errors
    /// As there.
    pub fn send_management(self: &Arc<Process>, cm_mad: &CmMad) -> Result<()> {
        management::send(self, cm_mad)
    }

    /// As [`Port::probe_port`].
    ///
    /// # Errors
    /// As there; ENODEV without a RoCE port.
    pub fn probe_port(
        &self,
        interface: u32,
        source: Ipv6Addr,
        destination: Ipv6Addr,
        udp_port: UdpPort,
    ) -> Result<()> {
        let port = self.ports.roce().ok_or(Errno(libc::ENODEV))?;
        port.probe_port(interface, source, destination, udp_port)
    }

    /// As [`Port::private_udp_ports`].
    ///
    /// # Errors
    /// As there; ENODEV without a RoCE port.
    pub fn private_udp_ports(
        &self,
        interface: u32,
        source: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Result<Vec<UdpPort>> {
        let port = self.ports.roce().ok_or(Errno(libc::ENODEV))?;
        port.private_udp_ports(interface, source, destination)
    }

    /// As [`Port::take_management_failures`].
    pub fn take_management_failures(&self) -> Vec<(Address, Errno)> {
        let port = self.ports.roce();
        port.map_or_else(Vec::new, Port::take_management_failures)
    }

    /// As [`Packets::take_datagrams`].
    pub fn take_datagrams(&self, arrived: &Arrived<'_>) {
        Packets::of(self).take_datagrams(arrived);
    }
}
