//! The reliable multi-packet protocol (13.6). Both ends are in one process, so a transfer needs no
//! window: an agent for which the kernel speaks the protocol gets the whole datagram, another gets
//! its segments.

use verbena_subnet::mad::{Mad, SIZE, class};

/// Bytes of a segment behind the RMPP header.
const PAYLOAD: usize = 220;
/// Offset of the end of the RMPP header.
const RMPP_END: usize = 36;
/// Type of data.
const DATA: u8 = 1;
/// Length that a segment of subnet administration states without records.
pub const SHORTEST: u32 = 20;

/// Returns where a class's data begins in a datagram; `None` for classes without RMPP.
pub fn data_offset(class: u8) -> Option<usize> {
    match class {
        class::SA => Some(56),
        0x06 | 0x10 | 0x12 => Some(64),
        0x30..=0x4f => Some(40),
        _ => None,
    }
}

/// Returns whether a program asks for the protocol by the Active flag alone, as OpenSM does.
pub fn is_active(mad: &Mad) -> bool {
    data_offset(mad.class()).is_some() && mad.is_rmpp()
}

/// Returns whether a datagram is data of the protocol.
pub fn is_data(mad: &Mad) -> bool {
    data_offset(mad.class()).is_some() && mad.is_rmpp() && mad.rmpp_type() == DATA
}

/// Writes the header of a first segment into a datagram that a program wrote whole; `length` is
/// that of the datagram.
pub fn begin(mad: &mut Mad, length: usize) {
    let Some(offset) = data_offset(mad.class()) else {
        return;
    };
    let data = length.saturating_sub(offset);
    let segments = data.div_ceil(SIZE - offset).max(1);
    let payload = data + segments * (offset - RMPP_END);
    mad.set_segment(1, segments == 1, payload as u32);
}

/// Returns the length of a whole datagram, as its header states it.
pub fn length(mad: &Mad) -> usize {
    let (Some(offset), true) = (data_offset(mad.class()), is_data(mad)) else {
        return SIZE;
    };
    let (_, payload) = mad.segment();
    let payload = payload as usize;
    let segments = payload.div_ceil(PAYLOAD).max(1);
    let data = payload.saturating_sub(segments * (offset - RMPP_END));
    (offset + data).min(mad.bytes().len())
}

/// Returns the segments of a whole datagram.
pub fn segments(mad: &Mad) -> Vec<Mad> {
    let (Some(offset), true) = (data_offset(mad.class()), is_data(mad)) else {
        return vec![mad.clone()];
    };
    let whole = &mad.bytes()[..length(mad).max(offset)];
    let room = SIZE - offset;
    let count = (whole.len() - offset).div_ceil(room).max(1);
    let total = whole.len() - offset + count * (offset - RMPP_END);
    (0..count)
        .map(|number| {
            let mut segment = Mad::empty();
            segment.bytes_mut()[..offset].copy_from_slice(&whole[..offset]);
            let rest = &whole[offset + number * room..];
            let part = &rest[..rest.len().min(room)];
            segment.bytes_mut()[offset..][..part.len()].copy_from_slice(part);
            let is_last = number + 1 == count;
            let payload = match (number, is_last) {
                (0, _) => total,
                (_, true) => part.len() + offset - RMPP_END,
                _ => 0,
            };
            segment.set_segment(number as u32 + 1, is_last, payload as u32);
            segment
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn segments_have_all_data(length in 0usize..5000, class in prop_oneof![
            Just(0x03u8), Just(0x06), Just(0x32),
        ]) {
            let offset = data_offset(class).unwrap();
            let bytes: Vec<u8> = (0..offset + length).map(|at| at as u8).collect();
            let mut mad = Mad::of(&bytes).unwrap();
            mad.set_class(class, 2);
            begin(&mut mad, offset + length);
            prop_assert_eq!(super::length(&mad), offset + length);
            let all = segments(&mad);
            prop_assert_eq!(all.len(), length.div_ceil(SIZE - offset).max(1));
            let data: Vec<u8> = all
                .iter()
                .flat_map(|segment| segment.bytes()[offset..].to_vec())
                .take(length)
                .collect();
            prop_assert_eq!(&data[..], &bytes[offset..]);
            prop_assert!(all.last().unwrap().is_last_segment());
        }
    }
}
