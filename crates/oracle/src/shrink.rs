//! Shrinks a program that shows a difference, as long as it still shows one.

use crate::program::{Action, Program, Step};
use std::time::Instant;

/// Returns the smallest program accepted by `shows` that was found in time. Removes steps in
/// halves, then in smaller parts, then singly; then removes calls and list entries.
pub fn shrink(program: &Program, end: Instant, mut shows: impl FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    loop {
        let before = best.clone();
        shrink_rules(&mut best, end, &mut shows);
        shrink_steps(&mut best, end, &mut shows);
        shrink_inside(&mut best, end, &mut shows);
        if best == before || Instant::now() > end {
            return best;
        }
    }
}

fn shrink_rules(best: &mut Program, end: Instant, shows: &mut impl FnMut(&Program) -> bool) {
    for index in (0..best.rules.len()).rev() {
        let mut smaller = best.clone();
        smaller.rules.remove(index);
        if Instant::now() < end && shows(&smaller) {
            *best = smaller;
        }
    }
}

fn shrink_steps(best: &mut Program, end: Instant, shows: &mut impl FnMut(&Program) -> bool) {
    let mut size = best.steps.len().div_ceil(2).max(1);
    loop {
        // From the end, because later steps depend on earlier ones.
        let mut at = best.steps.len();
        while at > 0 && Instant::now() < end {
            let start = at.saturating_sub(size);
            let mut smaller = best.clone();
            smaller.steps.drain(start..at);
            if shows(&smaller) {
                *best = smaller;
            }
            at = start;
        }
        if size == 1 || Instant::now() > end {
            return;
        }
        size = size.div_ceil(2);
    }
}

/// Returns all variants of a step with one call or list entry less.
fn lesser(step: &Step) -> Vec<Step> {
    let mut found = Vec::new();
    for index in 0..step.calls.len() {
        if step.calls.len() > 1 {
            let mut smaller = step.clone();
            smaller.calls.remove(index);
            found.push(smaller);
        }
        let length = list_length(&step.calls[index].action);
        for item in 0..length {
            if length > 1 {
                let mut smaller = step.clone();
                remove_item(&mut smaller.calls[index].action, item);
                found.push(smaller);
            }
        }
    }
    found
}

fn list_length(action: &Action) -> usize {
    match action {
        Action::PostSend { wrs, .. } => wrs.len(),
        Action::PostRecv { wrs, .. } | Action::PostSrqRecv { wrs, .. } => wrs.len(),
        _ => 0,
    }
}

fn remove_item(action: &mut Action, item: usize) {
    match action {
        Action::PostSend { wrs, .. } => {
            wrs.remove(item);
        }
        Action::PostRecv { wrs, .. } | Action::PostSrqRecv { wrs, .. } => {
            wrs.remove(item);
        }
        _ => {}
    }
}

fn shrink_inside(best: &mut Program, end: Instant, shows: &mut impl FnMut(&Program) -> bool) {
    for index in (0..best.steps.len()).rev() {
        while Instant::now() < end {
            let found = lesser(&best.steps[index]).into_iter().find_map(|step| {
                let mut smaller = best.clone();
                smaller.steps[index] = step;
                (Instant::now() < end && shows(&smaller)).then_some(smaller)
            });
            match found {
                Some(smaller) => *best = smaller,
                None => break,
            }
        }
    }
}
