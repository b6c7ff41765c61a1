//! Converts a trace's calls to programs.

use super::collective::{Amounts, rounds};
use super::matching::{Channel, Streams, Turn};
use crate::program::{Act, Program, Step};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use verbena_model::mpi::{Member, Round};
use verbena_model::profile::Mpi;
use verbena_mpi_trace::{
    Collective, Communicators, Group, Identity, Part, RankTrace, Summary, Synchronization, Trace,
};

/// Reason why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rank's trace has no end.
    #[error("the trace of rank {0} ends before MPI_Finalize; replay a run that completed")]
    Unfinished(usize),
    /// A rank's calls are inconsistent.
    #[error(transparent)]
    Trace(#[from] verbena_mpi_trace::Error),
    /// The calls of the ranks do not match each other.
    #[error("{0}")]
    Unlike(String),
}

/// Slot of an operation that a call waits for before it returns.
const WITHIN: usize = usize::MAX;
/// First slot of operations on windows; requests have smaller ones.
const WINDOWS: usize = 1 << 32;
/// Bits in the marks of collective operations and of accesses.
const OF_COLLECTIVE: u32 = 1 << 31;
const OF_ACCESS: u32 = 1 << 30;
/// Maximum number of concurrent accesses of a rank. In a schedule, answers to them have the bit
/// above.
const ACCESSES: u32 = 1 << 29;
/// Maximum number of concurrent collective operations of a communicator.
const AT_ONCE: usize = 1 << 10;

/// A receive that still needs its message: rank, step, and position among its channel's receives.
type Open = (usize, usize, Turn);

/// Converts a trace to the program of each rank, with a library's algorithms for collective
/// operations.
///
/// # Errors
///
/// Returns [`Error`] if a rank's trace is incomplete or inconsistent, if the ranks do not match, or
/// if the trace exceeds virtual time.
pub fn programs(trace: &Trace, library: &Mpi) -> Result<Vec<Program>, Error> {
    if let Some(rank) = trace.unfinished().next() {
        return Err(Error::Unfinished(rank.rank));
    }
    refuse_too_much(&Summary::of(trace))?;
    let mut together = Together {
        library,
        ways: Streams::default(),
        open: Vec::new(),
        communicators: Communicators::default(),
        rounds: HashMap::new(),
    };
    let mut programs = Vec::new();
    for rank in &trace.ranks {
        together.communicators.begin_rank();
        let builder = Builder {
            rank,
            program: Program::default(),
            together: &mut together,
            slots: HashSet::new(),
            windows: HashMap::new(),
            made: HashMap::new(),
            collectives: HashMap::new(),
            accesses: 0,
        };
        let fault = |reason| trace.fault(rank.rank, reason);
        programs.push(builder.build().map_err(fault)?);
    }
    match together.ways.unlike() {
        Some(reason) => return Err(Error::Unlike(reason)),
        None => together.tell_receives(&mut programs),
    }
    Ok(programs)
}

/// Maximum bytes of all messages, and nanoseconds of computing, for virtual time in picoseconds.
const MOST_BYTES: u64 = 1 << 45;
pub(super) const MOST_NANOS: u64 = 10_000_000_000_000_000;

fn refuse_too_much(summary: &Summary) -> Result<(), Error> {
    let bytes = summary.all.bytes.max(summary.all.collective_bytes);
    match (bytes > MOST_BYTES, summary.computing > MOST_NANOS) {
        (false, false) => Ok(()),
        (true, _) => Err(Error::Unlike(format!(
            "{bytes} bytes of messages exceed the models' limit, {MOST_BYTES}"
        ))),
        (_, true) => Err(Error::Unlike(format!(
            "{} ns of computing exceed the models' limit, {MOST_NANOS}",
            summary.computing
        ))),
    }
}

type Operation = (Collective, Member, Option<usize>, Amounts);

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let (kind, member, root, amounts) = &self.0;
        (kind, member.place, member.size, root, amounts).hash(state);
    }
}

/// Key of the cached rounds of an operation.
#[derive(PartialEq, Eq)]
struct Key(Operation);

/// State that all ranks share.
struct Together<'a> {
    library: &'a Mpi,
    ways: Streams,
    open: Vec<Open>,
    communicators: Communicators,
    /// Cache of computed rounds: programs repeat the same operations.
    rounds: HashMap<Key, Arc<[Round]>>,
}

