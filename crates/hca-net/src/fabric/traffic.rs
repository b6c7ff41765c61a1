//! Counts of the traffic to each destination, in a file that the fabric's process reads.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use verbena_fabric_protocol::Destination;
use verbena_fabric_protocol::traffic::{COUNTS, DESTINATION, ENTRIES, ENTRY, LENGTH, Traffic};
use verbena_hca_os::errno::Result;
use verbena_hca_os::mapping::{Mapping, MappingRights};
use verbena_hca_os::memfd::Memfd;

/// The file.
#[derive(Debug)]
pub struct TrafficTable {
    mapping: Mapping,
    /// Unused entries, by destination.
    free: Mutex<HashMap<Destination, Vec<usize>>>,
}

/// An entry, in which one queue pair counts.
#[derive(Debug)]
pub struct Counted {
    table: Arc<TrafficTable>,
    destination: Destination,
    entry: usize,
    /// Its counts, in the table's mapping.
    counts: NonNull<[AtomicU64; 4]>,
}

// SAFETY: atomics in a mapping that lives as long as the table, which is kept beside them.
unsafe impl Send for Counted {}

impl TrafficTable {
    /// Creates an empty file.
    ///
    /// # Errors
    /// The system's.
    pub fn create() -> Result<(TrafficTable, Memfd)> {
        let file = Memfd::create(c"verbena-traffic", LENGTH)?;
        let mapping = Mapping::of(&file, MappingRights::ReadWrite)?;
        mapping.word64(0).store(1, Ordering::Release);
        let table = TrafficTable {
            mapping,
            free: Mutex::default(),
        };
        Ok((table, file))
    }

    /// Returns an entry for a destination; `None`, with a line on standard error the first time, if
    /// there are no more.
    pub fn open(table: &Arc<TrafficTable>, destination: Destination) -> Option<Counted> {
        let mut free = table.free.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match free.get_mut(&destination).and_then(Vec::pop) {
            Some(entry) => entry,
            None => {
                let used = table.mapping.word64(0);
                let entry = used.load(Ordering::Relaxed) as usize;
                if entry >= ENTRIES {
                    static WAS_REPORTED: AtomicBool = AtomicBool::new(false);
                    if !WAS_REPORTED.swap(true, Ordering::Relaxed) {
                        eprintln!(
                            "verbena: traffic of more than {} pairs of queue pair and \
                             destination is not counted at the fabric's ports",
                            ENTRIES - 1
                        );
                    }
                    return None;
                }
                let word = table.mapping.word64(entry * ENTRY + DESTINATION);
                word.store(destination.word().into(), Ordering::Relaxed);
                used.store(entry as u64 + 1, Ordering::Release);
                entry
            }
        };
        let counts = NonNull::from(table.mapping.word64(entry * ENTRY + COUNTS)).cast();
        Some(Counted {
            table: table.clone(),
            destination,
            entry,
            counts,
        })
    }
}

impl TrafficTable {
    /// Returns the range of its mapping: address and length in bytes.
    pub fn range(&self) -> (usize, usize) {
        (self.mapping.base() as usize, self.mapping.length())
    }
}

impl Counted {
    /// Returns the destination.
    #[inline]
    pub fn destination(&self) -> Destination {
        self.destination
    }

    /// Counts traffic. Only the thread that has locked the queue pair does.
    #[inline]
    pub fn add(&mut self, traffic: Traffic) {
        for (word, count) in self.counts().iter().zip(traffic.counts()) {
            add(word, count);
        }
    }

    /// Counts packets to the destination, as [`Counted::add`].
    #[inline]
    pub fn add_forth(&mut self, packets: u64, words: u64) {
        let [all_words, all_packets, ..] = self.counts();
        add(all_words, words);
        add(all_packets, packets);
    }

    #[inline]
    fn counts(&self) -> &[AtomicU64; 4] {
        // SAFETY: inside the mapping, which lives as long as the table: an entry has these words.
        unsafe { self.counts.as_ref() }
    }
}

#[inline]
fn add(word: &AtomicU64, count: u64) {
    let sum = word.load(Ordering::Relaxed).wrapping_add(count);
    word.store(sum, Ordering::Relaxed);
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut free = self
            .table
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        free.entry(self.destination).or_default().push(self.entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_used_again_for_the_same_destination_alone() {
        let (table, _file) = TrafficTable::create().unwrap();
        let table = Arc::new(table);
        let [one, other] = [7, 8].map(|lid| Destination { port: 1, lid });
        let mut first = TrafficTable::open(&table, one).unwrap();
        first.add(Traffic {
            words: 5,
            ..Traffic::default()
        });
        let entry = first.entry;
        drop(first);
        assert_ne!(TrafficTable::open(&table, other).unwrap().entry, entry);
        let mut again = TrafficTable::open(&table, one).unwrap();
        assert_eq!(again.entry, entry);
        again.add(Traffic {
            words: 6,
            ..Traffic::default()
        });
        let word = table.mapping.word64(entry * ENTRY + COUNTS);
        assert_eq!(word.load(Ordering::Relaxed), 11);
    }
}
