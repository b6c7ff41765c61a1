//! Rules for the sequence and length of request packets (specification 9.7.4.1.2 and 9.7.4.1.6,
//! tables "Valid Request Packet Opcode Sequence" and "Request Packet Length").

use verbena_wire::Mtu;
use verbena_wire::opcode::{Kind, Place};

use crate::fault::Fault;
use crate::request::MOST_LENGTH;

/// Checks that a packet of this kind and position may follow while a message of kind `current` is
/// unfinished.
///
/// # Errors
///
/// [`Fault::MissingFirst`] if the packet continues a message that was not begun,
/// [`Fault::MissingLast`] if it begins a message (or continues one of another kind) while one is
/// unfinished.
#[inline]
pub const fn sequence(current: Option<Kind>, kind: Kind, place: Place) -> Result<(), Fault> {
    match (current, place) {
        (None, Place::First | Place::Only) => Ok(()),
        (None, Place::Middle | Place::Last) => Err(Fault::MissingFirst),
        (Some(Kind::Send), Place::Middle | Place::Last) if matches!(kind, Kind::Send) => Ok(()),
        (Some(Kind::Write), Place::Middle | Place::Last) if matches!(kind, Kind::Write) => Ok(()),
        (Some(_), _) => Err(Fault::MissingLast),
    }
}

/// Checks the payload length of a packet at this position of its message.
///
/// # Errors
///
/// [`Fault::PacketLength`].
pub const fn length(place: Place, length: usize, mtu: Mtu) -> Result<(), Fault> {
    let full = mtu.bytes() as usize;
    let right = match place {
        Place::First | Place::Middle => length == full,
        Place::Last => length >= 1 && length <= full,
        Place::Only => length <= full,
    };
    if right {
        Ok(())
    } else {
        Err(Fault::PacketLength)
    }
}

/// Checks a message length: the RETH allows at most 2^31 bytes (9.3.3.3).
///
/// # Errors
///
/// [`Fault::MessageLength`].
pub const fn message(length: u32) -> Result<(), Fault> {
    if length <= MOST_LENGTH {
        Ok(())
    } else {
        Err(Fault::MessageLength)
    }
}

/// Returns how many of the `total` bytes of an RDMA WRITE have arrived after a packet of `length`
/// bytes, if `before` had arrived earlier. The last packet, and only the last, must complete the
/// total.
///
/// # Errors
///
/// [`Fault::MessageLength`].
pub const fn written(place: Place, before: u32, length: u32, total: u32) -> Result<u32, Fault> {
    let Some(after) = before.checked_add(length) else {
        return Err(Fault::MessageLength);
    };
    let right = match place {
        Place::First | Place::Middle => after < total,
        Place::Last | Place::Only => after == total,
    };
    if right {
        Ok(after)
    } else {
        Err(Fault::MessageLength)
    }
}

/// Checks that the bytes of a message, of which `arrived` have arrived or are announced, fit a
/// receive of `room` bytes.
///
/// # Errors
///
/// [`Fault::ReceiveTooSmall`].
#[inline]
pub const fn fits(arrived: u64, room: u64) -> Result<(), Fault> {
    if arrived <= room {
        Ok(())
    } else {
        Err(Fault::ReceiveTooSmall)
    }
}

/// Returns whether an RDMA WRITE with immediate data takes its receive before its key is checked: a
/// message of one packet does (9.7.4.1). A longer one is refused at its first packet, and only the
/// last shows that it needs a receive.
pub const fn takes_receive_before_key(length: u32, mtu: u32) -> bool {
    length <= mtu
}

/// Checks that the address of an atomic operation is a multiple of eight (9.4.5).
///
/// # Errors
///
/// [`Fault::MisalignedAtomic`].
pub const fn aligned(address: u64) -> Result<(), Fault> {
    if address.is_multiple_of(8) {
        Ok(())
    } else {
        Err(Fault::MisalignedAtomic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_sequences_follow_the_table() {
        use Kind::{Atomic, Read, Send, Write};
        use Place::{First, Last, Middle, Only};
        let table = [
            (None, Send, First, Ok(())),
            (None, Send, Only, Ok(())),
            (None, Read, Only, Ok(())),
            (None, Send, Middle, Err(Fault::MissingFirst)),
            (None, Write, Last, Err(Fault::MissingFirst)),
            (Some(Send), Send, Middle, Ok(())),
            (Some(Send), Send, Last, Ok(())),
            (Some(Write), Write, Last, Ok(())),
            (Some(Send), Write, Middle, Err(Fault::MissingLast)),
            (Some(Write), Send, Last, Err(Fault::MissingLast)),
            (Some(Send), Send, First, Err(Fault::MissingLast)),
            (Some(Write), Send, Only, Err(Fault::MissingLast)),
            (Some(Send), Read, Only, Err(Fault::MissingLast)),
            (Some(Write), Atomic, Only, Err(Fault::MissingLast)),
        ];
        for (current, kind, place, verdict) in table {
            assert_eq!(
                sequence(current, kind, place),
                verdict,
                "{current:?} {kind:?} {place:?}"
            );
        }
    }

    #[test]
    fn packet_lengths_follow_the_table() {
        use Place::{First, Last, Middle, Only};
        for (place, least, most) in [
            (First, 256, 256),
            (Middle, 256, 256),
            (Last, 1, 256),
            (Only, 0, 256),
        ] {
            for bytes in 0..300 {
                let right = (least..=most).contains(&bytes);
                assert_eq!(
                    length(place, bytes, Mtu::B256).is_ok(),
                    right,
                    "{place:?} {bytes}"
                );
            }
        }
    }

    #[test]
    fn a_message_fits_a_receive_that_is_not_shorter() {
        for (arrived, room, fault) in [(0, 0, false), (8, 8, false), (9, 8, true), (1, 0, true)] {
            assert_eq!(fits(arrived, room).is_err(), fault, "{arrived} {room}");
        }
    }

    #[test]
    fn a_write_completes_only_with_its_last_packet() {
        use Place::{First, Last, Middle, Only};
        let wrong = Err(Fault::MessageLength);
        let table = [
            (Only, 0, 0, 0, Ok(0)),
            (Only, 0, 8, 8, Ok(8)),
            (Only, 0, 8, 9, wrong),
            (Only, 0, 9, 8, wrong),
            (First, 0, 256, 257, Ok(256)),
            (First, 0, 256, 256, wrong),
            (Middle, 256, 256, 600, Ok(512)),
            (Middle, 256, 256, 512, wrong),
            (Last, 512, 88, 600, Ok(600)),
            (Last, 512, 87, 600, wrong),
            (Last, u32::MAX, 1, 0, wrong),
        ];
        for (place, before, bytes, total, after) in table {
            assert_eq!(
                written(place, before, bytes, total),
                after,
                "{place:?} {before} {bytes} {total}"
            );
        }
        assert_eq!(message(1 << 31), Ok(()));
        assert_eq!(message((1 << 31) + 1), wrong.map(|_: u32| ()));
        assert_eq!(
            (aligned(8), aligned(12)),
            (Ok(()), Err(Fault::MisalignedAtomic))
        );
    }
}
