//! Faults of links: `link: loss 1%`, `link.out: delay 5 us`, `qp1.link.in 3: loss`.

use std::fmt;
use std::time::Duration;

use crate::site::Objects;

/// The direction of a message on the link, as its queue pair sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Requests, and over packets also answers to the peer's requests.
    Out,
    /// Acknowledgements and answers, and over packets also the peer's requests.
    In,
}

/// The messages that a rule about links counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Those of these queue pairs, each by itself.
    pub objects: Objects,
    /// Those of this port; 0 for each.
    pub port: u8,
    /// Those in this direction; none for both, each by itself.
    pub direction: Option<Direction>,
}

/// Bit of a firing's object number: the message came in. The other bits are the queue pair's.
const IN: u32 = 1 << 31;

impl Link {
    /// The messages of all queue pairs in both directions.
    pub const ALL: Link = Link {
        objects: Objects::Each,
        port: 0,
        direction: None,
    };

    /// Reads it; none for another text.
    pub(crate) fn read(text: &str) -> Option<Link> {
        let (objects, text) = match text.strip_prefix("qp") {
            None => (Objects::Each, text),
            Some(rest) => {
                let (objects, text) = rest.split_once('.')?;
                (Objects::read(objects)?, text)
            }
        };
        let text = text.strip_prefix("link")?;
        let (port, direction) = match text.split_once('.') {
            None => (text, None),
            Some((port, "out")) => (port, Some(Direction::Out)),
            Some((port, "in")) => (port, Some(Direction::In)),
            Some(_) => return None,
        };
        let port = match port {
            "" => 0,
            port => port.parse().ok().filter(|port| *port > 0)?,
        };
        Some(Link {
            objects,
            port,
            direction,
        })
    }

    /// Returns whether messages in this direction are meant.
    pub fn includes(self, direction: Direction) -> bool {
        self.direction.is_none_or(|only| only == direction)
    }

    /// Returns the same messages of one object, which a firing names.
    pub(crate) fn at(self, object: u32) -> Link {
        Link {
            objects: Objects::One(object & !IN),
            port: self.port,
            direction: Some(match object & IN {
                0 => Direction::Out,
                _ => Direction::In,
            }),
        }
    }
}

impl Direction {
    /// Returns the object number of a firing at a message of a queue pair in this direction.
    pub fn object(self, queue_pair: u32) -> u32 {
        match self {
            Direction::Out => queue_pair & !IN,
            Direction::In => queue_pair | IN,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Objects::One(number) = self.objects {
            write!(to, "qp{number}.")?;
        }
        to.write_str("link")?;
        if self.port > 0 {
            write!(to, "{}", self.port)?;
        }
        match self.direction {
            None => Ok(()),
            Some(Direction::Out) => to.write_str(".out"),
            Some(Direction::In) => to.write_str(".in"),
        }
    }
}

/// A fault of a message on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkFault {
    /// It does not arrive.
    Loss,
    /// It arrives damaged: it is discarded, and an error counter counts it.
    Corruption,
    /// It arrives twice.
    Duplicate,
    /// It arrives behind the next one.
    Reorder,
    /// It arrives so much later.
    Delay(Duration),
    /// It arrives later by a random time up to this one, evenly distributed.
    Jitter(Duration),
    /// The link carries so many bits a second.
    Rate(u64),
}

/// Most bits a second in a rule.
const FASTEST: u64 = 10_000_000_000_000;

/// The units of rates, in bits a second.
const UNITS: [(&str, u64); 3] = [
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
];

/// The faults in rules, for messages.
pub(crate) const NAMES: &str = "loss, corruption, duplicate, reorder (each also with a \
    percentage, as loss 1%), delay 5 us, jitter 2 us (whole ns, us, ms or s, up to 60 s), \
    rate 10 Gb/s (whole kb/s, Mb/s or Gb/s), or after a time or number of requests: cut, \
    cut for 20 ms";

impl LinkFault {
    /// Reads a fault, and its probability if it has one; none for another text.
    pub(crate) fn read(text: &str) -> Option<(LinkFault, Option<f64>)> {
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let some = match name {
            "delay" => LinkFault::Delay(time(rest)?),
            "jitter" => LinkFault::Jitter(time(rest)?),
            "rate" => LinkFault::Rate(rate(rest)?),
            "loss" => LinkFault::Loss,
            "corruption" => LinkFault::Corruption,
            "duplicate" => LinkFault::Duplicate,
            "reorder" => LinkFault::Reorder,
            _ => return None,
        };
        let is_whole = matches!(
            some,
            LinkFault::Delay(_) | LinkFault::Jitter(_) | LinkFault::Rate(_)
        );
        if is_whole || rest.is_empty() {
            return Some((some, None));
        }
        let percent: f64 = rest.strip_suffix('%')?.trim_end().parse().ok()?;
        let is_one = (0.0..=100.0).contains(&percent);
        is_one.then_some((some, Some(percent / 100.0)))
    }

    /// Returns whether the fault is a property of the link rather than an incident: it concerns
    /// all messages alike.
    pub fn is_property(self) -> bool {
        matches!(
            self,
            LinkFault::Delay(_) | LinkFault::Jitter(_) | LinkFault::Rate(_)
        )
    }
}

impl fmt::Display for LinkFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LinkFault::Loss => to.write_str("loss"),
            LinkFault::Corruption => to.write_str("corruption"),
            LinkFault::Duplicate => to.write_str("duplicate"),
            LinkFault::Reorder => to.write_str("reorder"),
            LinkFault::Delay(time) => write!(to, "delay {}", in_words(time)),
            LinkFault::Jitter(time) => write!(to, "jitter {}", in_words(time)),
            LinkFault::Rate(bits) => {
                let fits = |(_, unit): &&(&str, u64)| bits.is_multiple_of(*unit);
                let (name, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[2]);
                write!(to, "rate {} {name}", bits / unit)
            }
        }
    }
}

/// Returns a time in the largest unit that it is a multiple of.
pub(crate) fn in_words(time: Duration) -> String {
    let nanos = time.as_nanos();
    match time.as_micros() {
        0 if nanos == 0 => "0 us".into(),
        _ if !nanos.is_multiple_of(1000) => format!("{nanos} ns"),
        micros if micros.is_multiple_of(1_000_000) => format!("{} s", micros / 1_000_000),
        micros if micros.is_multiple_of(1000) => format!("{} ms", micros / 1000),
        micros => format!("{micros} us"),
    }
}

/// Splits a number and its unit, with or without a space between them.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|one: char| !one.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Reads a time of whole nanoseconds, microseconds, milliseconds or seconds, up to a minute.
pub(crate) fn time(text: &str) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(60);
    let (number, unit) = number_and_unit(text)?;
    let nanos = match unit {
        "ns" => number,
        "us" => number.checked_mul(1000)?,
        "ms" => number.checked_mul(1_000_000)?,
        "s" => number.checked_mul(1_000_000_000)?,
        _ => return None,
    };
    let time = Duration::from_nanos(nanos);
    (time <= LONGEST).then_some(time)
}

/// Reads a rate, in bits a second.
fn rate(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let bits = number.checked_mul(*factor)?;
    (1..=FASTEST).contains(&bits).then_some(bits)
}
