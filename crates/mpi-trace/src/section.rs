//! A section of a trace: the part of a program between two collective operations of all ranks. It
//! corresponds to a section timed by the program itself: LAMMPS' "loop time" is the time between
//! two barriers.

use crate::epoch::Epochs;
use crate::message::Messages;
use crate::part::Part;
use crate::rank::{Call, End, RankTrace, Record};
use crate::trace::{Error, Trace};
use std::collections::HashSet;

/// Limits of a section: numbers, from 0, of blocking collective operations of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// The section begins after this one.
    pub behind: usize,
    /// The section ends with this one.
    pub through: usize,
}

impl Trace {
    /// Returns a section alone, as if the program had begun and ended there. Its communicators and
    /// windows are those that existed at its start.
    ///
    /// # Errors
    ///
    /// Returns an error if a request, a message, or an epoch of accesses to a window is in progress
    /// at the start or end of the section, or if there is no such section.
    pub fn section(&self, section: Section) -> Result<Trace, Error> {
        let cut = |rank: &RankTrace| {
            let cut = Cut::new(rank, section).and_then(Cut::all);
            cut.map_err(|reason| self.fault(rank.rank, reason))
        };
        let alone = Trace {
            path: self.path.clone(),
            ranks: self.ranks.iter().map(cut).collect::<Result<_, _>>()?,
        };
        self.refuse_torn_messages(section.behind)?;
        self.refuse_torn_messages(section.through)?;
        Ok(alone)
    }

    /// Refuses messages in progress at the end of a collective operation of all ranks: all messages
    /// sent before must have been received. Comparing numbers within the section is not sufficient,
    /// because one message may enter where another leaves.
    fn refuse_torn_messages(&self, together: usize) -> Result<(), Error> {
        let until_then = Messages::of_part(self, |rank| through(rank, together))?;
        match until_then.imbalances().first() {
            None => Ok(()),
            Some(torn) => Err(self.fault(
                torn.from,
                format!("a message is {}: {torn}", under_way_at(together)),
            )),
        }
    }

    /// Returns the names of the blocking collective operations of all ranks, in the order of their
    /// numbers.
    pub fn together(&self) -> impl Iterator<Item = &str> {
        let first = &self.ranks[0];
        let world = world(first);
        let all = first.records.iter();
        all.filter(move |record| world.is_some_and(|world| is_of(first, record, world)))
            .map(|record| first.name(record))
    }
}

/// Returns the rank's number of MPI_COMM_WORLD: that of the first communicator with all ranks in
/// order.
fn world(rank: &RankTrace) -> Option<usize> {
    let parts = rank.records.iter().flat_map(|record| rank.parts(record));
    parts.into_iter().find_map(|part| match part {
        Part::Communicator {
            number, members, ..
        } if members.iter().copied().eq(0..rank.size) => Some(*number),
        _ => None,
    })
}

/// Returns whether a call contains a blocking collective operation of a communicator.
fn is_of(rank: &RankTrace, record: &Record, communicator: usize) -> bool {
    rank.parts(record).iter().any(|part| match part {
        Part::Collective {
            comm, slot: None, ..
        }
        | Part::Varied {
            comm, slot: None, ..
        } => *comm == communicator,
        _ => false,
    })
}

/// Returns a rank's records through a collective operation of all ranks, or all records if there is
/// none with this number.
fn through(rank: &RankTrace, together: usize) -> &[Record] {
    let world = world(rank);
    let is_together = |record: &Record| world.is_some_and(|world| is_of(rank, record, world));
    let all = rank.records.iter().enumerate();
    let mut ends = all.filter_map(|(at, record)| is_together(record).then_some(at + 1));
    &rank.records[..ends.nth(together).unwrap_or(rank.records.len())]
}

/// Describes the position of activity that the section would split.
fn under_way_at(together: usize) -> String {
    format!("under way at collective operation {together}, where the section begins or ends")
}

