//! The lines of a table printed by `otf2-print`. Names are not escaped, so a name with a newline
//! takes several lines.

use super::error::Error;
use std::io::{BufRead, Read};

/// Maximum bytes of a line: that of a communicator names all its ranks.
const LONGEST: u64 = 1 << 28;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub line: usize,
    pub text: String,
}

impl Record {
    pub fn fault(&self, reason: impl Into<String>) -> Error {
        Error::of_line(self.line, &self.text, reason)
    }

    pub fn split(&self) -> (&str, &str) {
        let (kind, rest) = self.text.split_once(' ').unwrap_or((&self.text, ""));
        (kind, rest.trim())
    }
}

/// Returns whether a line begins a record.
pub(super) type Begins = fn(&str) -> bool;

pub(super) struct Records<R> {
    from: R,
    line: usize,
    begins: Begins,
    in_table: bool,
    ahead: Option<Record>,
}

/// Returns whether a line begins with a word in capitals that is followed by more text.
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

/// Returns whether a line begins with a kind and two numbers.
pub(super) fn begins_event(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let is_number = |word: Option<&str>| word.is_some_and(|word| word.parse::<u64>().is_ok());
    begins_with_kind(line) && is_number(words.next()) && is_number(words.next())
}

impl<R: BufRead> Records<R> {
    /// Creates a reader; `begins` recognises the first line of a record.
    pub fn new(from: R, begins: Begins) -> Records<R> {
        Records {
            from,
            line: 0,
            begins,
            in_table: false,
            ahead: None,
        }
    }

    /// Returns the next record; `None` at the end of the text.
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
            // Attributes of an event are below it.
            } else if !text.is_empty() && !text.starts_with(' ') {
                return Err(next.fault("as it begins no record"));
            }
        }
        Ok(Some(record))
    }

    /// Skips to the first record of the table, below its line of dashes.
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
                "otf2-print printed no table, which should follow a line of dashes".to_owned(),
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

/// Returns the number of a reference, which is at its end: `"name" <7>`.
pub(super) fn reference(text: &str) -> Option<u64> {
    let (_, number) = text.trim_end().strip_suffix('>')?.rsplit_once('<')?;
    number.parse().ok()
}

pub(super) fn leading(text: &str) -> Option<u64> {
    let end = text.find(|digit: char| !digit.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}
