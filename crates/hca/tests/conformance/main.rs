//! Conformance tests that hold for every path: the same tests, run once for each path in a separate
//! process (`VERBENA_PATH` is read once a process). Both ends are in one process here; `tests/` at
//! the top has them in two.

mod atomics;
mod datagrams;
mod eviction;
mod known_memory;
mod lanes;
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
    run_with(path, None);
}

/// Runs the cases on a path, with the lanes in a mode, if it is given.
fn run_with(path: &str, lanes: Option<&str>) {
    let name = lanes.unwrap_or("lanes");
    let directory =
        std::env::temp_dir().join(format!("verbena-conf-{}-{path}-{name}", std::process::id()));
    let forced = if path == "probed" { "" } else { path };
    let mut command = Command::new(std::env::current_exe().unwrap());
    if let Some(lanes) = lanes {
        command.env("VERBENA_LANES", lanes);
    }
    let status = command
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

#[test]
fn mapped_with_lanes() {
    run_with("mapped", Some("auto"));
}

#[test]
fn mapped_with_lanes_always() {
    run_with("mapped", Some("always"));
}

#[test]
fn mapped_with_lanes_at_random() {
    run_with("mapped", Some("shuffle"));
}

#[test]
fn ring_with_lanes_at_random() {
    run_with("ring", Some("shuffle"));
}
