//! Converts events to calls.

use super::amounts::{Amount, kind};
use super::collective::{Operations, Share};
use super::definitions::Definitions;
use super::error::Error;
use super::event::{Event, Happened, Message, Operation};
use super::rank::{Place, Rank, Unmeasured};
use super::records::{Records, begins_event};
use crate::part::Part;
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;

/// An archive as a trace in our format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The files of the ranks, in order.
    pub ranks: Vec<Vec<u8>>,
    /// Omitted content, and how often it occurred.
    pub left_out: BTreeMap<String, u64>,
    /// Number of locations that are not ranks: threads, accelerators.
    pub others: u64,
    /// The time in which the tracer was off.
    pub unmeasured: Unmeasured,
}

/// Parses the events printed by `otf2-print`.
///
/// # Errors
///
/// Returns [`Error`] if the text cannot be read, a line is not understood, or the trace is
/// incomplete.
pub fn import(definitions: &Definitions, events: impl BufRead) -> Result<Imported, Error> {
    let mut importer = Importer::new(definitions);
    let mut records = Records::new(events, begins_event);
    while let Some(record) = records.next()? {
        let happened = Happened::of(&record).map_err(|reason| record.fault(reason))?;
        let (kind, _) = record.split();
        importer
            .take(happened, kind)
            .map_err(|reason| record.fault(reason))?;
    }
    importer.finish()
}

struct Importer<'a> {
    definitions: &'a Definitions,
    by_location: HashMap<u64, usize>,
    /// Rank within a communicator, by communicator and world rank.
    places: HashMap<(u64, usize), usize>,
    ranks: Vec<Rank>,
    operations: Operations,
    left_out: BTreeMap<String, u64>,
    /// Time of the first event.
    begin: Option<u64>,
}

/// Maximum duration of a trace in nanoseconds.
const MOST: u128 = 1 << 60;
/// Name of the call for a collective operation outside all regions.
const OUTSIDE: &str = "MPI_Collective";

