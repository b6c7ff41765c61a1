//! Parts of a call: its effects, as many as it needs.

use crate::number::{Bytes, Result, put, put_signed};

/// Kind of a collective operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collective {
    /// All ranks wait for all.
    Barrier,
    /// All ranks get the root's data.
    Broadcast,
    /// The root gets the combined data of all ranks.
    Reduce,
    /// All ranks get the combined data of all.
    AllReduce,
    /// The root gets each rank's data.
    Gather,
    /// Each rank gets its part of the root's data.
    Scatter,
    /// All ranks get each rank's data.
    AllGather,
    /// Each rank gets data from each rank.
    AllToAll,
    /// Each rank gets a part of the combined data of all.
    ReduceScatter,
    /// Each rank gets the combined data of the ranks before it.
    Scan,
}

const COLLECTIVES: [Collective; 10] = [
    Collective::Barrier,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllReduce,
    Collective::Gather,
    Collective::Scatter,
    Collective::AllGather,
    Collective::AllToAll,
    Collective::ReduceScatter,
    Collective::Scan,
];

/// Synchronization of accesses to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Synchronization {
    /// `MPI_Win_fence`: all ranks end their accesses and wait for all.
    Fence,
    /// `MPI_Win_post`: the targets may access this rank's memory.
    Post,
    /// `MPI_Win_start`: accesses to the targets begin.
    Start,
    /// `MPI_Win_complete`: accesses since the start have ended.
    Complete,
    /// `MPI_Win_wait`: accesses since the post have ended.
    Wait,
    /// `MPI_Win_lock`: accesses to one target begin.
    Lock,
    /// `MPI_Win_unlock`: accesses to it have ended.
    Unlock,
    /// `MPI_Win_lock_all`: accesses to all ranks begin.
    LockAll,
    /// `MPI_Win_unlock_all`: accesses to all ranks have ended.
    UnlockAll,
    /// `MPI_Win_flush` or `MPI_Win_flush_all`: accesses so far to one or all targets have ended.
    Flush,
}

const SYNCHRONIZATIONS: [Synchronization; 10] = [
    Synchronization::Fence,
    Synchronization::Post,
    Synchronization::Start,
    Synchronization::Complete,
    Synchronization::Wait,
    Synchronization::Lock,
    Synchronization::Unlock,
    Synchronization::LockAll,
    Synchronization::UnlockAll,
    Synchronization::Flush,
];

