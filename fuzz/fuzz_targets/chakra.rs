//! Fuzzes Chakra's execution traces: two files, of which the schedule of accepted ones is written
//! and read back, and the same twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_mpi_trace::chakra::Reader;
use verbena_replay::goal::{Schedule, convert};

/// Maximum number of operations of schedules that are written; larger ones would only take longer.
const OPERATIONS: usize = 4096;

fuzz_target!(|input: &[u8]| {
    // The length of the first file, then both.
    let Some((length, files)) = input.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length));
    let files = files.split_at(length.min(files.len()));
    let import = || {
        let mut reader = Reader::default();
        reader.read("fuzzed.0.et", files.0).ok()?;
        reader.read("fuzzed.1.et", files.1).ok()?;
        convert(&reader.finish().ok()?, Some(1e9)).ok()
    };
    let Some(converted) = import() else {
        return;
    };
    assert_eq!(import().as_ref(), Some(&converted), "the same twice");
    if converted.schedule.size() > OPERATIONS {
        return;
    }
    let mut text = Vec::new();
    converted.schedule.write(&mut text).expect("to memory");
    let text = String::from_utf8(text).expect("it is text");
    let read = Schedule::read(&text).expect("what was written");
    assert_eq!(read.sent(), converted.schedule.sent());
    assert_eq!(read.size(), converted.schedule.size());
});
