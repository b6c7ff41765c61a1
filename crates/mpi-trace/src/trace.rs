//! A trace: the files of all ranks.

use crate::Fault;
use crate::rank::{End, RankTrace};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or the directory cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file is invalid.
    #[error("{path}, {fault}")]
    Wrong {
        /// The path.
        path: PathBuf,
        /// The problem.
        fault: Fault,
    },
    /// The files do not belong together, or are inconsistent.
    #[error("{path}: {reason}")]
    Senseless {
        /// The path.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

/// A parsed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Its path: a directory, or a file with all ranks.
    pub path: PathBuf,
    /// All ranks, in order.
    pub ranks: Vec<RankTrace>,
}

impl Trace {
    /// Reads a directory with one file per rank, or a file with all ranks.
    ///
    /// # Errors
    ///
    /// Returns [`Error`] if a file cannot be read or is invalid, or if the files do not belong
    /// together.
    pub fn open(path: &Path) -> Result<Trace, Error> {
        match path.is_dir() {
            true => Trace::of_directory(path),
            false => Trace::of_bundle(path, &read_file(path)?),
        }
    }

    fn of_directory(directory: &Path) -> Result<Trace, Error> {
        let first = read(directory, 0)?;
        let size = first.size;
        let mut ranks = vec![first];
        for rank in 1..size {
            ranks.push(read(directory, rank)?);
        }
        Trace {
            path: directory.to_owned(),
            ranks,
        }
        .of_one_world()
    }

    /// Checks that all ranks belong to a world of the same size.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Senseless`] otherwise.
    pub(crate) fn of_one_world(self) -> Result<Trace, Error> {
        let size = self.ranks[0].size;
        match self.ranks.iter().find(|rank| rank.size != size) {
            Some(rank) => Err(self.fault(
                rank.rank,
                format!("it is of {} ranks, and rank 0's of {size}", rank.size),
            )),
            None => Ok(self),
        }
    }

    /// Returns an error about a rank's calls.
    pub fn fault(&self, rank: usize, reason: String) -> Error {
        match self.path.is_dir() {
            true => Error::Senseless {
                path: file_of(&self.path, rank),
                reason,
            },
            false => Error::Senseless {
                path: self.path.clone(),
                reason: format!("rank {rank}: {reason}"),
            },
        }
    }

    /// Returns the ranks and the processors of the host that recorded most ranks a processor, if
    /// they shared processors.
    pub fn crowded(&self) -> Option<(u64, u64)> {
        let mut hosts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for on in self.ranks.iter().filter_map(|rank| rank.recorded_on) {
            let (ranks, processors) = hosts.entry(on.host).or_insert((0, on.processors));
            *ranks += 1;
            *processors = on.processors.max(1);
        }
        let shared = hosts
            .into_values()
            .filter(|(ranks, processors)| ranks > processors);
        shared.max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))
    }

    /// Returns the ranks without MPI_Finalize or with damaged files.
    pub fn unfinished(&self) -> impl Iterator<Item = &RankTrace> {
        self.ranks.iter().filter(|rank| rank.end != End::Finalized)
    }

    /// Returns the size of the files in bytes.
    pub fn file_bytes(path: &Path) -> u64 {
        if let Ok(file) = fs::metadata(path)
            && file.is_file()
        {
            return file.len();
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let lengths = entries.filter_map(|entry| entry.metadata().ok());
        lengths.map(|file| file.len()).sum()
    }
}

fn file_of(directory: &Path, rank: usize) -> PathBuf {
    directory.join(format!("rank-{rank}.trace"))
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn read(directory: &Path, rank: usize) -> Result<RankTrace, Error> {
    let path = file_of(directory, rank);
    let file = read_file(&path)?;
    let read = match RankTrace::read(&file) {
        Ok(read) => read,
        Err(fault) => return Err(Error::Wrong { path, fault }),
    };
    match read.rank == rank {
        true => Ok(read),
        false => Err(Error::Senseless {
            path,
            reason: format!("it claims to belong to rank {}", read.rank),
        }),
    }
}
