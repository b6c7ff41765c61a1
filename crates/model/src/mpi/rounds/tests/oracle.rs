//! Plays steps with tokens instead of data: each part of a member records whose contributions it
//! contains.
//!
//! Messages are strictly synchronous: one is delivered when sender and receiver are both at it and
//! name the same parts, and a step ends when all that started with it have ended. So steps that
//! terminate here terminate with any rendezvous protocol.

use super::super::step::Step;
use std::collections::{BTreeMap, VecDeque};

/// The members whose contributions are in a part, in order.
pub(super) type Tokens = Vec<u32>;

/// A member's data, by part.
pub(super) type Parts = BTreeMap<usize, Tokens>;

/// Effect of a received part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meets {
    /// It replaces the present one.
    Replaces,
    /// It is combined with the present one; no contribution may be in both. A part with all
    /// contributions is the result and replaces it.
    Combines,
    /// It is united with the present one.
    Adds,
}

struct Message {
    tokens: Vec<(usize, Tokens)>,
    taken: bool,
}

/// Plays all members' steps and returns each member's final parts.
pub(super) fn played(all: &[Vec<Step>], mut have: Vec<Parts>, meets: Meets) -> Vec<Parts> {
    let size = all.len();
    let mut groups: Vec<VecDeque<&[Step]>> = all
        .iter()
        .map(|steps| steps.chunk_by(|_, next| next.beside).collect())
        .collect();
    // Per member: messages being sent, by receiver, and awaited messages with their parts.
    let mut sending: Vec<VecDeque<(usize, Message)>> = (0..size).map(|_| VecDeque::new()).collect();
    let mut waiting: Vec<Vec<(usize, Vec<usize>)>> = vec![Vec::new(); size];
    let mut got: Vec<Vec<(usize, Tokens)>> = vec![Vec::new(); size];
    let mut begun = vec![false; size];
    loop {
        let mut moved = false;
        for own in 0..size {
            let Some(group) = groups[own].front() else {
                continue;
            };
            if !begun[own] {
                begun[own] = true;
                moved = true;
                for step in group.iter() {
                    if let Some((to, parts)) = &step.send {
                        let token = |part: &usize| {
                            (*part, have[own].get(part).cloned().unwrap_or_default())
                        };
                        let tokens = parts.iter().map(token).collect();
                        let taken = false;
                        sending[own].push_back((*to, Message { tokens, taken }));
                    }
                    waiting[own].extend(step.receive.clone());
                }
            }
            let mut left = Vec::new();
            for (from, parts) in std::mem::take(&mut waiting[own]) {
                let earlier = left.iter().any(|(other, _)| *other == from);
                let mut messages = sending[from].iter_mut();
                let first = messages.find(|(to, message)| *to == own && !message.taken);
                match first.filter(|_| !earlier) {
                    Some((_, message)) => {
                        let sent: Vec<_> = message.tokens.iter().map(|(part, _)| *part).collect();
                        assert_eq!(sent, parts, "{own} of {size} from {from}");
                        got[own].append(&mut message.tokens);
                        message.taken = true;
                        moved = true;
                    }
                    None => left.push((from, parts)),
                }
            }
            waiting[own] = left;
            let sent = sending[own].iter().all(|(_, message)| message.taken);
            if waiting[own].is_empty() && sent {
                for (part, tokens) in std::mem::take(&mut got[own]) {
                    let complete = tokens.len() == size;
                    let here = have[own].entry(part).or_default();
                    meet(here, tokens, meets, complete);
                }
                sending[own].clear();
                groups[own].pop_front();
                begun[own] = false;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (own, groups) in groups.iter().enumerate() {
        assert!(groups.is_empty(), "{own} of {size} waits for ever");
    }
    have
}

fn meet(here: &mut Tokens, comes: Tokens, meets: Meets, complete: bool) {
    if meets == Meets::Replaces || complete {
        *here = comes;
        return;
    }
    let twice = here.iter().any(|token| comes.contains(token));
    assert!(
        meets == Meets::Adds || !twice,
        "combined twice: {here:?} with {comes:?}"
    );
    here.extend(comes);
    here.sort_unstable();
    here.dedup();
}
