//! Reads a schedule's text.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 1000
//! l2: send 8b to 1 tag 5
//! l2 requires l1
//! }
//! rank 1 {
//! l1: recv 8b from 0 tag 5
//! }
//! ```
//!
//! In addition to the format of `txt2bin`, a name may be required before the line that defines it,
//! and a comment may follow on a line. Some input that it accepts is refused: duplicate names of a
//! rank, nonexistent ranks, numbers out of range.

use super::schedule::{Action, Operation, Schedule};
use super::tokens::{Word, Words};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of ranks.
pub(super) const MOST_RANKS: u64 = 1 << 20;
/// Maximum bytes of all messages and nanoseconds of all calculations together: virtual time in
/// picoseconds must not overflow.
pub(super) const MOST_BYTES: u64 = 1 << 45;
pub(super) const MOST_NANOS: u64 = 1_000_000_000_000_000;

/// An error in a text, with its line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The problem, and the expected text.
    pub reason: String,
}

/// Parses a text without checking for cycles.
pub(super) fn read(text: &str) -> Result<Schedule, Fault> {
    Reader {
        words: Words::new(text),
        schedule: Schedule::default(),
        bytes: 0,
        nanos: 0,
    }
    .read()
}

struct Reader<'a> {
    words: Words<'a>,
    schedule: Schedule,
    /// Bytes of all messages so far, and nanoseconds of all calculations.
    bytes: u64,
    nanos: u64,
}

/// A rank's operations during parsing.
#[derive(Default)]
struct Block<'a> {
    operations: Vec<Operation>,
    names: HashMap<&'a str, usize>,
    /// Name of the operation, kind of dependency, required name, and line.
    required: Vec<(&'a str, Requires, &'a str, usize)>,
}

/// State that the other operation must have reached.
#[derive(Clone, Copy)]
enum Requires {
    Ended,
    Begun,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Schedule, Fault> {
        while let Some(word) = self.words.take()? {
            match word {
                Word::End => (),
                Word::Name("num_ranks") => self.read_number_of_ranks()?,
                Word::Name("rank") => self.read_rank()?,
                other => return Err(self.unexpected("num_ranks or rank", Some(other))),
            }
        }
        match self.schedule.ranks {
            0 => Err(self.words.fault("the schedule has no num_ranks".to_owned())),
            _ => Ok(self.schedule),
        }
    }

    fn unexpected(&self, expected: &str, found: Option<Word<'_>>) -> Fault {
        let found = found.map_or("the end of the text".to_owned(), Word::told);
        self.words
            .fault(format!("expected {expected}, found {found}"))
    }

    fn number(&mut self, of: &str) -> Result<u64, Fault> {
        match self.words.take()? {
            Some(Word::Number(number)) => Ok(number),
            other => Err(self.unexpected(of, other)),
        }
    }

