//! How a command with faults has ended, and the judgement of it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::Signal;

/// How a command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Exit(u8),
    /// By this signal: its own, or, as a shell tells it, that of its last command.
    Signal(i32),
    /// Not in time.
    Hang,
}

/// The judgement of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The command told a failure by its exit code.
    Reported,
    /// The command went on, and ended with exit code 0.
    WentOn,
    /// It ended by a signal.
    Crashed,
    /// It did not end in time.
    Hung,
    /// Its exit code is not among the accepted ones.
    WrongExit,
    /// It left objects that it destroys without faults.
    Leaked,
    /// The call or request was not made in this run, or the cause could not be planted there.
    NotReached,
}

/// How the command ended in one run.
#[derive(Debug)]
pub struct Outcome {
    /// The faults of the run.
    pub name: String,
    /// How it ended.
    pub end: End,
    /// The judgement of it.
    pub verdict: Verdict,
    /// The objects that it left, as text; empty if there are none, or they were not counted.
    pub leaked: String,
    /// The end of the command's output.
    pub output: String,
    /// Seconds that the run took.
    pub seconds: f64,
}

impl Verdict {
    /// Returns whether the command has a fault.
    pub fn is_bad(self) -> bool {
        match self {
            Verdict::Crashed | Verdict::Hung | Verdict::WrongExit | Verdict::Leaked => true,
            Verdict::Reported | Verdict::WentOn | Verdict::NotReached => false,
        }
    }

    /// Returns it in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reported => "reported",
            Verdict::WentOn => "went on",
            Verdict::Crashed => "CRASHED",
            Verdict::Hung => "HUNG",
            Verdict::WrongExit => "WRONG EXIT",
            Verdict::Leaked => "LEAKED",
            Verdict::NotReached => "not reached",
        }
    }
}

impl End {
    /// Returns the end of a child. Shells return 128 and the number of a signal.
    pub fn of(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (_, Some(signal)) => End::Signal(signal),
            (Some(code @ 129..=159), None) => End::Signal(code - 128),
            (code, None) => End::Exit(code.unwrap_or_default() as u8),
        }
    }

    /// Returns the judgement of it; `accepted` are the right exit codes, if they are
    /// given, and `leaked` says whether objects were left.
    pub fn verdict(self, fired: bool, leaked: bool, accepted: &[u8]) -> Verdict {
        match self {
            End::Hang => Verdict::Hung,
            End::Signal(_) => Verdict::Crashed,
            End::Exit(code) if !accepted.is_empty() && !accepted.contains(&code) => {
                Verdict::WrongExit
            }
            End::Exit(_) if !fired => Verdict::NotReached,
            End::Exit(_) if leaked => Verdict::Leaked,
            End::Exit(0) => Verdict::WentOn,
            End::Exit(_) => Verdict::Reported,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            End::Exit(code) => write!(to, "exit code {code}"),
            End::Signal(number) => match signal_name(number) {
                Some(name) => to.write_str(name),
                None => write!(to, "signal {number}"),
            },
            End::Hang => write!(to, "no end in time"),
        }
    }
}

/// Returns the name of a signal that a faulty program gets.
fn signal_name(number: i32) -> Option<&'static str> {
    let names = [
        (Signal::SEGV, "SIGSEGV"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::ILL, "SIGILL"),
        (Signal::FPE, "SIGFPE"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::TERM, "SIGTERM"),
    ];
    let found = names.iter().find(|(signal, _)| signal.as_raw() == number);
    found.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_ends() {
        let verdict = |end: End| end.verdict(true, false, &[]);
        assert_eq!(verdict(End::Exit(0)), Verdict::WentOn);
        assert_eq!(verdict(End::Exit(1)), Verdict::Reported);
        assert_eq!(verdict(End::Signal(11)), Verdict::Crashed);
        assert_eq!(verdict(End::Hang), Verdict::Hung);
        assert_eq!(End::Exit(1).verdict(false, false, &[]), Verdict::NotReached);
        assert_eq!(End::Exit(0).verdict(true, false, &[1]), Verdict::WrongExit);
        assert_eq!(End::Exit(1).verdict(true, false, &[1]), Verdict::Reported);
        assert_eq!(End::Exit(1).verdict(true, true, &[1]), Verdict::Leaked);
        assert_eq!(End::Signal(11).verdict(true, true, &[]), Verdict::Crashed);
    }
}
