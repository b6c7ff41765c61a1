//! Operations, and the subrequests they are split into, one protocol request each.

use verbena_rfio_protocol::order::Order;
use verbena_rfio_protocol::types::{Handle, Range};
use verbena_rfio_protocol::{Reply, Request};

use crate::error::Error;

/// A caller's memory that an operation fills or reads. It belongs to the operation until that is
/// done.
pub trait Memory: Send {
    /// Returns the bytes.
    fn bytes(&self) -> &[u8];
    /// Returns the bytes, to be filled.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Returns the bytes when the operation is done and the memory is not needed otherwise.
    fn into_bytes(self: Box<Self>) -> Vec<u8> {
        self.bytes().to_vec()
    }
}

impl Memory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
    fn into_bytes(self: Box<Self>) -> Vec<u8> {
        *self
    }
}

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Sends one request; the memory holds its data, or receives those of the reply.
    Call(Request),
    /// Fills the memory from an offset of a file on, until it is full or the file ends.
    Read {
        /// The file.
        handle: Handle,
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// Reads part of a file, at most [`super::MultiplexedConnection::max_request_bytes`] bytes,
    /// which stay where they landed until [`super::PendingOperation::look`] passes them on. It
    /// needs no memory.
    Chunk {
        /// The file.
        handle: Handle,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Length in bytes.
        length: u32,
        /// The version that the file must have, if any.
        version: Option<u64>,
    },
    /// Writes the memory to a file, from an offset on.
    Write {
        /// The file.
        handle: Handle,
        /// Offset in the file, in bytes.
        offset: u64,
    },
    /// Reads ranges of a file. They are stored in order in the memory, each at the sum of the
    /// lengths before it.
    Vector {
        /// The file.
        handle: Handle,
        /// The ranges, in any order.
        ranges: Vec<Range>,
    },
}

/// The result of an operation.
#[derive(Debug, PartialEq)]
pub enum OperationOutput {
    /// The reply to a call, and the length of its data in bytes.
    Reply(Reply, usize),
    /// Number of bytes read; fewer than the memory holds only at the end of the file.
    Read(usize),
    /// All data were written.
    Written,
    /// Number of bytes read of each range; fewer than requested only at the end of the file.
    Vector(Vec<u32>),
}

/// A finished operation: its result and the caller's memory.
pub struct FinishedOperation {
    /// The result.
    pub outcome: Result<OperationOutput, Error>,
    /// The caller's memory.
    pub memory: Box<dyn Memory>,
    /// The part of the read area where its data stay.
    pub(super) read_part: Option<usize>,
}

impl std::fmt::Debug for FinishedOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.outcome)
    }
}

/// The server's limits for one request.
#[derive(Debug, Clone, Copy)]
pub struct RequestBounds {
    /// Bytes of data.
    pub bytes: usize,
    /// Ranges of a vector.
    pub ranges: usize,
}

/// A subrequest: the part of an operation that is one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Subrequest {
    /// The operation's number.
    pub operation: u64,
    /// Offset of its data in the operation's memory.
    pub at: usize,
    /// Length of its data in bytes.
    pub length: usize,
    /// The request.
    pub kind: SubrequestKind,
}

/// The request of a subrequest.
#[derive(Debug, Clone, PartialEq)]
pub enum SubrequestKind {
    /// A request without changes.
    Call(Request),
    /// Read at this offset of the file.
    Read(Handle, u64),
    /// Write at this offset of the file.
    Write(Handle, u64),
    /// Read these ranges; the number is the index of the first one in the operation.
    Vector(Handle, usize, Vec<Range>),
    /// Read at this offset a part of the range with this index, which is too long for one request.
    Part(Handle, usize, u64),
}

/// An operation in progress.
pub struct ActiveOperation {
    operation: Operation,
    /// The caller's memory.
    pub memory: Box<dyn Memory>,
    /// The part of the read area where its data stay.
    pub read_part: Option<usize>,
    /// Number of subrequests that have not ended.
    pub left: usize,
    /// The first error.
    pub error: Option<Error>,
    /// Whether it was canceled: its remaining subrequests are not sent.
    pub is_canceled: bool,
    /// Whether it was abandoned: its result is discarded.
    pub is_abandoned: bool,
    /// Length in the memory at which the file was found to end.
    end: usize,
    lengths: Vec<u32>,
    /// Length at which the file was found to end, for each range that was read in parts.
    ends: Vec<u32>,
    reply: Option<(Reply, usize)>,
}

impl SubrequestKind {
    /// Returns its ordering constraints.
    pub fn order(&self) -> Order {
        match self {
            Self::Call(request) => Order::of(request),
            Self::Write(handle, _) => Order::changing(*handle),
            Self::Read(handle, _) | Self::Vector(handle, ..) | Self::Part(handle, ..) => {
                Order::looking_at(*handle)
            }
        }
    }

    /// Returns whether it moves file data, which may travel by RDMA.
    pub fn moves_data(&self) -> bool {
        !matches!(self, Self::Call(_))
    }

