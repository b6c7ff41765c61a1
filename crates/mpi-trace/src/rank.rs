//! A rank's file: its calls in order.
//!
//! A record is a call and two times. Equal calls are defined once and then referenced by their
//! number; a call that follows the same predecessor as the last time needs no number.

use crate::Fault;
use crate::block::Blocks;
use crate::number::{Bytes, Result};
use crate::part::Part;

/// Name and parts of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Index of its name in [`RankTrace::names`].
    pub name: usize,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// An executed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Index in [`RankTrace::calls`].
    pub call: usize,
    /// Processor time since the previous call, in nanoseconds.
    pub computing: u64,
    /// Time within the call, in nanoseconds.
    pub within: u64,
}

/// Calls of a name that found no message or request ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polls {
    /// Index of the name in [`RankTrace::names`].
    pub name: usize,
    /// Number of calls.
    pub count: u64,
    /// Time within them in nanoseconds.
    pub within: u64,
}

/// End of a rank's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The rank called MPI_Finalize.
    Finalized,
    /// The rank ended without MPI_Finalize.
    Open,
    /// The rest of the file is unreadable.
    Broken(Fault),
}

/// Where a rank was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedOn {
    /// Identifies the host among those of the recording.
    pub host: u64,
    /// Number of processors of the host that were online.
    pub processors: u64,
}

/// Most processors of a host.
const MOST_PROCESSORS: u64 = 1 << 20;

impl RecordedOn {
    fn read(bytes: &mut Bytes<'_>) -> Result<RecordedOn> {
        let (host, processors) = (bytes.number()?, bytes.number()?);
        match (1..=MOST_PROCESSORS).contains(&processors) {
            true => Ok(RecordedOn { host, processors }),
            false => Err(format!("a host of {processors} processors is invalid")),
        }
    }
}

/// A parsed rank file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankTrace {
    /// The rank's number.
    pub rank: usize,
    /// Number of ranks in MPI_COMM_WORLD.
    pub size: usize,
    /// Version text of the MPI library.
    pub library: String,
    /// Where it was recorded; `None` in imported traces and in those of earlier versions.
    pub recorded_on: Option<RecordedOn>,
    /// The names of calls.
    pub names: Vec<String>,
    /// Distinct calls.
    pub calls: Vec<Call>,
    /// The executed calls in order.
    pub records: Vec<Record>,
    /// Calls that found no message or request ready.
    pub polls: Vec<Polls>,
    /// End of the file.
    pub end: End,
}

/// First number of a record.
pub(crate) const PREDICTED: u64 = 0;
pub(crate) const DEFINED: u64 = 1;
pub(crate) const ONCE: u64 = 2;
pub(crate) const NAME: u64 = 3;
pub(crate) const POLLS: u64 = 4;
pub(crate) const ENTRY: u64 = 5;

impl RankTrace {
    /// Parses a file up to the first unreadable byte.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if the beginning of the file is unreadable.
    pub fn read(file: &[u8]) -> std::result::Result<RankTrace, Fault> {
        let mut blocks = Blocks::of(file)?;
        let Some((at, first)) = blocks.next() else {
            return Err(blocks.broken.unwrap_or(Fault {
                at: file.len(),
                reason: "the file ends before it names its rank".to_owned(),
            }));
        };
        let within = |at: usize| move |reason: String| Fault { at, reason };
        let mut reader = Reader::begin(first).map_err(within(at))?;
        for (at, block) in blocks.by_ref() {
            reader.block(block).map_err(within(at))?;
        }
        Ok(reader.end(blocks.broken))
    }

    /// Returns the parts of an executed call.
    pub fn parts(&self, record: &Record) -> &[Part] {
        &self.calls[record.call].parts
    }

    /// Returns the name of an executed call.
    pub fn name(&self, record: &Record) -> &str {
        &self.names[self.calls[record.call].name]
    }
}

struct Reader {
    trace: RankTrace,
    /// Nanoseconds per tick.
    tick: u64,
    /// The numbered calls, each with the number of its last successor.
    numbered: Vec<(usize, usize)>,
    last: usize,
    finalized: bool,
}

