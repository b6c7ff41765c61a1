//! The record of a call: one datagram, of fields separated by tabs.
//!
//! `verbena-trace-1`, process, thread, start and duration in nanoseconds (CLOCK_MONOTONIC), number
//! of calls it stands for, bytes that they moved or were asked to move, `errno` or 0, name,
//! arguments, result. Arguments and result contain neither tabs nor line ends.

use std::fmt::Write as _;

/// The first field.
pub const MARK: &str = "verbena-trace-1";

/// Maximum length of a text, in bytes; longer ones are cut, so that they fit into a datagram.
const LONGEST: usize = 48 << 10;

/// A call, or several polls that found nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Record {
    pub start: u64,
    pub duration: u64,
    pub calls: u64,
    pub bytes: u64,
    pub errno: i32,
    pub name: &'static str,
    pub arguments: String,
    pub result: String,
}

impl Record {
    /// Returns the datagram.
    pub fn encode(&self) -> String {
        // SAFETY: neither call takes a pointer or can fail. Old C libraries have no gettid(2) of
        // their own.
        let (process, thread) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
        let mut text = String::with_capacity(128 + self.arguments.len() + self.result.len());
        let _ = write!(
            text,
            "{MARK}\t{process}\t{thread}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            self.start,
            self.duration,
            self.calls,
            self.bytes,
            self.errno,
            self.name,
            clean(&self.arguments),
            clean(&self.result)
        );
        text
    }
}

/// Removes separators and cuts the text to its maximum length.
fn clean(text: &str) -> String {
    let whole = text.len() <= LONGEST;
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut cleaned: String = text[..end]
        .chars()
        .map(|letter| match letter.is_control() {
            true => '?',
            false => letter,
        })
        .collect();
    if !whole {
        cleaned.push_str("...");
    }
    cleaned
}

/// Successive polls of one queue that found nothing.
#[derive(Debug, Clone)]
pub struct Idle {
    pub record: Record,
}

impl Idle {
    /// Longest time for which they are collected, in nanoseconds.
    const LONGEST: u64 = 500_000_000;

    /// Adds a poll. Returns it if it is another call, or the time for collecting is over.
    pub fn take(&mut self, next: Record) -> Option<Record> {
        let old = &mut self.record;
        let same = old.name == next.name && old.arguments == next.arguments;
        if !same || next.start.saturating_sub(old.start) > Idle::LONGEST {
            return Some(next);
        }
        old.calls += next.calls;
        old.duration += next.duration;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_fields_are_escaped() {
        let record = Record {
            name: "ibv_open_device",
            arguments: "a\tb\nc".into(),
            ..Record::default()
        };
        let text = record.encode();
        assert_eq!(text.matches('\t').count(), 10);
        assert!(text.contains("\ta?b?c\t"), "{text:?}");
    }

    #[test]
    fn long_texts_are_truncated_at_character_boundaries() {
        let text = "\u{e9}".repeat(LONGEST);
        let cut = clean(&text);
        assert!(cut.len() <= LONGEST + 3 && cut.ends_with("..."));
    }

    #[test]
    fn empty_polls_are_one_record_until_something_else_happens() {
        let poll = |start, arguments: &str| Record {
            start,
            duration: 5,
            calls: 1,
            name: "ibv_poll_cq",
            arguments: arguments.into(),
            ..Record::default()
        };
        let mut idle = Idle {
            record: poll(0, "cq1, 1"),
        };
        assert_eq!(idle.take(poll(10, "cq1, 1")), None);
        assert_eq!((idle.record.calls, idle.record.duration), (2, 10));
        assert!(idle.take(poll(20, "cq2, 1")).is_some());
        assert!(idle.take(poll(Idle::LONGEST + 1, "cq1, 1")).is_some());
    }
}
