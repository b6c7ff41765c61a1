//! Faults of a fabric by command: their names and their messages.

use verbena_subnet::attribute::counters::Counter;
use verbena_subnet::{End, Fault};

use crate::protocol::FaultMessage;
use crate::tree::COUNTERS;

/// Names of the faults of links.
const DOWN: &str = "down";
const UP: &str = "up";
const FLAP: &str = "flap";
/// Largest number of flaps.
pub const MOST_FLAPS: u32 = 1000;
/// Numbers in messages; counters follow.
const CUT: u16 = 0;
const MEND: u16 = 1;
const FLAPS: u16 = 2;
const FIRST_COUNTER: u16 = 3;

/// Reads a fault from the words of a command: `down`, `up`, `flap` with a number, or the name of an
/// error counter as in sysfs with a number.
///
/// # Errors
///
/// Fails with a message that names the word.
pub fn named(word: &str, number: Option<u32>) -> Result<Fault, String> {
    match (word, number) {
        (DOWN, None) => Ok(Fault::Cut),
        (UP, None) => Ok(Fault::Mend),
        (DOWN | UP, Some(_)) => Err(format!("{word:?} takes no number")),
        (FLAP, Some(times)) if times <= MOST_FLAPS => Ok(Fault::Flap(times)),
        (FLAP, Some(_)) => Err(format!("a link flaps at most {MOST_FLAPS} times")),
        (_, number) => match (errors().find(|(name, _)| *name == word), number) {
            (Some((_, counter)), Some(number)) => Ok(Fault::Count(counter, number)),
            (None, _) if word != FLAP => {
                let names: Vec<&str> = errors().map(|(name, _)| name).collect();
                Err(format!(
                    "{word:?} is not a fault; use {DOWN}, {UP}, {FLAP} N, or COUNTER N with a \
                     counter of {}",
                    names.join(", ")
                ))
            }
            _ => Err(format!("{word:?} needs a number")),
        },
    }
}

/// Returns the counters of errors, with their names in sysfs.
fn errors() -> impl Iterator<Item = (&'static str, Counter)> {
    COUNTERS
        .into_iter()
        .filter(|(_, counter)| counter.is_of_errors())
}

/// Returns the message for a fault at a port.
pub fn message(port: u8, fault: Fault) -> FaultMessage {
    let place = |counter: Counter| errors().position(|(_, other)| other == counter);
    let (kind, number) = match fault {
        Fault::Cut => (CUT, 0),
        Fault::Mend => (MEND, 0),
        Fault::Flap(times) => (FLAPS, times),
        // Counters of traffic have no name here.
        Fault::Count(counter, number) => {
            let kind = place(counter).map_or(u16::MAX, |place| FIRST_COUNTER + place as u16);
            (kind, number)
        }
    };
    FaultMessage { port, kind, number }
}

/// Returns the fault of a message at a node, and its port; `None` if there is no such fault.
pub(crate) fn of(message: FaultMessage, node: u32) -> Option<(End, Fault)> {
    let FaultMessage { port, kind, number } = message;
    let fault = match kind {
        CUT => Fault::Cut,
        MEND => Fault::Mend,
        FLAPS => Fault::Flap(number.min(MOST_FLAPS)),
        kind => {
            let (_, counter) = errors().nth(usize::from(kind - FIRST_COUNTER))?;
            Fault::Count(counter, number)
        }
    };
    Some((End { node, port }, fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_fault_survives_its_message() {
        let counters = errors().map(|(name, _)| named(name, Some(7)).unwrap());
        let links = [(DOWN, None), (UP, None), (FLAP, Some(3))];
        let links = links.map(|(word, number)| named(word, number).unwrap());
        for fault in counters.chain(links) {
            let end = End { node: 4, port: 9 };
            assert_eq!(of(message(9, fault), 4), Some((end, fault)));
        }
        let traffic = Fault::Count(Counter::TransmitData, 1);
        assert_eq!(of(message(9, traffic), 4), None);
    }

    #[test]
    fn wrong_words_are_refused_by_name() {
        for (word, number, reason) in [
            ("down", Some(1), "takes no number"),
            ("flap", None, "needs a number"),
            ("flap", Some(MOST_FLAPS + 1), "at most"),
            ("symbol_error", None, "needs a number"),
            ("port_xmit_data", Some(1), "is not a fault"),
            ("", None, "is not a fault"),
        ] {
            let error = named(word, number).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_message_is_a_fault_or_refused(port: u8, kind: u16, number: u32) {
            let _ = of(FaultMessage { port, kind, number }, 0);
        }
    }
}
