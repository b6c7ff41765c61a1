//! Collective operations: their lines, and whether those of all ranks agree.

use super::arguments::Arguments;
use crate::part::{Collective, Part};

/// A rank's view of a collective operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    pub name: &'static str,
    pub is_blocking: bool,
    kind: Collective,
    root: Option<usize>,
    amounts: Amounts,
    /// Flops that follow the operation.
    pub flops: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Amounts {
    Alike(u64),
    Varied { out: Vec<u64>, back: Vec<u64> },
}

/// Arguments of an operation.
#[derive(Clone, Copy)]
enum Shape {
    /// None.
    Empty,
    /// COUNT [ROOT [TYPE]]
    Broadcast,
    /// COUNT FLOPS [ROOT [TYPE]]
    Reduce,
    /// COUNT FLOPS [TYPE]
    Combined,
    /// SENT RECEIVED [ROOT [TYPE TYPE]]
    Gather,
    /// SENT RECEIVED [ROOT [TYPE TYPE]]
    Scatter,
    /// SENT RECEIVED [TYPE TYPE]
    Each,
    /// SENT RECEIVED... [ROOT [TYPE TYPE]]
    GatherVaried,
    /// SENT... RECEIVED [ROOT [TYPE TYPE]]
    ScatterVaried,
    /// SENT RECEIVED... [TYPE TYPE]
    AllGatherVaried,
    /// RECEIVED... FLOPS [TYPE]
    ReduceScatter,
    /// LENGTH SENT... LENGTH RECEIVED... [TYPE TYPE]
    AllToAllVaried,
}

type Row = (&'static str, &'static str, &'static str, Collective, Shape);

const OPERATIONS: [Row; 15] = {
    use Collective as Of;
    [
        (
            "barrier",
            "MPI_Barrier",
            "MPI_Ibarrier",
            Of::Barrier,
            Shape::Empty,
        ),
        (
            "bcast",
            "MPI_Bcast",
            "MPI_Ibcast",
            Of::Broadcast,
            Shape::Broadcast,
        ),
        (
            "reduce",
            "MPI_Reduce",
            "MPI_Ireduce",
            Of::Reduce,
            Shape::Reduce,
        ),
        (
            "allreduce",
            "MPI_Allreduce",
            "MPI_Iallreduce",
            Of::AllReduce,
            Shape::Combined,
        ),
        ("scan", "MPI_Scan", "MPI_Iscan", Of::Scan, Shape::Combined),
        (
            "exscan",
            "MPI_Exscan",
            "MPI_Iexscan",
            Of::Scan,
            Shape::Combined,
        ),
        (
            "gather",
            "MPI_Gather",
            "MPI_Igather",
            Of::Gather,
            Shape::Gather,
        ),
        (
            "scatter",
            "MPI_Scatter",
            "MPI_Iscatter",
            Of::Scatter,
            Shape::Scatter,
        ),
        (
            "allgather",
            "MPI_Allgather",
            "MPI_Iallgather",
            Of::AllGather,
            Shape::Each,
        ),
        (
            "alltoall",
            "MPI_Alltoall",
            "MPI_Ialltoall",
            Of::AllToAll,
            Shape::Each,
        ),
        (
            "gatherv",
            "MPI_Gatherv",
            "MPI_Igatherv",
            Of::Gather,
            Shape::GatherVaried,
        ),
        (
            "scatterv",
            "MPI_Scatterv",
            "MPI_Iscatterv",
            Of::Scatter,
            Shape::ScatterVaried,
        ),
        (
            "allgatherv",
            "MPI_Allgatherv",
            "MPI_Iallgatherv",
            Of::AllGather,
            Shape::AllGatherVaried,
        ),
        (
            "reducescatter",
            "MPI_Reduce_scatter",
            "MPI_Ireduce_scatter",
            Of::ReduceScatter,
            Shape::ReduceScatter,
        ),
        (
            "alltoallv",
            "MPI_Alltoallv",
            "MPI_Ialltoallv",
            Of::AllToAll,
            Shape::AllToAllVaried,
        ),
    ]
};

/// Parses an operation; `None` if no operation has this name.
pub(super) fn parse(
    rank: usize,
    name: &str,
    words: &mut Arguments<'_>,
) -> Result<Option<Operation>, String> {
    let find = |name: &str| OPERATIONS.iter().find(|row| row.0 == name);
    let (row, is_blocking) = match (find(name), name.strip_prefix('i').and_then(find)) {
        (Some(row), _) => (row, true),
        (None, Some(row)) => (row, false),
        (None, None) => return Ok(None),
    };
    let &(_, blocking, nonblocking, kind, shape) = row;
    let mut operation = Operation {
        name: if is_blocking { blocking } else { nonblocking },
        is_blocking,
        kind,
        root: None,
        amounts: Amounts::Alike(0),
        flops: 0.0,
    };
    let parsed = arguments(rank, shape, words, &mut operation).and_then(|()| words.end());
    parsed.map_err(|reason| match shape {
        Shape::ReduceScatter if reason.contains("arguments") => format!(
            "{reason}; SimGrid writes MPI_Reduce_scatter_block without its count: use \
             MPI_Reduce_scatter"
        ),
        _ => reason,
    })?;
    Ok(Some(operation))
}

fn arguments(
    rank: usize,
    shape: Shape,
    words: &mut Arguments<'_>,
    operation: &mut Operation,
) -> Result<(), String> {
    let bytes_of =
        |words: &Arguments<'_>, counts: Vec<u64>, datatype| -> Result<Vec<u64>, String> {
            counts
                .into_iter()
                .map(|count| words.bytes(count, datatype))
                .collect()
        };
    operation.amounts = match shape {
        Shape::Empty => Amounts::Alike(0),
        Shape::Broadcast => {
            let count = words.count()?;
            operation.root = Some(words.root()?);
            let datatype = words.optional();
            Amounts::Alike(words.bytes(count, datatype)?)
        }
        Shape::Reduce | Shape::Combined => {
            let count = words.count()?;
            operation.flops = words.amount()?;
            if let Shape::Reduce = shape {
                operation.root = Some(words.root()?);
            }
            let datatype = words.optional();
            Amounts::Alike(words.bytes(count, datatype)?)
        }
        Shape::Gather | Shape::Scatter | Shape::Each => {
            let (sent, received) = (words.count()?, words.count()?);
            // With MPI_IN_PLACE, and where an argument is not significant, one side is empty.
            let is_receiver = match shape {
                Shape::Each => true,
                _ => {
                    let root = words.root()?;
                    operation.root = Some(root);
                    (root == rank) == matches!(shape, Shape::Gather)
                }
            };
            let (sent_type, received_type) = (words.optional(), words.optional());
            Amounts::Alike(match is_receiver {
                true => words.bytes(received, received_type)?,
                false => words.bytes(sent, sent_type)?,
            })
        }
        Shape::GatherVaried => {
            let (sent, received) = (words.count()?, words.counts()?);
            let root = words.root()?;
            operation.root = Some(root);
            let (sent_type, received_type) = (words.optional(), words.optional());
            match root == rank {
                true => Amounts::Varied {
                    out: vec![],
                    back: bytes_of(words, received, received_type)?,
                },
                false => Amounts::Varied {
                    out: vec![words.bytes(sent, sent_type)?],
                    back: vec![],
                },
            }
        }
        Shape::ScatterVaried => {
            let (sent, received) = (words.counts()?, words.count()?);
            let root = words.root()?;
            operation.root = Some(root);
            let (sent_type, received_type) = (words.optional(), words.optional());
            match root == rank {
                true => Amounts::Varied {
                    out: bytes_of(words, sent, sent_type)?,
                    back: vec![],
                },
                false => Amounts::Varied {
                    out: vec![],
                    back: vec![words.bytes(received, received_type)?],
                },
            }
        }
        Shape::AllGatherVaried => {
            words.count()?;
            let received = words.counts()?;
            let (_, received_type) = (words.optional(), words.optional());
            Amounts::Varied {
                out: vec![],
                back: bytes_of(words, received, received_type)?,
            }
        }
        Shape::ReduceScatter => {
            let received = words.counts()?;
            operation.flops = words.amount()?;
            let datatype = words.optional();
            Amounts::Varied {
                out: vec![],
                back: bytes_of(words, received, datatype)?,
            }
        }
        Shape::AllToAllVaried => {
            words.count()?;
            let sent = words.counts()?;
            words.count()?;
            let received = words.counts()?;
            let (sent_type, received_type) = (words.optional(), words.optional());
            Amounts::Varied {
                out: bytes_of(words, sent, sent_type)?,
                back: bytes_of(words, received, received_type)?,
            }
        }
    };
    Ok(())
}

