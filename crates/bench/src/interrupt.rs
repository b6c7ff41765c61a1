//! Handles SIGINT and SIGTERM during a measurement. The first signal requests a stop, so that the
//! measured points are saved; a second one ends this process and its helpers at once.
//!
//! Sessions check [`flag`] between steps. A function that waits for a helper process registers it
//! as a [`Helper`], which the first signal kills. A computation that cannot be stopped runs in
//! [`unless_interrupted`], which abandons it.

use crate::Failure;
use crate::descendants;
use crate::host::Host;
use crate::progress_line;
use crate::time_budget;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static WATCHED: Mutex<bool> = Mutex::new(false);
static HELPERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
static SCRATCH: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A signal within this time of the first one counts as the same.
const REPEATED: Duration = Duration::from_millis(250);
/// Interval at which the end of a computation and the stop flag are checked.
const LOOK: Duration = Duration::from_millis(20);

/// Starts catching SIGINT and SIGTERM.
///
/// # Errors
///
/// Fails if the system refuses the signal handler or its thread.
pub fn watch(host: &'static dyn Host) -> Result<(), Failure> {
    let system = |source| Failure::System {
        doing: "catch signals",
        source,
    };
    let mut watched = WATCHED.lock().expect("nothing panics under this lock");
    if *watched {
        return Ok(());
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(system)?;
    let heard = move || {
        let mut first = None;
        for signal in signals.forever() {
            hear(signal, &mut first, host);
        }
    };
    let builder = std::thread::Builder::new().name("signals".to_owned());
    builder.spawn(heard).map_err(system)?;
    *watched = true;
    Ok(())
}

/// Handles a signal. One directly after the first is the same request: both the terminal and the
/// launcher of a job may signal its processes.
fn hear(signal: i32, first: &mut Option<Instant>, host: &dyn Host) {
    if first.is_some_and(|first| first.elapsed() < REPEATED) {
        return;
    }
    if first.is_some() {
        descendants::end_all();
        if progress_line::is_shown() {
            // Clears the progress line before the shell's prompt.
            eprint!("\r\x1b[K");
        }
        remove_scratch(host);
        std::process::exit(128 + signal);
    }
    *first = Some(Instant::now());
    SIGNAL.store(signal, Ordering::Relaxed);
    STOP.store(true, Ordering::Release);
    let registered = HELPERS.lock().expect("nothing panics under this lock");
    registered
        .iter()
        .for_each(|process| descendants::end(*process));
}

/// Removes temporary files, which no other process would remove.
fn remove_scratch(host: &dyn Host) {
    for path in SCRATCH
        .lock()
        .expect("nothing panics under this lock")
        .iter()
    {
        let _ = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
    }
    host.clean_up();
}

/// Returns the flag that is set when the user requests a stop.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(&STOP)
}

/// Returns whether the user has requested a stop.
pub fn is_wanted() -> bool {
    STOP.load(Ordering::Acquire)
}

/// Returns whether computations have to stop: at the user's request, or because the time of
/// `--budget` has passed.
pub fn must_stop() -> bool {
    is_wanted() || time_budget::is_over()
}

/// Returns whether the signal was SIGTERM.
pub fn is_terminated() -> bool {
    SIGNAL.load(Ordering::Relaxed) == SIGTERM
}

/// Returns the word for the reason why a computation or measurement stopped.
pub fn word() -> &'static str {
    match is_terminated() {
        true => "terminated",
        false if is_wanted() => "interrupted",
        false => "out of time",
    }
}

/// Reports on standard error that a measurement was interrupted, or that its time has passed;
/// `left` describes the remaining results.
pub fn tell(left: &str) {
    let word = word();
    progress_line::clear();
    eprintln!("verbena: {word}: {left}");
}

/// A helper process that the first signal kills, until this is dropped. Drop it before waiting for
/// the process: afterwards its process id may be reused.
pub struct Helper(u32);

impl Helper {
    /// Registers a child that has not been waited for.
    pub fn new(process: u32) -> Helper {
        let mut registered = HELPERS.lock().expect("nothing panics under this lock");
        registered.insert(process);
        if is_wanted() {
            descendants::end(process);
        }
        Helper(process)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let mut registered = HELPERS.lock().expect("nothing panics under this lock");
        registered.remove(&self.0);
    }
}

/// A temporary file or directory that a second signal removes, until this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Registers a path; otherwise its owner removes it.
    pub fn new(path: &Path) -> Scratch {
        let mut registered = SCRATCH.lock().expect("nothing panics under this lock");
        registered.insert(path.to_owned());
        Scratch(path.to_owned())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut registered = SCRATCH.lock().expect("nothing panics under this lock");
        registered.remove(&self.0);
    }
}

/// Runs a computation on a separate thread and returns its result, or `None` when the user
/// interrupts it or the time of `--budget` has passed: the thread then continues until this process
/// ends. With no time left nothing is computed.
pub fn unless_interrupted<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if must_stop() {
        return None;
    }
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        // Fails if the user has interrupted, which drops the receiver.
        let _ = sender.send(compute());
    });
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) if must_stop() => return receiver.try_recv().ok(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a computation that returns sends its result"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uninterrupted_computation_returns_its_result() {
        assert_eq!(unless_interrupted(|| 7), Some(7));
    }

    #[test]
    fn a_panic_in_a_computation_propagates() {
        let caught = std::panic::catch_unwind(|| unless_interrupted(|| panic!("expected")));
        assert!(caught.is_err());
    }
}
