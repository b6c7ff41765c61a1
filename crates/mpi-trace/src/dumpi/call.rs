//! The calls of a rank's file.

use super::bytes::Bytes;
use super::file::File;
use super::function::{END, Function, MARKERS, function};
use crate::Fault;

/// Bits of a record's mask.
const STATUSES: u8 = 3;
const CPU_TIMES: u8 = 1 << 2;
const WALL_TIMES: u8 = 1 << 3;
const THREAD: u8 = 1 << 6;
const COUNTERS: u8 = 1 << 7;

/// Result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub bytes: i32,
    pub source: i32,
    pub is_cancelled: bool,
    /// Missing before version 0.6.3.
    pub tag: Option<i32>,
}

/// A call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Position in the file.
    pub at: usize,
    pub function: &'static Function,
    /// Times of begin and end in nanoseconds; of the wall clock, or of the processor without it.
    pub times: Option<(u64, u64)>,
    pub thread: u16,
    pub numbers: Vec<i32>,
    pub lists: Vec<Vec<i32>>,
    pub statuses: Vec<Status>,
}

impl Call {
    /// Returns a communicator, group or request, by its position among the numbers.
    pub fn handle(&self, position: usize) -> u16 {
        // Handles have two bytes.
        self.numbers[position] as u16
    }
}

/// Iterates over the calls.
pub(super) struct Calls<'a> {
    file: &'a File<'a>,
    bytes: Bytes<'a>,
    /// Seconds that the file's times lack: of the processor and of the wall clock.
    offsets: [u64; 2],
    is_ended: bool,
}

impl<'a> Calls<'a> {
    /// Starts at the beginning of the stream.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if the file has no stream.
    pub fn new(file: &'a File<'a>) -> Result<Calls<'a>, Fault> {
        let mut bytes = file.stream();
        let offsets = [u64::from(bytes.u32()?), u64::from(bytes.u32()?)];
        Ok(Calls {
            file,
            bytes,
            offsets,
            is_ended: false,
        })
    }

    fn call(&mut self) -> Result<Option<Call>, Fault> {
        loop {
            let at = self.bytes.at;
            let number = self.bytes.u16()?;
            if number == END {
                return Ok(None);
            }
            let function = function(number).map_err(|reason| Fault { at, reason })?;
            let call = self.record(at, function)?;
            if number < MARKERS {
                return Ok(Some(call));
            }
        }
    }

    fn record(&mut self, at: usize, function: &'static Function) -> Result<Call, Fault> {
        let bytes = &mut self.bytes;
        let mask = bytes.u8()?;
        let thread = match mask & THREAD {
            0 => 0,
            _ => bytes.u16()?,
        };
        let mut times = None;
        for (bit, offset) in [CPU_TIMES, WALL_TIMES].into_iter().zip(self.offsets) {
            if mask & bit != 0 {
                let mut time = || -> Result<u64, Fault> {
                    let (seconds, nanoseconds) = (u64::from(bytes.u16()?), bytes.u32()?);
                    Ok((offset + seconds) * 1_000_000_000 + u64::from(nanoseconds))
                };
                times = Some((time()?, time()?));
            }
        }
        if mask & COUNTERS != 0 {
            let count = bytes.u8()?;
            bytes.take(16 * usize::from(count))?;
        }
        let mut call = Call {
            at,
            function,
            times,
            thread,
            numbers: Vec::new(),
            lists: Vec::new(),
            statuses: Vec::new(),
        };
        self.arguments(&mut call, mask)?;
        Ok(call)
    }

    fn arguments(&mut self, call: &mut Call, mask: u8) -> Result<(), Fault> {
        let bytes = &mut self.bytes;
        let mut letters = call.function.layout.bytes();
        while let Some(letter) = letters.next() {
            match letter {
                b'i' => call.numbers.push(bytes.i32()?),
                b'h' => call.numbers.push(i32::from(bytes.u16()?)),
                b'b' => call.numbers.push(i32::from(bytes.u8()?)),
                b'q' => {
                    bytes.u64()?;
                }
                b'a' => call.lists.push(bytes.list()?),
                b'x' if self.file.has([0, 6, 9]) => call.lists.push(bytes.list()?),
                b'y' if self.file.has([0, 6, 8]) => call.lists.push(bytes.list()?),
                b'x' | b'y' => {
                    bytes.i32()?;
                }
                b'A' => {
                    for _ in 0..bytes.length(4)? {
                        call.lists.push(bytes.list()?);
                    }
                }
                b'd' => {
                    let length = bytes.length(2)?;
                    bytes.take(2 * length)?;
                }
                b'c' | b'e' => {
                    let length = bytes.length(1)?;
                    bytes.take(length)?;
                }
                b'C' | b'I' => {
                    let length = bytes.length(4)?;
                    if letter == b'I' && !self.file.has([0, 6, 2]) {
                        bytes.i32()?;
                    }
                    for _ in 0..length {
                        let length = bytes.length(1)?;
                        bytes.take(length)?;
                    }
                }
                b's' if mask & STATUSES != 0 => {
                    for _ in 0..bytes.length(10)? {
                        let (length, source) = (bytes.i32()?, bytes.i32()?);
                        let (is_cancelled, _error) = (bytes.u8()? != 0, bytes.u8()?);
                        let tag = match self.file.has([0, 6, 3]) {
                            true => Some(bytes.i32()?),
                            false => None,
                        };
                        call.statuses.push(Status {
                            bytes: length,
                            source,
                            is_cancelled,
                            tag,
                        });
                    }
                }
                b'?' => {
                    let position = letters.next().map_or(0, |digit| usize::from(digit - b'0'));
                    if call.numbers[0] != call.numbers[position] {
                        letters.by_ref().find(|&letter| letter == b';');
                    }
                }
                _ => (),
            }
        }
        Ok(())
    }
}

impl Iterator for Calls<'_> {
    type Item = Result<Call, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        let call = self.call().transpose();
        self.is_ended = !matches!(call, Some(Ok(_)));
        call
    }
}
