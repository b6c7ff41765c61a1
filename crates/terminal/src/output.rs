//! Standard output. On a terminal, lines are wrapped at its width and emphasis becomes colour; data
//! for programs is written unchanged.
//!
//! A reader may close standard output (`| head -1`), or a disk may fill. Neither ends the work:
//! files are still written, a lost text is reported once, and the exit code is then that of an
//! environment error.

use crate::size;
use crate::style::painted;
use crate::wrap::wrapped;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether output was lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// `print!` without panics.
#[macro_export]
macro_rules! out {
    ($($words:tt)*) => { $crate::output::write(format_args!($($words)*)) };
}

/// `println!` without panics.
#[macro_export]
macro_rules! outln {
    ($($words:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($words)*))) };
}

/// `print!` for data that programs read: neither wrapped nor coloured.
#[macro_export]
macro_rules! data {
    ($($words:tt)*) => { $crate::output::write_data(format_args!($($words)*)) };
}

pub use crate::{data, out, outln};

/// Writes text, wrapped at the terminal's width and coloured if supported.
pub fn write(text: Arguments<'_>) {
    let text = text.to_string();
    let mut text = harmless(&text);
    if let Some(columns) = size::columns() {
        text = wrapped(&text, columns).into();
    }
    put(&painted(&text, size::has_colour()));
}

/// Writes data that programs read, neither wrapped nor coloured.
pub fn write_data(text: Arguments<'_>) {
    put(&harmless(&text.to_string()));
}

/// Prints an object as JSON.
pub fn json(object: &impl Serialize) {
    let text = serde_json::to_string_pretty(object).expect("results are plain data");
    data!("{text}\n");
}

/// A closed pipe is not an error: the reader has finished.
fn put(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    let Err(error) = written.and_then(|()| stdout.flush()) else {
        return;
    };
    let closed = error.kind() == ErrorKind::BrokenPipe;
    if !closed && !LOST.swap(true, Ordering::Relaxed) {
        eprintln!("verbena: cannot write to standard output: {error}");
    }
}

/// Escapes control characters, which a terminal would interpret: file names may contain any.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let is_order = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_order) {
        return text.into();
    }
    let letter = |letter: char| match is_order(letter) {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(letter).collect()
}

/// Returns whether output was lost.
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_for_the_terminal() {
        assert_eq!(harmless("a\tb\n"), "a\tb\n");
        assert_eq!(harmless("\x1b[31mred\u{9b}\r"), "\\u{1b}[31mred\\u{9b}\\r");
    }
}