impl Reader {
    fn begin(block: &[u8]) -> Result<Reader> {
        let mut bytes = Bytes::new(block);
        let (rank, size) = (bytes.size()?, bytes.size()?);
        if rank >= size {
            return Err(format!("it is rank {rank}'s of {size}"));
        }
        let tick = bytes.number()?;
        if tick == 0 || tick > 1_000_000_000 {
            return Err(format!("a tick of {tick} ns is invalid"));
        }
        let library = text(&mut bytes)?;
        let recorded_on = match bytes.is_empty() {
            true => None,
            false => Some(RecordedOn::read(&mut bytes)?),
        };
        match bytes.is_empty() {
            true => Ok(Reader {
                trace: RankTrace {
                    rank,
                    size,
                    library,
                    recorded_on,
                    names: Vec::new(),
                    calls: Vec::new(),
                    records: Vec::new(),
                    polls: Vec::new(),
                    end: End::Open,
                },
                tick,
                numbered: Vec::new(),
                last: 0,
                finalized: false,
            }),
            false => Err("the first block has extra data".to_owned()),
        }
    }

    fn block(&mut self, block: &[u8]) -> Result<()> {
        let mut bytes = Bytes::new(block);
        while !bytes.is_empty() {
            let call = match bytes.number()? {
                NAME => {
                    let name = text(&mut bytes)?;
                    self.trace.names.push(name);
                    continue;
                }
                POLLS => {
                    self.polls(&mut bytes)?;
                    continue;
                }
                DEFINED => {
                    let call = self.call(&mut bytes)?;
                    let number = self.numbered.len();
                    self.numbered.push((call, 0));
                    self.goes_on_with(number)
                }
                ONCE => self.call(&mut bytes)?,
                PREDICTED => {
                    let before = self.numbered.get(self.last);
                    let &(_, next) = before.ok_or("no earlier message to continue from")?;
                    self.goes_on_with(next)
                }
                head => {
                    let number = (head - ENTRY) as usize;
                    if number >= self.numbered.len() {
                        return Err(format!("no call has number {number}"));
                    }
                    self.goes_on_with(number)
                }
            };
            let record = Record {
                call,
                computing: self.ticks(&mut bytes)?,
                within: self.ticks(&mut bytes)?,
            };
            self.trace.records.push(record);
        }
        Ok(())
    }

    /// Returns the call with a number, and records it as the successor of the last one.
    fn goes_on_with(&mut self, number: usize) -> usize {
        self.numbered[self.last].1 = number;
        self.last = number;
        self.numbered[number].0
    }

    fn call(&mut self, bytes: &mut Bytes<'_>) -> Result<usize> {
        let length = bytes.size()?;
        let (parts, name) = Part::all_of(bytes.take(length)?)?;
        self.named(name)?;
        self.finalized |= parts.contains(&Part::Finalized);
        self.trace.calls.push(Call { name, parts });
        Ok(self.trace.calls.len() - 1)
    }

    fn named(&self, name: usize) -> Result<usize> {
        match name < self.trace.names.len() {
            true => Ok(name),
            false => Err(format!("there is no name with number {name}")),
        }
    }

    fn polls(&mut self, bytes: &mut Bytes<'_>) -> Result<()> {
        let name = bytes.size()?;
        let polls = Polls {
            name: self.named(name)?,
            count: bytes.number()?,
            within: self.ticks(bytes)?,
        };
        self.trace.polls.push(polls);
        Ok(())
    }

    fn ticks(&self, bytes: &mut Bytes<'_>) -> Result<u64> {
        let ticks = bytes.number()?;
        let most = (1 << 60) / self.tick;
        match ticks <= most {
            true => Ok(ticks * self.tick),
            false => Err(format!(
                "{ticks} ticks of {} ns are more than 36 years",
                self.tick
            )),
        }
    }

    fn end(self, broken: Option<Fault>) -> RankTrace {
        let end = match broken {
            Some(fault) => End::Broken(fault),
            None if self.finalized => End::Finalized,
            None => End::Open,
        };
        RankTrace { end, ..self.trace }
    }
}

fn text(bytes: &mut Bytes<'_>) -> Result<String> {
    let length = bytes.size()?;
    let text = std::str::from_utf8(bytes.take(length)?);
    text.map(str::to_owned)
        .map_err(|_| "a name is not text".to_owned())
}