    /// Returns whether its data go to the server.
    pub fn brings_data(&self) -> bool {
        match self {
            Self::Call(request) => request.brings_data(),
            Self::Write(..) => true,
            _ => false,
        }
    }

    /// Returns whether a busy server may answer it short, so that the rest is requested again.
    pub fn may_be_short(&self) -> bool {
        matches!(self, Self::Read(..) | Self::Part(..))
    }
}

impl ActiveOperation {
    /// Creates an operation and its subrequests, in order.
    ///
    /// # Errors
    /// [`Error::Setup`] if the operation exceeds a limit or its memory.
    pub fn new(
        number: u64,
        operation: Operation,
        memory: Box<dyn Memory>,
        bounds: RequestBounds,
    ) -> Result<(Self, Vec<Subrequest>), Error> {
        let length = match operation {
            Operation::Chunk { length, .. } => length as usize,
            _ => memory.bytes().len(),
        };
        let subrequests = subrequests(number, &operation, length, bounds)?;
        let ranges = match &operation {
            Operation::Vector { ranges, .. } => ranges.len(),
            _ => 0,
        };
        let active = Self {
            operation,
            memory,
            read_part: None,
            left: subrequests.len(),
            error: None,
            is_canceled: false,
            is_abandoned: false,
            end: length,
            lengths: vec![0; ranges],
            ends: vec![u32::MAX; ranges],
            reply: None,
        };
        Ok((active, subrequests))
    }

    /// Returns the bytes of memory that must be allocated when its first data arrive.
    pub fn missing_memory(&self) -> usize {
        match self.operation {
            Operation::Chunk { length, .. } if self.memory.bytes().is_empty() => length as usize,
            _ => 0,
        }
    }

    /// Returns whether its data may stay where they landed.
    pub fn may_use_in_place(&self) -> bool {
        matches!(self.operation, Operation::Chunk { .. })
    }

    /// Returns whether data of this version of the file are acceptable.
    pub fn takes_version(&self, found: u64) -> bool {
        match self.operation {
            Operation::Chunk { version, .. } => version.is_none_or(|version| version == found),
            _ => true,
        }
    }

    /// Records the reply to a call and the length of its data in bytes.
    pub fn replied(&mut self, reply: Reply, data: usize) {
        self.reply = Some((reply, data));
    }

    /// Records that the file ends at this offset in the memory, or earlier.
    pub fn ends_at(&mut self, at: usize) {
        self.end = self.end.min(at);
    }

    /// Adds the lengths read of some ranges, from index `first` on. A short one was read up to the
    /// end of the file.
    pub fn add_lengths(&mut self, first: usize, lengths: &[u32]) {
        for (place, length) in self.lengths.iter_mut().skip(first).zip(lengths) {
            *place += length;
        }
    }

    /// Records that the file ends at this offset within a range, or earlier. Data of a later part
    /// of the range come from a file that has grown since; there is a gap before them, so they do
    /// not count.
    pub fn range_ends_at(&mut self, range: usize, offset: u64) {
        if let (Operation::Vector { ranges, .. }, Some(end)) =
            (&self.operation, self.ends.get_mut(range))
        {
            let place = offset.saturating_sub(ranges[range].offset);
            *end = (*end).min(u32::try_from(place).unwrap_or(u32::MAX));
        }
    }

    /// Returns the result; no subrequest may be left.
    pub fn into_done(self) -> FinishedOperation {
        debug_assert_eq!(self.left, 0);
        let given = match (&self.operation, self.reply) {
            (Operation::Call(_), Some((reply, data))) => Ok(OperationOutput::Reply(reply, data)),
            (Operation::Call(_), None) => Err(Error::Dropped("before it replied")),
            (Operation::Read { .. } | Operation::Chunk { .. }, _) => {
                Ok(OperationOutput::Read(self.end))
            }
            (Operation::Write { .. }, _) => Ok(OperationOutput::Written),
            (Operation::Vector { .. }, _) => {
                let lengths = self.lengths.iter().zip(&self.ends);
                Ok(OperationOutput::Vector(
                    lengths.map(|(&length, &end)| length.min(end)).collect(),
                ))
            }
        };
        FinishedOperation {
            outcome: self.error.map_or(given, Err),
            memory: self.memory,
            read_part: self.read_part,
        }
    }
}

