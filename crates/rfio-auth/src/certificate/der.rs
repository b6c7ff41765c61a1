//! The subset of DER (X.690) needed for names in certificates: splits off elements by tag and
//! length.

/// An element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// Including tag and length.
    pub(super) whole: &'a [u8],
}

/// Tags that occur in names.
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8: u8 = 0x0c;
pub(super) const NUMERIC: u8 = 0x12;
pub(super) const PRINTABLE: u8 = 0x13;
pub(super) const TELETEX: u8 = 0x14;
pub(super) const IA5: u8 = 0x16;
pub(super) const VISIBLE: u8 = 0x1a;
pub(super) const BMP: u8 = 0x1e;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// Returns the first element and the remaining bytes; `None` if it is incomplete or its length is
/// not in DER form.
pub(super) fn first(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&[tag, short], _) = bytes.split_first_chunk()?;
    // Tag numbers from 31 on do not occur here.
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (front, length) = match short {
        0..=0x7f => (2, usize::from(short)),
        // A name is no longer than a certificate may be.
        0x81..=0x83 => {
            let digits = usize::from(short & 0x7f);
            let digits = bytes.get(2..2 + digits)?;
            let length = digits
                .iter()
                .fold(0, |length, &digit| length << 8 | usize::from(digit));
            if digits[0] == 0 || length < 0x80 {
                return None;
            }
            (2 + digits.len(), length)
        }
        _ => return None,
    };
    let whole = bytes.get(..front + length)?;
    let element = Element {
        tag,
        content: &whole[front..],
        whole,
    };
    Some((element, &bytes[whole.len()..]))
}

/// Returns all elements; `None` if there are other bytes, or an element has another tag.
pub(super) fn all(mut bytes: &[u8], tag: u8) -> Option<Vec<Element<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (element, rest) = first(bytes)?;
        if element.tag != tag {
            return None;
        }
        found.push(element);
        bytes = rest;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_canonical_lengths_are_accepted() {
        assert_eq!(first(&[0x0c, 1, b'a', 9]).unwrap().1, [9]);
        assert!(first(&[0x0c, 2, b'a']).is_none(), "not whole");
        assert!(first(&[0x0c, 0x81, 1, b'a']).is_none(), "a short one");
        assert!(first(&[0x0c, 0x80, 0, 0]).is_none(), "one without an end");
        assert!(first(&[0x1f, 1, 1]).is_none(), "a long tag");
        let long = [&[0x0c, 0x82, 1, 0][..], &[7; 256]].concat();
        assert_eq!(first(&long).unwrap().0.content.len(), 256);
    }

    proptest! {
        /// For any input, elements are consecutive parts of it.
        #[test]
        fn elements_are_consecutive_parts_of_the_input(
            bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            if let Some((element, rest)) = first(&bytes) {
                prop_assert_eq!([element.whole, rest].concat(), bytes.clone());
                prop_assert!(element.whole.ends_with(element.content));
            }
        }
    }
}
