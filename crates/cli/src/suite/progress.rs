//! Progress on standard error: what runs, how far, and an estimate of the rest from the steps done so far.

use std::io::{IsTerminal, Write};
use std::time::Instant;

/// Progress over a number of steps.
pub struct Progress {
    total: usize,
    done: usize,
    started: Instant,
    terminal: bool,
}

impl Progress {
    /// For `total` steps.
    pub fn new(total: usize) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress {
            total,
            done: 0,
            started: Instant::now(),
            terminal,
        }
    }

    /// A step begins.
    pub fn begin(&self, what: &str) {
        let rest = match self.done {
            0 => String::new(),
            done => {
                let each = self.started.elapsed().as_secs_f64() / done as f64;
                format!(", about {:.0} s left", each * (self.total - done) as f64)
            }
        };
        let text = format!("[{}/{}] {what}{rest}", self.done + 1, self.total);
        let mut err = std::io::stderr().lock();
        // Nobody is hurt if progress cannot be shown.
        let _ = match self.terminal {
            true => write!(err, "\r\x1b[K{text}").and_then(|()| err.flush()),
            false => writeln!(err, "{text}"),
        };
    }

    /// A step ended.
    pub fn end(&mut self) {
        self.done += 1;
        if self.done == self.total && self.terminal {
            eprintln!(
                "\r\x1b[K{} steps in {:.0} s",
                self.total,
                self.started.elapsed().as_secs_f64()
            );
        }
    }
}
