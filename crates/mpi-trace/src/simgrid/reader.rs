//! Reads the lines of a trace.

use super::action::Action;
use super::arguments::Arguments;
use super::error::Error;
use super::execution::{Execution, Imported};
use super::step::{Line, Step};
use super::whole_trace::{find_completing_tests, find_null_receives};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

/// Maximum number of ranks.
const MOST_RANKS: usize = 1 << 13;
/// Maximum length of a line in bytes: two counts for each rank.
pub(super) const LONGEST: u64 = 1 << 20;

/// Reported for a rank whose lines do not end with finalize.
pub(super) const NO_FINALIZE: &str = "end of a rank, which is assumed after its last line";

/// Reader of a trace of one or more files.
#[derive(Debug, Default)]
pub struct Reader {
    flops_per_second: Option<f64>,
    files: Vec<String>,
    lines: BTreeMap<usize, Vec<Line>>,
}

impl Reader {
    /// Creates a reader; computing is converted to time by this rate.
    pub fn new(flops_per_second: Option<f64>) -> Reader {
        Reader {
            flops_per_second,
            ..Reader::default()
        }
    }

    /// Reads a file; `name` is for messages. Its lines may be of any ranks.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] if the text cannot be read, or a line has no rank or is too long.
    pub fn read(&mut self, name: &str, mut text: impl BufRead) -> Result<(), Error> {
        let file = u32::try_from(self.files.len());
        let file = file.map_err(|_| Error::Lacking("there are too many files".to_owned()))?;
        self.files.push(name.to_owned());
        let mut number = 0;
        loop {
            let mut bytes = Vec::new();
            let read = text.by_ref().take(LONGEST).read_until(b'\n', &mut bytes);
            let read = read.map_err(|source| Error::Unreadable {
                file: name.to_owned(),
                source,
            })?;
            if read == 0 {
                return Ok(());
            }
            number += 1;
            let is_whole = bytes.ends_with(b"\n") || (read as u64) < LONGEST;
            let line = Line {
                file,
                number,
                text: String::from_utf8_lossy(&bytes).trim().into(),
            };
            if !is_whole {
                return Err(line.fault(&self.files, "a line is too long"));
            }
            if number == u32::MAX {
                return Err(line.fault(&self.files, "the file has too many lines"));
            }
            let Some(rank) = line.text.split_ascii_whitespace().next() else {
                continue;
            };
            let rank = rank.parse().ok().filter(|&rank| rank < MOST_RANKS);
            let Some(rank) = rank else {
                let reason = format!("it does not begin with a rank below {MOST_RANKS}");
                return Err(line.fault(&self.files, reason));
            };
            self.lines.entry(rank).or_default().push(line);
        }
    }

    /// Converts the lines.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] if a line is not understood, if the lines of the ranks contradict each
    /// other, or if the trace has computing and its rate is unknown.
    pub fn finish(self) -> Result<Imported, Error> {
        let size = self.lines.len();
        if size == 0 {
            return Err(Error::Lacking("the trace has no lines".to_owned()));
        }
        if let Some(missing) = (0..size).find(|rank| !self.lines.contains_key(rank)) {
            return Err(Error::Lacking(format!("no line is of rank {missing}")));
        }
        let mut left_out = BTreeMap::new();
        let mut ranks = Vec::new();
        for (rank, lines) in self.lines {
            let mut steps = parse(rank, size, lines, &self.files, &mut left_out)?;
            find_completing_tests(&mut steps);
            ranks.push(steps);
        }
        find_null_receives(&mut ranks);
        Execution::new(ranks, self.files, self.flops_per_second, left_out).run()
    }
}

fn parse(
    rank: usize,
    size: usize,
    lines: Vec<Line>,
    files: &[String],
    left_out: &mut BTreeMap<String, u64>,
) -> Result<Vec<Step>, Error> {
    let mut default_size = 8;
    let mut steps: Vec<Step> = Vec::new();
    let last = lines.last().cloned();
    for line in lines {
        let mut words = line.text.split_ascii_whitespace();
        words.next();
        let Some(name) = words.next() else {
            return Err(line.fault(files, "it has no action"));
        };
        if name == "init" {
            // The default of SimGrid's replay: without an argument, elements are bytes.
            default_size = if words.clone().next().is_some() { 8 } else { 1 };
        }
        let arguments = Arguments::new(words, size, default_size);
        match Action::parse(rank, name, arguments) {
            Ok(Action::Omitted) => *left_out.entry(name.to_owned()).or_default() += 1,
            Ok(action) => steps.push(Step { line, action }),
            Err(reason) => return Err(line.fault(files, reason)),
        }
    }
    let is_ended = |step: &Step| step.action == Action::Finalize;
    if !steps.iter().any(is_ended)
        && let Some(line) = last
    {
        *left_out.entry(NO_FINALIZE.to_owned()).or_default() += 1;
        let action = Action::Finalize;
        steps.push(Step { line, action });
    }
    Ok(steps)
}
