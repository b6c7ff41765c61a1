//! Fuzzes algorithms of MSCCL: an accepted one runs on a model, and the error for a rejected one
//! names an existing line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Library, Overrides, System};
use verbena_replay::goal::{Failure, Schedule, run};

static SYSTEM: LazyLock<System> = LazyLock::new(|| {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system("connectx-ddr"))
        .expect("a shipped system")
});

/// Limits on schedules that are run. Larger ones would only take longer.
const RANKS: usize = 64;
/// The size of the buffer.
const BUFFER: u64 = 4096;
const BYTES: u64 = 1 << 20;
const OPERATIONS: usize = 256;

fuzz_target!(|input: &str| {
    let lines = 1..=input.lines().count().max(1);
    let schedule = match Schedule::of_msccl(input, BUFFER) {
        Ok(schedule) => schedule,
        Err(fault) => return assert!(lines.contains(&fault.line), "{fault}"),
    };
    let (bytes, messages) = schedule.sent();
    assert!(messages as usize <= schedule.size());
    if schedule.ranks > RANKS || bytes > BYTES || schedule.size() > OPERATIONS {
        return;
    }
    let again = || run(&SYSTEM, &schedule, schedule.ranks.min(4), Fidelity::Packet);
    let outcome = again();
    match &outcome {
        Ok(outcome) => assert_eq!(outcome.ends.len(), schedule.ranks),
        Err(Failure::Schedule(fault)) => assert!(lines.contains(&fault.line), "{fault}"),
        Err(Failure::System(reason)) => panic!("{reason}"),
    }
    assert_eq!(outcome, again(), "the same twice");
});
