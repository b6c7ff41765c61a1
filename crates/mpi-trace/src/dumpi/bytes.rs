//! Numbers in a file: big-endian.

use crate::Fault;

/// Reads a file from a position on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    all: &'a [u8],
    pub at: usize,
}

impl<'a> Bytes<'a> {
    /// Starts at a position.
    pub fn new(all: &'a [u8], at: usize) -> Bytes<'a> {
        Bytes { all, at }
    }

    /// Takes `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let rest = self.all.get(self.at..).unwrap_or_default();
        let Some(bytes) = rest.get(..count) else {
            return Err(self.fault("the file ends within a record"));
        };
        self.at += count;
        Ok(bytes)
    }

    /// Returns an error about this position.
    pub fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault {
            at: self.at,
            reason: reason.into(),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("it has N bytes"))
    }

    pub fn u8(&mut self) -> Result<u8, Fault> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, Fault> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32, Fault> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Takes the length of a list whose elements have `size` bytes, all of which follow.
    pub fn length(&mut self, size: usize) -> Result<usize, Fault> {
        let begin = *self;
        let length = self.i32()?;
        let rest = self.all.len() - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= rest / size => Ok(length),
            _ => Err(begin.fault(format!("a list has {length} elements"))),
        }
    }

    /// Takes a list of integers.
    pub fn list(&mut self) -> Result<Vec<i32>, Fault> {
        let length = self.length(4)?;
        (0..length).map(|_| self.i32()).collect()
    }
}
