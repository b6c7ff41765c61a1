//! The exit codes of `verbena`.
//!
//! `run` returns the exit code of its command, so the two ranges overlap; the codes for "cannot
//! execute" and "not found" are those of `env(1)` and the shell.

use std::process::{ExitCode, ExitStatus};

/// The table printed by `verbena --help`.
pub const TABLE: &str = "\
Exit codes:
  0        success
  1        completed with a negative result (a gate, a target, a changed figure, no figure)
  2        invalid input: an option, a name, a file
  3        this machine lacks or refuses something required
  4        `compare`: undecided, more launches are needed
  124      the time of --budget or --minutes ended first: completed points are kept
  126      `run` and others that run a command: the command cannot be executed
  127      `run` and others: the command is not found
  130      interrupted (Ctrl-C): completed measurements are kept
  143      ended by SIGTERM: the same
  128 + n  `run` and others: the command ended by signal n
Otherwise `run`, `trace`, `coverage`, `capture`, `ipoib`, `record` return the command's exit code.";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// The work was done and its answer is no.
    NegativeResult,
    WrongInput,
    /// The machine lacks something.
    Environment,
    /// The figures do not decide the question.
    Undecided,
    /// A time limit ended a computation on models, as with timeout(1).
    OutOfTime,
    /// `run`: the command exists and cannot be executed.
    NotExecutable,
    /// `run`: the command does not exist.
    NotFound,
    /// SIGINT ended a measurement: 128 + 2, as in shells.
    Interrupted,
    /// SIGTERM ended a measurement: 128 + 15.
    Terminated,
    /// `run`: the exit code of the command.
    OfCommand(u8),
}

impl Exit {
    /// Returns the exit code for a child's wait status.
    pub fn of_child(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        // A wait status holds an eight-bit code or a signal number below 128, so both casts
        // preserve the value.
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::OfCommand(code as u8),
            (None, Some(signal)) => Exit::OfCommand(128 + signal as u8),
            (None, None) => unreachable!("wait() without WUNTRACED reports only ended processes"),
        }
    }

    fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::NegativeResult => 1,
            Exit::WrongInput => 2,
            Exit::Environment => 3,
            Exit::Undecided => 4,
            Exit::OutOfTime => 124,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
            Exit::OfCommand(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// Prints the argument parser's message and returns its exit code: success for help and version,
/// otherwise wrong input.
pub fn of_arguments(message: &clap::Error) -> ExitCode {
    // A closed standard output (`verbena --help | head -1`) is not an error.
    let _ = message.print();
    if message.use_stderr() {
        Exit::WrongInput.into()
    } else {
        Exit::Success.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn the_exit_code_or_signal_of_a_child_is_passed_on() {
        assert_eq!(Exit::of_child(ExitStatus::from_raw(0)), Exit::OfCommand(0));
        assert_eq!(
            Exit::of_child(ExitStatus::from_raw(77 << 8)),
            Exit::OfCommand(77)
        );
        assert_eq!(
            Exit::of_child(ExitStatus::from_raw(255 << 8)),
            Exit::OfCommand(255)
        );
        assert_eq!(
            Exit::of_child(ExitStatus::from_raw(9)),
            Exit::OfCommand(137)
        );
        assert_eq!(
            Exit::of_child(ExitStatus::from_raw(11 | 0x80)),
            Exit::OfCommand(139)
        );
    }

    #[test]
    fn the_table_names_every_fixed_code() {
        for exit in [
            Exit::Success,
            Exit::NegativeResult,
            Exit::WrongInput,
            Exit::Environment,
            Exit::Undecided,
            Exit::OutOfTime,
            Exit::NotExecutable,
            Exit::NotFound,
            Exit::Interrupted,
            Exit::Terminated,
        ] {
            let code = format!("  {:<9}", exit.code());
            assert!(
                TABLE.lines().any(|line| line.starts_with(&code)),
                "{exit:?}"
            );
        }
    }
}
