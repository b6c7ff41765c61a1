//! The rounds of a recorded collective operation.

use verbena_model::mpi::{Member, Round};
use verbena_model::profile::Mpi;
use verbena_mpi_trace::Collective;

/// Amounts of data of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Amounts {
    /// The same amount on all ranks.
    Alike(u64),
    /// Bytes to each and bytes from each rank, as far as this rank knows them.
    Varied(Vec<u64>, Vec<u64>),
}

/// Returns the rounds of an operation.
///
/// # Errors
///
/// Returns a description of missing amounts.
pub(super) fn rounds(
    kind: Collective,
    member: Member,
    root: Option<usize>,
    amounts: &Amounts,
    library: &Mpi,
) -> Result<Vec<Round>, String> {
    match amounts {
        Amounts::Alike(bytes) => alike(kind, member, root, *bytes, library),
        Amounts::Varied(out, back) => varied(kind, member, root, out, back),
    }
}

fn rooted(member: Member, root: Option<usize>) -> Result<usize, String> {
    let root = root.filter(|&root| root < member.size);
    root.ok_or_else(|| "a collective operation has no root among its ranks".to_owned())
}

fn alike(
    kind: Collective,
    member: Member,
    root: Option<usize>,
    bytes: u64,
    library: &Mpi,
) -> Result<Vec<Round>, String> {
    Ok(match kind {
        Collective::Barrier => member.barrier_of(library),
        Collective::AllReduce => member.all_reduce(bytes, library),
        Collective::AllGather => member.all_gather(bytes, library),
        Collective::AllToAll => member.all_to_all(bytes, library),
        Collective::ReduceScatter => member.reduce_scatter_of(bytes, library),
        Collective::Scan => member.scan(bytes),
        Collective::Broadcast => member.broadcast(rooted(member, root)?, bytes, library),
        Collective::Reduce => member.reduce_of(rooted(member, root)?, bytes, library),
        Collective::Gather => member.gather_of(rooted(member, root)?, bytes, library),
        Collective::Scatter => member.scatter_of(rooted(member, root)?, bytes, library),
    })
}

fn varied(
    kind: Collective,
    member: Member,
    root: Option<usize>,
    out: &[u64],
    back: &[u64],
) -> Result<Vec<Round>, String> {
    let of_all = |amounts: &[u64]| match amounts.len() == member.size {
        true => Ok(()),
        false => Err(format!(
            "a collective operation of {} ranks has {} lengths",
            member.size,
            amounts.len()
        )),
    };
    let own = |amounts: &[u64]| amounts.first().copied().unwrap_or_default();
    Ok(match kind {
        Collective::Gather => {
            let root = rooted(member, root)?;
            if member.place == root {
                of_all(back)?;
            }
            member.gather_directly(root, |place| back[place], own(out))
        }
        Collective::Scatter => {
            let root = rooted(member, root)?;
            if member.place == root {
                of_all(out)?;
            }
            member.scatter_directly(root, |place| out[place], own(back))
        }
        Collective::AllGather => {
            of_all(back)?;
            member.gather_round_a_ring(|place| back[place])
        }
        Collective::ReduceScatter => {
            of_all(back)?;
            member.pairwise(|place| back[place], |_| back[member.place])
        }
        Collective::AllToAll => {
            of_all(out)?;
            of_all(back)?;
            member.pairwise(|place| out[place], |place| back[place])
        }
        _ => {
            let text = "a collective operation of this kind has no lengths per rank";
            return Err(text.to_owned());
        }
    })
}
