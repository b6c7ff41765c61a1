//! Changes of an adapter's times by one parameter of LogGP at a time: overhead, latency, gap, and
//! gap for each byte, given as a rate (Alexandrov et al., "LogGP", SPAA 1995).
//!
//! - Overhead is the posting time. It moves posting and all that follows.
//! - Latency is the time from the end of posting until the smallest write is visible. It moves
//!   "visible" once and completion twice, as the acknowledgement crosses the link too.
//! - The gap is the sending side's time for the smallest write, which it moves alone.
//! - The rate is the inverse of the sending side's additional time for each byte of large writes.
//!   It moves that time, "visible" and completion, by the number of bytes.

use crate::operation::{Operation, Placement};
use crate::table::{LONGEST, Table, Times};
use std::fmt;
use std::str::FromStr;

/// Units of times, in nanoseconds.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Units of rates, in bits a nanosecond.
const RATES: [(&str, f64); 3] = [("kb/s", 1e-6), ("Mb/s", 1e-3), ("Gb/s", 1.0)];

/// Largest factor, and the inverse of the smallest.
const LARGEST_FACTOR: f64 = 1e6;

/// Fastest rate, in bits a nanosecond; the slowest is 1 kb/s.
const FASTEST: f64 = 10_000.0;

/// A parameter of LogGP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parameter {
    /// Time for which a request keeps the processor busy.
    Overhead,
    /// Time for which a message is on its way.
    Latency,
    /// Time from the start of a message to the start of the next.
    Gap,
    /// Bytes of a long message in a time.
    Rate,
}

impl Parameter {
    /// All, in the order in which they are applied.
    pub const ALL: [Parameter; 4] = [
        Parameter::Overhead,
        Parameter::Latency,
        Parameter::Gap,
        Parameter::Rate,
    ];

    /// Returns its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Overhead => "overhead",
            Parameter::Latency => "latency",
            Parameter::Gap => "gap",
            Parameter::Rate => "rate",
        }
    }
}

/// A change of a parameter. Times are in nanoseconds, rates in bits a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// More of it: `+5us`.
    Plus(f64),
    /// That many times of it: `x2`.
    Times(f64),
    /// This value: `20us`, `10Gb/s`.
    To(f64),
}

/// Why a change cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no time and no factor.
    #[error(
        "{0:?} is not a time such as +5us, 500ns or x2 (ns, us, ms, s; up to 60 s; factors from \
         0.000001 to 1000000)"
    )]
    Time(String),
    /// It is no time, without a factor and a sign.
    #[error("{0:?} is not a time such as 2us or 500ns (ns, us, ms, s; 0 or from 1 ns to 60 s)")]
    Jitter(String),
    /// It is no rate and no factor.
    #[error("{0:?} is not a rate such as 10Gb/s or x0.5 (1 kb/s to 10000 Gb/s)")]
    Rate(String),
}

/// A parameter and its change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knob {
    parameter: Parameter,
    change: Change,
}

impl Knob {
    /// Reads the change of a parameter.
    ///
    /// # Errors
    /// The text is no change of this parameter.
    pub fn read(parameter: Parameter, text: &str) -> Result<Knob, Error> {
        let change = match parameter {
            Parameter::Rate => rate(text).ok_or_else(|| Error::Rate(text.to_owned())),
            _ => time(text).ok_or_else(|| Error::Time(text.to_owned())),
        }?;
        Ok(Knob { parameter, change })
    }

    /// Returns the parameter.
    pub fn parameter(self) -> Parameter {
        self.parameter
    }

    /// Returns the change.
    pub fn change(self) -> Change {
        self.change
    }

    /// Returns the parameter's value in a table: nanoseconds, for a rate bits a nanosecond.
    pub fn value(parameter: Parameter, table: &Table) -> f64 {
        let write = |bytes| table.times(Operation::Write, Placement::Reference, bytes);
        let smallest = write(0);
        match parameter {
            Parameter::Overhead => smallest.posting,
            Parameter::Latency => (smallest.visible - smallest.posting).max(0.0),
            Parameter::Gap => smallest.sending,
            Parameter::Rate => 8.0 / per_byte(table),
        }
    }

    /// Returns the parameter's value after the change.
    pub fn changed(self, table: &Table) -> f64 {
        let before = Knob::value(self.parameter, table);
        match self.change {
            Change::Plus(more) => before + more,
            Change::Times(factor) => before * factor,
            Change::To(value) => value,
        }
    }

