//! Checks which paths between processes work, and why the others do not.

use verbena_hca_os::memfd::Memfd;
use verbena_hca_os::userfault::{Rights, UserFault};

use super::finding::Finding;
use super::kernel::ptrace_scope;
use super::probe::Probe;
use super::trial::{self, Taken};

/// Paths by the values of VERBENA_PATH.
const MAPPED: &str = "mapped";
const CMA: &str = "cma";
const RING: &str = "ring";

/// Reports the trial of two processes with default settings.
pub fn programs(trial: &Result<Taken, String>) -> Finding {
    let taken = match trial {
        Err(reason) => {
            return Finding::missing("programs", reason.clone())
                .advise("no program runs; the missing features below are the cause");
        }
        Ok(taken) => taken,
    };
    let found = format!("two processes exchanged data: {}", words(taken));
    match one_sided(taken, MAPPED) {
        true => Finding::ok("programs", found),
        false => Finding::limited("programs", found)
            .advise("writes are slower than copies in shared memory; the paths below show why"),
    }
}

/// Checks each path and the kernel features it uses.
pub fn each() -> Vec<Finding> {
    vec![mapped(), memory_files(), threads(), cma(), ring()]
}

fn mapped() -> Finding {
    let subject = "mapped";
    match trial::run(Probe::End, Some(MAPPED)) {
        Ok(taken) if one_sided(&taken, MAPPED) => Finding::ok(subject, words(&taken)),
        Ok(taken) => Finding::missing(subject, words(&taken)).advise(
            "registered pages could not be moved into shared memory: see memory files, \
             and `ulimit -v`",
        ),
        Err(reason) => Finding::missing(subject, reason),
    }
}

fn cma() -> Finding {
    let subject = "cma";
    let taken = match trial::run(Probe::End, Some(CMA)) {
        Err(reason) => return Finding::missing(subject, reason),
        Ok(taken) => taken,
    };
    if taken.values().any(|paths| paths.contains(CMA)) {
        return Finding::ok(subject, words(&taken));
    }
    let (found, advice) = match ptrace_scope() {
        Some(scope) if scope > 0 => (
            format!(
                "process_vm_readv is refused between processes: kernel.yama.ptrace_scope is {scope}"
            ),
            "root can set it to 0; `mapped` does not need it",
        ),
        _ => (
            "process_vm_readv is refused, probably by a container's seccomp profile".to_owned(),
            "allow process_vm_readv and process_vm_writev in the profile; \
             `mapped` does not need them",
        ),
    };
    Finding::missing(subject, found).advise(advice)
}

fn ring() -> Finding {
    match trial::run(Probe::End, Some(RING)) {
        Ok(taken) => Finding::ok("ring", words(&taken)),
        Err(reason) => Finding::missing("ring", reason),
    }
}

/// Creates a memory file like `hca-os/src/memfd.rs`, with the seal of a context table.
fn memory_files() -> Finding {
    let subject = "memory files";
    let made = Memfd::create(c"verbena-doctor", 4096).and_then(|file| file.seal_future_writes());
    match made {
        Ok(()) => Finding::ok(subject, "memfd_create with seals"),
        Err(error) => Finding::missing(subject, format!("memfd_create or its seals: {error}"))
            .advise("allow memfd_create in the seccomp profile; its seals need Linux 5.1 or later"),
    }
}

/// Checks programs with several threads, whose pages can move only while the other threads are
/// held.
fn threads() -> Finding {
    let subject = "threads";
    match trial::run(Probe::ThreadedEnd, None) {
        Err(reason) => Finding::missing(subject, reason),
        Ok(taken) if one_sided(&taken, MAPPED) => Finding::ok(
            subject,
            format!(
                "programs with several threads: {}; {}",
                words(&taken),
                held()
            ),
        ),
        Ok(taken) => Finding::limited(
            subject,
            format!(
                "programs with several threads: {}; {}",
                words(&taken),
                held()
            ),
        )
        .advise(
            "allow userfaultfd in the seccomp profile, or register memory before starting \
                 threads",
        ),
    }
}

/// Reports the features on which `hca-memory/src/quiet.rs` bases its decision.
fn held() -> String {
    match UserFault::open() {
        Err(error) => format!("userfaultfd: {error}"),
        Ok(fault) if !fault.protects_shared() => {
            "userfaultfd without write protection of shared memory (before Linux 5.19)".to_owned()
        }
        Ok(fault) => match fault.rights() {
            Rights::Full => "userfaultfd with full rights".to_owned(),
            Rights::UserModeOnly => "userfaultfd of ordinary users".to_owned(),
        },
    }
}

fn one_sided(taken: &Taken, path: &str) -> bool {
    taken.get("write").is_some_and(|paths| paths.contains(path))
}

fn words(taken: &Taken) -> String {
    let each = taken.iter().map(|(operation, paths)| {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        format!("{operation} by {}", paths.join(" and "))
    });
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(write: &str) -> Taken {
        let set = |path: &str| [path.to_owned()].into();
        Taken::from([("send", set("ring")), ("write", set(write))])
    }

    #[test]
    fn a_slower_path_is_limited_and_no_path_is_missing() {
        use crate::doctor::finding::State;
        assert_eq!(programs(&Ok(taken("mapped"))).state, State::Ok);
        let slow = programs(&Ok(taken("ring")));
        assert_eq!(slow.state, State::Limited);
        assert!(
            slow.found.ends_with("send by ring, write by ring"),
            "{slow:?}"
        );
        let none = programs(&Err("no memory".to_owned()));
        assert_eq!(
            (none.state, none.found.as_str()),
            (State::Missing, "no memory")
        );
        assert!(none.advice.is_some());
    }
}
