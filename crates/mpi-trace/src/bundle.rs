//! A trace in one file for archiving: the ranks' files one after another, each preceded by its
//! length.

use crate::Fault;
use crate::number::{Bytes, put};
use crate::rank::{End, RankTrace};
use crate::trace::{Error, Trace};
use crate::writer::Writer;
use std::path::Path;

/// Beginning of a file.
const MARK: &[u8; 8] = b"VMPITS1\n";
/// Unit of stored times in nanoseconds. Sums are exact.
const TICK: u64 = 256;

/// Returns whether a file contains a trace of all ranks.
pub fn is_bundle(file: &[u8]) -> bool {
    file.starts_with(MARK)
}

impl Trace {
    /// Returns all ranks as one file, without data that a replay does not use: durations of calls,
    /// and calls that found no message or request ready.
    pub fn bundle(&self) -> Vec<u8> {
        let mut file = MARK.to_vec();
        for rank in &self.ranks {
            let mut writer = Writer::with_tick(rank.rank, rank.size, &rank.library, TICK);
            if let Some(on) = rank.recorded_on {
                writer.recorded_on(on);
            }
            for record in &rank.records {
                writer.call(rank.name(record), rank.parts(record), record.computing, 0);
            }
            let rank = writer.finish();
            put(&mut file, rank.len() as u64);
            file.extend(rank);
        }
        file
    }

    /// Parses such a file; `path` is for messages.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Senseless`] if the file is not a trace of all ranks or is damaged.
    pub fn of_bundle(path: &Path, file: &[u8]) -> Result<Trace, Error> {
        let path = path.to_owned();
        let wrong = |reason: String| Error::Senseless {
            path: path.clone(),
            reason,
        };
        let Some(ranks) = file.strip_prefix(MARK) else {
            return Err(wrong(
                "not a trace: a file with all ranks begins with VMPITS1, and other traces are \
                 directories"
                    .to_owned(),
            ));
        };
        let mut bytes = Bytes::new(ranks);
        let mut ranks = Vec::new();
        while !bytes.is_empty() {
            let rank = bytes.size().and_then(|length| bytes.take(length));
            let damaged = |fault: &Fault| wrong(format!("of rank {}, {fault}", ranks.len()));
            let rank = RankTrace::read(rank.map_err(wrong)?).map_err(|fault| damaged(&fault))?;
            // A rank's own file may end anywhere if the rank was killed. A bundle was written
            // completely.
            if let End::Broken(fault) = &rank.end {
                return Err(damaged(fault));
            }
            if rank.rank != ranks.len() {
                return Err(wrong(format!(
                    "rank {} is in the place of rank {}",
                    rank.rank,
                    ranks.len()
                )));
            }
            ranks.push(rank);
        }
        match ranks.first().map(|first| first.size) {
            Some(size) if size == ranks.len() => Trace { path, ranks }.of_one_world(),
            Some(size) => Err(wrong(format!("it has {} ranks of {size}", ranks.len()))),
            None => Err(wrong("it has no ranks".to_owned())),
        }
    }
}
