//! Events of ports and of the adapter that rules bring about.

use std::fmt;
use std::time::Duration;

/// An event of a port or of the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The port goes down, for good or for a time: IBV_EVENT_PORT_ERR, then
    /// IBV_EVENT_PORT_ACTIVE.
    Down(Option<Duration>),
    /// IBV_EVENT_LID_CHANGE.
    Lid,
    /// IBV_EVENT_PKEY_CHANGE.
    Pkey,
    /// IBV_EVENT_SM_CHANGE.
    SubnetManager,
    /// IBV_EVENT_GID_CHANGE.
    Gid,
    /// IBV_EVENT_CLIENT_REREGISTER.
    Reregister,
    /// IBV_EVENT_DEVICE_FATAL: the adapter has failed for good.
    Fatal,
    /// The link carries nothing, for good or for a time. The program gets no event.
    Cut(Option<Duration>),
}

impl Event {
    /// The names in rules of all but [`Event::Down`] and [`Event::Cut`].
    const NAMES: [(&'static str, Event); 6] = [
        ("lid-change", Event::Lid),
        ("pkey-change", Event::Pkey),
        ("sm-change", Event::SubnetManager),
        ("gid-change", Event::Gid),
        ("client-reregister", Event::Reregister),
        ("fatal", Event::Fatal),
    ];

    /// Reads an event; none for another text.
    pub fn read(text: &str) -> Option<Event> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["down"] => Some(Event::Down(None)),
            ["down", "for", number, unit] => Some(Event::Down(Some(time(number, unit)?))),
            ["cut"] => Some(Event::Cut(None)),
            ["cut", "for", number, unit] => Some(Event::Cut(Some(time(number, unit)?))),
            [name] => {
                let found = Event::NAMES.iter().find(|(known, _)| *known == name);
                found.map(|(_, event)| *event)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Down(None) => to.write_str("down"),
            Event::Down(Some(time)) => write!(to, "down for {} ms", time.as_millis()),
            Event::Cut(None) => to.write_str("cut"),
            Event::Cut(Some(time)) => write!(to, "cut for {} ms", time.as_millis()),
            event => {
                let named = Event::NAMES.iter().find(|(_, known)| known == event);
                to.write_str(named.map_or("", |(name, _)| name))
            }
        }
    }
}

/// Longest time in a rule, in milliseconds: a day.
const LONGEST: u64 = 86_400_000;

/// Reads a time, of whole milliseconds or seconds, up to a day.
pub(crate) fn time(number: &str, unit: &str) -> Option<Duration> {
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "ms" => number,
        "s" => number.checked_mul(1000)?,
        _ => return None,
    };
    (milliseconds <= LONGEST).then(|| Duration::from_millis(milliseconds))
}
