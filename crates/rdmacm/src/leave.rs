//! The end of a process that has connections to other hosts. A kernel would end them for it; here the process says goodbye
//! itself, when it ends by exit(3), and waits a moment to hear that it was heard. For one that is killed another process of its
//! host says it ([`crate::executor`]). If there is none, its peers notice by their requests, which nobody answers any more, or
//! as its host has no port any more ([`State::probe_peers`](crate::service::State::probe_peers)).

use crate::service::Service;
use crate::table::Table;
use std::time::{Duration, Instant};

/// How long a process that ends waits for its peers at most: as long as it takes to say goodbye three times.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How often it looks whether it may go.
const ROUND: Duration = Duration::from_millis(1);

/// Says goodbye when the process ends.
pub fn at_exit() {
    // SAFETY: the handler is a function of this library, which stays loaded.
    unsafe { libc::atexit(leave) };
}

extern "C" fn leave() {
    let Some(service) = Service::existing() else {
        return;
    };
    let deadline = Instant::now() + PATIENCE;
    // Another thread may hold it that the end has caught.
    while let Some(mut state) = service.try_lock_until(deadline) {
        let numbers: Vec<u32> = Table::iter(&state.identifiers)
            .filter(|(_, identifier)| identifier.is_distant())
            .map(|(number, _)| number)
            .collect();
        for number in numbers {
            state.destroy(number);
        }
        if state.has_left() {
            state.destroy_will();
            return;
        }
        if Instant::now() >= deadline {
            // It was said often enough.
            state.destroy_will();
            return;
        }
        drop(state);
        std::thread::sleep(ROUND);
    }
}
