//! Disconnects from other hosts when the process exits. A kernel would do it for the process; here
//! the process sends the DREQs itself in its exit(3) handler, and waits a moment for the answers.
//! For a killed process another process of its host sends them ([`crate::reaper`]). If there is
//! none, its peers notice by their unanswered requests, or because its host has no RoCE port any
//! more ([`State::probe_peers`](crate::state::State::probe_peers)).

use crate::service::Service;
use crate::table::Table;
use std::time::{Duration, Instant};

/// Longest wait for the peers' answers: time for three transmissions.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);
/// Interval at which the answers are checked.
const ROUND: Duration = Duration::from_millis(1);

/// Registers the exit handler.
pub fn register() {
    // SAFETY: the handler is a function of this library, which stays loaded.
    unsafe { libc::atexit(leave) };
}

extern "C" fn leave() {
    let Some(service) = Service::existing() else {
        return;
    };
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    // A thread that the exit has stopped may hold the lock.
    while let Some(mut state) = service.try_lock_until(deadline) {
        let numbers: Vec<u32> = Table::iter(&state.identifiers)
            .filter(|(_, identifier)| identifier.is_remote())
            .map(|(number, _)| number)
            .collect();
        for number in numbers {
            state.destroy(number);
        }
        if state.dreqs_are_answered() {
            state.delete_death_record();
            return;
        }
        if Instant::now() >= deadline {
            // The DREQs were sent often enough.
            state.delete_death_record();
            return;
        }
        drop(state);
        std::thread::sleep(ROUND);
    }
}
