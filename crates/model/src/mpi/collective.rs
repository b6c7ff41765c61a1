//! Collective operations, by the algorithms that MPICH uses for them.

use super::Rank;

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

    /// Combines `bytes` of all ranks: recursive doubling for powers of two, else as long as dissemination takes.
    pub async fn all_reduce(&self, bytes: u64) {
        let size = self.size();
        if !size.is_power_of_two() {
            return self.dissemination(bytes).await;
        }
        let mut distance = 1;
        while distance < size {
            let peer = self.number ^ distance;
            self.exchange(peer, bytes, peer).await;
            distance *= 2;
        }
    }

    /// Every rank sends `bytes` to every rank: pairwise exchange.
    pub async fn all_to_all(&self, bytes: u64) {
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
