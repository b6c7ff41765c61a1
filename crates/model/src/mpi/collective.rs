//! Collective operations of ranks: the rounds of their algorithms, one after another.

use super::messages::PLAIN;
use super::rounds::{Member, Round};
use super::world::Rank;

impl Rank {
    /// Performs a group's rounds as the member that this rank is; the messages have tag `mark`.
    pub async fn perform(&self, rounds: &[Round], members: &[usize], mark: u32) {
        for together in Round::together(rounds) {
            match together {
                [round] => self.perform_one(*round, members, mark).await,
                several => Box::pin(self.perform_beside(several, members, mark)).await,
            }
        }
    }

    async fn perform_one(&self, round: Round, members: &[usize], mark: u32) {
        let receive = round.receive.map(|(from, _)| members[from]);
        match (round.send, receive) {
            (Some((to, bytes)), Some(from)) => {
                self.exchange_marked(members[to], bytes, from, mark).await;
            }
            (Some((to, bytes)), None) => self.send_marked(members[to], bytes, mark).await,
            (None, Some(from)) => self.receive_marked(from, mark).await,
            (None, None) => (),
        }
    }

    /// Starts several rounds, receives first as libraries do, and waits for all.
    async fn perform_beside(&self, rounds: &[Round], members: &[usize], mark: u32) {
        let receives = rounds.iter().filter_map(|round| round.receive);
        let mut under_way: Vec<_> = receives
            .map(|(from, _)| self.begin_receive_marked(members[from], mark))
            .collect();
        let sends = rounds.iter().filter_map(|round| round.send);
        under_way.extend(sends.map(|(to, bytes)| self.begin_send_marked(members[to], bytes, mark)));
        for one in under_way {
            one.await;
        }
    }

    async fn perform_among_all(&self, rounds: Vec<Round>) {
        let all: Vec<_> = (0..self.size()).collect();
        Box::pin(self.perform(&rounds, &all, PLAIN)).await;
    }

    fn member(&self) -> Member {
        Member {
            place: self.number,
            size: self.size(),
        }
    }

    /// Returns this rank as a member of `ranks`, or `None` if it is not in them.
    fn member_of(&self, ranks: &[usize]) -> Option<Member> {
        let place = ranks.iter().position(|&rank| rank == self.number)?;
        Some(Member {
            place,
            size: ranks.len(),
        })
    }

    /// Waits for all ranks.
    pub async fn barrier(&self) {
        let rounds = self.member().barrier_of(&self.world.mpi);
        self.perform_among_all(rounds).await;
    }

    /// Combines `bytes` of all ranks.
    pub async fn all_reduce(&self, bytes: u64) {
        let rounds = self.member().all_reduce(bytes, &self.world.mpi);
        self.perform_among_all(rounds).await;
    }

    /// Every rank sends `bytes` to every rank.
    pub async fn all_to_all(&self, bytes: u64) {
        let rounds = self.member().all_to_all(bytes, &self.world.mpi);
        self.perform_among_all(rounds).await;
    }

    /// Each of `ranks` sends `bytes` to every other; other ranks do nothing.
    pub async fn all_to_all_among(&self, ranks: &[usize], bytes: u64) {
        if let Some(member) = self.member_of(ranks) {
            let rounds = member.pairwise(|_| bytes, |_| bytes);
            Box::pin(self.perform(&rounds, ranks, PLAIN)).await;
        }
    }

    /// Rank 0 sends `bytes` to all.
    pub async fn broadcast(&self, bytes: u64) {
        let rounds = self.member().broadcast(0, bytes, &self.world.mpi);
        self.perform_among_all(rounds).await;
    }

    /// Gathers the `bytes` of each rank at all ranks.
    pub async fn all_gather(&self, bytes: u64) {
        let rounds = self.member().all_gather(bytes, &self.world.mpi);
        self.perform_among_all(rounds).await;
    }

    /// `root` sends `bytes` to all of `ranks`, down a tree; other ranks do nothing.
    pub async fn broadcast_among(&self, ranks: &[usize], root: usize, bytes: u64) {
        let place_of_root = ranks.iter().position(|&rank| rank == root);
        if let (Some(member), Some(root)) = (self.member_of(ranks), place_of_root) {
            let rounds = member.broadcast_whole(root, bytes);
            Box::pin(self.perform(&rounds, ranks, PLAIN)).await;
        }
    }
}