fn subrequests(
    number: u64,
    operation: &Operation,
    length: usize,
    bounds: RequestBounds,
) -> Result<Vec<Subrequest>, Error> {
    let subrequest = |at: usize, length: usize, kind: SubrequestKind| Subrequest {
        operation: number,
        at,
        length,
        kind,
    };
    let most = bounds.bytes.max(1);
    let cut = |kind: &dyn Fn(u64) -> SubrequestKind, offset: u64| {
        let ends = offset.checked_add(length as u64);
        ends.ok_or_else(|| Error::Setup("beyond the end of any file".into()))?;
        Ok((0..length)
            .step_by(most)
            .map(|at| subrequest(at, most.min(length - at), kind(offset + at as u64)))
            .collect())
    };
    match operation {
        Operation::Call(request) => {
            let data = request.brings_data().then_some(length);
            let data = data.unwrap_or_else(|| request.most_data().min(length));
            Ok(vec![subrequest(
                0,
                data,
                SubrequestKind::Call(request.clone()),
            )])
        }
        Operation::Chunk { length, .. } if *length as usize > most => Err(Error::Setup(format!(
            "cannot read {length} bytes at once; the server allows {most}"
        ))),
        Operation::Chunk { handle, offset, .. } | Operation::Read { handle, offset } => {
            cut(&|at| SubrequestKind::Read(*handle, at), *offset)
        }
        Operation::Write { handle, offset } => {
            cut(&|at| SubrequestKind::Write(*handle, at), *offset)
        }
        Operation::Vector { handle, ranges } => {
            let whole: usize = ranges.iter().map(|range| range.length as usize).sum();
            if whole > length {
                return Err(Error::Setup(format!(
                    "ranges of {whole} bytes for {length} bytes of memory"
                )));
            }
            let mut subrequests = Vec::new();
            let (mut at, mut first) = (0, 0);
            for group in groups(ranges, bounds) {
                let length = group.iter().map(|range| range.length as usize).sum();
                if length <= most {
                    let kind = SubrequestKind::Vector(*handle, first, group.to_vec());
                    subrequests.push(subrequest(at, length, kind));
                } else {
                    let start = group[0].offset;
                    let end = start.checked_add(length as u64);
                    end.ok_or_else(|| Error::Setup("beyond the end of any file".into()))?;
                    subrequests.extend((0..length).step_by(most).map(|part| {
                        let kind = SubrequestKind::Part(*handle, first, start + part as u64);
                        subrequest(at + part, most.min(length - part), kind)
                    }));
                }
                at += length;
                first += group.len();
            }
            Ok(subrequests)
        }
    }
}

/// Groups ranges into requests within the bounds. A range that is too long for one request is
/// alone.
fn groups(ranges: &[Range], bounds: RequestBounds) -> impl Iterator<Item = &[Range]> {
    let mut rest = ranges;
    std::iter::from_fn(move || {
        let mut sum = 0usize;
        let fits = |range: &&Range| {
            sum += range.length as usize;
            sum <= bounds.bytes
        };
        let most = bounds.ranges.max(1);
        let count = rest.iter().take(most).take_while(fits).count().max(1);
        let (group, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn subrequests_cover_the_range_once_in_order(
            length in 0usize..5000, most in 1usize..700, offset in 0u64..1 << 40) {
            let bounds = RequestBounds { bytes: most, ranges: 9 };
            let handle = Handle(3);
            let found = subrequests(7, &Operation::Read { handle, offset }, length, bounds)
                .unwrap();
            let mut at = 0;
            for subrequest in &found {
                prop_assert_eq!((subrequest.operation, subrequest.at), (7, at));
                prop_assert_eq!(&subrequest.kind,
                    &SubrequestKind::Read(handle, offset + at as u64));
                prop_assert!((1..=most).contains(&subrequest.length));
                at += subrequest.length;
            }
            prop_assert_eq!(at, length);
        }

        /// In either order of the parts: the file grew between the two, and the range ends where
        /// the file was first found to end.
        #[test]
        fn a_split_range_has_no_gap(
            found in 0u32..100, behind in 1u32..100, first_is_first in any::<bool>()) {
            let operation = Operation::Vector {
                handle: Handle(3),
                ranges: vec![Range { offset: 1000, length: 200 }],
            };
            let bounds = RequestBounds { bytes: 100, ranges: 9 };
            let (mut active, subrequests) = ActiveOperation::new(7, operation,
                Box::new(vec![0; 200]), bounds).unwrap();
            prop_assert_eq!(subrequests.len(), 2);
            for part in if first_is_first { [0, 1] } else { [1, 0] } {
                let length = [found, behind][part];
                active.add_lengths(0, &[length]);
                active.range_ends_at(0, 1000 + 100 * part as u64 + u64::from(length));
                active.left -= 1;
            }
            prop_assert_eq!(active.into_done().outcome.unwrap(),
                OperationOutput::Vector(vec![found]));
        }

        #[test]
        fn groups_are_the_ranges_in_order_within_the_bounds(
            lengths in proptest::collection::vec(0u32..900, 0..80),
            bytes in 1usize..2000,
            most in 1usize..20,
        ) {
            let ranges: Vec<Range> = lengths.iter().map(|&length| Range { offset: 5, length })
                .collect();
            let cut: Vec<&[Range]> = groups(&ranges, RequestBounds { bytes, ranges: most })
                .collect();
            prop_assert_eq!(cut.concat(), ranges.clone());
            for group in cut {
                let sum: usize = group.iter().map(|range| range.length as usize).sum();
                prop_assert!((1..=most).contains(&group.len()));
                prop_assert!(group.len() == 1 || sum <= bytes);
            }
        }
    }
}