/// A part of a call. Communicators, windows and requests have numbers of the rank's own; peers are
/// ranks within the communicator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// Sent a message; its buffer is reusable when the call ends.
    Send {
        /// The communicator.
        comm: usize,
        /// The destination.
        peer: usize,
        /// The tag.
        tag: u32,
        /// Length in bytes.
        bytes: u64,
    },
    /// Received a message.
    Receive {
        /// The communicator.
        comm: usize,
        /// The source.
        peer: usize,
        /// The tag.
        tag: u32,
        /// Length in bytes.
        bytes: u64,
    },
    /// Began a nonblocking send.
    BeginSend {
        /// The request.
        slot: usize,
        /// The communicator.
        comm: usize,
        /// The destination.
        peer: usize,
        /// The tag.
        tag: u32,
        /// Length in bytes.
        bytes: u64,
    },
    /// Began a nonblocking receive.
    BeginReceive {
        /// The request.
        slot: usize,
        /// The communicator.
        comm: usize,
        /// The source; `None` for any.
        peer: Option<usize>,
        /// The tag; `None` for any.
        tag: Option<u32>,
        /// Maximum length in bytes.
        bytes: u64,
    },
    /// Completed a request that is not a receive.
    Done {
        /// The request.
        slot: usize,
    },
    /// Completed a receive request.
    Received {
        /// The request.
        slot: usize,
        /// The source.
        peer: usize,
        /// The tag.
        tag: u32,
        /// Length in bytes.
        bytes: u64,
    },
    /// Completed a request that was cancelled.
    Cancelled {
        /// The request.
        slot: usize,
    },
    /// Freed a request that is still active.
    Freed {
        /// The request.
        slot: usize,
    },
    /// A collective operation with the same amount on all ranks.
    Collective {
        /// Kind of the operation.
        kind: Collective,
        /// The communicator.
        comm: usize,
        /// The root, if there is one.
        root: Option<usize>,
        /// The request of a nonblocking operation.
        slot: Option<usize>,
        /// Bytes of the whole for combined or forwarded data; bytes of each pair for operations
        /// with parts.
        bytes: u64,
    },
    /// A collective operation with amounts per rank.
    Varied {
        /// Kind of the operation.
        kind: Collective,
        /// The communicator.
        comm: usize,
        /// The root, if there is one.
        root: Option<usize>,
        /// The request of a nonblocking operation.
        slot: Option<usize>,
        /// Bytes to each, as far as this rank knows them.
        out: Vec<u64>,
        /// Bytes from each, as far as this rank knows them.
        back: Vec<u64>,
    },
    /// Created a communicator, or first used it.
    Communicator {
        /// Its number.
        number: usize,
        /// Ranks of its members in MPI_COMM_WORLD.
        members: Vec<usize>,
        /// Ranks of the remote group of an intercommunicator; otherwise empty.
        remote: Vec<usize>,
    },
    /// Freed a communicator.
    CommunicatorFreed {
        /// Its number.
        number: usize,
    },
    /// Created a window.
    Window {
        /// Its number.
        number: usize,
        /// The communicator.
        comm: usize,
    },
    /// Freed a window.
    WindowFreed {
        /// Its number.
        number: usize,
    },
    /// Began an access to a window.
    Access {
        /// The window.
        window: usize,
        /// The target rank.
        target: usize,
        /// Bytes to the target.
        out: u64,
        /// Bytes back from the target.
        back: u64,
        /// The request, if it has one.
        slot: Option<usize>,
    },
    /// Synchronized accesses to a window.
    Synchronized {
        /// The window.
        window: usize,
        /// Kind of the synchronization.
        kind: Synchronization,
        /// The affected ranks; empty for all.
        targets: Vec<usize>,
    },
    /// An exchange with the neighbors of a topology.
    Neighbors {
        /// The communicator.
        comm: usize,
        /// The request of a nonblocking operation.
        slot: Option<usize>,
        /// Destinations and bytes.
        out: Vec<(usize, u64)>,
        /// Sources and bytes.
        back: Vec<(usize, u64)>,
    },
    /// The rank called MPI_Finalize.
    Finalized,
}

/// Ends the parts; the call's name follows.
pub(crate) const CALL: u64 = 0;
const ANY: i64 = -2;
const BLOCKING: i64 = -1;

fn any_or<T: TryFrom<i64>>(number: i64, what: &str) -> Result<Option<T>> {
    match number {
        ANY => Ok(None),
        number => match T::try_from(number) {
            Ok(known) => Ok(Some(known)),
            Err(_) => Err(format!("{number} is not a {what}")),
        },
    }
}

fn peer(bytes: &mut Bytes<'_>) -> Result<Option<usize>> {
    let known: Option<u32> = any_or(bytes.signed()?, "rank")?;
    Ok(known.map(|rank| rank as usize))
}

fn tag(bytes: &mut Bytes<'_>) -> Result<Option<u32>> {
    any_or(bytes.signed()?, "tag")
}

fn known<T>(found: Option<T>, what: &str) -> Result<T> {
    found.ok_or_else(|| format!("a message that came or went has any {what}"))
}

fn slot(bytes: &mut Bytes<'_>) -> Result<Option<usize>> {
    match bytes.signed()? {
        BLOCKING => Ok(None),
        number => match u32::try_from(number) {
            Ok(slot) => Ok(Some(slot as usize)),
            Err(_) => Err(format!("{number} is not a request")),
        },
    }
}

/// Roots are ranks; negative for intercommunicators and for operations without a root.
fn root(bytes: &mut Bytes<'_>) -> Result<Option<usize>> {
    Ok(u32::try_from(bytes.signed()?)
        .ok()
        .map(|rank| rank as usize))
}

fn kind<T: Copy>(bytes: &mut Bytes<'_>, all: &[T], what: &str) -> Result<T> {
    let number = bytes.size()?;
    let found = all.get(number).copied();
    found.ok_or_else(|| format!("there is no {what} with number {number}"))
}

