//! A section of a trace: what a program did between two collective operations of all ranks. A program's own clock counts such a section:
//! LAMMPS' "loop time" is what lies between two barriers.

use crate::epoch::Epochs;
use crate::message::Messages;
use crate::part::Part;
use crate::rank::{Call, End, RankTrace, Record};
use crate::trace::{Error, Trace};
use std::collections::HashSet;

/// Where a section lies: numbers, from 0, of collective operations that all ranks did together and waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// It begins when this one has ended.
    pub behind: usize,
    /// It ends with this one.
    pub through: usize,
}

impl Trace {
    /// A section alone, as if the program had begun there and ended there. Communicators and windows are those that there were.
    ///
    /// Refused where it would tear apart what belongs together: a request, a message or accesses to a window that are under way where it
    /// begins or ends.
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

    /// Refuses messages that are under way when a collective operation of all ranks ends. What was sent until then has been received: that
    /// within the section as many come as go says nothing, as one may come in where another goes out.
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

    /// The names of the collective operations that all ranks did together and waited for, by the numbers that a section goes by.
    pub fn together(&self) -> impl Iterator<Item = &str> {
        let first = &self.ranks[0];
        let world = world(first);
        let all = first.records.iter();
        all.filter(move |record| world.is_some_and(|world| is_of(first, record, world)))
            .map(|record| first.name(record))
    }
}

/// The rank's number of MPI_COMM_WORLD: that of the first communicator that has all ranks in their order.
fn world(rank: &RankTrace) -> Option<usize> {
    let parts = rank.records.iter().flat_map(|record| rank.parts(record));
    parts.into_iter().find_map(|part| match part {
        Part::Communicator {
            number, members, ..
        } if members.iter().copied().eq(0..rank.size) => Some(*number),
        _ => None,
    })
}

/// Whether a call waited for a collective operation of a communicator.
fn is_of(rank: &RankTrace, record: &Record, communicator: usize) -> bool {
    rank.parts(record).iter().any(|part| {
        matches!(part,
            Part::Collective { comm, slot: None, .. } | Part::Varied { comm, slot: None, .. } if *comm == communicator)
    })
}

/// What a rank did through a collective operation of all ranks, or all, if there is none of that number.
fn through(rank: &RankTrace, together: usize) -> &[Record] {
    let world = world(rank);
    let is_together = |record: &Record| world.is_some_and(|world| is_of(rank, record, world));
    let all = rank.records.iter().enumerate();
    let mut ends = all.filter_map(|(at, record)| is_together(record).then_some(at + 1));
    &rank.records[..ends.nth(together).unwrap_or(rank.records.len())]
}

/// Where what a section would tear apart is.
fn under_way_at(together: usize) -> String {
    format!("under way at collective operation {together}, where the section begins or ends")
}

/// A rank's section under construction.
struct Cut<'a> {
    whole: &'a RankTrace,
    world: usize,
    section: Section,
    alone: RankTrace,
    /// Requests under way.
    under_way: HashSet<usize>,
    /// Epochs that are open.
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
            "all ranks did {together} collective operations together, so there is none of number {}",
            self.section.through
        ))
    }

    /// Of what came before the section only what the section may use is left.
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

    /// A call that takes no time.
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
            self.epochs.see(part);
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
