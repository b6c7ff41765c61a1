//! Conformance tests that hold for every path: the same tests, run once for each path in a separate
//! process (`VERBENA_PATH` is read once a process). Both ends are in one process here; `tests/` at
//! the top has them in two.

mod atomics;
mod datagrams;
mod eviction;
mod messages;
mod one_sided;
mod overrun;
mod reset;
mod rig;
mod rules;
mod windows;

use std::process::Command;

/// Returns the path under test, when this process is one of the children.
fn path_under_test() -> Option<String> {
    std::env::var("VERBENA_CONFORMANCE").ok()
}

fn run_on(path: &str) {
    let directory =
        std::env::temp_dir().join(format!("verbena-conf-{}-{path}", std::process::id()));
    let forced = if path == "probed" { "" } else { path };
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--include-ignored", "case_"])
        .env("VERBENA_CONFORMANCE", path)
        .env("VERBENA_PATH", forced)
        .env("VERBENA_RUNTIME_DIR", &directory)
        .status()
        .unwrap();
    assert!(status.success(), "on path {path}");
    assert!(
        !directory.exists(),
        "the registry is removed by the last process"
    );
}

#[test]
fn mapped() {
    run_on("mapped");
}

#[test]
fn cma() {
    run_on("cma");
}

#[test]
fn ring() {
    run_on("ring");
}

#[test]
fn probed() {
    run_on("probed");
}