impl Together<'_> {
    /// Assigns each receive its message, once all sends are known.
    fn tell_receives(&self, programs: &mut [Program]) {
        for &(rank, step, turn) in &self.open {
            let (told_mark, told_bytes) = self.ways.message(turn);
            if let Step::Begin {
                act: Act::Receive { mark, bytes, .. },
                ..
            } = &mut programs[rank].steps[step]
            {
                (*mark, *bytes) = (told_mark, told_bytes);
            }
        }
    }

    fn rounds(&mut self, operation: Operation) -> Result<Arc<[Round]>, String> {
        let key = Key(operation);
        if let Some(known) = self.rounds.get(&key) {
            return Ok(known.clone());
        }
        let (kind, member, root, amounts) = &key.0;
        let computed: Arc<[Round]> = rounds(*kind, *member, *root, amounts, self.library)?.into();
        self.rounds.insert(key, computed.clone());
        Ok(computed)
    }
}

/// A rank's view of a window.
#[derive(Clone)]
struct Window {
    group: Group,
    /// Index among the windows of its communicator.
    which: usize,
    /// Ranks that may access the window after a post, and ranks that a start made accessible.
    posted: Vec<usize>,
    started: Vec<usize>,
}

struct Builder<'a, 'b> {
    rank: &'a RankTrace,
    program: Program,
    together: &'b mut Together<'a>,
    /// The active requests.
    slots: HashSet<usize>,
    windows: HashMap<usize, Window>,
    /// Number of windows, and of collective operations, of each communicator so far.
    made: HashMap<Identity, usize>,
    collectives: HashMap<Identity, usize>,
    accesses: u32,
}

/// Message of a completed receive: rank within the communicator, tag.
type Got = Option<(usize, u32)>;

/// Returns the message of each receive that a rank began, in the order of beginning; `None` if it
/// was never completed or was cancelled.
fn received(rank: &RankTrace) -> Vec<Got> {
    let mut got: Vec<Got> = Vec::new();
    let mut begun: HashMap<usize, usize> = HashMap::new();
    for part in rank.records.iter().flat_map(|record| rank.parts(record)) {
        match *part {
            Part::BeginReceive {
                slot, peer, tag, ..
            } => {
                begun.insert(slot, got.len());
                got.push(peer.zip(tag));
            }
            Part::Received {
                slot, peer, tag, ..
            } => {
                if let Some(place) = begun.remove(&slot) {
                    got[place] = Some((peer, tag));
                }
            }
            Part::Cancelled { slot } => {
                if let Some(place) = begun.remove(&slot) {
                    got[place] = None;
                }
            }
            Part::Freed { slot } => {
                begun.remove(&slot);
            }
            _ => (),
        }
    }
    // Receives that neither completed nor were cancelled took no message.
    for place in begun.into_values() {
        got[place] = None;
    }
    got
}

impl Builder<'_, '_> {
    fn build(mut self) -> Result<Program, String> {
        let mut received = received(self.rank).into_iter();
        for (call, record) in self.rank.records.iter().enumerate() {
            if record.computing > 0 {
                self.program.steps.push(Step::Compute(record.computing));
            }
            let mut waits = false;
            for part in self.rank.parts(record) {
                self.together.communicators.note(part, self.rank.size)?;
                waits |= self.part(part, call, &mut received)?;
            }
            if waits {
                self.wait(WITHIN, call);
            }
        }
        Ok(self.program)
    }

    fn begin(&mut self, slot: usize, act: Act) {
        self.program.steps.push(Step::Begin { slot, act });
    }

    fn wait(&mut self, slot: usize, call: usize) {
        self.program.steps.push(Step::Wait { slot, call });
    }

    fn group(&self, comm: usize) -> Result<Group, String> {
        self.together.communicators.group(comm).cloned()
    }

