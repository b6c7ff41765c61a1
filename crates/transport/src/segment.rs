//! Segmentation of a message into packets (specification 9.4.1 and 9.7.3): all but the last carry
//! exactly one MTU.

use verbena_wire::Mtu;
use verbena_wire::opcode::Place;

/// The part of a message that one packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Its position in the message.
    pub place: Place,
    /// Its offset within the message, in bytes.
    pub offset: u32,
    /// Its length in bytes.
    pub length: u32,
}

impl Segment {
    /// Returns whether it is the last of the message.
    pub const fn ends(self) -> bool {
        self.place.ends()
    }
}

/// A message of `length` bytes, segmented at `mtu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segments {
    /// Payload of a full packet.
    pub mtu: Mtu,
    /// Length of the message in bytes.
    pub length: u32,
}

impl Segments {
    /// Returns the number of packets; one for an empty message.
    pub const fn count(self) -> u32 {
        self.mtu.packets(self.length)
    }

    /// Returns the packet with this index, counted from 0, if transmission starts at index `start`:
    /// the peer sees that packet as the first. `index` is less than [`Self::count`] and not less
    /// than `start`.
    pub const fn get(self, start: u32, index: u32) -> Segment {
        let last = index + 1 >= self.count();
        let place = Place::new(index == start, last);
        let offset = index * self.mtu.bytes();
        let length = if last {
            self.length - offset
        } else {
            self.mtu.bytes()
        };
        Segment {
            place,
            offset,
            length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn segments_at_the_edges_of_mtu_1024() {
        use Place::{First, Last, Middle, Only};
        let table: [(u32, &[(Place, u32)]); 6] = [
            (0, &[(Only, 0)]),
            (1, &[(Only, 1)]),
            (1024, &[(Only, 1024)]),
            (1025, &[(First, 1024), (Last, 1)]),
            (2048, &[(First, 1024), (Last, 1024)]),
            (2049, &[(First, 1024), (Middle, 1024), (Last, 1)]),
        ];
        for (length, expected) in table {
            let segments = Segments {
                mtu: Mtu::B1024,
                length,
            };
            let cut: Vec<_> = (0..segments.count())
                .map(|index| segments.get(0, index))
                .map(|segment| (segment.place, segment.length))
                .collect();
            assert_eq!(cut, expected, "{length}");
        }
    }

    proptest! {
        #[test]
        fn segments_are_contiguous_and_cover_the_message(
            length in 0u32..1 << 20, mtu in 1u8..6, start: prop::sample::Index) {
            let segments = Segments { mtu: Mtu::from_code(mtu).unwrap(), length };
            let start = start.index(segments.count() as usize) as u32;
            let mut offset = start * segments.mtu.bytes();
            for index in start..segments.count() {
                let segment = segments.get(start, index);
                prop_assert_eq!(segment.offset, offset);
                offset += segment.length;
                let ends = matches!(segment.place, Place::Last | Place::Only);
                prop_assert_eq!(ends, index + 1 == segments.count());
                let begins = matches!(segment.place, Place::First | Place::Only);
                prop_assert_eq!(begins, index == start);
            }
            prop_assert_eq!(offset, length);
        }
    }
}
