//! Explores every order of a step's calls and of the work that they start.

use super::choice::{self, Choices};
use super::object::World;
use super::requester::Move;
use crate::program::{Action, ProcessId, Step};
use std::collections::HashSet;

/// Limit of explored states: beyond it the step is too concurrent to be judged.
const MOST_STATES: usize = 20_000;

/// A state within a step.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Moment {
    world: World,
    /// Number of calls that each process has made.
    made: Vec<usize>,
}

/// The step has too many possible orders.
#[derive(Debug)]
pub struct TooMany;

/// Returns every state that is possible after a step, from any of these.
///
/// # Errors
///
/// The step has too many possible orders.
pub fn after(worlds: &[World], step: &Step) -> Result<Vec<World>, TooMany> {
    let processes = worlds.first().map_or(0, |world| world.memory.len());
    let by_process: Vec<Vec<usize>> = (0..processes)
        .map(|process| {
            let by = |index: &usize| usize::from(step.calls[*index].by.0) == process;
            let mut own: Vec<usize> = (0..step.calls.len()).filter(by).collect();
            // A process that is killed has made its calls before.
            own.sort_by_key(|index| matches!(step.calls[*index].action, Action::Kill {}));
            own
        })
        .collect();
    let concurrent = step.calls.len() > 1;
    let start = |world: &World| Moment {
        world: world.clone(),
        made: vec![0; processes],
    };
    let mut open: Vec<Moment> = worlds.iter().map(start).collect();
    let mut seen: HashSet<Moment> = open.iter().cloned().collect();
    // In order of discovery, so that a seed always generates the same program.
    let (mut ends, mut ended) = (Vec::new(), HashSet::new());
    while let Some(moment) = open.pop() {
        let next = successors(&moment, step, &by_process, concurrent);
        // Optional moves lead to further final states; without them this is one.
        let optional = moment.world.optional_moves();
        let mut next = next;
        let over = next.is_empty();
        for one in optional {
            let results = choice::every(&moment.world, |world, choices: &mut Choices| {
                world.advance(one, !concurrent, choices);
            });
            let made = &moment.made;
            next.extend(results.into_iter().map(|world| Moment {
                world,
                made: made.clone(),
            }));
        }
        if over {
            let mut end = moment.world;
            end.drop_late_reliable();
            if ended.insert(end.clone()) {
                ends.push(end);
            }
        }
        for moment in next {
            if seen.len() > MOST_STATES {
                return Err(TooMany);
            }
            if seen.insert(moment.clone()) {
                open.push(moment);
            }
        }
    }
    Ok(ends)
}

fn successors(
    moment: &Moment,
    step: &Step,
    by_process: &[Vec<usize>],
    concurrent: bool,
) -> Vec<Moment> {
    let mut found = Vec::new();
    let moves = moment.world.moves();
    // In a step of one call its work is done before anything else happens, so a request may be
    // executed in one move, and if only one queue pair can move there is only one order. Only if an
    // acknowledgement may be lost, later requests may be executed before that is known.
    let is_lossy = moves.iter().any(|next| matches!(next, Move::Lose(_)));
    let only_one = !concurrent
        && !is_lossy
        && moves
            .windows(2)
            .all(|pair| queue_pair_of(pair[0]) == queue_pair_of(pair[1]));
    let considered = if only_one {
        &moves[..moves.len().min(1)]
    } else {
        &moves[..]
    };
    for next in considered {
        let results = choice::every(&moment.world, |world, choices: &mut Choices| {
            world.advance(*next, !concurrent, choices);
        });
        let made = &moment.made;
        found.extend(results.into_iter().map(|world| Moment {
            world,
            made: made.clone(),
        }));
    }
    for (process, calls) in by_process.iter().enumerate() {
        let Some(index) = calls.get(moment.made[process]) else {
            continue;
        };
        let mut made = moment.made.clone();
        made[process] += 1;
        let call = &step.calls[*index];
        if !moment.world.applicable(call) {
            found.push(Moment {
                world: moment.world.clone(),
                made,
            });
            continue;
        }
        let results = choice::every(&moment.world, |world, choices: &mut Choices| {
            let code = world.call(call, choices);
            world.outbox.codes.insert(*index, code);
        });
        found.extend(results.into_iter().map(|world| Moment {
            world,
            made: made.clone(),
        }));
    }
    found
}

fn queue_pair_of(next: Move) -> Option<crate::program::QpId> {
    match next {
        Move::LoseSilent(id)
        | Move::Begin(id)
        | Move::Finish(id)
        | Move::Acknowledge(id)
        | Move::Lose(id) => Some(id),
        Move::Arrive(_) => None,
    }
}

/// Returns the processes with calls in a step.
pub fn actors(step: &Step) -> Vec<ProcessId> {
    let mut actors: Vec<ProcessId> = step.calls.iter().map(|call| call.by).collect();
    actors.sort();
    actors.dedup();
    actors
}