    /// Adds the actions of a part; returns whether its call waits for it.
    fn part(
        &mut self,
        part: &Part,
        call: usize,
        received: &mut impl Iterator<Item = Got>,
    ) -> Result<bool, String> {
        match part {
            &Part::Send {
                comm,
                peer,
                tag,
                bytes,
            } => {
                let group = self.group(comm)?;
                self.send(
                    WITHIN,
                    group.peer(peer)?,
                    Channel::Tagged(group.identity, tag),
                    bytes,
                );
                return Ok(true);
            }
            &Part::Receive {
                comm, peer, tag, ..
            } => {
                let group = self.group(comm)?;
                self.receive(
                    WITHIN,
                    group.peer(peer)?,
                    Channel::Tagged(group.identity, tag),
                );
                return Ok(true);
            }
            &Part::BeginSend {
                slot,
                comm,
                peer,
                tag,
                bytes,
            } => {
                let group = self.group(comm)?;
                self.begin_request(slot)?;
                self.send(
                    slot,
                    group.peer(peer)?,
                    Channel::Tagged(group.identity, tag),
                    bytes,
                );
            }
            &Part::BeginReceive { slot, comm, .. } => {
                let group = self.group(comm)?;
                self.begin_request(slot)?;
                if let Some((peer, tag)) = received.next().flatten() {
                    self.receive(
                        slot,
                        group.peer(peer)?,
                        Channel::Tagged(group.identity, tag),
                    );
                }
            }
            &Part::Done { slot } | &Part::Received { slot, .. } => {
                self.end_request(slot)?;
                self.wait(slot, call);
            }
            &Part::Cancelled { slot } | &Part::Freed { slot } => {
                self.end_request(slot)?;
                self.program.steps.push(Step::Forget { slot });
            }
            &Part::Collective {
                kind,
                comm,
                root,
                slot,
                bytes,
            } => {
                return self.collective(kind, comm, root, slot, Amounts::Alike(bytes));
            }
            Part::Varied {
                kind,
                comm,
                root,
                slot,
                out,
                back,
            } => {
                let amounts = Amounts::Varied(out.clone(), back.clone());
                return self.collective(*kind, *comm, *root, *slot, amounts);
            }
            Part::Neighbors {
                comm,
                slot,
                out,
                back,
            } => {
                return self.neighbors(*comm, *slot, out, back);
            }
            &Part::Window { number, comm } => self.window(number, comm)?,
            &Part::WindowFreed { number } => {
                self.window_of(number)?;
                self.windows.remove(&number);
            }
            &Part::Access {
                window,
                target,
                out,
                back,
                slot,
            } => {
                self.access(window, target, out, back, slot)?;
            }
            Part::Synchronized {
                window,
                kind,
                targets,
            } => {
                return self.synchronize(*window, *kind, targets, call);
            }
            Part::Communicator { .. } | Part::CommunicatorFreed { .. } | Part::Finalized => (),
        }
        Ok(false)
    }

    fn begin_request(&mut self, slot: usize) -> Result<(), String> {
        match self.slots.insert(slot) {
            true => Ok(()),
            false => Err(format!("request {slot} begins twice")),
        }
    }

    fn end_request(&mut self, slot: usize) -> Result<(), String> {
        match self.slots.remove(&slot) {
            true => Ok(()),
            false => Err(format!("request {slot} ends without having begun")),
        }
    }

    fn send(&mut self, slot: usize, to: usize, channel: Channel, bytes: u64) {
        let mark = self
            .together
            .ways
            .send((self.rank.rank, to, channel), bytes);
        let blocking = slot == WITHIN;
        self.begin(
            slot,
            Act::Send {
                to,
                bytes,
                mark,
                blocking,
            },
        );
    }

    /// Adds a receive; its message is assigned when all sends are known.
    fn receive(&mut self, slot: usize, from: usize, channel: Channel) {
        let turn = self.together.ways.receive((from, self.rank.rank, channel));
        let place = (self.rank.rank, self.program.steps.len(), turn);
        self.together.open.push(place);
        let (bytes, mark) = (0, 0);
        self.begin(slot, Act::Receive { from, bytes, mark });
    }

    /// Returns the slot of an operation, and whether its call waits for it.
    fn number_for(&mut self, slot: Option<usize>) -> Result<(usize, bool), String> {
        match slot {
            Some(slot) => self.begin_request(slot).map(|()| (slot, false)),
            None => Ok((WITHIN, true)),
        }
    }

    fn collective(
        &mut self,
        kind: Collective,
        comm: usize,
        root: Option<usize>,
        slot: Option<usize>,
        amounts: Amounts,
    ) -> Result<bool, String> {
        let group = self.group(comm)?;
        let (slot, waits) = self.number_for(slot)?;
        self.rounds(slot, &group, kind, root, amounts)?;
        Ok(waits)
    }

