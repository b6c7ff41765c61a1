//! The record of the calls and requests that rules were about: a line of text for each.

use std::fmt;

/// The variable with the record's file, to which all processes append.
pub const VARIABLE: &str = "VERBENA_FAULTS_LOG";

/// Most failures that a process records of each rule: a program that tries again for ever would
/// fill the disk.
pub const MOST: u64 = 1000;

/// Longest part of a command line that is kept, in bytes.
pub const LONGEST_COMMAND: usize = 2000;

/// One call or request that a rule was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The rule's number, from 0.
    pub rule: usize,
    /// The process.
    pub process: u32,
    /// The number of the object, from 1; 0 for a call.
    pub object: u32,
    /// The number of the call in its process, or of the request at its object, from 1.
    pub count: u64,
    /// The process's command line ([`command_line`]).
    pub command: String,
}

impl Firing {
    /// Reads a line; none if it is none, or was cut by a full disk.
    pub fn read(line: &str) -> Option<Firing> {
        let mut fields = line.splitn(5, '\t');
        Some(Firing {
            rule: fields.next()?.parse().ok()?,
            process: fields.next()?.parse().ok()?,
            object: fields.next()?.parse().ok()?,
            count: fields.next()?.parse().ok()?,
            command: fields.next()?.to_owned(),
        })
    }
}

impl fmt::Display for Firing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Firing {
            rule,
            process,
            object,
            count,
            command,
        } = self;
        writeln!(to, "{rule}\t{process}\t{object}\t{count}\t{command}")
    }
}

/// Returns the text of a command line from its words, each ended by a zero (`/proc/PID/cmdline`):
/// with spaces between them, without control characters, and cut at [`LONGEST_COMMAND`] bytes.
pub fn command_line(words: &[u8]) -> String {
    let words = words.strip_suffix(&[0]).unwrap_or(words);
    let text: String = String::from_utf8_lossy(words)
        .chars()
        .map(|one| if one.is_control() { ' ' } else { one })
        .collect();
    let fits = |end: &usize| *end <= LONGEST_COMMAND;
    let ends = text
        .char_indices()
        .map(|(start, one)| start + one.len_utf8());
    text[..ends.take_while(fits).last().unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn command_lines_are_text_on_one_line() {
        assert_eq!(command_line(b"./a\0b\nc\0"), "./a b c");
        assert_eq!(command_line(b""), "");
        assert_eq!(
            command_line("é".repeat(2000).as_bytes()).len(),
            LONGEST_COMMAND
        );
    }

    proptest! {
        #[test]
        fn lines_are_read_as_written(
            rule: usize, process: u32, object: u32, count: u64, words: Vec<u8>
        ) {
            let command = command_line(&words);
            let firing = Firing { rule, process, object, count, command };
            let text = firing.to_string();
            prop_assert_eq!(Firing::read(text.trim_end_matches('\n')), Some(firing));
        }

        #[test]
        fn any_line_is_read_or_refused(line in ".{0,100}") {
            let _ = Firing::read(&line);
        }
    }
}
