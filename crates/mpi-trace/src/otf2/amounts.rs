//! Amounts of data of collective operations. OTF2 has the total sent and received bytes of each
//! rank, as in the operation's definition, including data to and from itself; with `MPI_IN_PLACE`
//! without itself (Score-P, `scorep_mpi_coll`). Our traces have the length of the whole, or of each
//! pair.

use crate::part::{Collective, Part};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub sent: u64,
    pub received: u64,
}

/// Returns the kind of an operation, and whether ranks have their own lengths.
pub(super) fn kind(name: &str) -> Option<(Collective, Lengths)> {
    use Lengths::{Alike, Own};
    Some(match name {
        "BARRIER" => (Collective::Barrier, Alike),
        "BCAST" => (Collective::Broadcast, Alike),
        "REDUCE" => (Collective::Reduce, Alike),
        "ALLREDUCE" => (Collective::AllReduce, Alike),
        "GATHER" => (Collective::Gather, Alike),
        "SCATTER" => (Collective::Scatter, Alike),
        "ALLGATHER" => (Collective::AllGather, Alike),
        "ALLTOALL" => (Collective::AllToAll, Alike),
        "REDUCE_SCATTER_BLOCK" => (Collective::ReduceScatter, Alike),
        "SCAN" | "EXSCAN" => (Collective::Scan, Alike),
        "GATHERV" => (Collective::Gather, Own),
        "SCATTERV" => (Collective::Scatter, Own),
        "ALLGATHERV" => (Collective::AllGather, Own),
        "ALLTOALLV" | "ALLTOALLW" => (Collective::AllToAll, Own),
        "REDUCE_SCATTER" => (Collective::ReduceScatter, Own),
        _ => return None,
    })
}

/// Whether ranks have their own lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lengths {
    Alike,
    Own,
}

/// Returns the equal part of `total` per rank. If it is not divisible, divides by one rank fewer:
/// with `MPI_IN_PLACE`, a rank sends nothing to itself.
fn each(total: u64, ranks: u64) -> u64 {
    match ranks {
        0 | 1 => total,
        _ if !total.is_multiple_of(ranks) && total.is_multiple_of(ranks - 1) => total / (ranks - 1),
        _ => total.div_ceil(ranks),
    }
}

/// Returns the k-th part of `total`; the remainder is distributed over the first parts.
fn share(total: u64, ranks: usize, k: usize) -> u64 {
    let ranks = ranks as u64;
    total / ranks + u64::from((k as u64) < total % ranks)
}

/// Returns the length if all ranks have the same amount.
pub(super) fn alike(kind: Collective, root: Option<usize>, amounts: &[Amount]) -> u64 {
    let ranks = amounts.len() as u64;
    let all = amounts.iter().enumerate();
    // With `MPI_IN_PLACE` the root has no data for itself, but the other ranks have.
    let told = |of: fn(&Amount) -> u64| amounts.iter().map(of).max().unwrap_or_default();
    match kind {
        Collective::Barrier => 0,
        Collective::Reduce | Collective::Gather => told(|amount| amount.sent),
        Collective::Broadcast | Collective::Scatter => {
            let received = all.filter(|(place, _)| Some(*place) != root || ranks == 1);
            received
                .map(|(_, amount)| amount.received)
                .max()
                .unwrap_or_default()
        }
        // The first rank sends to all later ones, with `MPI_IN_PLACE` not to itself; the last
        // receives from all.
        Collective::Scan => each(told(|amount| amount.sent.max(amount.received)), ranks),
        Collective::AllReduce
        | Collective::AllGather
        | Collective::AllToAll
        | Collective::ReduceScatter => each(told(|amount| amount.received), ranks),
    }
}

/// Returns the part of the rank at `place` in an operation with lengths per rank.
pub(super) fn own(
    kind: Collective,
    (comm, root, slot): (usize, Option<usize>, Option<usize>),
    place: usize,
    amounts: &[Amount],
) -> Part {
    let ranks = amounts.len();
    let of_all = |of: &dyn Fn(&Amount) -> u64| amounts.iter().map(of).collect::<Vec<u64>>();
    let is_root = root == Some(place);
    let (out, back) = match kind {
        Collective::Gather if is_root => (vec![], of_all(&|amount| amount.sent)),
        Collective::Gather => (vec![amounts[place].sent], vec![]),
        Collective::Scatter if is_root => (of_all(&|amount| amount.received), vec![]),
        Collective::Scatter => (vec![], vec![amounts[place].received]),
        Collective::AllGather => (vec![], of_all(&|amount| each(amount.sent, ranks as u64))),
        Collective::ReduceScatter => (
            vec![],
            of_all(&|amount| each(amount.received, ranks as u64)),
        ),
        // The amounts per pair are unknown: each rank is assumed to send the same to all.
        _ => (
            (0..ranks)
                .map(|to| share(amounts[place].sent, ranks, to))
                .collect(),
            of_all(&|amount| share(amount.sent, ranks, place)),
        ),
    };
    Part::Varied {
        kind,
        comm,
        root,
        slot,
        out,
        back,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(all: &[(u64, u64)]) -> Vec<Amount> {
        all.iter()
            .map(|&(sent, received)| Amount { sent, received })
            .collect()
    }

    #[test]
    fn totals_become_lengths_per_rank_or_pair() {
        let four = |sent, received| amounts(&[(sent, received); 4]);
        assert_eq!(alike(Collective::AllReduce, None, &four(32, 32)), 8);
        // With `MPI_IN_PLACE`.
        assert_eq!(alike(Collective::AllToAll, None, &four(30, 30)), 10);
        let broadcast = amounts(&[(0, 100), (300, 100), (0, 100)]);
        assert_eq!(alike(Collective::Broadcast, Some(1), &broadcast), 100);
        let scattered = amounts(&[(20, 0), (0, 10), (0, 10)]);
        assert_eq!(alike(Collective::Scatter, Some(0), &scattered), 10);
        let reduced = amounts(&[(8, 0), (8, 0), (8, 24)]);
        assert_eq!(alike(Collective::Reduce, Some(2), &reduced), 8);
        let scanned = amounts(&[(24, 8), (16, 16), (8, 24)]);
        assert_eq!(alike(Collective::Scan, None, &scanned), 8);
        let alone = amounts(&[(7, 7)]);
        assert_eq!(alike(Collective::Broadcast, Some(0), &alone), 7);
        assert_eq!(alike(Collective::AllToAll, None, &alone), 7);
    }

    #[test]
    fn varying_lengths_are_collected_from_all_ranks() {
        let gathered = amounts(&[(5, 0), (6, 18), (7, 0)]);
        let lists =
            |kind, place, amounts: &[Amount]| match own(kind, (0, Some(1), None), place, amounts) {
                Part::Varied { out, back, .. } => (out, back),
                other => panic!("{other:?}"),
            };
        assert_eq!(
            lists(Collective::Gather, 1, &gathered),
            (vec![], vec![5, 6, 7])
        );
        assert_eq!(lists(Collective::Gather, 2, &gathered), (vec![7], vec![]));
        let each = amounts(&[(10, 9), (3, 9), (14, 9)]);
        let sent: Vec<_> = (0..3)
            .map(|place| lists(Collective::AllToAll, place, &each))
            .collect();
        for (from, (out, _)) in sent.iter().enumerate() {
            assert_eq!(out.iter().sum::<u64>(), each[from].sent);
            for (to, (_, back)) in sent.iter().enumerate() {
                assert_eq!(out[to], back[from]);
            }
        }
    }
}
