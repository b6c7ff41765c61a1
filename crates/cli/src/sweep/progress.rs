//! Progress of a parameter study on standard error: how many points are done, and an estimate of the rest.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Progress over points that several threads compute.
pub struct Progress {
    started: Instant,
    terminal: bool,
    /// Per cent that were shown last.
    shown: Mutex<usize>,
}

/// Per cent from one line to the next where lines cannot be drawn over.
const COARSE: usize = 10;

impl Progress {
    /// From now on.
    pub fn new() -> Progress {
        Progress {
            started: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
            shown: Mutex::new(0),
        }
    }

    /// `done` of `total` points are there. Threads may tell out of order; the line only ever goes on.
    pub fn tell(&self, done: usize, total: usize) {
        let percent = done * 100 / total.max(1);
        let step = if self.terminal { 1 } else { COARSE };
        // Nobody is hurt if progress cannot be shown.
        let Ok(mut shown) = self.shown.lock() else {
            return;
        };
        if percent < *shown + step {
            return;
        }
        *shown = percent;
        let text = line(done, total, self.started.elapsed());
        let mut err = std::io::stderr().lock();
        let _ = match (self.terminal, done == total) {
            (true, false) => write!(err, "\r\x1b[K{text}").and_then(|()| err.flush()),
            (true, true) => writeln!(err, "\r\x1b[K{text}"),
            (false, _) => writeln!(err, "{text}"),
        };
    }
}

fn line(done: usize, total: usize, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    match total - done {
        0 => format!("{total} points in {seconds:.0} s"),
        left => {
            let rest = seconds / done.max(1) as f64 * left as f64;
            format!("[{done}/{total}] about {rest:.0} s left")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_what_is_done() {
        let seconds = Duration::from_secs;
        assert_eq!(line(25, 100, seconds(10)), "[25/100] about 30 s left");
        assert_eq!(line(100, 100, seconds(40)), "100 points in 40 s");
    }
}
