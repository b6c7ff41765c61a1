//! Parses the tracer's records; the format is defined in `crates/tracer/src/record.rs`.

use std::fmt;
use std::str::FromStr;

/// The first field.
const MARK: &str = "verbena-trace-1";

/// A call, or several calls that found nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Process id.
    pub process: u32,
    /// Thread id, as of gettid(2).
    pub thread: u32,
    /// Start time in nanoseconds.
    pub start: u64,
    /// Duration in nanoseconds; the sum for several calls.
    pub duration: u64,
    /// Number of calls.
    pub calls: u64,
    /// Bytes transferred or requested.
    pub bytes: u64,
    /// The error number, or 0.
    pub errno: i32,
    /// Name of the function.
    pub name: String,
    /// The arguments as text.
    pub arguments: String,
    /// The result as text.
    pub result: String,
}

/// A datagram that is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid record of a call: {0:?}")]
pub struct InvalidRecord(String);

impl FromStr for Record {
    type Err = InvalidRecord;

    fn from_str(text: &str) -> Result<Record, InvalidRecord> {
        read(text).ok_or_else(|| InvalidRecord(text.chars().take(80).collect()))
    }
}

fn read(text: &str) -> Option<Record> {
    // A terminal would interpret control characters.
    if text
        .chars()
        .any(|letter| letter.is_control() && letter != '\t')
    {
        return None;
    }
    let mut fields = text.split('\t');
    let mut next = || fields.next();
    if next()? != MARK {
        return None;
    }
    let record = Record {
        process: next()?.parse().ok()?,
        thread: next()?.parse().ok()?,
        start: next()?.parse().ok()?,
        duration: next()?.parse().ok()?,
        calls: next()?.parse().ok().filter(|&calls| calls > 0)?,
        bytes: next()?.parse().ok()?,
        errno: next()?.parse().ok()?,
        name: next().filter(|name| !name.is_empty())?.to_owned(),
        arguments: next()?.to_owned(),
        result: next()?.to_owned(),
    };
    next().is_none().then_some(record)
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.process)?;
        if self.thread != self.process {
            write!(f, "/{}", self.thread)?;
        }
        write!(f, "] {}({})", self.name, self.arguments)?;
        if !self.result.is_empty() {
            write!(f, " = {}", self.result)?;
        }
        if self.calls > 1 {
            write!(f, " ({} times)", self.calls)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOME: &str = "verbena-trace-1\t7\t8\t100\t20\t3\t0\t0\tibv_poll_cq\tcq1, 16\t0";

    #[test]
    fn a_record_is_parsed_and_formatted() {
        let record: Record = SOME.parse().unwrap();
        assert_eq!((record.process, record.thread, record.calls), (7, 8, 3));
        assert_eq!(
            record.to_string(),
            "[7/8] ibv_poll_cq(cq1, 16) = 0 (3 times)"
        );
    }

    #[test]
    fn malformed_records_are_refused() {
        for text in [
            "",
            "verbena-trace-2\t7\t8\t100\t20\t3\t0\t0\tibv_poll_cq\tcq1, 16\t0",
            "verbena-trace-1\t7\t8\t100\t20\t0\t0\t0\tibv_poll_cq\tcq1, 16\t0",
            "verbena-trace-1\t-7\t8\t100\t20\t3\t0\t0\tibv_poll_cq\tcq1, 16\t0",
            "verbena-trace-1\t7\t8\t100\t20\t3\t0\t0\tibv_poll_cq\tcq1, 16\t0\t",
            "verbena-trace-1\t7\t8\t100\t20\t3\t0\t0\tibv_poll_cq\t\u{1b}[2J\t0",
            "verbena-trace-1\t7\t8\t100\t20\t3\t0\t0\t\tcq1\t0",
        ] {
            assert!(text.parse::<Record>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,80}", cut in 0..SOME.len()) {
            let _ = text.parse::<Record>();
            let _ = SOME[..cut].parse::<Record>();
        }
    }
}
