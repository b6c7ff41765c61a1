//! The lines of a table that `otf2-print` prints. Names stand in them as they are, so one with a newline takes several.

use super::Error;
use std::io::{BufRead, Read};

/// Bytes of a line: that of a communicator names all its ranks.
const LONGEST: u64 = 1 << 28;

/// A definition or an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}

impl Record {
    /// Why it is not understood.
    pub fn fault(&self, reason: impl Into<String>) -> Error {
        Error::of_line(self.line, &self.text, reason)
    }

    /// Its kind, and what stands behind that.
    pub fn split(&self) -> (&str, &str) {
        let (kind, rest) = self.text.split_once(' ').unwrap_or((&self.text, ""));
        (kind, rest.trim())
    }
}

/// Tells whether a line begins a record.
pub(super) type Begins = fn(&str) -> bool;

/// Reads a table.
pub(super) struct Records<R> {
    from: R,
    line: usize,
    begins: Begins,
    in_table: bool,
    ahead: Option<Record>,
}

/// Whether a line begins with a word in capitals, and something behind it.
pub(super) fn begins_with_kind(line: &str) -> bool {
    let Some((kind, rest)) = line.split_once(' ') else {
        return false;
    };
    kind.len() > 2
        && kind.starts_with(|first: char| first.is_ascii_uppercase())
        && kind
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && !rest.is_empty()
}

/// The same, with two numbers behind it.
pub(super) fn begins_event(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let is_number = |word: Option<&str>| word.is_some_and(|word| word.parse::<u64>().is_ok());
    begins_with_kind(line) && is_number(words.next()) && is_number(words.next())
}

impl<R: BufRead> Records<R> {
    /// A table whose records begin so.
    pub fn new(from: R, begins: Begins) -> Records<R> {
        Records {
            from,
            line: 0,
            begins,
            in_table: false,
            ahead: None,
        }
    }

    /// The next record; none where the text ends.
    pub fn next(&mut self) -> Result<Option<Record>, Error> {
        let mut record = match self.ahead.take() {
            Some(record) => record,
            None => match self.begin()? {
                Some(record) => record,
                None => return Ok(None),
            },
        };
        while let Some(line) = self.read()? {
            let next = Record {
                line: self.line,
                text: line,
            };
            let text = next.text.as_str();
            if (self.begins)(text) {
                self.ahead = Some(next);
                break;
            }
            let in_a_name = record.text.matches('"').count() % 2 == 1;
            if in_a_name {
                record.text.push('\n');
                record.text.push_str(text);
                if record.text.len() as u64 > LONGEST {
                    return Err(record.fault("as it has no end"));
                }
            // Attributes of an event stand below it.
            } else if !text.is_empty() && !text.starts_with(' ') {
                return Err(next.fault("as it begins no record"));
            }
        }
        Ok(Some(record))
    }

    /// Goes to the table, below its line of dashes, and to its first record.
    fn begin(&mut self) -> Result<Option<Record>, Error> {
        while let Some(text) = self.read()? {
            let line = self.line;
            if !self.in_table {
                self.in_table = text.len() > 2 && text.bytes().all(|byte| byte == b'-');
            } else if (self.begins)(&text) {
                return Ok(Some(Record { line, text }));
            } else if !text.trim().is_empty() {
                return Err(Error::of_line(line, &text, "as it begins no record"));
            }
        }
        match self.in_table {
            true => Ok(None),
            false => Err(Error::Lacking(
                "otf2-print has printed no table: there should be one below a line of dashes"
                    .to_owned(),
            )),
        }
    }

    fn read(&mut self) -> Result<Option<String>, Error> {
        let mut bytes = Vec::new();
        let read = self
            .from
            .by_ref()
            .take(LONGEST)
            .read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.line += 1;
        let ended = bytes.pop_if(|last| *last == b'\n').is_some();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(reason) = text.strip_prefix("==ERROR==") {
            return Err(Error::Lacking(format!("otf2-print says:{reason}")));
        }
        match ended || (read as u64) < LONGEST {
            true => Ok(Some(text)),
            false => Err(Error::of_line(self.line, &text, "as it has no end")),
        }
    }
}

/// The number in a reference, which stands at the end: `"name" <7>`.
pub(super) fn reference(text: &str) -> Option<u64> {
    let (_, number) = text.trim_end().strip_suffix('>')?.rsplit_once('<')?;
    number.parse().ok()
}

/// The number that a text begins with.
pub(super) fn leading(text: &str) -> Option<u64> {
    let end = text.find(|digit: char| !digit.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}
