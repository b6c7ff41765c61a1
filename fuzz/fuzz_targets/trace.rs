//! Fuzzes the reader of rank traces: an accepted trace can be summarised and its messages matched.
//! The input is the bytes of the blocks, since the checksums of a whole file would reject every
//! mutation.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_mpi_trace::{Messages, RankTrace, Summary, Trace};

/// Builds a file of the input's blocks: adds the magic number, lengths and checksums. In the input
/// a length byte precedes each block.
fn file(input: &[u8]) -> Vec<u8> {
    let mut file = b"VMPITR1\n".to_vec();
    let mut rest = input;
    while let Some((&length, more)) = rest.split_first() {
        let (block, next) = more.split_at(more.len().min(usize::from(length)));
        file.extend((block.len() as u32).to_le_bytes());
        file.extend(verbena_mpi_trace::checksum(block).to_le_bytes());
        file.extend(block);
        rest = next;
    }
    file
}

fuzz_target!(|input: &[u8]| {
    let _ = RankTrace::read(input);
    let Ok(rank) = RankTrace::read(&file(input)) else {
        return;
    };
    assert!(
        rank.records
            .iter()
            .all(|record| record.call < rank.calls.len())
    );
    let trace = Trace {
        path: "fuzzed".into(),
        ranks: vec![rank],
    };
    let summary = Summary::of(&trace);
    assert_eq!(summary.all.calls as usize, trace.ranks[0].records.len());
    if let Ok(messages) = Messages::of(&trace) {
        messages.imbalances();
    }
});
