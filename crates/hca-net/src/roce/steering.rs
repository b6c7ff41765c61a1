//! Kernel filter that selects the socket for a packet to port 4791 (classic BPF, packet(7)).
//!
//! - A packet for a queue pair goes to the slot of its number ([`super::shared_port`]).
//! - A packet for queue pair 1 in a conversation of communication management (specification chapter
//!   12) goes to the slot in bits 0 to 5 of the receiver's communication ID, which the sender
//!   repeats. So no process stands between another process and its peers.
//! - A message that begins such a conversation, and all other management, goes to slot 0, which
//!   belongs to no process ([`super::management`]).

use verbena_hca_os::filter::Instruction;
use verbena_wire::mad::cm::Attribute;
use verbena_wire::{Qpn, bth, deth, mad};

/// Number of sockets that share the port.
pub const SLOTS: u32 = 64;
/// Word of a BTH with the destination queue pair, below eight other bits.
const DESTINATION: u32 = 4;
/// Offset of a management datagram.
const MAD: u32 = (bth::LENGTH + deth::LENGTH) as u32;
/// Its first two bytes: base version 1, and the class.
const COMMUNICATION: u32 = 1 << 8 | mad::Class::COMMUNICATION.0 as u32;
/// Offset of its attribute ID.
const ATTRIBUTE: u32 = MAD + 16;
/// Offset of its class-specific data.
const DATA: u32 = MAD + mad::HEADER as u32;
/// Offset of the sender's communication ID; in a SIDR reply, the receiver's.
const LOCAL_NUMBER: u32 = DATA;
/// Offset of the receiver's communication ID.
const REMOTE_NUMBER: u32 = DATA + 4;

/// Bits of a communication ID that name the slot.
pub const SLOT_BITS: u32 = SLOTS - 1;

/// Returns the filter. Packets that are too short for it go to slot 0.
pub fn program() -> Vec<Instruction> {
    use Instruction::{And, Give, GiveLoaded, Goto, IfEqual, LoadHalf, LoadWord, ShiftRight};
    vec![
        LoadWord(DESTINATION),
        And(0xff_ffff),
        IfEqual(Qpn::GSI.value(), 3),
        ShiftRight(8),
        And(SLOTS - 1),
        GiveLoaded,
        LoadHalf(MAD),
        IfEqual(COMMUNICATION, 1),
        Give(0),
        LoadHalf(ATTRIBUTE),
        IfEqual(Attribute::Req as u32, 7),
        IfEqual(Attribute::SidrReq as u32, 6),
        IfEqual(Attribute::SidrRep as u32, 2),
        LoadWord(REMOTE_NUMBER),
        Goto(1),
        LoadWord(LOCAL_NUMBER),
        And(SLOT_BITS),
        GiveLoaded,
        Give(0),
    ]
}

