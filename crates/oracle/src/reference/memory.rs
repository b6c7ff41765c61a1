//! Memory of the reference: runs of bytes, each with its origin.
//!
//! Bytes written as a pattern stay symbolic (tag and position), so that a transfer of megabytes
//! costs as much as one of a few bytes, and states with equal memory compare as equal.

use std::ops::Range;

/// The origin of a run's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Bytes of pattern `tag`, from this index on.
    Pattern(u32, u32),
    /// Bytes of a little-endian number (from atomics), from this index on.
    Number(u64, u8),
    /// Zeroes.
    Zero,
    /// Undefined by the specification.
    Unknown,
}

/// Returns byte `index` of pattern `tag`: any two tags differ within a few bytes.
pub fn pattern(tag: u32, index: u32) -> u8 {
    let mixed = (index ^ (index >> 7)).wrapping_add(tag.wrapping_mul(0x9e37_79b1) >> 9);
    (mixed.wrapping_mul(0x85eb_ca6b) >> 13) as u8
}

/// Returns an order-dependent checksum. It reads from the end, where a copy from the beginning
/// arrives last.
pub fn sum_of(bytes: impl DoubleEndedIterator<Item = u8>) -> u64 {
    bytes.rev().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Source {
    fn byte(self, offset: u32) -> Option<u8> {
        match self {
            Source::Pattern(tag, from) => Some(pattern(tag, from + offset)),
            Source::Number(value, from) => {
                Some(value.to_le_bytes()[from as usize + offset as usize])
            }
            Source::Zero => Some(0),
            Source::Unknown => None,
        }
    }

    fn skip(self, bytes: u32) -> Source {
        match self {
            Source::Pattern(tag, from) => Source::Pattern(tag, from + bytes),
            Source::Number(value, from) => Source::Number(value, from + bytes as u8),
            Source::Zero | Source::Unknown => self,
        }
    }
}

/// A run of bytes from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Length in bytes.
    pub len: u32,
    /// Their origin.
    pub source: Source,
}

/// A sequence of bytes: a message's data or memory contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Bytes {
    runs: Vec<Run>,
}

impl Bytes {
    /// Returns `len` bytes of one origin.
    pub fn of(len: u32, source: Source) -> Bytes {
        let mut bytes = Bytes::default();
        bytes.push(Run { len, source });
        bytes
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> u32 {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn push(&mut self, run: Run) {
        if run.len == 0 {
            return;
        }
        if let Some(last) = self.runs.last_mut() {
            let joins = match last.source {
                Source::Number(_, from) => u32::from(from) + last.len < 8,
                _ => true,
            };
            if joins && last.source.skip(last.len) == run.source {
                last.len += run.len;
                return;
            }
        }
        self.runs.push(run);
    }

    /// Appends `other`.
    pub fn extend(&mut self, other: &Bytes) {
        other.runs.iter().for_each(|run| self.push(*run));
    }

    /// Returns a part.
    pub fn slice(&self, range: Range<u32>) -> Bytes {
        let mut part = Bytes::default();
        let mut at = 0;
        for run in &self.runs {
            let (start, end) = (at.max(range.start), (at + run.len).min(range.end));
            if start < end {
                part.push(Run {
                    len: end - start,
                    source: run.source.skip(start - at),
                });
            }
            at += run.len;
        }
        part
    }

    /// Replaces the bytes from `at` on by `other`.
    pub fn replace(&mut self, at: u32, other: &Bytes) {
        let mut whole = self.slice(0..at);
        whole.extend(other);
        whole.extend(&self.slice(at + other.len()..self.len()));
        *self = whole;
    }

    /// Returns these bytes if both are equal, undefined ones otherwise.
    pub fn where_equal(&self, other: &Bytes) -> Bytes {
        if self == other {
            self.clone()
        } else {
            Bytes::of(self.len(), Source::Unknown)
        }
    }

    /// Returns the number in eight bytes, if all are known.
    pub fn number(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(index as u32)?;
        }
        Some(u64::from_le_bytes(bytes))
    }

    /// Returns one byte, if it is known.
    pub fn byte(&self, index: u32) -> Option<u8> {
        let mut at = 0;
        for run in &self.runs {
            if index < at + run.len {
                return run.source.byte(index - at);
            }
            at += run.len;
        }
        None
    }

    /// Returns the first index where `actual` is not allowed.
    pub fn difference(&self, actual: &[u8]) -> Option<u32> {
        let mut at = 0u32;
        for run in &self.runs {
            if run.source != Source::Unknown {
                for offset in 0..run.len {
                    let byte = actual.get((at + offset) as usize).copied();
                    if byte != run.source.byte(offset) {
                        return Some(at + offset);
                    }
                }
            }
            at += run.len;
        }
        None
    }

    /// Returns all bytes, if all are known.
    pub fn known(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.len() as usize);
        for run in &self.runs {
            for offset in 0..run.len {
                bytes.push(run.source.byte(offset)?);
            }
        }
        Some(bytes)
    }

    /// Describes a byte in words.
    pub fn describe(&self, index: u32) -> String {
        let mut at = 0;
        for run in &self.runs {
            if index < at + run.len {
                let source = run.source.skip(index - at);
                return format!("{source:?} = {:02x?}", source.byte(0));
            }
            at += run.len;
        }
        "nothing".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replaced_bytes_change() {
        let mut memory = Bytes::of(64, Source::Pattern(1, 0));
        memory.replace(8, &Bytes::of(8, Source::Number(0x0102_0304, 0)));
        assert_eq!(memory.len(), 64);
        assert_eq!(memory.slice(8..16).number(), Some(0x0102_0304));
        assert_eq!(memory.byte(7), Some(pattern(1, 7)));
        assert_eq!(memory.byte(16), Some(pattern(1, 16)));
        memory.replace(8, &Bytes::of(8, Source::Pattern(1, 8)));
        assert_eq!(memory, Bytes::of(64, Source::Pattern(1, 0)));
    }

    #[test]
    fn differences_are_found_where_the_content_is_known() {
        let mut memory = Bytes::of(4, Source::Zero);
        memory.replace(1, &Bytes::of(1, Source::Unknown));
        assert_eq!(memory.difference(&[0, 9, 0, 0]), None);
        assert_eq!(memory.difference(&[0, 9, 0, 1]), Some(3));
    }
}
