//! Groups of ranks of a process (`MPI_Group`).

use super::call::Call;
use std::collections::{HashMap, HashSet};

/// The empty group (`dumpi_native_groups`).
const EMPTY: u16 = 2;

/// How a call makes a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// That of a communicator.
    OfCommunicator(u16),
    Union(u16, u16),
    Intersection(u16, u16),
    Difference(u16, u16),
    /// The members at these places, in this order, or all others.
    Places {
        group: u16,
        places: Vec<i32>,
        are_kept: bool,
    },
    /// The same by first, last and stride.
    Ranges {
        group: u16,
        ranges: Vec<Vec<i32>>,
        are_kept: bool,
    },
}

impl Step {
    /// Returns the step of a call and the group that it makes; `None` for other calls.
    pub fn of(call: &mut Call) -> Option<(Step, u16)> {
        let handle = |position: usize| call.handle(position);
        let (name, is_incl) = (call.function.name, call.function.name.ends_with("incl"));
        Some(match name {
            "Comm_group" => (Step::OfCommunicator(handle(0)), handle(1)),
            "Group_union" => (Step::Union(handle(0), handle(1)), handle(2)),
            "Group_intersection" => (Step::Intersection(handle(0), handle(1)), handle(2)),
            "Group_difference" => (Step::Difference(handle(0), handle(1)), handle(2)),
            "Group_incl" | "Group_excl" => {
                let (group, new) = (handle(0), handle(2));
                let places = std::mem::take(&mut call.lists[0]);
                let step = Step::Places {
                    group,
                    places,
                    are_kept: is_incl,
                };
                (step, new)
            }
            "Group_range_incl" | "Group_range_excl" => {
                let (group, new) = (handle(0), handle(2));
                let ranges = std::mem::take(&mut call.lists);
                let step = Step::Ranges {
                    group,
                    ranges,
                    are_kept: is_incl,
                };
                (step, new)
            }
            _ => return None,
        })
    }
}

/// The groups of a process by number: ranks in MPI_COMM_WORLD.
#[derive(Debug, Default)]
pub(super) struct Groups(HashMap<u16, Vec<usize>>);

impl Groups {
    /// Returns the members of a group.
    pub fn members(&self, group: u16) -> Result<Vec<usize>, String> {
        match self.0.get(&group) {
            Some(members) => Ok(members.clone()),
            None if group == EMPTY => Ok(Vec::new()),
            None => Err(format!("it uses group {group}, whose members are unknown")),
        }
    }

    /// Makes a group; `communicator` returns the members of a communicator.
    pub fn make(
        &mut self,
        new: u16,
        step: &Step,
        communicator: impl Fn(u16) -> Result<Vec<usize>, String>,
    ) -> Result<(), String> {
        let members = match step {
            &Step::OfCommunicator(number) => communicator(number)?,
            &Step::Union(one, other) => {
                let mut members = self.members(one)?;
                let known: HashSet<usize> = members.iter().copied().collect();
                let other = self.members(other)?.into_iter();
                members.extend(other.filter(|rank| !known.contains(rank)));
                members
            }
            &Step::Intersection(one, other) => {
                let other: HashSet<usize> = self.members(other)?.into_iter().collect();
                let mut members = self.members(one)?;
                members.retain(|rank| other.contains(rank));
                members
            }
            &Step::Difference(one, other) => {
                let other: HashSet<usize> = self.members(other)?.into_iter().collect();
                let mut members = self.members(one)?;
                members.retain(|rank| !other.contains(rank));
                members
            }
            Step::Places {
                group,
                places,
                are_kept,
            } => chosen(&self.members(*group)?, places, *are_kept)?,
            Step::Ranges {
                group,
                ranges,
                are_kept,
            } => {
                let members = self.members(*group)?;
                let places = expanded(ranges, members.len())?;
                chosen(&members, &places, *are_kept)?
            }
        };
        self.0.insert(new, members);
        Ok(())
    }
}

/// Returns the members at these places, or all others.
fn chosen(members: &[usize], places: &[i32], are_kept: bool) -> Result<Vec<usize>, String> {
    let rank = |&place: &i32| {
        let known = usize::try_from(place).ok().and_then(|at| members.get(at));
        known.copied().ok_or_else(|| {
            format!(
                "it names rank {place} of a group of {} ranks",
                members.len()
            )
        })
    };
    let named: Vec<usize> = places.iter().map(rank).collect::<Result<_, _>>()?;
    Ok(match are_kept {
        true => named,
        false => {
            let named: HashSet<usize> = named.into_iter().collect();
            let others = members.iter().filter(|rank| !named.contains(rank));
            others.copied().collect()
        }
    })
}

/// Returns the places of ranges.
fn expanded(ranges: &[Vec<i32>], size: usize) -> Result<Vec<i32>, String> {
    let mut places = Vec::new();
    for range in ranges {
        let &[first, last, stride] = range.as_slice() else {
            return Err("a range of a group has no three numbers".to_owned());
        };
        if stride == 0 {
            return Err("a range of a group has stride 0".to_owned());
        }
        let (mut place, last) = (i64::from(first), i64::from(last));
        while (stride > 0 && place <= last) || (stride < 0 && place >= last) {
            if places.len() >= size {
                return Err(format!("ranges of a group have more than its {size} ranks"));
            }
            places.push(i32::try_from(place).unwrap_or(-1));
            place += i64::from(stride);
        }
    }
    Ok(places)
}