struct Cut<'a> {
    whole: &'a RankTrace,
    world: usize,
    section: Section,
    alone: RankTrace,
    /// Active requests.
    under_way: HashSet<usize>,
    /// Open epochs.
    epochs: Epochs,
}

impl<'a> Cut<'a> {
    fn new(whole: &'a RankTrace, section: Section) -> Result<Cut<'a>, String> {
        if section.behind >= section.through {
            return Err(format!(
                "a section from behind collective operation {} through {} is empty",
                section.behind, section.through
            ));
        }
        Ok(Cut {
            whole,
            world: world(whole).ok_or("no communicator has all ranks")?,
            section,
            alone: RankTrace {
                rank: whole.rank,
                size: whole.size,
                library: whole.library.clone(),
                recorded_on: whole.recorded_on,
                names: whole.names.clone(),
                calls: whole.calls.clone(),
                records: Vec::new(),
                polls: Vec::new(),
                end: End::Finalized,
            },
            under_way: HashSet::new(),
            epochs: Epochs::default(),
        })
    }

    fn all(mut self) -> Result<RankTrace, String> {
        let mut together = 0;
        for record in &self.whole.records {
            match together > self.section.behind {
                false => self.before(record),
                true => self.alone.records.push(*record),
            }
            self.follow(record);
            if !is_of(self.whole, record, self.world) {
                continue;
            }
            if [self.section.behind, self.section.through].contains(&together) {
                self.refuse_under_way(together)?;
            }
            if together == self.section.through {
                self.end(record);
                return Ok(self.alone);
            }
            together += 1;
        }
        Err(format!(
            "all ranks did {together} collective operations together, \
             so there is none of number {}",
            self.section.through
        ))
    }

    /// Keeps only the objects that the section may use from the time before it: communicators and
    /// windows.
    fn before(&mut self, record: &Record) {
        let call = &self.whole.calls[record.call];
        let lasts = |part: &&Part| {
            matches!(
                part,
                Part::Communicator { .. }
                    | Part::CommunicatorFreed { .. }
                    | Part::Window { .. }
                    | Part::WindowFreed { .. }
            )
        };
        let parts: Vec<Part> = call.parts.iter().filter(lasts).cloned().collect();
        if !parts.is_empty() {
            self.push(call.name, parts);
        }
    }

    fn push(&mut self, name: usize, parts: Vec<Part>) {
        self.alone.calls.push(Call { name, parts });
        self.alone.records.push(Record {
            call: self.alone.calls.len() - 1,
            computing: 0,
            within: 0,
        });
    }

    fn follow(&mut self, record: &Record) {
        for part in self.whole.parts(record) {
            self.epochs.note(part);
            match *part {
                Part::BeginSend { slot, .. }
                | Part::BeginReceive { slot, .. }
                | Part::Collective {
                    slot: Some(slot), ..
                }
                | Part::Varied {
                    slot: Some(slot), ..
                }
                | Part::Neighbors {
                    slot: Some(slot), ..
                }
                | Part::Access {
                    slot: Some(slot), ..
                } => {
                    self.under_way.insert(slot);
                }
                Part::Done { slot }
                | Part::Received { slot, .. }
                | Part::Cancelled { slot }
                | Part::Freed { slot } => {
                    self.under_way.remove(&slot);
                }
                _ => (),
            }
        }
    }

    fn refuse_under_way(&self, together: usize) -> Result<(), String> {
        let at = under_way_at(together);
        if let Some(slot) = self.under_way.iter().min() {
            return Err(format!("request {slot} is {at}"));
        }
        match self.epochs.open_window() {
            Some(window) => Err(format!("accesses to window {window} are {at}")),
            None => Ok(()),
        }
    }

    fn end(&mut self, last: &Record) {
        let name = self.whole.calls[last.call].name;
        self.push(name, vec![Part::Finalized]);
    }
}
