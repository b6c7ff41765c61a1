//! The time that the software needs from the start of a request's execution until its data are
//! there, followed by size: execution begins earlier by it.

use super::lead::Usual;
use std::sync::OnceLock;
use verbena_hca_os::clock;

/// The work of executing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The requester copies the data: writes, reads, atomics.
    Copy,
    /// The peer takes the data and acknowledges them: messages of a reliable queue pair.
    Message,
    /// The same without an acknowledgement.
    Datagram,
}

/// Nanoseconds for a message in which nothing is copied, until one was acknowledged.
const MESSAGE: f64 = 300.0;

/// Bytes of the copy that is measured at first.
const PROBE: usize = 64 << 10;

/// Classes by size, each of twice the size of the one before.
const CLASSES: usize = 32;

/// Kinds of work that are followed.
const KINDS: usize = 2;

static USUAL: [[Usual; CLASSES]; KINDS] = [const { [const { Usual::unknown() }; CLASSES] }; KINDS];

/// Returns the usual nanoseconds.
pub fn usual(work: Work, bytes: u64) -> u64 {
    let known = match work {
        Work::Copy => &USUAL[0],
        Work::Message | Work::Datagram => &USUAL[1],
    };
    let class = bytes.checked_ilog2().unwrap_or(0) as usize;
    known[class.min(CLASSES - 1)].get().unwrap_or_else(|| {
        let message = match work {
            Work::Copy => 0.0,
            Work::Message | Work::Datagram => MESSAGE,
        };
        (message + bytes as f64 * nanoseconds_a_byte()) as u64
    })
}

/// Notes that some work took so long.
pub fn note(work: Work, bytes: u64, nanoseconds: u64) {
    let known = match work {
        Work::Copy => &USUAL[0],
        Work::Message => &USUAL[1],
        Work::Datagram => return,
    };
    let class = bytes.checked_ilog2().unwrap_or(0) as usize;
    let first = usual(work, bytes);
    // A peer that does not poll, or a preempted thread, says nothing about the usual.
    known[class.min(CLASSES - 1)].follow(nanoseconds, first, 1000 + 2 * first);
}

/// Returns the nanoseconds that this processor needs to copy a byte of 64 KiB.
fn nanoseconds_a_byte() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let (from, mut to) = (vec![1u8; PROBE], vec![0u8; PROBE]);
        let mut copy = || {
            let start = clock::now();
            std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
            clock::now() - start
        };
        let best = (0..5).map(|_| copy()).min().unwrap_or(0);
        best as f64 / PROBE as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_was_noted_is_expected_of_the_same_size() {
        let before = usual(Work::Message, 1 << 20);
        assert!(before >= 300);
        for _ in 0..2000 {
            note(Work::Message, 1 << 20, before + 500);
        }
        assert!(usual(Work::Message, 1 << 20).abs_diff(before + 500) < 10);
        assert_eq!(
            usual(Work::Datagram, 1 << 20),
            usual(Work::Message, 1 << 20)
        );
        note(Work::Datagram, 1 << 10, 5);
        assert_eq!(
            usual(Work::Datagram, 1 << 10),
            usual(Work::Message, 1 << 10)
        );
    }

    #[test]
    fn a_peer_that_sleeps_changes_little() {
        let before = usual(Work::Message, 1 << 12);
        note(Work::Message, 1 << 12, 1 << 40);
        assert!(usual(Work::Message, 1 << 12) < before + 20);
    }
}