    fn rounds(
        &mut self,
        slot: usize,
        group: &Group,
        kind: Collective,
        root: Option<usize>,
        amounts: Amounts,
    ) -> Result<(), String> {
        if !group.remote.is_empty() {
            return Err("collective operations between two groups cannot be replayed".to_owned());
        }
        let place = group
            .members
            .iter()
            .position(|&rank| rank == self.rank.rank);
        let member = Member {
            place: place.ok_or("the rank uses a communicator of which it is not a member")?,
            size: group.members.len(),
        };
        let before = self.collectives.entry(group.identity).or_default();
        let number = group.identity.0 * AT_ONCE + *before % AT_ONCE;
        *before += 1;
        let rounds = self.together.rounds((kind, member, root, amounts))?;
        let act = Act::Rounds {
            rounds,
            members: group.members.clone(),
            mark: OF_COLLECTIVE | (number as u32 % OF_COLLECTIVE),
        };
        self.begin(slot, act);
        Ok(())
    }

    fn neighbors(
        &mut self,
        comm: usize,
        slot: Option<usize>,
        out: &[(usize, u64)],
        back: &[(usize, u64)],
    ) -> Result<bool, String> {
        let group = self.group(comm)?;
        let (slot, waits) = self.number_for(slot)?;
        for &(peer, _) in back {
            self.receive(slot, group.peer(peer)?, Channel::Neighbors(group.identity));
        }
        for &(peer, bytes) in out {
            self.send(
                slot,
                group.peer(peer)?,
                Channel::Neighbors(group.identity),
                bytes,
            );
        }
        Ok(waits)
    }

    fn window(&mut self, number: usize, comm: usize) -> Result<(), String> {
        let group = self.group(comm)?;
        let made = self.made.entry(group.identity).or_default();
        let window = Window {
            group,
            which: *made,
            posted: Vec::new(),
            started: Vec::new(),
        };
        *made += 1;
        match self.windows.insert(number, window) {
            None => Ok(()),
            Some(_) => Err(format!("window {number} already exists")),
        }
    }

    fn window_of(&self, number: usize) -> Result<Window, String> {
        let found = self.windows.get(&number).cloned();
        found.ok_or_else(|| format!("window {number} does not exist"))
    }

    fn access(
        &mut self,
        number: usize,
        target: usize,
        out: u64,
        back: u64,
        slot: Option<usize>,
    ) -> Result<(), String> {
        let peer = self.window_of(number)?.group.peer(target)?;
        let mark = OF_ACCESS | (self.accesses % ACCESSES);
        self.accesses += 1;
        let slot = match slot {
            Some(slot) => self.number_for(Some(slot))?.0,
            None => WINDOWS + number,
        };
        self.begin(
            slot,
            Act::Access {
                peer,
                out,
                back,
                mark,
            },
        );
        Ok(())
    }

    /// Adds the actions of a synchronization; returns whether its call waits for more than
    /// accesses. Locks cost nothing until an access does.
    fn synchronize(
        &mut self,
        number: usize,
        kind: Synchronization,
        targets: &[usize],
        call: usize,
    ) -> Result<bool, String> {
        let window = self.window_of(number)?;
        let (posted, completed) = (
            Channel::Posted(window.group.identity, window.which),
            Channel::Completed(window.group.identity, window.which),
        );
        let peers = targets.iter().map(|&target| window.group.peer(target));
        let peers = peers.collect::<Result<Vec<_>, _>>()?;
        match kind {
            Synchronization::Fence => {
                self.wait(WINDOWS + number, call);
                self.rounds(
                    WITHIN,
                    &window.group,
                    Collective::Barrier,
                    None,
                    Amounts::Alike(0),
                )?;
            }
            Synchronization::Post => {
                peers
                    .iter()
                    .for_each(|&peer| self.send(WITHIN, peer, posted, 0));
                self.windows
                    .entry(number)
                    .and_modify(|window| window.posted = peers);
            }
            Synchronization::Start => {
                peers
                    .iter()
                    .for_each(|&peer| self.receive(WITHIN, peer, posted));
                self.windows
                    .entry(number)
                    .and_modify(|window| window.started = peers);
            }
            Synchronization::Complete => {
                self.wait(WINDOWS + number, call);
                window
                    .started
                    .iter()
                    .for_each(|&peer| self.send(WITHIN, peer, completed, 0));
            }
            Synchronization::Wait => {
                window
                    .posted
                    .iter()
                    .for_each(|&peer| self.receive(WITHIN, peer, completed));
            }
            Synchronization::Unlock | Synchronization::UnlockAll | Synchronization::Flush => {
                self.wait(WINDOWS + number, call);
                return Ok(false);
            }
            Synchronization::Lock | Synchronization::LockAll => return Ok(false),
        }
        Ok(true)
    }
}
