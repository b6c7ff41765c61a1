//! Actions of a trace.

use super::arguments::{ANY_TAG, Arguments};
use super::collective::{self, Operation};
use std::sync::Arc;

/// Identifies a request in a trace: source, destination and tag as written.
pub(super) type Key = (i64, i64, i64);
/// Key of the requests of nonblocking collective operations: they complete in order.
pub(super) const COLLECTIVE: Key = (i64::MIN, i64::MIN, i64::MIN);
/// Tag of messages of `MPI_Sendrecv`, whose tags are not in the trace. Other tags are smaller.
pub(super) const EXCHANGE_TAG: u32 = 1 << 31;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Init,
    Finalize,
    /// Has no effect.
    Omitted,
    /// Computes a number of flops.
    Compute(f64),
    /// Sleeps for seconds.
    Sleep(f64),
    Send {
        name: &'static str,
        /// `None` for `MPI_PROC_NULL`.
        peer: Option<usize>,
        tag: u32,
        bytes: u64,
        /// The key of a nonblocking operation.
        key: Option<Key>,
    },
    Receive {
        /// `None` for any.
        peer: Option<usize>,
        /// `None` for any.
        tag: Option<u32>,
        bytes: u64,
        /// The key of a nonblocking operation.
        key: Option<Key>,
        /// Whether the source is `MPI_PROC_NULL`.
        is_null: bool,
    },
    /// `MPI_Sendrecv`; a peer is `None` for any.
    Exchange {
        to: usize,
        sent: u64,
        from: Option<usize>,
    },
    Wait(Key),
    /// `MPI_Test`; completes the request if `ends`.
    Test {
        key: Key,
        ends: bool,
    },
    WaitAny,
    /// `MPI_Waitall` of a number of requests.
    WaitAll(u64),
    Collective(Arc<Operation>),
}

const UNCLEAR: &str = "the trace does not show which requests completed; SimGrid cannot replay it \
                       either: use MPI_Wait, MPI_Waitall or MPI_Test";

impl Action {
    /// Parses an action of a rank. Names differ in case between versions of SimGrid.
    pub fn parse(rank: usize, name: &str, mut words: Arguments<'_>) -> Result<Action, String> {
        let name = name.to_ascii_lowercase();
        let own = rank as i64;
        let action = match name.as_str() {
            "init" => {
                words.optional();
                Action::Init
            }
            "finalize" => Action::Finalize,
            "comm_size" | "comm_split" | "comm_dup" | "location" => return Ok(Action::Omitted),
            "compute" => Action::Compute(words.amount()?),
            "sleep" => Action::Sleep(words.amount()?),
            "send" => send("MPI_Send", None, &mut words)?,
            "ssend" => send("MPI_Ssend", None, &mut words)?,
            "bsend" => send("MPI_Bsend", None, &mut words)?,
            "isend" => send("MPI_Isend", Some(own), &mut words)?,
            "issend" => send("MPI_Issend", Some(own), &mut words)?,
            "ibsend" => send("MPI_Ibsend", Some(own), &mut words)?,
            "recv" => receive(None, &mut words)?,
            "irecv" => receive(Some(own), &mut words)?,
            "sendrecv" => {
                let count = words.count()?;
                let to = words.peer()?;
                words.count()?;
                let from = words.peer()?;
                let (datatype, _) = (words.optional(), words.optional());
                Action::Exchange {
                    to: to.ok_or("a message is sent to no rank")?,
                    sent: words.bytes(count, datatype)?,
                    from,
                }
            }
            "wait" => Action::Wait(key(&mut words)?),
            "test" => Action::Test {
                key: key(&mut words)?,
                ends: false,
            },
            "waitany" => {
                words.optional();
                Action::WaitAny
            }
            "waitall" => Action::WaitAll(match words.optional() {
                Some(count) => count
                    .parse()
                    .map_err(|_| format!("{count} is not a number of requests"))?,
                None => u64::MAX,
            }),
            "testall" | "testany" | "testsome" | "waitsome" => return Err(UNCLEAR.to_owned()),
            "start" | "startall" => {
                return Err("the trace lacks the peers of persistent requests".to_owned());
            }
            "put" | "get" | "accumulate" | "win_fence" => {
                return Err("one-sided communication is not imported".to_owned());
            }
            other => match collective::parse(rank, other, &mut words)? {
                Some(operation) => Action::Collective(Arc::new(operation)),
                None => return Err("the action is unknown".to_owned()),
            },
        };
        words.end()?;
        Ok(action)
    }
}

fn send(name: &'static str, own: Option<i64>, words: &mut Arguments<'_>) -> Result<Action, String> {
    let peer = words.peer()?;
    let tag = words.tag()?.ok_or("a message is sent with any tag")?;
    let count = words.count()?;
    let datatype = words.optional();
    let raw = peer.map_or(super::arguments::ANY_SOURCE, |peer| peer as i64);
    Ok(Action::Send {
        name,
        peer,
        tag,
        bytes: words.bytes(count, datatype)?,
        key: own.map(|own| (own, raw, i64::from(tag))),
    })
}

fn receive(own: Option<i64>, words: &mut Arguments<'_>) -> Result<Action, String> {
    let (peer, tag) = (words.peer()?, words.tag()?);
    let count = words.count()?;
    let datatype = words.optional();
    let raw = peer.map_or(super::arguments::ANY_SOURCE, |peer| peer as i64);
    Ok(Action::Receive {
        peer,
        tag,
        bytes: words.bytes(count, datatype)?,
        key: own.map(|own| (raw, own, tag.map_or(ANY_TAG, i64::from))),
        is_null: false,
    })
}

/// Parses the key of a request. Requests of collective operations have internal tags below zero,
/// and numbers of processes in place of ranks.
fn key(words: &mut Arguments<'_>) -> Result<Key, String> {
    let (from, to, tag) = (words.signed()?, words.signed()?, words.signed()?);
    Ok(match tag < 0 && tag != ANY_TAG {
        true => COLLECTIVE,
        false => (from, to, tag),
    })
}