/// Returns the slot that the filter chooses for a packet.
pub fn slot_of(packet: &[u8]) -> u32 {
    let word = |at: u32| {
        let bytes = packet.get(at as usize..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    };
    let half = |at: u32| {
        let bytes = packet.get(at as usize..)?.first_chunk()?;
        Some(u32::from(u16::from_be_bytes(*bytes)))
    };
    let of_conversation = || {
        if half(MAD)? != COMMUNICATION {
            return None;
        }
        let attribute = half(ATTRIBUTE)?;
        let number = match attribute {
            _ if attribute == Attribute::Req as u32 || attribute == Attribute::SidrReq as u32 => {
                return None;
            }
            _ if attribute == Attribute::SidrRep as u32 => word(LOCAL_NUMBER)?,
            _ => word(REMOTE_NUMBER)?,
        };
        Some(number & SLOT_BITS)
    };
    match word(DESTINATION).map(|word| word & 0xff_ffff) {
        None => 0,
        Some(number) if number == Qpn::GSI.value() => of_conversation().unwrap_or(0),
        Some(number) => (number >> 8) & SLOT_BITS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use verbena_hca_os::udp::{Address, Inbox, Sharing, Udp};

    /// Returns a packet for a queue pair, with a message of communication management in it.
    fn packet(destination: u32, attribute: u16, local: u32, remote: u32) -> Vec<u8> {
        let mut bytes = vec![0; MAD as usize + mad::LENGTH + 4];
        let mut put = |at: u32, data: &[u8]| {
            bytes[at as usize..at as usize + data.len()].copy_from_slice(data);
        };
        // The bits above the destination are set, to check that the filter masks them.
        put(DESTINATION, &(destination | 0xc000_0000).to_be_bytes());
        put(MAD, &[1, mad::Class::COMMUNICATION.0]);
        put(ATTRIBUTE, &attribute.to_be_bytes());
        put(LOCAL_NUMBER, &local.to_be_bytes());
        put(REMOTE_NUMBER, &remote.to_be_bytes());
        bytes
    }

    /// Sends through the kernel, because it is the kernel that runs the filter.
    #[test]
    fn packet_reaches_the_slot_it_names() {
        let first = Udp::receiver(0, Sharing::SharedByUs).unwrap();
        let port = first.port().unwrap();
        let mut slots = vec![first];
        slots.extend((1..SLOTS).map(|_| Udp::receiver(port, Sharing::Shared).unwrap()));
        slots[0].choose_by(&program()).unwrap();
        let sender = Udp::sender(Address {
            ip: Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
            port: 0,
            scope: 0,
        })
        .unwrap();
        let to = Address {
            ip: Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
            port,
            scope: 0,
        };
        let (own, other) = (0xabcd_0000 | 17, 0x1234_0000 | 42);
        let mut of_another_class = packet(1, Attribute::Rep as u16, other, own);
        of_another_class[MAD as usize + 1] = mad::Class::PERFORMANCE.0;
        let table = [
            (packet(0x0105, 0, 0, 0), 1),
            (packet(0x4f_3f07, Attribute::Req as u16, other, own), 63),
            (packet(1, Attribute::Req as u16, other, 0), 0),
            (packet(1, Attribute::SidrReq as u16, other, own), 0),
            (packet(1, Attribute::SidrRep as u16, own, 0x55), 17),
            (packet(1, Attribute::Rep as u16, other, own), 17),
            (packet(1, Attribute::Rtu as u16, other, own), 17),
            (packet(1, Attribute::Rej as u16, other, own), 17),
            (packet(1, Attribute::Mra as u16, other, own), 17),
            (packet(1, Attribute::Dreq as u16, other, own), 17),
            (packet(1, Attribute::Drep as u16, other, own), 17),
            (packet(1, 0, 0, 0)[..30].to_vec(), 0),
            (of_another_class, 0),
        ];
        let mut inbox = Inbox::default();
        let mut chosen_for = |bytes: &[u8]| {
            sender.send(&to, bytes, bytes.len(), 0).unwrap();
            let mut come = None;
            while come.is_none() {
                come = slots.iter().position(|slot| inbox.receive(slot) > 0);
            }
            come.unwrap()
        };
        for (bytes, expected) in table {
            assert_eq!(chosen_for(&bytes), expected, "{bytes:02x?}");
            assert_eq!(slot_of(&bytes), expected as u32, "{bytes:02x?}");
        }
        // The TCP fallback must choose the same slot as the kernel, also for random packets.
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        for _ in 0..2000 {
            let to = [1, next(1 << 24) as u32][next(2) as usize];
            let attribute = 0x0f + next(12) as u16;
            let mut bytes = packet(to, attribute, next(1 << 32) as u32, next(1 << 32) as u32);
            let changed = next(bytes.len() as u64 * 4) as usize;
            if let Some(byte) = bytes.get_mut(changed) {
                *byte = next(256) as u8;
            }
            bytes.truncate(1 + next(bytes.len() as u64 * 2) as usize);
            assert_eq!(slot_of(&bytes) as usize, chosen_for(&bytes), "{bytes:02x?}");
        }
    }
}
