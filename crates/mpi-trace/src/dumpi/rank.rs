//! Converts the calls of each rank.

use super::call::{Call, Calls, Status};
use super::communicators::{Created, Events, created};
use super::file::File;
use super::request::{Kind, Requests, received};
use super::{COMM_NULL, COMM_SELF, COMM_WORLD, Error};
use crate::Fault;
use crate::part::{Collective, Part};
use crate::writer::Writer;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

/// Maximum number of ranks.
const MOST_RANKS: usize = 1 << 13;

/// A trace in our format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The files of the ranks, in order.
    pub ranks: Vec<Vec<u8>>,
    /// Omitted content, and how often it occurred.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// Imports the files of all ranks. `read` returns the content of a rank's file; it is called twice
/// for each.
///
/// # Errors
///
/// Returns [`Error`] if a file cannot be read, is of another format or incomplete, or has a call
/// that cannot be imported.
pub fn import(
    files: &[String],
    read: impl Fn(usize) -> io::Result<Vec<u8>>,
) -> Result<Imported, Error> {
    if files.is_empty() || files.len() > MOST_RANKS {
        let reason = format!("{} ranks; a trace has 1 to {MOST_RANKS}", files.len());
        return Err(Error::Lacking(reason));
    }
    let read = |rank: usize| {
        read(rank).map_err(|source| Error::Unreadable {
            file: files[rank].clone(),
            source,
        })
    };
    let within = |rank: usize, fault: Fault| Error::File {
        file: files[rank].clone(),
        fault,
    };
    let mut events = Vec::new();
    for rank in 0..files.len() {
        let bytes = read(rank)?;
        events.push(events_of(&bytes).map_err(|fault| within(rank, fault))?);
    }
    let mut imported = Imported {
        ranks: Vec::new(),
        left_out: BTreeMap::new(),
    };
    for (rank, created) in created(files, events)?.into_iter().enumerate() {
        let bytes = read(rank)?;
        let file = File::open(&bytes).map_err(|fault| within(rank, fault))?;
        let converted = Rank::new(rank, files.len(), &file, created)
            .convert(&mut imported.left_out)
            .map_err(|fault| within(rank, fault))?;
        imported.ranks.push(converted);
    }
    Ok(imported)
}

/// Returns the calls of a file that create communicators.
fn events_of(bytes: &[u8]) -> Result<Events, Fault> {
    let file = File::open(bytes)?;
    let mut events = Events::default();
    for call in Calls::new(&file)? {
        let call = call?;
        let at = call.at;
        let added = events.add(call);
        added.map_err(|reason| Fault { at, reason })?;
    }
    Ok(events)
}

/// A communicator: its members, and the rank's place among them.
#[derive(Debug, Clone)]
struct Communicator {
    members: Arc<[usize]>,
    place: usize,
}

struct Rank<'a> {
    number: usize,
    file: &'a File<'a>,
    writer: Writer,
    communicators: HashMap<u16, Communicator>,
    created: Created,
    requests: Requests,
    /// End of the last call in nanoseconds.
    last: Option<u64>,
    /// Added to times, whose seconds have 16 bits.
    wrapped: u64,
    thread: Option<u16>,
    is_initialized: bool,
    is_finalized: bool,
}

/// Maximum time in nanoseconds: since 1970, and 146 years more.
const MOST_TIME: u64 = 1 << 62;
/// Span of times with 16-bit seconds, in nanoseconds.
const WRAPPED: u64 = (1 << 16) * 1_000_000_000;

