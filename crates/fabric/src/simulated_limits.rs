//! A fabric with the limits of simulated hardware: a context cache, a translation cache, a
//! straggling pair. Tests check that the suite's analysis finds them.

use crate::instant::{Cost, InstantProcess, Posted, Timing, run_job};
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The simulated limits. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedLimits {
    /// Queue pair contexts cached by each process's adapter.
    pub context_entries: usize,
    /// Added latency of a context miss.
    pub context_miss: u64,
    /// Pages whose translation the adapter caches.
    pub translation_entries: usize,
    /// Added latency per translation miss.
    pub translation_miss: u64,
    /// The slower pair, of processes `2k` and `2k + 1`, and its slowdown factor.
    pub straggler: Option<(usize, u64)>,
    /// Latency of an empty message.
    pub base_latency: u64,
    /// Time between two messages.
    pub gap: u64,
    /// Transfer rate in bytes per microsecond: 1,000 is 1 GB/s.
    pub bytes_per_microsecond: u64,
    /// Host memory per queue pair, in bytes.
    pub connection_bytes: u64,
    /// Cost of reading the clock per rank, in nanoseconds; the last value holds for the remaining
    /// ranks.
    pub clock_costs: Vec<f64>,
    /// Whether binding processes to processors fails.
    pub processors_refused: bool,
    /// One stalled request, as if its process had been preempted: its number from 0, and the delay
    /// in nanoseconds.
    pub stall: Option<(u64, u64)>,
}

impl Default for SimulatedLimits {
    /// 37 contexts, 300 pages, the second pair three times slower.
    fn default() -> Self {
        SimulatedLimits {
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

impl SimulatedLimits {
    /// Runs a job on such adapters.
    pub fn run_job<T, F>(self, size: usize, program: F) -> Vec<T>
    where
        F: AsyncFn(InstantProcess) -> T,
    {
        let timing = PlantedTiming {
            limits: self,
            adapters: HashMap::new(),
            requests: 0,
        };
        run_job(size, timing, program)
    }
}

struct PlantedTiming {
    limits: SimulatedLimits,
    adapters: HashMap<usize, Caches>,
    requests: u64,
}

struct Caches {
    contexts: LeastRecent<u32>,
    pages: LeastRecent<(u32, usize)>,
}

impl Timing for PlantedTiming {
    fn cost(&mut self, posted: &Posted) -> Cost {
        let limits = &self.limits;
        let caches = self.adapters.entry(posted.rank).or_insert_with(|| Caches {
            contexts: LeastRecent::new(limits.context_entries),
            pages: LeastRecent::new(limits.translation_entries),
        });
        let mut stall = 0;
        if !caches.contexts.touch(posted.pair) {
            stall += limits.context_miss;
        }
        for &page in &posted.pages {
            if !caches.pages.touch(page) {
                stall += limits.translation_miss;
            }
        }
        if let Some((_, nanos)) = limits.stall.filter(|(at, _)| *at == self.requests) {
            stall += nanos;
        }
        self.requests += 1;
        let transfer = posted.length as u64 * 1000 / limits.bytes_per_microsecond;
        let round = if posted.returns { 2 } else { 1 };
        let factor = match limits.straggler {
            Some((pair, factor)) if posted.rank / 2 == pair => factor,
            _ => 1,
        };
        Cost {
            occupancy: (limits.gap + transfer + stall) * factor,
            latency: limits.base_latency * round * factor,
        }
    }

    fn clock_cost(&self, rank: usize) -> f64 {
        let costs = &self.limits.clock_costs;
        let cost = costs.get(rank).or(costs.last());
        cost.copied().unwrap_or(0.0)
    }

    fn refuses_processors(&self) -> bool {
        self.limits.processors_refused
    }

    fn host_memory(&self, pairs: usize) -> Option<u64> {
        Some((4 << 20) + pairs as u64 * self.limits.connection_bytes)
    }
}

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

    /// Uses a key; returns whether it was cached.
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
    fn cyclic_access_beyond_the_capacity_always_misses() {
        let mut cache = LeastRecent::new(3);
        for key in [1, 2, 3] {
            assert!(!cache.touch(key));
        }
        assert!([1, 2, 3].into_iter().all(|key| cache.touch(key)));
        assert!([4, 1, 2, 3, 4].into_iter().all(|key| !cache.touch(key)));
    }
}
