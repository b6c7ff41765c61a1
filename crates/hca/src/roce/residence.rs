//! At which UDP port queue pairs are reached: 4791, or one of three of our own where somebody else has that.
//!
//! The invariant: **among adapters like this one, a queue pair's number tells the port at which it is reached.** The numbers
//! are divided: the upper three sixteenths belong to the private ports, a sixteenth to each, all others to 4791. A process
//! whose port is private has numbers of that part and no others. So no two queue pairs of one address have the same number,
//! whoever else receives there, and who knows address and number, as every program does, knows the port.
//!
//! A stranger may have any number. Before anything is sent to a private port, it is asked there whether one of us is at home
//! ([`super::inquiry`]); if nobody says so, the packets go to 4791. Strangers know nothing of this and do not reach us there.

use super::steering::SLOT_BITS;
use crate::shm::registry::{BLOCK, BLOCKS};
use std::ops::Range;
use verbena_wire::{Qpn, udp};

/// Blocks of numbers of a private port.
const PART: u32 = BLOCKS / 16;
/// Of a private port: whoever has one has the slot that it names.
const _: () = assert!(PART.is_multiple_of(SLOT_BITS + 1));

/// Which of the ports it is: 0 for 4791.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Residence(u8);

impl Residence {
    /// Port 4791, at which everybody is sought.
    pub const PUBLIC: Residence = Residence(0);
    /// Private ports. Nobody is registered for them, and the kernel gives them to nobody who does not ask for one.
    const PRIVATE: [u16; 3] = [24791, 24792, 24793];

    /// How many there are.
    pub const COUNT: u32 = 1 + Residence::PRIVATE.len() as u32;

    /// Its place among all.
    pub fn index(self) -> u32 {
        self.0.into()
    }

    /// All, in the order in which they are tried.
    pub fn all() -> impl Iterator<Item = Residence> {
        (0..=Residence::PRIVATE.len() as u8).map(Residence)
    }

    /// Where a queue pair of that number is reached, if it is of an adapter like this one.
    #[inline]
    pub fn of_number(number: Qpn) -> Residence {
        let block = number.value() / BLOCK;
        let all = Residence::all().find(|residence| residence.blocks().contains(&block));
        // Those of block 0 are everybody's.
        all.unwrap_or(Residence::PUBLIC)
    }

    /// Its UDP port.
    pub fn port(self) -> u16 {
        match self.0.checked_sub(1) {
            None => udp::PORT,
            Some(at) => Residence::PRIVATE[usize::from(at)],
        }
    }

    /// That of a UDP port, if it is one.
    pub fn of_port(port: u16) -> Option<Residence> {
        Residence::all().find(|residence| residence.port() == port)
    }

    /// Whether it is one of our own.
    pub fn is_private(self) -> bool {
        self != Residence::PUBLIC
    }

    /// The blocks of numbers that are reached here. The first of them has the number of no slot.
    pub fn blocks(self) -> Range<u32> {
        let private = BLOCKS - Residence::PRIVATE.len() as u32 * PART;
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
    fn every_number_is_reached_at_one_port() {
        let mut next = 0;
        for residence in Residence::all() {
            let blocks = residence.blocks();
            assert_eq!(blocks.start, next);
            for block in [blocks.start, blocks.end - 1] {
                for number in [block * BLOCK, block * BLOCK + BLOCK - 1] {
                    assert_eq!(Residence::of_number(Qpn::new(number)), residence);
                }
            }
            next = blocks.end;
        }
        assert_eq!(next, BLOCKS);
        let ports: BTreeSet<u16> = Residence::all().map(Residence::port).collect();
        assert_eq!(ports.len(), Residence::all().count());
    }

    #[test]
    fn management_and_small_numbers_are_public() {
        for number in [Qpn::GSI, Qpn::new(0x100), Qpn::new(0xcf_ffff)] {
            assert_eq!(Residence::of_number(number), Residence::PUBLIC);
        }
        assert_eq!(Residence::of_number(Qpn::new(0xd0_0000)).port(), 24791);
    }
}
