//! Computes the members of communicators from the calls of all ranks that create them.
//!
//! All members of a communicator call the operations on it in the same order. An operation that
//! creates communicators is carried out when all members of its communicator have reached it.

use super::call::Call;
use super::group::{Groups, Step};
use super::{COMM_NULL, COMM_SELF, COMM_WORLD, Error};
use crate::Fault;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// How a call creates communicators.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Make {
    Duplicate,
    /// Of a group.
    Create(u16),
    Split {
        color: i32,
        key: i32,
    },
    /// The first ranks, in a grid.
    Grid(Vec<i32>),
    /// The parts of a grid along some dimensions.
    SubGrid(Vec<i32>),
    /// So many first ranks.
    First(i32),
}

impl Make {
    /// Returns whether two ranks call the same operation.
    fn is_like(&self, other: &Make) -> bool {
        match (self, other) {
            (Make::Create(_), Make::Create(_)) | (Make::Split { .. }, Make::Split { .. }) => true,
            _ => self == other,
        }
    }
}

/// A call that matters here.
#[derive(Debug)]
enum Event {
    Group(Step, u16),
    Make { make: Make, parent: u16, new: u16 },
}

/// The calls of a rank.
#[derive(Debug, Default)]
pub(super) struct Events(VecDeque<(usize, Event)>);

impl Events {
    /// Adds a call, if it matters.
    ///
    /// # Errors
    ///
    /// Returns the reason if it cannot be imported.
    pub fn add(&mut self, mut call: Call) -> Result<(), String> {
        let at = call.at;
        let made = |make: Make, parent: u16, new: u16| Event::Make { make, parent, new };
        let event = match call.function.name {
            "Comm_dup" => made(Make::Duplicate, call.handle(0), call.handle(1)),
            "Comm_create" => made(Make::Create(call.handle(1)), call.handle(0), call.handle(2)),
            "Comm_split" => {
                let (color, key) = (call.numbers[1], call.numbers[2]);
                made(Make::Split { color, key }, call.handle(0), call.handle(3))
            }
            "Cart_create" => made(
                Make::Grid(call.lists[0].clone()),
                call.handle(0),
                call.handle(3),
            ),
            "Cart_sub" => made(
                Make::SubGrid(call.lists[0].clone()),
                call.handle(1),
                call.handle(2),
            ),
            "Graph_create" => made(Make::First(call.numbers[2]), call.handle(1), call.handle(4)),
            "Intercomm_create" | "Intercomm_merge" => {
                return Err("communication between two groups cannot be imported".to_owned());
            }
            _ => match Step::of(&mut call) {
                Some((step, new)) => Event::Group(step, new),
                None => return Ok(()),
            },
        };
        self.0.push_back((at, event));
        Ok(())
    }
}

/// Members of the communicators that a rank creates, in the order of its calls; `None` if it is not
/// a member.
pub(super) type Created = VecDeque<Option<Arc<[usize]>>>;

/// A communicator.
#[derive(Debug)]
struct Communicator {
    members: Arc<[usize]>,
    /// Its dimensions, if it is a grid.
    grid: Option<Vec<i32>>,
    /// The members' calls to its next operation.
    reached: Vec<Arrival>,
}

/// A rank's call that creates communicators.
#[derive(Debug)]
struct Arrival {
    rank: usize,
    /// Position in the rank's file.
    at: usize,
    make: Make,
    /// The rank's number of the new communicator.
    new: u16,
}

/// State of the computation.
struct Computation<'a> {
    files: &'a [String],
    all: Vec<Communicator>,
    ranks: Vec<Rank>,
    runnable: VecDeque<usize>,
}

struct Rank {
    events: VecDeque<(usize, Event)>,
    groups: Groups,
    /// Communicators by the rank's number.
    own: HashMap<u16, usize>,
    created: Created,
}

/// Computes the members of all communicators; `files` are names for messages.
///
/// # Errors
///
/// Returns [`Error`] if the calls of the ranks do not match.
pub(super) fn created(files: &[String], events: Vec<Events>) -> Result<Vec<Created>, Error> {
    let size = events.len();
    let communicator = |members: Arc<[usize]>| Communicator {
        members,
        grid: None,
        reached: Vec::new(),
    };
    let world = communicator((0..size).collect());
    let selves = (0..size).map(|rank| communicator([rank].into()));
    let all = std::iter::once(world).chain(selves).collect();
    let rank = |(rank, events): (usize, Events)| Rank {
        events: events.0,
        groups: Groups::default(),
        own: HashMap::from([(COMM_WORLD, 0), (COMM_SELF, rank + 1)]),
        created: Created::new(),
    };
    let mut computation = Computation {
        files,
        all,
        ranks: events.into_iter().enumerate().map(rank).collect(),
        runnable: (0..size).collect(),
    };
    while let Some(rank) = computation.runnable.pop_front() {
        computation.advance(rank)?;
    }
    computation.check_end()?;
    let ranks = computation.ranks.into_iter();
    Ok(ranks.map(|rank| rank.created).collect())
}

