//! A fabric with known faults: a context cache, a translation cache, and a straggling pair. The analysis of the suite
//! is tested against it: what was planted must be found.

use crate::instant::{Cost, InstantProcess, Posted, Timing, run_job};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What is planted. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Planted {
    /// Queue pair contexts that the adapter of each process holds.
    pub context_entries: usize,
    /// Added when a context is not held.
    pub context_miss: u64,
    /// Pages whose translation the adapter holds.
    pub translation_entries: usize,
    /// Added for each page that is not held.
    pub translation_miss: u64,
    /// The pair of processes `2k` and `2k + 1` that is slower, and how many times.
    pub straggler: Option<(usize, u64)>,
    /// Latency of an empty message.
    pub base_latency: u64,
    /// Between two messages.
    pub gap: u64,
    /// Bytes that pass in a microsecond: 1,000 is 1 GB/s.
    pub bytes_per_microsecond: u64,
    /// Host memory that a queue pair costs, in bytes.
    pub connection_bytes: u64,
    /// What reading the clock costs the processes, in nanoseconds, in the order of ranks; the last value for the rest.
    pub clock_costs: Vec<f64>,
    /// Whether the system binds no process to a processor.
    pub processors_refused: bool,
    /// One request that takes longer, as if its process had been put aside: its number from 0, and by how many nanoseconds.
    pub stall: Option<(u64, u64)>,
}

impl Default for Planted {
    /// 37 contexts, 300 pages, the second pair three times slower.
    fn default() -> Self {
        Planted {
            context_entries: 37,
            context_miss: 600,
            translation_entries: 300,
            translation_miss: 400,
            straggler: Some((1, 3)),
            base_latency: 1000,
            gap: 100,
            bytes_per_microsecond: 1000,
            connection_bytes: 24 * 1024,
            clock_costs: Vec::new(),
            processors_refused: false,
            stall: None,
        }
    }
}

impl Planted {
    /// Runs a job on such an adapter.
    pub fn run_job<T, F>(self, size: usize, program: F) -> Vec<T>
    where
        F: AsyncFn(InstantProcess) -> T,
    {
        let timing = PlantedTiming {
            planted: self,
            adapters: HashMap::new(),
            requests: 0,
        };
        run_job(size, timing, program)
    }
}

struct PlantedTiming {
    planted: Planted,
    adapters: HashMap<usize, Caches>,
    requests: u64,
}

struct Caches {
    contexts: LeastRecent<u32>,
    pages: LeastRecent<(u32, usize)>,
}

impl Timing for PlantedTiming {
    fn cost(&mut self, posted: &Posted) -> Cost {
        let planted = &self.planted;
        let caches = self.adapters.entry(posted.rank).or_insert_with(|| Caches {
            contexts: LeastRecent::new(planted.context_entries),
            pages: LeastRecent::new(planted.translation_entries),
        });
        let mut stall = 0;
        if !caches.contexts.touch(posted.pair) {
            stall += planted.context_miss;
        }
        for &page in &posted.pages {
            if !caches.pages.touch(page) {
                stall += planted.translation_miss;
            }
        }
        if let Some((_, nanos)) = planted.stall.filter(|(at, _)| *at == self.requests) {
            stall += nanos;
        }
        self.requests += 1;
        let transfer = posted.length as u64 * 1000 / planted.bytes_per_microsecond;
        let round = if posted.returns { 2 } else { 1 };
        let factor = match planted.straggler {
            Some((pair, factor)) if posted.rank / 2 == pair => factor,
            _ => 1,
        };
        Cost {
            occupancy: (planted.gap + transfer + stall) * factor,
            latency: planted.base_latency * round * factor,
        }
    }

    fn clock_cost(&self, rank: usize) -> f64 {
        let costs = &self.planted.clock_costs;
        let cost = costs.get(rank).or(costs.last());
        cost.copied().unwrap_or(0.0)
    }

    fn refuses_processors(&self) -> bool {
        self.planted.processors_refused
    }

    fn host_memory(&self, pairs: usize) -> Option<u64> {
        Some((4 << 20) + pairs as u64 * self.planted.connection_bytes)
    }
}

/// A cache that forgets what was used least recently.
struct LeastRecent<K> {
    capacity: usize,
    held: VecDeque<K>,
}

impl<K: Eq + Hash> LeastRecent<K> {
    fn new(capacity: usize) -> Self {
        LeastRecent {
            capacity,
            held: VecDeque::new(),
        }
    }

    /// Whether it was held; it is now the most recent.
    fn touch(&mut self, key: K) -> bool {
        let position = self.held.iter().position(|held| *held == key);
        if let Some(position) = position {
            self.held.remove(position);
        } else if self.held.len() == self.capacity {
            self.held.pop_front();
        }
        self.held.push_back(key);
        position.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::LeastRecent;

    #[test]
    fn in_turn_over_one_more_than_fits_always_misses() {
        let mut cache = LeastRecent::new(3);
        for key in [1, 2, 3] {
            assert!(!cache.touch(key));
        }
        assert!([1, 2, 3].into_iter().all(|key| cache.touch(key)));
        assert!([4, 1, 2, 3, 4].into_iter().all(|key| !cache.touch(key)));
    }
}
