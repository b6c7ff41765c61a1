//! Ranks' traces: what is understood can be summed up and followed, and what cannot be read is refused. The input is the blocks' bytes,
//! as a checksum would keep every change of a whole file out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_trace::{Messages, RankTrace, Summary, Trace};

/// Puts the mark, lengths and checksums round blocks, which the input separates by their lengths.
fn file(input: &[u8]) -> Vec<u8> {
    let mut file = b"VMPITR1\n".to_vec();
    let mut rest = input;
    while let Some((&length, more)) = rest.split_first() {
        let (block, next) = more.split_at(more.len().min(usize::from(length)));
        file.extend((block.len() as u32).to_le_bytes());
        file.extend(verbena_trace::checksum(block).to_le_bytes());
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