impl Computation<'_> {
    fn fault(&self, rank: usize, at: usize, reason: impl Into<String>) -> Error {
        Error::File {
            file: self.files[rank].clone(),
            fault: Fault {
                at,
                reason: reason.into(),
            },
        }
    }

    /// Carries out a rank's calls up to the next that creates a communicator.
    fn advance(&mut self, number: usize) -> Result<(), Error> {
        while let Some((at, event)) = self.ranks[number].events.pop_front() {
            let rank = &mut self.ranks[number];
            let known = |own: &HashMap<u16, usize>, number: u16| {
                let known = own.get(&number).copied();
                known.ok_or_else(|| format!("there is no communicator {number}"))
            };
            match event {
                Event::Group(step, new) => {
                    let (all, own) = (&self.all, &rank.own);
                    let members = |number| Ok(all[known(own, number)?].members.to_vec());
                    let made = rank.groups.make(new, &step, members);
                    made.map_err(|reason| self.fault(number, at, reason))?;
                }
                Event::Make { make, parent, new } => {
                    let parent = known(&rank.own, parent);
                    let parent = parent.map_err(|reason| self.fault(number, at, reason))?;
                    let communicator = &mut self.all[parent];
                    let rank = number;
                    communicator.reached.push(Arrival {
                        rank,
                        at,
                        make,
                        new,
                    });
                    if communicator.reached.len() == communicator.members.len() {
                        self.carry_out(parent)?;
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Carries out an operation that all members have reached.
    fn carry_out(&mut self, parent: usize) -> Result<(), Error> {
        let mut reached = std::mem::take(&mut self.all[parent].reached);
        let members = self.all[parent].members.clone();
        // In the order of the members.
        let places: HashMap<usize, usize> = members.iter().copied().zip(0..).collect();
        reached.sort_by_key(|arrival| places[&arrival.rank]);
        let first = &reached[0];
        if let Some(other) = reached
            .iter()
            .find(|other| !first.make.is_like(&other.make))
        {
            let reason = format!(
                "it does not agree with {}, byte {}, the call of rank {} to the same operation",
                self.files[first.rank], first.at, first.rank
            );
            return Err(self.fault(other.rank, other.at, reason));
        }
        let parts = self
            .parts(parent, &reached)
            .map_err(|reason| self.fault(first.rank, first.at, reason))?;
        // Numbers of the new communicators by their parts, which ranks share.
        let mut numbers: HashMap<*const Part, usize> = HashMap::new();
        for (arrival, part) in reached.iter().zip(parts) {
            let &Arrival { rank, at, new, .. } = arrival;
            let is_null = new == COMM_NULL;
            let part = part.filter(|part| part.members.contains(&rank));
            let created = part.map(|part| {
                *numbers.entry(Arc::as_ptr(&part)).or_insert_with(|| {
                    self.all.push(Communicator {
                        members: part.members.as_slice().into(),
                        grid: part.grid.clone(),
                        reached: Vec::new(),
                    });
                    self.all.len() - 1
                })
            });
            if created.is_some() == is_null {
                let reason = match is_null {
                    true => "it returned MPI_COMM_NULL to a member of the new communicator",
                    false => "it returned a communicator of which the rank is not a member",
                };
                return Err(self.fault(rank, at, reason));
            }
            let of = &mut self.ranks[rank];
            if let Some(number) = created {
                of.own.insert(new, number);
            }
            let members = created.map(|number| self.all[number].members.clone());
            of.created.push_back(members);
            self.runnable.push_back(rank);
        }
        Ok(())
    }

    /// Returns for each member the members of its new communicator, and its dimensions.
    fn parts(&self, parent: usize, reached: &[Arrival]) -> Result<Parts, String> {
        let communicator = &self.all[parent];
        let (members, size) = (&communicator.members, communicator.members.len());
        let all = |members: Vec<usize>, grid: Option<Vec<i32>>| {
            let part = Arc::new(Part { members, grid });
            vec![Some(part); size]
        };
        let first = |count: i64| match usize::try_from(count).ok().filter(|&n| n <= size) {
            Some(count) => Ok(members[..count].to_vec()),
            None => Err(format!("it takes {count} of {size} ranks")),
        };
        Ok(match &reached[0].make {
            Make::Duplicate => all(members.to_vec(), communicator.grid.clone()),
            Make::First(count) => all(first(i64::from(*count))?, None),
            Make::Grid(dimensions) => {
                let count = dimensions.iter().try_fold(1_i64, |product, &length| {
                    product.checked_mul(i64::from(length))
                });
                let count = count.unwrap_or(i64::MAX);
                all(first(count)?, Some(dimensions.clone()))
            }
            Make::SubGrid(kept) => {
                let grid = communicator.grid.as_ref();
                let grid = grid.filter(|grid| grid.len() == kept.len());
                let grid = grid.ok_or("it divides a communicator that is not such a grid")?;
                sub_grids(members, grid, kept)
            }
            Make::Create(_) => {
                let mut known: HashMap<Vec<usize>, Arc<Part>> = HashMap::new();
                let mut parts = Vec::new();
                for arrival in reached {
                    let group = match arrival.make {
                        Make::Create(group) if arrival.new != COMM_NULL => group,
                        _ => {
                            parts.push(None);
                            continue;
                        }
                    };
                    let members = self.ranks[arrival.rank].groups.members(group)?;
                    let part = known.entry(members).or_insert_with_key(|members| {
                        Arc::new(Part {
                            members: members.clone(),
                            grid: None,
                        })
                    });
                    parts.push(Some(part.clone()));
                }
                parts
            }
            Make::Split { .. } => split(reached),
        })
    }

    /// Checks that no rank waits for others.
    fn check_end(&self) -> Result<(), Error> {
        for communicator in &self.all {
            let Some(first) = communicator.reached.first() else {
                continue;
            };
            let has_called = |member: &usize| {
                let mut reached = communicator.reached.iter();
                reached.any(|arrival| arrival.rank == *member)
            };
            let missing = communicator
                .members
                .iter()
                .find(|member| !has_called(member));
            let reason = format!(
                "it creates a communicator, and rank {} of the same communicator does not",
                missing.copied().unwrap_or_default()
            );
            return Err(self.fault(first.rank, first.at, reason));
        }
        Ok(())
    }
}

/// A new communicator: its members, and its dimensions if it is a grid.
#[derive(Debug)]
struct Part {
    members: Vec<usize>,
    grid: Option<Vec<i32>>,
}

/// The new communicator of each member.
type Parts = Vec<Option<Arc<Part>>>;

/// Divides a communicator by colors, and orders the members by keys.
fn split(reached: &[Arrival]) -> Parts {
    // Without a color, the new communicator is null.
    let of = |arrival: &Arrival| match arrival.make {
        Make::Split { color, key } if arrival.new != COMM_NULL => Some((color, key, arrival.rank)),
        _ => None,
    };
    let mut colors: BTreeMap<i32, Vec<(i32, usize, usize)>> = BTreeMap::new();
    for (place, one) in reached.iter().enumerate() {
        if let Some((color, key, rank)) = of(one) {
            colors.entry(color).or_default().push((key, place, rank));
        }
    }
    let part = |(color, mut members): (i32, Vec<(i32, usize, usize)>)| {
        members.sort_unstable();
        let members = members.into_iter().map(|(.., rank)| rank).collect();
        let grid = None;
        (color, Arc::new(Part { members, grid }))
    };
    let parts: BTreeMap<i32, Arc<Part>> = colors.into_iter().map(part).collect();
    let own = |one| of(one).map(|(color, ..)| parts[&color].clone());
    reached.iter().map(own).collect()
}

/// Divides a grid, whose last dimension varies fastest, along the dimensions that are kept.
fn sub_grids(members: &[usize], grid: &[i32], kept: &[i32]) -> Parts {
    // Coordinates of a place in the dimensions that are not kept.
    let fixed = |mut place: usize| {
        let mut fixed = Vec::new();
        for (&length, &is_kept) in grid.iter().zip(kept).rev() {
            let length = usize::try_from(length).unwrap_or(1).max(1);
            if is_kept == 0 {
                fixed.push(place % length);
            }
            place /= length;
        }
        fixed
    };
    let dimensions = grid.iter().zip(kept).filter(|(_, is_kept)| **is_kept != 0);
    let dimensions: Vec<i32> = dimensions.map(|(&length, _)| length).collect();
    let mut by_fixed: HashMap<Vec<usize>, Vec<usize>> = HashMap::new();
    for (place, &rank) in members.iter().enumerate() {
        by_fixed.entry(fixed(place)).or_default().push(rank);
    }
    let part = |(fixed, members): (Vec<usize>, Vec<usize>)| {
        let grid = Some(dimensions.clone());
        (fixed, Arc::new(Part { members, grid }))
    };
    let parts: HashMap<Vec<usize>, Arc<Part>> = by_fixed.into_iter().map(part).collect();
    let own = |place| Some(parts[&fixed(place)].clone());
    (0..members.len()).map(own).collect()
}