impl Operation {
    pub fn part(&self, slot: Option<usize>) -> Part {
        let (kind, comm, root) = (self.kind, 0, self.root);
        match &self.amounts {
            &Amounts::Alike(bytes) => Part::Collective {
                kind,
                comm,
                root,
                slot,
                bytes,
            },
            Amounts::Varied { out, back } => Part::Varied {
                kind,
                comm,
                root,
                slot,
                out: out.clone(),
                back: back.clone(),
            },
        }
    }
}

/// Returns the first rank whose view of an operation contradicts an earlier rank's, and that rank.
pub(super) fn disagreeing(all: &[&Operation]) -> Option<(usize, usize)> {
    let first = all.first()?;
    let alike = |other: &Operation| {
        (first.name, first.root) == (other.name, other.root)
            && match (&first.amounts, &other.amounts) {
                (Amounts::Alike(one), Amounts::Alike(other)) => one == other,
                _ => true,
            }
    };
    if let Some(rank) = all.iter().position(|other| !alike(other)) {
        return Some((rank, 0));
    }
    let lists = |rank: usize| match &all[rank].amounts {
        Amounts::Varied { out, back } => (out.as_slice(), back.as_slice()),
        Amounts::Alike(_) => (&[][..], &[][..]),
    };
    match (&first.amounts, first.kind, first.root) {
        (Amounts::Alike(_), ..) => None,
        (_, Collective::AllGather | Collective::ReduceScatter, _) => (1..all.len())
            .find(|&rank| lists(rank).1 != lists(0).1)
            .map(|rank| (rank, 0)),
        (_, Collective::Gather, Some(root)) => (0..all.len())
            .find(|&rank| rank != root && lists(root).1.get(rank) != lists(rank).0.first())
            .map(|rank| (rank, root)),
        (_, Collective::Scatter, Some(root)) => (0..all.len())
            .find(|&rank| rank != root && lists(root).0.get(rank) != lists(rank).1.first())
            .map(|rank| (rank, root)),
        _ => (0..all.len()).find_map(|from| {
            let differs = |to: &usize| lists(from).0.get(*to) != lists(*to).1.get(from);
            let to = (0..all.len()).find(differs)?;
            Some((from, to))
        }),
    }
}
