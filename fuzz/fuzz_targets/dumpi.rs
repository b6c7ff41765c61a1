//! Fuzzes the importer of DUMPI's traces: two files, of which accepted ones give readable traces,
//! the same twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_mpi_trace::dumpi::import;
use verbena_mpi_trace::{Messages, RankTrace, Trace};

fuzz_target!(|input: &[u8]| {
    // The length of the first file, then both.
    let Some((length, files)) = input.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length));
    let files = files.split_at(length.min(files.len()));
    let names = ["fuzzed-0.bin".to_owned(), "fuzzed-1.bin".to_owned()];
    let import = || import(&names, |rank| Ok([files.0, files.1][rank].to_vec())).ok();
    let Some(imported) = import() else {
        return;
    };
    let read = |file: &Vec<u8>| RankTrace::read(file).expect("the writer wrote it");
    let trace = Trace {
        path: "fuzzed".into(),
        ranks: imported.ranks.iter().map(read).collect(),
    };
    Messages::of(&trace).expect("its parts are consistent");
    assert_eq!(import(), Some(imported), "the same twice");
});
