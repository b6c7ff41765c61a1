//! Checks the kernel and its restrictions.

use std::fs;

use rustix::process::{Resource, getrlimit};
use verbena_measure::unit;

use super::finding::Finding;

/// Checks the kernel version, seccomp, and resource limits.
pub fn findings() -> Vec<Finding> {
    vec![kernel(), address_space(), locked_memory(), file_size()]
}

/// Returns Yama's restriction on reading another process's memory (Linux' admin-guide/LSM/Yama);
/// `None` without Yama.
pub fn ptrace_scope() -> Option<u32> {
    read("/proc/sys/kernel/yama/ptrace_scope")?.parse().ok()
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let filter = read("/proc/self/status").and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Seccomp:"))?;
        Some(line.trim() == "2")
    });
    let seccomp = match filter {
        Some(true) => "a seccomp profile filters system calls",
        Some(false) => "no seccomp profile",
        None => "seccomp unknown",
    };
    let scope = match ptrace_scope() {
        Some(scope) => format!("kernel.yama.ptrace_scope {scope}"),
        None => "no Yama".to_owned(),
    };
    Finding::ok("kernel", format!("Linux {release}, {seccomp}, {scope}"))
}

/// An arena reserves addresses for twice the machine's memory (`hca-memory/src/arena.rs`).
fn address_space() -> Finding {
    let subject = "address space";
    match getrlimit(Resource::As).current {
        None => Finding::ok(subject, "not limited"),
        Some(bytes) => {
            Finding::limited(subject, format!("limited to {}", unit::size(bytes as f64))).advise(
                "run `ulimit -v unlimited`: the path `mapped` needs address space of twice \
                     the machine's memory",
            )
        }
    }
}

fn locked_memory() -> Finding {
    let subject = "locked memory";
    match getrlimit(Resource::Memlock).current {
        None => Finding::ok(subject, "not limited"),
        Some(bytes) => Finding::ok(
            subject,
            format!(
                "limited to {}; affects RDMA hardware only: the software adapter locks no memory",
                unit::size(bytes as f64)
            ),
        ),
    }
}

/// Memory files count as files (setrlimit(2), RLIMIT_FSIZE).
fn file_size() -> Finding {
    let subject = "file size";
    match getrlimit(Resource::Fsize).current {
        None => Finding::ok(subject, "not limited"),
        Some(bytes) => {
            Finding::limited(subject, format!("limited to {}", unit::size(bytes as f64))).advise(
                "run `ulimit -f unlimited`: registered memory is in memory files, and the kernel \
                 ends a program whose file grows beyond the limit (SIGXFSZ)",
            )
        }
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}
