//! Fuzzes the importer of SimGrid's traces: an accepted trace has readable files, whose messages
//! all have a receive, and is the same twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_mpi_trace::simgrid::{Error, Reader};
use verbena_mpi_trace::{Messages, RankTrace, Summary, Trace};

fuzz_target!(|input: &[u8]| {
    let import = || {
        let mut reader = Reader::new(Some(1e9));
        reader.read("fuzzed", input)?;
        reader.finish()
    };
    let imported = match import() {
        Ok(imported) => imported,
        Err(Error::Line { line, .. }) => {
            return assert!(line <= input.split(|&byte| byte == b'\n').count());
        }
        Err(_) => return,
    };
    let read = |file: &Vec<u8>| RankTrace::read(file).expect("the writer wrote it");
    let trace = Trace {
        path: "fuzzed".into(),
        ranks: imported.ranks.iter().map(read).collect(),
    };
    assert!(Summary::of(&trace).ranks > 0);
    let messages = Messages::of(&trace).expect("its parts are consistent");
    let imbalances = messages.imbalances();
    assert!(imbalances.is_empty(), "{imbalances:?}");
    assert_eq!(import().ok(), Some(imported), "the same twice");
});
