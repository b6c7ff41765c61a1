//! Standard output, which a reader may close (`| head -1`) and a disk may fill. Neither ends the work at hand: files are
//! still written; that a text was lost is told once, and the exit code is then that of a machine that lacks something.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something was lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// `print!` that does not panic.
macro_rules! out {
    ($($words:tt)*) => { $crate::output::write(format_args!($($words)*)) };
}

/// `println!` that does not panic.
macro_rules! outln {
    ($($words:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($words)*))) };
}

pub(crate) use {out, outln};

/// Writes a text. A reader that went away has seen enough.
pub fn write(text: Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    let Err(error) = stdout.write_fmt(text).and_then(|()| stdout.flush()) else {
        return;
    };
    let closed = error.kind() == ErrorKind::BrokenPipe;
    if !closed && !LOST.swap(true, Ordering::Relaxed) {
        eprintln!("verbena: cannot write to standard output: {error}");
    }
}

/// Whether a text could not be written.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}
