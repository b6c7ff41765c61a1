//! SIGINT and SIGTERM during a measurement: the first one asks everything to stop, so that what was
//! measured is saved; a second one ends this process and its helpers at once.
//!
//! Sessions look at [`flag`] between steps. What waits for a helper process registers it as a
//! [`Helper`], which the first signal ends. A computation that cannot be stopped runs by
//! [`unless_interrupted`], which leaves it behind.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::helpers;
use crate::progress;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use verbena_hca::describe;
use verbena_hca::shm::registry;

static STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static WATCHED: Mutex<bool> = Mutex::new(false);
static HELPERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
static SCRATCH: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A signal so soon after the first one repeats it.
const REPEATED: Duration = Duration::from_millis(250);
/// How often a computation's end and the user's wish are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Catches SIGINT and SIGTERM from now on.
///
/// # Errors
///
/// The kernel or the system's limits refuse the signal handler or its thread.
pub fn watch() -> Result<(), Failure> {
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
            hear(signal, &mut first);
        }
    };
    let builder = std::thread::Builder::new().name("signals".to_owned());
    builder.spawn(heard).map_err(system)?;
    *watched = true;
    Ok(())
}

/// Acts on a signal. One that comes right behind the first is the same wish: a terminal tells the
/// processes of a job, and so does their launcher.
fn hear(signal: i32, first: &mut Option<Instant>) {
    if first.is_some_and(|first| first.elapsed() < REPEATED) {
        return;
    }
    if first.is_some() {
        helpers::end_all();
        if progress::is_shown() {
            // The line of progress is in the way of the shell's prompt.
            eprint!("\r\x1b[K");
        }
        remove_scratch();
        std::process::exit(128 + signal);
    }
    *first = Some(Instant::now());
    SIGNAL.store(signal, Ordering::Relaxed);
    STOP.store(true, Ordering::Release);
    let registered = HELPERS.lock().expect("nothing panics under this lock");
    registered.iter().for_each(|process| helpers::end(*process));
}

/// Removes what nobody is left to remove.
fn remove_scratch() {
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
    describe::sweep(&registry::directory());
}

/// What is set when the user wishes to stop.
pub fn flag() -> Arc<AtomicBool> {
    Arc::clone(&STOP)
}

/// Whether the user wishes to stop.
pub fn is_wanted() -> bool {
    STOP.load(Ordering::Acquire)
}

/// The exit code of an interrupted measurement: 128 and the number of the signal.
pub fn exit() -> Exit {
    match SIGNAL.load(Ordering::Relaxed) {
        SIGTERM => Exit::Terminated,
        _ => Exit::Interrupted,
    }
}

/// Says in one line on standard error that a measurement was interrupted, and what is left of it.
pub fn tell(left: &str) {
    let word = match exit() {
        Exit::Terminated => "terminated",
        _ => "interrupted",
    };
    progress::clear();
    eprintln!("verbena: {word}: {left}");
}

/// A helper process that the first signal ends, until this is dropped. It must be dropped before
/// the process is waited for: afterwards its number may be another process's.
pub struct Helper(u32);

impl Helper {
    /// For a child that has not been waited for.
    pub fn new(process: u32) -> Helper {
        let mut registered = HELPERS.lock().expect("nothing panics under this lock");
        registered.insert(process);
        if is_wanted() {
            helpers::end(process);
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
    /// For a path whose owner removes it otherwise.
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

/// Runs a computation on a thread of its own and gives what it returns, or nothing when the user
/// interrupts it: then its thread goes on until this process ends.
pub fn unless_interrupted<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        // Nobody receives it if the user has interrupted.
        let _ = sender.send(compute());
    });
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) if is_wanted() => return None,
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
    fn a_computation_gives_its_result() {
        assert_eq!(unless_interrupted(|| 7), Some(7));
    }

    #[test]
    fn a_panic_of_a_computation_is_passed_on() {
        let caught = std::panic::catch_unwind(|| unless_interrupted(|| panic!("expected")));
        assert!(caught.is_err());
    }
}