/// Parses ranks, each encoded as the difference from the previous one plus 1.
fn members(bytes: &mut Bytes<'_>) -> Result<Vec<usize>> {
    let mut expected = 0i64;
    bytes.list(|bytes| {
        let member = bytes.signed()?.checked_add(expected);
        let rank = member.and_then(|member| u32::try_from(member).ok());
        let rank = rank.ok_or("a member of a communicator is not a rank")?;
        expected = i64::from(rank) + 1;
        Ok(rank as usize)
    })
}

fn put_members(bytes: &mut Vec<u8>, members: &[usize]) {
    put(bytes, members.len() as u64);
    let mut expected = 0;
    for &member in members {
        put_signed(bytes, member as i64 - expected);
        expected = member as i64 + 1;
    }
}

fn put_slot(bytes: &mut Vec<u8>, slot: Option<usize>) {
    put_signed(bytes, slot.map_or(BLOCKING, |slot| slot as i64));
}

fn put_list(bytes: &mut Vec<u8>, list: &[u64]) {
    put(bytes, list.len() as u64);
    list.iter().for_each(|&number| put(bytes, number));
}

fn put_pairs(bytes: &mut Vec<u8>, list: &[(usize, u64)]) {
    put(bytes, list.len() as u64);
    for &(rank, amount) in list {
        put(bytes, rank as u64);
        put(bytes, amount);
    }
}

impl Part {
    /// Parses the parts of a call and the index of its name.
    pub(crate) fn all_of(bytes: &[u8]) -> Result<(Vec<Part>, usize)> {
        let mut bytes = Bytes::new(bytes);
        let mut parts = Vec::new();
        loop {
            match bytes.number()? {
                CALL => break,
                tag => parts.push(Part::read(tag, &mut bytes)?),
            }
        }
        let name = bytes.size()?;
        match bytes.is_empty() {
            true => Ok((parts, name)),
            false => Err("bytes follow after a call".to_owned()),
        }
    }

