//! UDP port at which queue pairs are reached: 4791, or one of three private ports where another
//! process has that.
//!
//! Invariant: **among Verbena adapters, a queue pair number determines the port at which the queue
//! pair is reached.** The upper three sixteenths of the numbers belong to the private ports, a
//! sixteenth to each, all others to 4791. A process at a private port uses only numbers of that
//! range. So no two queue pairs of one address have the same number, no matter which other
//! processes receive there, and a peer that knows address and number, as every program does, knows
//! the port.
//!
//! Other adapters may use any number. Before packets go to a private port, a probe
//! ([`super::port_probe`]) checks for a Verbena adapter there; without an answer, port 4791 is
//! used. Other adapters do not know of the private ports and cannot reach a process there.

use super::steering::SLOT_BITS;
use std::ops::Range;
use verbena_hca_shm::registry::{BLOCK, BLOCKS};
use verbena_wire::{Qpn, udp};

/// Blocks of queue pair numbers of a private port.
const PART: u32 = BLOCKS / 16;
/// A block of a private port belongs to the slot that its number names.
const _: () = assert!(PART.is_multiple_of(SLOT_BITS + 1));

/// UDP port of a process, as an index: 0 for 4791.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UdpPort(u8);

impl UdpPort {
    /// Port 4791, the default.
    pub const PUBLIC: UdpPort = UdpPort(0);
    /// Private ports. Not registered for other uses, and outside the kernel's default range of
    /// ephemeral ports.
    const PRIVATE: [u16; 3] = [24791, 24792, 24793];

    /// Number of ports.
    pub const COUNT: u32 = 1 + UdpPort::PRIVATE.len() as u32;

    /// Returns the index of the port.
    #[inline]
    pub fn index(self) -> u32 {
        self.0.into()
    }

    /// Returns all ports, in the order in which they are tried.
    #[inline]
    pub fn all() -> impl Iterator<Item = UdpPort> {
        (0..=UdpPort::PRIVATE.len() as u8).map(UdpPort)
    }

    /// Returns the port of a queue pair number, for a Verbena adapter.
    #[inline]
    pub fn of_number(number: Qpn) -> UdpPort {
        let block = number.value() / BLOCK;
        let all = UdpPort::all().find(|udp_port| udp_port.blocks().contains(&block));
        // Block 0 is shared by all.
        all.unwrap_or(UdpPort::PUBLIC)
    }

    /// Returns the UDP port number.
    #[inline]
    pub fn port(self) -> u16 {
        match self.0.checked_sub(1) {
            None => udp::PORT,
            Some(at) => UdpPort::PRIVATE[usize::from(at)],
        }
    }

    /// Returns the entry of a UDP port number, if it is one of these ports.
    #[inline]
    pub fn of_port(port: u16) -> Option<UdpPort> {
        UdpPort::all().find(|udp_port| udp_port.port() == port)
    }

    /// Returns whether this is a private port.
    #[inline]
    pub fn is_private(self) -> bool {
        self != UdpPort::PUBLIC
    }

    /// Returns the blocks of queue pair numbers reached at this port. The first block belongs to no
    /// slot.
    #[inline]
    pub fn blocks(self) -> Range<u32> {
        let private = BLOCKS - UdpPort::PRIVATE.len() as u32 * PART;
        match self.0.checked_sub(1) {
            None => 0..private,
            Some(at) => {
                let first = private + u32::from(at) * PART;
                first..first + PART
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_queue_pair_number_maps_to_one_udp_port() {
        let mut next = 0;
        for udp_port in UdpPort::all() {
            let blocks = udp_port.blocks();
            assert_eq!(blocks.start, next);
            for block in [blocks.start, blocks.end - 1] {
                for number in [block * BLOCK, block * BLOCK + BLOCK - 1] {
                    assert_eq!(UdpPort::of_number(Qpn::new(number)), udp_port);
                }
            }
            next = blocks.end;
        }
        assert_eq!(next, BLOCKS);
        let ports: BTreeSet<u16> = UdpPort::all().map(UdpPort::port).collect();
        assert_eq!(ports.len(), UdpPort::all().count());
    }

    #[test]
    fn management_and_small_numbers_use_the_public_port() {
        for number in [Qpn::GSI, Qpn::new(0x100), Qpn::new(0xcf_ffff)] {
            assert_eq!(UdpPort::of_number(number), UdpPort::PUBLIC);
        }
        assert_eq!(UdpPort::of_number(Qpn::new(0xd0_0000)).port(), 24791);
    }
}
