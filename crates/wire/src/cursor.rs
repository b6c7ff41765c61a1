//! Cursors over bytes: a failed read reports field and offset; a writer checks the buffer's length
//! before the first write.

use crate::emit_error::EmitError;
use crate::error::Error;

/// Reads from the front. A read that does not fit consumes nothing.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn take(&mut self, what: &'static str, length: usize) -> Result<&'a [u8], Error> {
        match self.bytes.split_at_checked(length) {
            Some((taken, rest)) => {
                self.bytes = rest;
                self.at += length;
                Ok(taken)
            }
            None => Err(Error::Truncated {
                what,
                at: self.at,
                needed: length,
                found: self.bytes.len(),
            }),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Error> {
        match self.bytes.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.bytes = rest;
                self.at += N;
                Ok(*taken)
            }
            None => Err(Error::Truncated {
                what,
                at: self.at,
                needed: N,
                found: self.bytes.len(),
            }),
        }
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, Error> {
        Ok(u8::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Error> {
        Ok(u64::from_be_bytes(self.array(what)?))
    }

    /// Skips reserved bytes, which are ignored on receipt.
    pub(crate) fn skip(&mut self, what: &'static str, length: usize) -> Result<(), Error> {
        self.take(what, length).map(drop)
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes
    }
}

/// Writes to the front of a buffer. [`Writer::with_room`] has checked its length.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Returns a writer of `needed` bytes.
    ///
    /// # Errors
    ///
    /// The buffer is shorter.
    pub(crate) fn with_room(buffer: &'a mut [u8], needed: usize) -> Result<Self, EmitError> {
        if buffer.len() < needed {
            return Err(EmitError::Room {
                needed,
                found: buffer.len(),
            });
        }
        Ok(Self {
            buffer: &mut buffer[..needed],
            at: 0,
        })
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// Writes reserved bytes as zero.
    pub(crate) fn zeros(&mut self, length: usize) {
        self.buffer[self.at..self.at + length].fill(0);
        self.at += length;
    }

    pub(crate) fn written(&self) -> usize {
        self.at
    }
}