impl<'a> Importer<'a> {
    fn new(definitions: &'a Definitions) -> Importer<'a> {
        let size = definitions.ranks.len();
        let rank = |rank| {
            let own = definitions
                .communicators
                .iter()
                .filter_map(|(&number, members)| {
                    let members = match members {
                        Some(members) => members.contains(&rank).then(|| members.clone())?,
                        None => vec![rank],
                    };
                    Some(Part::Communicator {
                        number: number as usize,
                        members,
                        remote: Vec::new(),
                    })
                });
            Rank::new(rank, size, own.collect())
        };
        let mut places = HashMap::new();
        for (&number, members) in &definitions.communicators {
            let members = members.iter().flatten().enumerate();
            places.extend(members.map(|(place, &rank)| ((number, rank), place)));
        }
        Importer {
            definitions,
            places,
            by_location: definitions.ranks.iter().copied().zip(0..).collect(),
            ranks: (0..size).map(rank).collect(),
            operations: Operations::default(),
            left_out: BTreeMap::new(),
            begin: None,
        }
    }

    fn leave_out(&mut self, what: impl Into<String>) {
        *self.left_out.entry(what.into()).or_default() += 1;
    }

    fn nanoseconds(&self, ticks: u64) -> Result<u64, String> {
        let since = ticks.saturating_sub(self.begin.unwrap_or_default());
        let time =
            u128::from(since) * 1_000_000_000 / u128::from(self.definitions.ticks_per_second);
        match time < MOST {
            true => Ok(time as u64),
            false => Err("as it is more than 36 years behind the first event".to_owned()),
        }
    }

    fn take(&mut self, happened: Happened, kind: &str) -> Result<(), String> {
        let ticks = happened.ticks;
        // Events are in order of time.
        self.begin.get_or_insert(ticks);
        let Some(&rank) = self.by_location.get(&happened.location) else {
            if !matches!(
                happened.event,
                Event::Enter(_)
                    | Event::Leave(_)
                    | Event::Flushed(_)
                    | Event::Off
                    | Event::On
                    | Event::Sampled
                    | Event::Nothing
            ) {
                self.leave_out(format!("{kind} of other threads"));
            }
            return Ok(());
        };
        let now = self.nanoseconds(ticks)?;
        self.ranks[rank].at(now);
        match happened.event {
            Event::Enter(region) => {
                if let Some(name) = self.definitions.calls.get(&region) {
                    self.ranks[rank].enter(name);
                }
                Ok(())
            }
            Event::Leave(region) => match self.definitions.calls.get(&region) {
                Some(name) => self.ranks[rank].leave(name),
                None => Ok(()),
            },
            Event::Flushed(until) => {
                let until = self.nanoseconds(until)?;
                self.ranks[rank].flushed(until.saturating_sub(now));
                Ok(())
            }
            Event::Sampled => Err(
                "as the program was sampled, so the beginnings of calls are missing: trace it \
                 with instrumentation (Score-P: SCOREP_ENABLE_UNWINDING=false)"
                    .to_owned(),
            ),
            Event::Off => {
                self.ranks[rank].turn_off();
                Ok(())
            }
            Event::On => {
                self.ranks[rank].turn_on();
                Ok(())
            }
            Event::Nothing => Ok(()),
            Event::Unknown => {
                self.leave_out(kind);
                Ok(())
            }
            Event::CollectiveBegun => {
                if !self.ranks[rank].is_within() {
                    self.ranks[rank].enter(OUTSIDE);
                }
                Ok(())
            }
            Event::CollectiveEnded(operation) => self.collective(rank, operation),
            event => self.within(rank, event),
        }
    }

    /// Applies an event within a call; outside all calls, it gets its own call.
    fn within(&mut self, rank: usize, event: Event) -> Result<(), String> {
        let name = match event {
            Event::Sent(_) => "MPI_Send",
            Event::Received(_) => "MPI_Recv",
            Event::SendBegun(..) => "MPI_Isend",
            Event::ReceiveBegun(_) => "MPI_Irecv",
            Event::RequestedCollective(_) => OUTSIDE,
            _ => "MPI_Wait",
        };
        let is_alone = !self.ranks[rank].is_within();
        if is_alone {
            self.ranks[rank].enter(name);
        }
        // After MPI_Finalize no call is entered.
        if !self.ranks[rank].is_within() {
            return Err("as the rank had left MPI".to_owned());
        }
        self.communication(rank, event)?;
        match is_alone {
            true => self.ranks[rank].leave(name),
            false => Ok(()),
        }
    }

    fn communication(&mut self, number: usize, event: Event) -> Result<(), String> {
        match event {
            Event::Sent(message) | Event::Received(message) => {
                let comm = self.check(number, &message)?;
                let Message {
                    peer, tag, bytes, ..
                } = message;
                let part = match event {
                    Event::Sent(_) => Part::Send {
                        comm,
                        peer,
                        tag,
                        bytes,
                    },
                    _ => Part::Receive {
                        comm,
                        peer,
                        tag,
                        bytes,
                    },
                };
                self.ranks[number].put(Some(part));
            }
            Event::SendBegun(message, request) => {
                let comm = self.check(number, &message)?;
                let Message {
                    peer, tag, bytes, ..
                } = message;
                self.ranks[number].begin(request, |slot| {
                    Some(Part::BeginSend {
                        slot,
                        comm,
                        peer,
                        tag,
                        bytes,
                    })
                })?;
            }
            Event::ReceiveBegun(request) | Event::RequestedCollective(request) => {
                self.ranks[number].begin(request, |_| None)?;
            }
            Event::SendEnded(request) => {
                let slot = self.ranks[number].end(request)?.slot;
                self.ranks[number].put(Some(Part::Done { slot }));
            }
            Event::ReceiveEnded(message, request) => {
                let comm = self.check(number, &message)?;
                let Message {
                    peer, tag, bytes, ..
                } = message;
                let rank = &mut self.ranks[number];
                let (slot, begun) = untold(rank, request)?;
                rank.put(Some(Part::Received {
                    slot,
                    peer,
                    tag,
                    bytes,
                }));
                let (peer, tag) = (Some(peer), Some(tag));
                rank.tell(
                    begun,
                    Some(Part::BeginReceive {
                        slot,
                        comm,
                        peer,
                        tag,
                        bytes,
                    }),
                );
            }
            Event::Cancelled(request) => {
                let rank = &mut self.ranks[number];
                let ended = rank.end(request)?;
                match ended.told {
                    true => {
                        rank.put(Some(Part::Cancelled { slot: ended.slot }));
                    }
                    false => rank.tell(ended.begun, None),
                }
            }
            Event::RequestedCollectiveEnded(operation, request) => {
                let rank = &mut self.ranks[number];
                let (slot, begun) = untold(rank, request)?;
                match kind(&operation.name) {
                    Some(_) => {
                        rank.put(Some(Part::Done { slot }));
                        self.make(number, operation, begun, Some(slot))?;
                    }
                    None => {
                        rank.tell(begun, None);
                        self.leave_out(operation.name);
                    }
                }
            }
            _ => (),
        }
        Ok(())
    }

    fn collective(&mut self, rank: usize, operation: Operation) -> Result<(), String> {
        let is_alone = !self.ranks[rank].is_within();
        if is_alone {
            self.ranks[rank].enter(OUTSIDE);
        }
        if !self.ranks[rank].is_within() {
            return Err("as the rank had left MPI".to_owned());
        }
        match kind(&operation.name) {
            Some(_) => {
                let at = self.ranks[rank].put(None);
                self.make(rank, operation, at, None)?;
            }
            None => self.leave_out(operation.name),
        }
        self.ranks[rank].leave_outside(OUTSIDE)
    }

    fn make(
        &mut self,
        rank: usize,
        operation: Operation,
        at: Place,
        slot: Option<usize>,
    ) -> Result<(), String> {
        let Operation {
            name,
            comm,
            root,
            sent,
            received,
        } = operation;
        let what = kind(&name).ok_or("as the operation is unknown")?;
        let (place, size) = self.place(rank, comm)?;
        if root.is_some_and(|root| root >= size) {
            return Err(format!("as communicator {comm} has {size} ranks"));
        }
        let share = Share {
            rank,
            at,
            slot,
            amount: Amount { sent, received },
        };
        // No other rank takes part in an operation on a communicator of the rank alone.
        let same = (comm, name, root, slot.is_some());
        self.operations
            .make(same, what, (place, size), share, &mut self.ranks);
        Ok(())
    }

    /// Returns a rank's place in a communicator, and the communicator's size.
    fn place(&self, rank: usize, comm: u64) -> Result<(usize, usize), String> {
        let known = self.definitions.communicators.get(&comm);
        let members = known.ok_or_else(|| {
            format!(
                "as there is no communicator {comm} of one group of ranks; communication \
                     between two groups cannot be imported"
            )
        })?;
        let Some(members) = members else {
            return Ok((0, 1));
        };
        let place = self.places.get(&(comm, rank)).copied();
        let place = place.ok_or_else(|| format!("as the rank is not in communicator {comm}"))?;
        Ok((place, members.len()))
    }

    /// Returns the number of a message's communicator, if both ranks are members of it.
    fn check(&self, rank: usize, message: &Message) -> Result<usize, String> {
        let (_, size) = self.place(rank, message.comm)?;
        match message.peer < size {
            true => Ok(message.comm as usize),
            false => Err(format!("as communicator {} has {size} ranks", message.comm)),
        }
    }

    fn finish(self) -> Result<Imported, Error> {
        let mut left_out = self.left_out;
        let mut files = Vec::new();
        let mut unmeasured = Unmeasured::default();
        for (number, rank) in self.ranks.into_iter().enumerate() {
            let finished = rank
                .finish()
                .map_err(|reason| Error::Lacking(format!("rank {number}: {reason}")))?;
            if finished.open > 0 {
                *left_out.entry("end of a request".to_owned()).or_default() += finished.open;
            }
            unmeasured.add(finished.unmeasured);
            files.push(finished.file);
        }
        Ok(Imported {
            ranks: files,
            left_out,
            others: self.definitions.others,
            unmeasured,
        })
    }
}

/// Ends a request; returns its slot and the position of its start, which is still incomplete.
fn untold(rank: &mut Rank, request: u64) -> Result<(usize, Place), String> {
    let ended = rank.end(request)?;
    match ended.told {
        false => Ok((ended.slot, ended.begun)),
        true => Err(format!("as request {request} began to send")),
    }
}
