//! Reads of file ranges in flight, also of several files at once.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use verbena_rfio_client::Error;
use verbena_rfio_client::connection::{Operation, OperationOutput, PendingOperation, SharedFile};
use verbena_rfio_protocol::types::{Handle, Range};

use super::failure::{ErrorContext, system};
use super::waiting;

/// Maximum length of a range in the protocol, in bytes; longer ones are requested in parts.
pub const MOST: u64 = 1 << 30;

/// Mapping of protocol ranges to requested ranges: for each part, the index of its range and its
/// length.
#[derive(Debug)]
pub struct RangePlan {
    parts: Vec<(usize, usize)>,
    count: usize,
}

impl RangePlan {
    /// Splits ranges into parts of at most `most` bytes; also returns the request and its memory.
    ///
    /// # Errors
    /// ENOMEM, or EOVERFLOW if a range ends beyond 2^64.
    pub fn new(
        handle: Handle,
        wanted: &[(u64, u64)],
        most: u64,
    ) -> Result<(Self, Operation, Vec<u8>), Error> {
        let most = most.clamp(1, MOST);
        // Lengths are arbitrary numbers, so allocations must be able to fail: a failed ordinary
        // allocation would abort the process.
        let (count, total) =
            wanted
                .iter()
                .fold((0usize, 0usize), |(count, total), &(_, length)| {
                    let parts = length.div_ceil(most).max(1);
                    (
                        count.saturating_add(usize::try_from(parts).unwrap_or(usize::MAX)),
                        total.saturating_add(usize::try_from(length).unwrap_or(usize::MAX)),
                    )
                });
        let (mut memory, mut ranges, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        memory
            .try_reserve_exact(total)
            .and_then(|()| ranges.try_reserve_exact(count))
            .and_then(|()| parts.try_reserve_exact(count))
            .map_err(|_| system("memory for ranges", libc::ENOMEM))?;
        for (index, &(offset, length)) in wanted.iter().enumerate() {
            let mut at = 0;
            loop {
                let part = (length - at).min(most);
                let start = offset.checked_add(at);
                ranges.push(Range {
                    offset: start.ok_or_else(|| system("range", libc::EOVERFLOW))?,
                    length: part as u32,
                });
                parts.push((index, part as usize));
                at += part;
                if at == length {
                    break;
                }
            }
        }
        memory.resize(total, 0);
        let count = wanted.len();
        Ok((
            Self { parts, count },
            Operation::Vector { handle, ranges },
            memory,
        ))
    }

    /// Returns the received bytes of each range.
    pub fn join<'py>(
        &self,
        py: Python<'py>,
        bytes: &[u8],
        lengths: &[u32],
    ) -> PyResult<Bound<'py, PyList>> {
        let mut found: Vec<Vec<&[u8]>> = vec![Vec::new(); self.count];
        let mut at = 0;
        for (&(index, room), &length) in self.parts.iter().zip(lengths) {
            found[index].push(&bytes[at..at + length as usize]);
            at += room;
        }
        let joined = found.into_iter().map(|parts| match parts[..] {
            [one] => PyBytes::new(py, one),
            _ => PyBytes::new(py, &parts.concat()),
        });
        PyList::new(py, joined)
    }
}

/// A request in flight and the plan to decode it.
#[derive(Debug)]
struct StartedRead {
    pending: PendingOperation,
    /// Keeps the file open until the request has ended.
    _file: Arc<SharedFile>,
    plan: RangePlan,
}

/// Ranges of a file that are on their way.
#[pyclass(frozen, module = "rfio_fsspec._native")]
#[derive(Debug)]
pub struct Ranges {
    url: OsString,
    begun: Mutex<Option<StartedRead>>,
}

impl Ranges {
    /// Starts a read.
    ///
    /// # Errors
    /// `OSError`: the ranges are too large or the connection fails.
    pub fn begin(
        py: Python<'_>,
        file: Arc<SharedFile>,
        url: OsString,
        wanted: &[(u64, u64)],
        most: u64,
    ) -> PyResult<Self> {
        let handle = file.handle();
        let begun = py.detach(|| {
            let (plan, operation, memory) = RangePlan::new(handle, wanted, most)?;
            Ok((file.begin(operation, memory)?, plan))
        });
        let (pending, plan) = begun.about(&url)?;
        Ok(Self {
            url,
            begun: Mutex::new(Some(StartedRead {
                pending,
                _file: file,
                plan,
            })),
        })
    }

    fn take(&self) -> Option<StartedRead> {
        self.begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

impl Drop for Ranges {
    fn drop(&mut self) {
        waiting::drop_without_gil(self.take());
    }
}

#[pymethods]
impl Ranges {
    /// Waits for them, once: the bytes of each, fewer than asked for where the file ends.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let taken = self.take().ok_or_else(|| system("ranges", libc::EINVAL));
        let begun = taken.about(&self.url)?;
        let done = waiting::wait_for(py, &self.url, begun.pending)?;
        match done.outcome.about(&self.url)? {
            OperationOutput::Vector(lengths) => begun.plan.join(py, done.memory.bytes(), &lengths),
            _ => Err(system("reply", libc::EPROTO)).about(&self.url),
        }
    }

    /// Does without them.
    fn leave(&self, py: Python<'_>) {
        if let Some(begun) = self.take() {
            py.detach(|| drop(begun));
        }
    }
}