    fn name(&mut self, expected: &str) -> Result<&'a str, Fault> {
        match self.words.take()? {
            Some(Word::Name(name)) => Ok(name),
            other => Err(self.unexpected(expected, other)),
        }
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), Fault> {
        match self.words.take()? {
            Some(Word::Name(name)) if name == keyword => Ok(()),
            other => Err(self.unexpected(keyword, other)),
        }
    }

    fn read_number_of_ranks(&mut self) -> Result<(), Fault> {
        let ranks = self.number("how many ranks there are")?;
        if self.schedule.ranks != 0 {
            let reason = "num_ranks was already given".to_owned();
            return Err(self.words.fault(reason));
        }
        if !(1..=MOST_RANKS).contains(&ranks) {
            let reason = format!("expected 1 to {MOST_RANKS} ranks, found {ranks}");
            return Err(self.words.fault(reason));
        }
        self.schedule.ranks = ranks as usize;
        Ok(())
    }

    fn rank(&self, number: u64) -> Result<usize, Fault> {
        match self.schedule.ranks as u64 {
            0 => Err(self.words.fault("num_ranks must come first".to_owned())),
            ranks if number < ranks => Ok(number as usize),
            ranks => Err(self
                .words
                .fault(format!("there is no rank {number}: num_ranks is {ranks}"))),
        }
    }

    fn read_rank(&mut self) -> Result<(), Fault> {
        let number = self.number("the number of a rank")?;
        let rank = self.rank(number)?;
        if self.schedule.operations.contains_key(&rank) {
            let reason = format!("rank {rank} was already given");
            return Err(self.words.fault(reason));
        }
        match self.words.take()? {
            Some(Word::Mark('{')) => (),
            other => return Err(self.unexpected("'{'", other)),
        }
        let begun = self.words.line();
        let mut block = Block::default();
        loop {
            match self.words.take()? {
                Some(Word::End) => (),
                Some(Word::Mark('}')) => break,
                Some(Word::Name(first)) => self.read_statement(first, &mut block)?,
                None => {
                    return Err(Fault {
                        line: begun,
                        reason: format!("rank {rank} has no end ('}}')"),
                    });
                }
                other => return Err(self.unexpected("an operation, a name or '}'", other)),
            }
        }
        let operations = block.resolved()?;
        self.schedule.operations.insert(rank, operations);
        Ok(())
    }

    fn read_statement(&mut self, first: &'a str, block: &mut Block<'a>) -> Result<(), Fault> {
        if matches!(first, "send" | "recv" | "calc") {
            let operation = self.read_operation(first)?;
            block.operations.push(operation);
            return Ok(());
        }
        let line = self.words.line();
        match self.words.take()? {
            Some(Word::Mark(':')) => {
                let kind = self.name("send, recv or calc")?;
                if block.names.insert(first, block.operations.len()).is_some() {
                    let reason = format!("the rank already has a {first:?}");
                    return Err(self.words.fault(reason));
                }
                let operation = self.read_operation(kind)?;
                block.operations.push(operation);
                Ok(())
            }
            Some(Word::Name(kind @ ("requires" | "irequires"))) => {
                let other = self.name("the name of an operation")?;
                let requires = match kind {
                    "requires" => Requires::Ended,
                    _ => Requires::Begun,
                };
                block.required.push((first, requires, other, line));
                self.end_of_statement("the end of the line")
            }
            other => {
                let found = self.unexpected("':', requires or irequires", other);
                Err(found)
            }
        }
    }

    fn read_operation(&mut self, kind: &str) -> Result<Operation, Fault> {
        let line = self.words.line();
        let action = match kind {
            "calc" => {
                let nanos = self.number("how many nanoseconds")?;
                self.nanos = self.more(self.nanos, nanos, MOST_NANOS, "ns of calculations")?;
                Action::Calculate { nanos }
            }
            "send" => {
                let bytes = self.message()?;
                self.keyword("to")?;
                let to = self.number("the number of a rank")?;
                let to = self.rank(to)?;
                Action::Send { to, bytes, tag: 0 }
            }
            "recv" => {
                let bytes = self.message()?;
                self.keyword("from")?;
                let from = match self.words.take()? {
                    Some(Word::Any) => None,
                    Some(Word::Number(number)) => Some(self.rank(number)?),
                    other => return Err(self.unexpected("the number of a rank, or -1", other)),
                };
                let tag = Some(0);
                Action::Receive { from, bytes, tag }
            }
            other => return Err(self.unexpected("send, recv or calc", Some(Word::Name(other)))),
        };
        let mut operation = Operation {
            line,
            action,
            cpu: 0,
            requires: Vec::new(),
            requires_begun: Vec::new(),
        };
        self.read_particulars(&mut operation)?;
        Ok(operation)
    }

    fn message(&mut self) -> Result<u64, Fault> {
        let bytes = self.number("how many bytes")?;
        self.bytes = self.more(self.bytes, bytes, MOST_BYTES, "bytes of messages")?;
        self.keyword("b")?;
        Ok(bytes)
    }

    fn more(&self, sum: u64, more: u64, most: u64, of: &str) -> Result<u64, Fault> {
        match sum.checked_add(more).filter(|sum| *sum <= most) {
            Some(sum) => Ok(sum),
            None => {
                let reason = format!("more than {most} {of} up to here, the models' limit");
                Err(self.words.fault(reason))
            }
        }
    }

    /// Reads tag, core and adapter of an operation, each at most once.
    fn read_particulars(&mut self, operation: &mut Operation) -> Result<(), Fault> {
        let calculates = matches!(operation.action, Action::Calculate { .. });
        let expected = match calculates {
            true => "cpu or the end of the line",
            false => "tag, cpu, nic or the end of the line",
        };
        let mut given = BTreeMap::new();
        while let Some(Word::Name(word)) = self.words.look()? {
            self.words.take()?;
            match word {
                "tag" if !calculates => self.read_tag(operation)?,
                "cpu" => {
                    let cpu = self.number("the number of a core")?;
                    operation.cpu = u8::try_from(cpu).map_err(|_| {
                        self.words
                            .fault(format!("expected a core from 0 to 255, found {cpu}"))
                    })?;
                }
                "nic" if !calculates => {
                    let nic = self.number("the number of an adapter")?;
                    if nic != 0 {
                        let reason =
                            format!("the nodes of the models have one adapter, 0, not {nic}");
                        return Err(self.words.fault(reason));
                    }
                }
                other => return Err(self.unexpected(expected, Some(Word::Name(other)))),
            }
            if given.insert(word, ()).is_some() {
                let reason = format!("{word} was already given");
                return Err(self.words.fault(reason));
            }
        }
        self.end_of_statement(expected)
    }

    fn read_tag(&mut self, operation: &mut Operation) -> Result<(), Fault> {
        let word = self.words.take()?;
        let given = match word {
            Some(Word::Number(number)) => Some(number),
            Some(Word::Any) => None,
            other => return Err(self.unexpected("a tag", other)),
        };
        let too_large = |_| {
            self.words.fault(format!(
                "expected a tag of at most {}, found a larger one",
                u32::MAX
            ))
        };
        let given = given.map(u32::try_from).transpose().map_err(too_large)?;
        match (&mut operation.action, given) {
            (Action::Send { tag, .. }, Some(given)) => *tag = given,
            (Action::Receive { tag, .. }, given) => *tag = given,
            _ => {
                let reason = "a send needs its own tag; only receives accept -1 (any)";
                return Err(self.words.fault(reason.to_owned()));
            }
        }
        Ok(())
    }

    /// Expects the end of a line or of the enclosing block.
    fn end_of_statement(&mut self, expected: &str) -> Result<(), Fault> {
        match self.words.look()? {
            None | Some(Word::End | Word::Mark('}')) => Ok(()),
            Some(_) => {
                let found = self.words.take()?;
                Err(self.unexpected(expected, found))
            }
        }
    }
}

impl Block<'_> {
    /// Returns the operations with the numbers of their requirements.
    fn resolved(mut self) -> Result<Vec<Operation>, Fault> {
        for (name, requires, other, line) in self.required {
            let number = |name: &str| {
                self.names.get(name).copied().ok_or_else(|| Fault {
                    line,
                    reason: format!("the rank has no operation {name:?}"),
                })
            };
            let (own, other) = (number(name)?, number(other)?);
            let operation = &mut self.operations[own];
            match requires {
                Requires::Ended => operation.requires.push(other),
                Requires::Begun => operation.requires_begun.push(other),
            }
        }
        Ok(self.operations)
    }
}