    /// Changes the times of a table.
    pub fn turn(self, table: &mut Table) {
        let more = self.changed(table) - Knob::value(self.parameter, table);
        let more_per_byte = 8.0 / self.changed(table) - per_byte(table);
        let times = |operation, bytes, times: Times| match self.parameter {
            Parameter::Overhead => Times {
                posting: times.posting + more,
                visible: times.visible + more,
                completion: times.completion + more,
                ..times
            },
            Parameter::Latency => Times {
                visible: times.visible + more,
                completion: match operation {
                    // Sent without an acknowledgement.
                    Operation::Datagram => times.completion + more,
                    _ => times.completion + 2.0 * more,
                },
                ..times
            },
            Parameter::Gap => Times {
                sending: times.sending + more,
                ..times
            },
            Parameter::Rate => {
                let more = more_per_byte * bytes as f64;
                // The data of a read and an atomic are on the way after they are taken.
                let request = match operation {
                    Operation::Read | Operation::Atomic => 0.0,
                    _ => more,
                };
                Times {
                    sending: times.sending + more,
                    visible: times.visible + request,
                    completion: times.completion + more,
                    ..times
                }
            }
        };
        table.change(|operation, bytes, before| {
            let after = times(operation, bytes, before);
            Times {
                completion: after.completion.max(after.visible),
                ..after
            }
        });
    }
}

/// Returns the nanoseconds for each byte of large writes; above zero.
fn per_byte(table: &Table) -> f64 {
    let [small, large] = [1u64 << 18, 1 << 20];
    let sending = |bytes| {
        let times = table.times(Operation::Write, Placement::Reference, bytes);
        times.sending
    };
    let slope = (sending(large) - sending(small)) / (large - small) as f64;
    slope.max(8.0 / FASTEST)
}

/// Reads a time, such as `2us`, in nanoseconds: none, or at least one.
///
/// # Errors
/// It is no time up to a minute.
pub fn read_time(text: &str) -> Result<f64, Error> {
    let is_allowed = |time: &f64| *time == 0.0 || (1.0..=LONGEST).contains(time);
    let time = number(text, &TIMES).filter(is_allowed);
    time.ok_or_else(|| Error::Jitter(text.to_owned()))
}

fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digit = |one: char| one.is_ascii_digit() || one == '.';
    let end = text.find(|one: char| !digit(one))?;
    let (number, unit) = text.split_at(end);
    let number = f64::from_str(number).ok()?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    Some(number * factor)
}

fn factor(text: &str) -> Option<Change> {
    let digits = text.strip_prefix('x')?;
    let plain = digits
        .bytes()
        .all(|one| one.is_ascii_digit() || one == b'.');
    let factor = f64::from_str(digits).ok().filter(|_| plain)?;
    let limits = 1.0 / LARGEST_FACTOR..=LARGEST_FACTOR;
    limits.contains(&factor).then_some(Change::Times(factor))
}

fn time(text: &str) -> Option<Change> {
    if text.starts_with('x') {
        return factor(text);
    }
    let bare = text.strip_prefix('+').unwrap_or(text);
    let time = number(bare, &TIMES).filter(|time| *time <= LONGEST)?;
    Some(match bare.len() < text.len() {
        true => Change::Plus(time),
        false => Change::To(time),
    })
}

fn rate(text: &str) -> Option<Change> {
    if text.starts_with('x') {
        return factor(text);
    }
    let rate = number(text, &RATES)?;
    (1e-6..=FASTEST).contains(&rate).then_some(Change::To(rate))
}

/// The value of a parameter, for people.
pub struct Shown(pub Parameter, pub f64);

impl fmt::Display for Shown {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(parameter, value) = *self;
        let (units, smallest) = match parameter {
            Parameter::Rate => (&RATES[..], 1e-6),
            _ => (&TIMES[..], 1.0),
        };
        let largest = units.iter().rev().find(|(_, one)| *one <= value);
        let (unit, one) = largest.copied().unwrap_or((units[0].0, smallest));
        let rounded = (value / one * 1000.0).round() / 1000.0;
        write!(to, "{rounded} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> Table {
        let mut table = Table::new("test");
        for (bytes, sending) in [(8, 100.0), (1 << 18, 262_244.0), (1 << 20, 1_048_676.0)] {
            let times = Times {
                visible: 1000.0 + sending,
                completion: 1800.0 + sending,
                sending,
                memory: 0.0,
                posting: 200.0,
            };
            for operation in Operation::ALL {
                table.add(operation, Placement::Reference, bytes, times);
            }
        }
        table
    }

    fn turned(parameter: Parameter, text: &str) -> Table {
        let mut table = table();
        Knob::read(parameter, text).unwrap().turn(&mut table);
        table
    }

    fn write(table: &Table, bytes: u64) -> Times {
        table.times(Operation::Write, Placement::Reference, bytes)
    }

