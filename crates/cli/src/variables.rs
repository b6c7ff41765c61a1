//! The environment variables that the project reads, in one table. It is printed by the help of
//! commands that start programs, by `verbena help environment` and in the manual pages;
//! `tests/docs` compares it with the code.

use std::fmt::Write;

use self::Scope::{Adapter, Command, Internal};

/// The party that sets a variable, and its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Set by the user for the adapter: read by each program on it.
    Adapter,
    /// Set by the user for `verbena` itself.
    Command,
    /// Set by `verbena` for the processes it starts.
    Internal,
}

struct Variable {
    name: &'static str,
    scope: Scope,
    /// Its effect, in the imperative.
    means: &'static str,
}

const fn variable(scope: Scope, name: &'static str, means: &'static str) -> Variable {
    Variable { name, scope, means }
}

#[rustfmt::skip]
const ALL: [Variable; 33] = [
    variable(Adapter, "VERBENA_LOG", "Explain each refused call: `info`, or `off` (default)"),
    variable(Adapter, "VERBENA_LOG_FILE", "Append the explanations to this file"),
    variable(Adapter, "VERBENA_PATH", "Use one path to peers: mapped, cma or ring (--path)"),
    variable(Adapter, "VERBENA_LANES", "Send short messages by lanes: off, auto, always"),
    variable(Adapter, "VERBENA_PAGES", "Move registered pages: auto, in-place, shared (--pages)"),
    variable(Adapter, "VERBENA_LINK", "Make the ports infiniband or roce (--link)"),
    variable(Adapter, "VERBENA_DEVICES", "Give the adapter this many devices (--devices)"),
    variable(Adapter, "VERBENA_INTERFACE", "Use these interfaces for roce, A,B... (--interface)"),
    variable(Adapter, "VERBENA_ALLOW", "Accept packets only from these networks (--allow)"),
    variable(Adapter, "VERBENA_TUNNELS", "Fall back to TCP where UDP fails: on, off (--tunnels)"),
    variable(Adapter, "VERBENA_RUNTIME_DIR", "Meet other processes here [/dev/shm/verbena-UID]"),
    variable(Adapter, "VERBENA_NODE", "Emulated node of the process, with --as (--node)"),
    variable(Adapter, "VERBENA_NODE_BY", "Rule for the emulated nodes of processes (--node-by)"),
    variable(Adapter, "VERBENA_STATS_DIR", "Write each process's counters to this directory"),
    variable(Command, "VERBENA_LIBRARY_DIR", "Load the adapter's libraries from this directory"),
    variable(Command, "VERBENA_PROGRAMS", "Find the programs of app.* in this directory"),
    variable(Command, "VERBENA_EXCHANGE_SECRET", "Authenticate the processes of a job over hosts"),
    variable(Command, "NO_COLOR", "Print without colours if this is set and not empty"),
    variable(Command, "COLUMNS", "Wrap lines at this width [that of the terminal]"),
    variable(Command, "UCX_RNDV_THRESH", "Let receivers read messages over UCX from here [16384]"),
    variable(Internal, "VERBENA_AS", "Directory of an emulation, of `verbena run --as`"),
    variable(Internal, "VERBENA_FABRIC", "Directory of the node, of `verbena fabric up`"),
    variable(Internal, "VERBENA_CAPTURE", "Socket of `verbena capture`"),
    variable(Internal, "VERBENA_TRACE", "Socket of `verbena trace`"),
    variable(Internal, "VERBENA_COVERAGE", "Data file of `verbena coverage`"),
    variable(Internal, "VERBENA_FAULTS", "Rules of `verbena run --fault`"),
    variable(Internal, "VERBENA_FAULTS_LOG", "Record of the calls that rules were about"),
    variable(Internal, "VERBENA_FAULTS_ALIVE", "Record the objects that processes leave there"),
    variable(Internal, "VERBENA_RECORD", "Directory of `verbena record`"),
    variable(Internal, "VERBENA_STOPWATCH", "Directory for run times, of `verbena closed-loop`"),
    variable(Internal, "VERBENA_SEATS", "Processors of the ranks, of `verbena closed-loop`"),
    variable(Internal, "VERBENA_PROCESS_PLAN", "Task of a process of `verbena bench`"),
    variable(Internal, "VERBENA_PLANTED", "Fault to inject, in builds for tests"),
];

/// The sections of the whole table.
const SECTIONS: [(&str, Scope); 3] = [
    ("Read by every program on the adapter", Adapter),
    ("Read by `verbena`", Command),
    ("Set by `verbena` for its own processes", Internal),
];

/// Returns the variables read by a program on the adapter, one per line.
pub fn of_programs() -> String {
    lines(Adapter)
}

pub fn all() -> String {
    let section = |(title, scope)| format!("{title}:\n{}", lines(scope));
    SECTIONS.map(section).join("\n")
}

fn lines(scope: Scope) -> String {
    let of_scope = ALL.iter().filter(|one| one.scope == scope);
    of_scope.fold(String::new(), |mut text, one| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {:<24} {}", one.name, one.means);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_has_one_line_that_fits() {
        let text = all();
        for one in &ALL {
            let lines = text
                .lines()
                .filter(|line| line.contains(&format!("{} ", one.name)));
            assert_eq!(lines.count(), 1, "{}", one.name);
            assert!(one.means.len() < 70, "{}", one.means);
        }
        assert!(text.lines().all(|line| line.len() <= 100));
        assert!(!of_programs().contains("VERBENA_PROCESS_PLAN"));
    }
}
