//! Collective operations, by the algorithms that MPICH uses for them, chosen as its libraries choose: by the size of the message and
//! the number of ranks. What combining costs a processor is not counted.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH (2005).

use super::Rank;

/// Ranks from which on other ways than the direct one are taken (MPIR_BCAST_MIN_PROCS).
const MANY: usize = 8;

impl Rank {
    /// Waits for all ranks: dissemination.
    pub async fn barrier(&self) {
        self.dissemination(0).await;
    }

    async fn dissemination(&self, bytes: u64) {
        let size = self.size();
        let mut distance = 1;
        while distance < size {
            let to = (self.number + distance) % size;
            let from = (self.number + size - distance) % size;
            self.exchange(to, bytes, from).await;
            distance *= 2;
        }
    }

    /// Combines `bytes` of all ranks: for powers of two recursive doubling or, above the library's limit, Rabenseifner's way; else as
    /// long as dissemination takes.
    pub async fn all_reduce(&self, bytes: u64) {
        let size = self.size();
        if !size.is_power_of_two() {
            return self.dissemination(bytes).await;
        }
        let limit = self.world.mpi.all_reduce_doubling;
        if limit.is_some_and(|most| bytes > most.0) {
            return Box::pin(self.all_reduce_by_parts(bytes)).await;
        }
        let mut distance = 1;
        while distance < size {
            let peer = self.number ^ distance;
            self.exchange(peer, bytes, peer).await;
            distance *= 2;
        }
    }

    /// Each rank combines a part, recursively halved, and the parts are gathered by recursive doubling.
    async fn all_reduce_by_parts(&self, bytes: u64) {
        let mut distance = self.size() / 2;
        let mut part = bytes;
        while distance > 0 {
            part = part.div_ceil(2);
            let peer = self.number ^ distance;
            self.exchange(peer, part, peer).await;
            distance /= 2;
        }
        let mut distance = 1;
        while distance < self.size() {
            let peer = self.number ^ distance;
            self.exchange(peer, part, peer).await;
            part *= 2;
            distance *= 2;
        }
    }

    /// Every rank sends `bytes` to every rank: pairwise exchange, or by way of others up to the library's limit.
    pub async fn all_to_all(&self, bytes: u64) {
        let limit = self.world.mpi.all_to_all_forwarding;
        if self.size() >= MANY && limit.is_some_and(|most| bytes <= most.0) {
            return Box::pin(self.all_to_all_forwarded(bytes)).await;
        }
        self.all_to_all_among(&(0..self.size()).collect::<Vec<_>>(), bytes)
            .await;
    }

    /// The same among some ranks, which must hold this one.
    pub async fn all_to_all_among(&self, ranks: &[usize], bytes: u64) {
        let size = ranks.len();
        let Some(place) = ranks.iter().position(|&r| r == self.number) else {
            return;
        };
        for step in 1..size {
            let to = ranks[(place + step) % size];
            let from = ranks[(place + size - step) % size];
            self.exchange(to, bytes, from).await;
        }
    }

    /// Bruck's way: in step k go all blocks whose distance has bit k, to the rank that is 2^k further.
    async fn all_to_all_forwarded(&self, bytes: u64) {
        let size = self.size();
        let mut step = 1;
        while step < size {
            let blocks = (1..size).filter(|distance| distance & step != 0).count() as u64;
            let to = (self.number + step) % size;
            let from = (self.number + size - step) % size;
            self.exchange(to, blocks * bytes, from).await;
            step *= 2;
        }
    }

    /// Rank 0 sends `bytes` to all: whole down a tree, or above the library's limit in parts that all then gather.
    pub async fn broadcast(&self, bytes: u64) {
        let size = self.size();
        let limit = self.world.mpi.broadcast_whole;
        if size < MANY || limit.is_none_or(|most| bytes <= most.0) {
            let all: Vec<_> = (0..size).collect();
            return self.broadcast_among(&all, 0, bytes).await;
        }
        let part = bytes.div_ceil(size as u64);
        Box::pin(self.scatter(part)).await;
        self.gather_round_a_ring(part).await;
    }

    /// All get the `bytes` of each: Bruck's way, or above the library's limit, which is of the result, round a ring.
    pub async fn all_gather(&self, bytes: u64) {
        let limit = self.world.mpi.all_gather_doubling;
        if limit.is_some_and(|most| self.size() as u64 * bytes > most.0) {
            return Box::pin(self.gather_round_a_ring(bytes)).await;
        }
        // Each step doubles what a rank has, but the last one: there it lacks less than that.
        let size = self.size();
        let mut have = 1;
        while have < size {
            let to = (self.number + size - have) % size;
            let from = (self.number + have) % size;
            let lacking = have.min(size - have) as u64;
            self.exchange(to, lacking * bytes, from).await;
            have *= 2;
        }
    }

    /// Each rank hands on what it got from its neighbour before, until all have the `bytes` of all.
    async fn gather_round_a_ring(&self, bytes: u64) {
        let size = self.size();
        let (to, from) = ((self.number + 1) % size, (self.number + size - 1) % size);
        for _ in 1..size {
            self.exchange(to, bytes, from).await;
        }
    }

    /// Rank 0 sends a part of `bytes` to each: down a tree, to each what it and those below it get.
    async fn scatter(&self, bytes: u64) {
        let size = self.size();
        let below = |rank: usize, mask: usize| mask.min(size - rank) as u64 * bytes;
        let mut mask = 1;
        while mask < size {
            if self.number & mask != 0 {
                self.receive(self.number - mask).await;
                break;
            }
            mask *= 2;
        }
        mask /= 2;
        while mask > 0 {
            let to = self.number + mask;
            if to < size {
                self.send(to, below(to, mask)).await;
            }
            mask /= 2;
        }
    }

    /// `root` sends `bytes` to all of `ranks`, which must hold this one: binomial tree.
    pub async fn broadcast_among(&self, ranks: &[usize], root: usize, bytes: u64) {
        let size = ranks.len();
        let place_of = |rank: usize| ranks.iter().position(|&r| r == rank);
        let (Some(own), Some(root)) = (place_of(self.number), place_of(root)) else {
            return;
        };
        let relative = (own + size - root) % size;
        let mut mask = 1;
        while mask < size {
            if relative & mask != 0 {
                let from = ranks[(relative - mask + root) % size];
                self.receive(from).await;
                break;
            }
            mask *= 2;
        }
        mask /= 2;
        while mask > 0 {
            if relative & (mask - 1) == 0 && relative & mask == 0 && relative + mask < size {
                let to = ranks[(relative + mask + root) % size];
                self.send(to, bytes).await;
            }
            mask /= 2;
        }
    }
}