impl<'a> Rank<'a> {
    fn new(number: usize, size: usize, file: &'a File<'a>, created: Created) -> Rank<'a> {
        let world = Communicator {
            members: (0..size).collect(),
            place: number,
        };
        let own = Communicator {
            members: [number].into(),
            place: 0,
        };
        Rank {
            number,
            file,
            writer: Writer::new(number, size, "DUMPI"),
            communicators: HashMap::from([(COMM_WORLD, world), (COMM_SELF, own)]),
            created,
            requests: Requests::default(),
            last: None,
            wrapped: 0,
            thread: None,
            is_initialized: false,
            is_finalized: false,
        }
    }

    fn convert(mut self, left_out: &mut BTreeMap<&'static str, u64>) -> Result<Vec<u8>, Fault> {
        let mut leave_out = |what: &'static str, count: u64| {
            if count > 0 {
                *left_out.entry(what).or_default() += count;
            }
        };
        let file = self.file;
        for call in Calls::new(file)? {
            let call = call?;
            let name = call.function.name;
            let is_first = matches!(name, "Init" | "Init_thread");
            if !self.is_initialized && matches!(name, "Initialized" | "Finalized" | "Get_version") {
                continue;
            }
            if self.is_finalized {
                leave_out("call after MPI_Finalize", 1);
                continue;
            }
            let at = call.at;
            let fault = |reason: String| Fault {
                at,
                reason: format!("MPI_{name}: {reason}"),
            };
            if *self.thread.get_or_insert(call.thread) != call.thread {
                let reason = "another thread of the rank calls it; traces of several threads \
                              cannot be imported";
                return Err(fault(reason.to_owned()));
            }
            let (computing, within) = self.times(&call).map_err(fault)?;
            if !self.is_initialized {
                self.is_initialized = true;
                let parts = [COMM_WORLD, COMM_SELF].map(|number| self.communicator(number));
                let within = if is_first { within } else { 0 };
                let name = if is_first { name } else { "Init" };
                self.writer.call(&format!("MPI_{name}"), &parts, 0, within);
                if is_first {
                    continue;
                }
            }
            let parts = self.parts(&call).map_err(fault)?;
            self.is_finalized = name == "Finalize";
            self.writer
                .call(&format!("MPI_{name}"), &parts, computing, within);
        }
        leave_out("call that the tracer's configuration omits", file.omitted);
        Ok(self.writer.finish())
    }

    /// Returns the computing before a call, and its duration.
    fn times(&mut self, call: &Call) -> Result<(u64, u64), String> {
        let (begin, end) = call.times.ok_or("the trace has no times")?;
        let mut later = |time: u64, than: u64| {
            if time + self.wrapped + WRAPPED / 2 < than {
                self.wrapped += WRAPPED;
            }
            time + self.wrapped
        };
        let begin = later(begin, self.last.unwrap_or(0));
        let end = later(end, begin);
        if end > MOST_TIME {
            return Err("the times of the trace span too many years".to_owned());
        }
        let computing = begin.saturating_sub(self.last.unwrap_or(begin));
        let within = end.saturating_sub(begin);
        self.last = Some(end.max(self.last.unwrap_or(0)));
        Ok((computing, within))
    }

    /// Returns the part that creates a communicator.
    fn communicator(&self, number: u16) -> Part {
        Part::Communicator {
            number: usize::from(number),
            members: self.communicators[&number].members.to_vec(),
            remote: Vec::new(),
        }
    }

    /// Returns a communicator by its position among a call's numbers.
    fn comm(&self, call: &Call, position: usize) -> Result<(usize, &Communicator), String> {
        let number = call.handle(position);
        let known = self.communicators.get(&number);
        let known = known.ok_or_else(|| format!("there is no communicator {number}"))?;
        Ok((usize::from(number), known))
    }

    /// Returns the bytes of elements, by the positions of their number and datatype.
    fn bytes(&self, call: &Call, count: usize, datatype: usize) -> Result<u64, String> {
        self.length(call.numbers[count], call.numbers[datatype])
    }

    fn length(&self, count: i32, datatype: i32) -> Result<u64, String> {
        let elements = u64::try_from(count);
        let elements = elements.map_err(|_| format!("it has {count} elements"))?;
        match elements {
            0 => Ok(0),
            _ => Ok(elements * self.file.size(datatype)?),
        }
    }

    fn lengths(&self, counts: &[i32], datatype: i32) -> Result<Vec<u64>, String> {
        let length = |&count: &i32| self.length(count, datatype);
        counts.iter().map(length).collect()
    }

    fn parts(&mut self, call: &Call) -> Result<Vec<Part>, String> {
        let numbers = &call.numbers;
        let name = call.function.name;
        Ok(match name {
            "Send" | "Bsend" | "Ssend" | "Rsend" => {
                let kind = self.send(call, [0, 1, 2, 3, 4])?;
                sent(&kind).into_iter().collect()
            }
            "Recv" => {
                let kind = self.receive(call, [0, 1, 2, 3, 4])?;
                got(&kind, call.statuses.first())?.into_iter().collect()
            }
            "Sendrecv" => {
                let send = self.send(call, [0, 1, 2, 3, 8])?;
                let receive = self.receive(call, [4, 5, 6, 7, 8])?;
                let received = got(&receive, call.statuses.first())?;
                sent(&send).into_iter().chain(received).collect()
            }
            "Sendrecv_replace" => {
                let send = self.send(call, [0, 1, 2, 3, 6])?;
                let receive = self.receive(call, [0, 1, 4, 5, 6])?;
                let received = got(&receive, call.statuses.first())?;
                sent(&send).into_iter().chain(received).collect()
            }
            "Isend" | "Ibsend" | "Issend" | "Irsend" | "Irecv" => {
                let kind = match name {
                    "Irecv" => self.receive(call, [0, 1, 2, 3, 4])?,
                    _ => self.send(call, [0, 1, 2, 3, 4])?,
                };
                self.requests.begin(numbers[5], kind).into_iter().collect()
            }
            "Send_init" | "Bsend_init" | "Ssend_init" | "Rsend_init" | "Recv_init" => {
                let kind = match name {
                    "Recv_init" => self.receive(call, [0, 1, 2, 3, 4])?,
                    _ => self.send(call, [0, 1, 2, 3, 4])?,
                };
                self.requests.prepare(numbers[5], kind);
                Vec::new()
            }
            "Start" => self.requests.start(numbers[0])?.into_iter().collect(),
            "Startall" => {
                let mut parts = Vec::new();
                for &request in &call.lists[0] {
                    parts.extend(self.requests.start(request)?);
                }
                parts
            }
            "Cancel" => {
                self.requests.cancel(numbers[0]);
                Vec::new()
            }
            "Request_free" => self.requests.free(numbers[0]).into_iter().collect(),
            "Wait" | "Test" | "Waitany" | "Testany" | "Waitall" | "Testall" | "Waitsome"
            | "Testsome" => self.completed(call)?,
            "Finalize" => vec![Part::Finalized],
            "Comm_free" => {
                let number = call.handle(0);
                let known = self.communicators.remove(&number);
                let number = usize::from(number);
                known
                    .map(|_| Part::CommunicatorFreed { number })
                    .into_iter()
                    .collect()
            }
            "Comm_dup" => self.created(call.handle(1)),
            "Comm_create" | "Cart_sub" => self.created(call.handle(2)),
            "Comm_split" | "Cart_create" => self.created(call.handle(3)),
            "Graph_create" => self.created(call.handle(4)),
            "Abort" => return Err("the program was aborted".to_owned()),
            "Alltoallw" => return Err("calls of it are not read".to_owned()),
            _ => self.collective(call)?.into_iter().collect(),
        })
    }

    /// Returns the parts of a call that creates a communicator with this number.
    fn created(&mut self, number: u16) -> Vec<Part> {
        let Some(members) = self.created.pop_front().flatten() else {
            return Vec::new();
        };
        if number == COMM_NULL {
            return Vec::new();
        }
        let place = members.iter().position(|&member| member == self.number);
        let communicator = Communicator {
            members,
            place: place.unwrap_or_default(),
        };
        let before = self.communicators.insert(number, communicator);
        let freed = before.map(|_| Part::CommunicatorFreed {
            number: usize::from(number),
        });
        freed
            .into_iter()
            .chain([self.communicator(number)])
            .collect()
    }

    /// Returns a sent message, by the positions of count, datatype, peer, tag and communicator.
    fn send(&self, call: &Call, at: [usize; 5]) -> Result<Kind, String> {
        let [count, datatype, peer, tag, comm] = at;
        let (comm, communicator) = self.comm(call, comm)?;
        // MPI_PROC_NULL, whose number is the library's.
        let Ok(peer) = usize::try_from(call.numbers[peer]) else {
            return Ok(Kind::Nothing);
        };
        check_peer(peer, communicator)?;
        let tag = call.numbers[tag];
        Ok(Kind::Send {
            comm,
            peer,
            tag: u32::try_from(tag).map_err(|_| format!("its tag is {tag}"))?,
            bytes: self.bytes(call, count, datatype)?,
        })
    }

    /// Returns a receive, by the same positions.
    fn receive(&self, call: &Call, at: [usize; 5]) -> Result<Kind, String> {
        const ANY: i32 = -1;
        let [count, datatype, peer, tag, comm] = at;
        let (comm, communicator) = self.comm(call, comm)?;
        let size = communicator.members.len();
        let peer = match call.numbers[peer] {
            ANY => None,
            peer => match usize::try_from(peer) {
                Ok(peer) => {
                    check_peer(peer, communicator)?;
                    Some(peer)
                }
                Err(_) => return Ok(Kind::Nothing),
            },
        };
        Ok(Kind::Receive {
            comm,
            peer,
            tag: u32::try_from(call.numbers[tag]).ok(),
            bytes: self.bytes(call, count, datatype)?,
            size,
        })
    }

    /// Ends the requests that a call completed.
    fn completed(&mut self, call: &Call) -> Result<Vec<Part>, String> {
        let numbers = &call.numbers;
        let list = || call.lists[0].as_slice();
        let at = |index: i32| {
            let index = usize::try_from(index).ok();
            index.and_then(|index| list().get(index).copied())
        };
        let ended: Vec<i32> = match call.function.name {
            "Wait" => vec![numbers[0]],
            "Test" if numbers[1] != 0 => vec![numbers[0]],
            "Waitany" => at(numbers[1]).into_iter().collect(),
            "Testany" if numbers[2] != 0 => at(numbers[1]).into_iter().collect(),
            "Waitall" => list().to_vec(),
            "Testall" if numbers[1] != 0 => list().to_vec(),
            "Waitsome" | "Testsome" => call.lists[1].iter().filter_map(|&one| at(one)).collect(),
            _ => Vec::new(),
        };
        let mut parts = Vec::new();
        for (index, request) in ended.into_iter().enumerate() {
            let status: Option<&Status> = call.statuses.get(index);
            parts.extend(self.requests.end(request, status)?);
        }
        Ok(parts)
    }

    /// Returns the part of a collective operation; `None` for other calls.
    fn collective(&self, call: &Call) -> Result<Option<Part>, String> {
        let numbers = &call.numbers;
        // Kind, positions of communicator and root.
        let (kind, comm, root) = match call.function.name {
            "Barrier" => (Collective::Barrier, 0, None),
            "Bcast" => (Collective::Broadcast, 3, Some(2)),
            "Reduce" => (Collective::Reduce, 4, Some(3)),
            "Allreduce" => (Collective::AllReduce, 3, None),
            "Scan" | "Exscan" => (Collective::Scan, 3, None),
            "Gather" => (Collective::Gather, 4, Some(3)),
            "Gatherv" => (Collective::Gather, 5, Some(4)),
            "Scatter" => (Collective::Scatter, 4, Some(3)),
            "Scatterv" => (Collective::Scatter, 6, Some(5)),
            "Allgather" => (Collective::AllGather, 4, None),
            "Allgatherv" => (Collective::AllGather, 4, None),
            "Alltoall" => (Collective::AllToAll, 4, None),
            "Alltoallv" => (Collective::AllToAll, 3, None),
            "Reduce_scatter" => (Collective::ReduceScatter, 3, None),
            _ => return Ok(None),
        };
        let (comm, communicator) = self.comm(call, comm)?;
        let root = match root.map(|position| numbers[position]) {
            None => None,
            Some(root) => {
                let known = usize::try_from(root);
                let known = known.map_err(|_| format!("its root is {root}"))?;
                check_peer(known, communicator)?;
                Some(known)
            }
        };
        let is_root = root == Some(communicator.place);
        let slot = None;
        let alike = |bytes: u64| Part::Collective {
            kind,
            comm,
            root,
            slot,
            bytes,
        };
        let varied = |out: Vec<u64>, back: Vec<u64>| Part::Varied {
            kind,
            comm,
            root,
            slot,
            out,
            back,
        };
        let list = |position: usize, datatype: usize| {
            let counts = call.lists.get(position).map_or(&[][..], Vec::as_slice);
            self.lengths(counts, numbers[datatype])
        };
        Ok(Some(match call.function.name {
            "Barrier" => alike(0),
            "Bcast" | "Reduce" | "Allreduce" | "Scan" | "Exscan" => alike(self.bytes(call, 0, 1)?),
            // With MPI_IN_PLACE the other count is not significant.
            "Gather" | "Scatter" if numbers.len() > 6 => alike(self.bytes(call, 5, 6)?),
            "Gather" | "Scatter" => alike(self.bytes(call, 1, 2)?),
            "Allgather" | "Alltoall" => alike(self.bytes(call, 2, 3)?),
            "Gatherv" if is_root => varied(Vec::new(), list(0, 6)?),
            "Gatherv" => varied(vec![self.bytes(call, 2, 3)?], Vec::new()),
            "Scatterv" if is_root => varied(list(0, 2)?, Vec::new()),
            "Scatterv" => varied(Vec::new(), vec![self.bytes(call, 3, 4)?]),
            "Allgatherv" => varied(Vec::new(), list(0, 3)?),
            "Alltoallv" => varied(list(0, 1)?, list(2, 2)?),
            _ => varied(Vec::new(), list(0, 1)?),
        }))
    }
}

fn check_peer(peer: usize, communicator: &Communicator) -> Result<(), String> {
    let size = communicator.members.len();
    match peer < size {
        true => Ok(()),
        false => Err(format!(
            "it names rank {peer} of a communicator of {size} ranks"
        )),
    }
}

/// Returns the part of a blocking send.
fn sent(kind: &Kind) -> Option<Part> {
    match *kind {
        Kind::Send {
            comm,
            peer,
            tag,
            bytes,
        } => Some(Part::Send {
            comm,
            peer,
            tag,
            bytes,
        }),
        _ => None,
    }
}

/// Returns the part of a blocking receive.
fn got(kind: &Kind, status: Option<&Status>) -> Result<Option<Part>, String> {
    let &Kind::Receive { comm, .. } = kind else {
        return Ok(None);
    };
    let message = received(kind, status)?;
    Ok(message.map(|(peer, tag, bytes)| Part::Receive {
        comm,
        peer,
        tag,
        bytes,
    }))
}