    #[test]
    fn latency_moves_data_once_and_completions_twice() {
        let before = write(&table(), 8);
        let after = write(&turned(Parameter::Latency, "+5us"), 8);
        assert_eq!(after.visible, before.visible + 5000.0);
        assert_eq!(after.completion, before.completion + 10_000.0);
        assert_eq!(after.posting, before.posting);
        assert_eq!(after.sending, before.sending);
        // From the end of posting: 900 ns.
        let after = write(&turned(Parameter::Latency, "x3"), 1 << 20);
        assert_eq!(after.visible, write(&table(), 1 << 20).visible + 1800.0);
        let after = write(&turned(Parameter::Latency, "1us"), 8);
        assert_eq!(after.visible, before.visible + 100.0);
        let after = write(&turned(Parameter::Latency, "0ns"), 8);
        assert_eq!((after.visible, after.completion), (200.0, 200.0));
    }

    #[test]
    fn overhead_moves_posting_and_all_that_follows() {
        let before = write(&table(), 8);
        let after = write(&turned(Parameter::Overhead, "x2"), 8);
        assert_eq!(after.posting, 400.0);
        assert_eq!(after.visible, before.visible + 200.0);
        assert_eq!(after.completion, before.completion + 200.0);
    }

    #[test]
    fn a_gap_moves_the_side_alone() {
        let after = write(&turned(Parameter::Gap, "+1us"), 8);
        assert_eq!(after.sending, 1100.0);
        assert_eq!(after.visible, write(&table(), 8).visible);
    }

    #[test]
    fn a_rate_moves_by_the_number_of_bytes() {
        // The table has 1 ns for each byte: 8 Gb/s.
        assert!((Knob::value(Parameter::Rate, &table()) - 8.0).abs() < 0.01);
        let [half, same] = ["x0.5", "4Gb/s"].map(|text| turned(Parameter::Rate, text));
        for bytes in [8, 1 << 20] {
            let before = write(&table(), bytes).visible;
            let more = write(&half, bytes).visible - before;
            assert!((more / bytes as f64 - 1.0).abs() < 0.001, "{more}");
            assert!((write(&same, bytes).visible - before - more).abs() < 0.01 * more);
        }
        let read = half.times(Operation::Read, Placement::Reference, 1 << 20);
        assert_eq!(read.visible, write(&table(), 1 << 20).visible);
    }

    #[test]
    fn other_texts_are_refused_and_named() {
        for wrong in [
            "",
            "5",
            "us",
            "+",
            "-5us",
            "5 lightyears",
            "x",
            "x0",
            "x-1",
            "xNaN",
            "x1e3",
            "61s",
            "1e3us",
            "+x2",
            "5us ",
            "10Gb/s",
            "..us",
        ] {
            let error = Knob::read(Parameter::Latency, wrong)
                .unwrap_err()
                .to_string();
            assert!(error.contains(wrong), "{error}");
        }
        for wrong in ["", "0Gb/s", "10", "+1Gb/s", "20000Gb/s", "5us", "infGb/s"] {
            let error = Knob::read(Parameter::Rate, wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn values_are_shown_in_the_largest_unit() {
        let shown = |parameter, value| Shown(parameter, value).to_string();
        assert_eq!(shown(Parameter::Latency, 1234.5), "1.235 us");
        assert_eq!(shown(Parameter::Gap, 0.0), "0 ns");
        assert_eq!(shown(Parameter::Rate, 0.5), "500 Mb/s");
        assert_eq!(shown(Parameter::Rate, 27.28), "27.28 Gb/s");
    }

    proptest! {
        #[test]
        fn changed_tables_can_be_read_and_have_the_value(
            which in 0..4usize,
            number in 1u32..1_000_000,
            unit in 0..3usize,
        ) {
            let parameter = Parameter::ALL[which];
            let text = match parameter {
                Parameter::Rate => format!("{number}{}", ["kb/s", "Mb/s", "kb/s"][unit]),
                _ => format!("{number}{}", ["ns", "us", "ns"][unit]),
            };
            let knob = Knob::read(parameter, &text).unwrap();
            let mut table = table();
            knob.turn(&mut table);
            prop_assert!(Table::read(&table.text()).is_ok());
            if parameter != Parameter::Rate {
                let value = Knob::value(parameter, &table);
                prop_assert!((value - knob.changed(&table)).abs() < 1e-3 * value.max(1.0));
            }
        }

        #[test]
        fn malformed_changes_do_not_panic(text in ".{0,20}") {
            for parameter in Parameter::ALL {
                let _ = Knob::read(parameter, &text);
            }
        }
    }
}