    fn read(number: u64, bytes: &mut Bytes<'_>) -> Result<Part> {
        Ok(match number {
            1 => Part::Send {
                comm: bytes.size()?,
                peer: known(peer(bytes)?, "rank")?,
                tag: known(tag(bytes)?, "tag")?,
                bytes: bytes.number()?,
            },
            2 => Part::Receive {
                comm: bytes.size()?,
                peer: known(peer(bytes)?, "rank")?,
                tag: known(tag(bytes)?, "tag")?,
                bytes: bytes.number()?,
            },
            3 => Part::BeginSend {
                slot: bytes.size()?,
                comm: bytes.size()?,
                peer: known(peer(bytes)?, "rank")?,
                tag: known(tag(bytes)?, "tag")?,
                bytes: bytes.number()?,
            },
            4 => Part::BeginReceive {
                slot: bytes.size()?,
                comm: bytes.size()?,
                peer: peer(bytes)?,
                tag: tag(bytes)?,
                bytes: bytes.number()?,
            },
            5 => Part::Done {
                slot: bytes.size()?,
            },
            6 => Part::Received {
                slot: bytes.size()?,
                peer: known(peer(bytes)?, "rank")?,
                tag: known(tag(bytes)?, "tag")?,
                bytes: bytes.number()?,
            },
            7 => Part::Cancelled {
                slot: bytes.size()?,
            },
            8 => Part::Freed {
                slot: bytes.size()?,
            },
            9 => Part::Collective {
                kind: kind(bytes, &COLLECTIVES, "collective operation")?,
                comm: bytes.size()?,
                root: root(bytes)?,
                slot: slot(bytes)?,
                bytes: bytes.number()?,
            },
            10 => Part::Varied {
                kind: kind(bytes, &COLLECTIVES, "collective operation")?,
                comm: bytes.size()?,
                root: root(bytes)?,
                slot: slot(bytes)?,
                out: bytes.list(Bytes::number)?,
                back: bytes.list(Bytes::number)?,
            },
            11 => Part::Communicator {
                number: bytes.size()?,
                members: members(bytes)?,
                remote: members(bytes)?,
            },
            12 => Part::CommunicatorFreed {
                number: bytes.size()?,
            },
            13 => Part::Window {
                number: bytes.size()?,
                comm: bytes.size()?,
            },
            14 => Part::WindowFreed {
                number: bytes.size()?,
            },
            15 => Part::Access {
                window: bytes.size()?,
                target: bytes.size()?,
                out: bytes.number()?,
                back: bytes.number()?,
                slot: slot(bytes)?,
            },
            16 => Part::Synchronized {
                window: bytes.size()?,
                kind: kind(bytes, &SYNCHRONIZATIONS, "synchronization")?,
                targets: bytes.list(Bytes::size)?,
            },
            17 => Part::Neighbors {
                comm: bytes.size()?,
                slot: slot(bytes)?,
                out: bytes.list(|bytes| Ok((bytes.size()?, bytes.number()?)))?,
                back: bytes.list(|bytes| Ok((bytes.size()?, bytes.number()?)))?,
            },
            18 => Part::Finalized,
            other => return Err(format!("there is no part of a call with number {other}")),
        })
    }

    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let message = |to: &mut Vec<u8>, comm: usize, peer: usize, tag: u32, bytes: u64| {
            put(to, comm as u64);
            put_signed(to, peer as i64);
            put_signed(to, i64::from(tag));
            put(to, bytes);
        };
        match self {
            &Part::Send {
                comm,
                peer,
                tag,
                bytes,
            } => {
                put(to, 1);
                message(to, comm, peer, tag, bytes);
            }
            &Part::Receive {
                comm,
                peer,
                tag,
                bytes,
            } => {
                put(to, 2);
                message(to, comm, peer, tag, bytes);
            }
            &Part::BeginSend {
                slot,
                comm,
                peer,
                tag,
                bytes,
            } => {
                put(to, 3);
                put(to, slot as u64);
                message(to, comm, peer, tag, bytes);
            }
            &Part::BeginReceive {
                slot,
                comm,
                peer,
                tag,
                bytes,
            } => {
                put(to, 4);
                put(to, slot as u64);
                put(to, comm as u64);
                put_signed(to, peer.map_or(ANY, |peer| peer as i64));
                put_signed(to, tag.map_or(ANY, i64::from));
                put(to, bytes);
            }
            &Part::Done { slot } => {
                put(to, 5);
                put(to, slot as u64);
            }
            &Part::Received {
                slot,
                peer,
                tag,
                bytes,
            } => {
                put(to, 6);
                put(to, slot as u64);
                put_signed(to, peer as i64);
                put_signed(to, i64::from(tag));
                put(to, bytes);
            }
            &Part::Cancelled { slot } => {
                put(to, 7);
                put(to, slot as u64);
            }
            &Part::Freed { slot } => {
                put(to, 8);
                put(to, slot as u64);
            }
            &Part::Collective {
                kind,
                comm,
                root,
                slot,
                bytes,
            } => {
                put(to, 9);
                put(to, kind as u64);
                put(to, comm as u64);
                put_signed(to, root.map_or(-1, |root| root as i64));
                put_slot(to, slot);
                put(to, bytes);
            }
            Part::Varied {
                kind,
                comm,
                root,
                slot,
                out,
                back,
            } => {
                put(to, 10);
                put(to, *kind as u64);
                put(to, *comm as u64);
                put_signed(to, root.map_or(-1, |root| root as i64));
                put_slot(to, *slot);
                put_list(to, out);
                put_list(to, back);
            }
            Part::Communicator {
                number,
                members,
                remote,
            } => {
                put(to, 11);
                put(to, *number as u64);
                put_members(to, members);
                put_members(to, remote);
            }
            &Part::CommunicatorFreed { number } => {
                put(to, 12);
                put(to, number as u64);
            }
            &Part::Window { number, comm } => {
                put(to, 13);
                put(to, number as u64);
                put(to, comm as u64);
            }
            &Part::WindowFreed { number } => {
                put(to, 14);
                put(to, number as u64);
            }
            &Part::Access {
                window,
                target,
                out,
                back,
                slot,
            } => {
                put(to, 15);
                put(to, window as u64);
                put(to, target as u64);
                put(to, out);
                put(to, back);
                put_slot(to, slot);
            }
            Part::Synchronized {
                window,
                kind,
                targets,
            } => {
                put(to, 16);
                put(to, *window as u64);
                put(to, *kind as u64);
                put(to, targets.len() as u64);
                targets.iter().for_each(|&target| put(to, target as u64));
            }
            Part::Neighbors {
                comm,
                slot,
                out,
                back,
            } => {
                put(to, 17);
                put(to, *comm as u64);
                put_slot(to, *slot);
                put_pairs(to, out);
                put_pairs(to, back);
            }
            Part::Finalized => put(to, 18),
        }
    }
}
