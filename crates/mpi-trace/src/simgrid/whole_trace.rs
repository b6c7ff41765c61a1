//! Facts that only the whole trace shows: which tests completed their request, and which receives
//! are from `MPI_PROC_NULL`.

use super::action::{Action, COLLECTIVE, EXCHANGE_TAG, Key};
use super::step::Step;
use std::collections::{HashMap, HashSet, VecDeque};

/// An active request; with the index of its last test.
type Active = Option<usize>;

/// Finds the tests that completed their request. A trace has every call of `MPI_Test`, without its
/// result. The last one of a request completed it, unless the request is waited for later. Whether
/// an `MPI_Waitall` waits for tested requests too shows in its number of requests.
pub(super) fn find_completing_tests(steps: &mut [Step]) {
    let mut active: HashMap<Key, VecDeque<Active>> = HashMap::new();
    let mut ending = Vec::new();
    let (mut count, mut tested) = (0u64, HashSet::<Key>::new());
    for (at, step) in steps.iter().enumerate() {
        let begun = match &step.action {
            Action::Send { key, .. } | Action::Receive { key, .. } => *key,
            Action::Collective(operation) => (!operation.is_blocking).then_some(COLLECTIVE),
            _ => None,
        };
        if let Some(key) = begun {
            let queue = active.entry(key).or_default();
            if let Some(&Some(test)) = queue.front() {
                queue.pop_front();
                tested.remove(&key);
                ending.push(test);
                count -= 1;
            }
            queue.push_back(None);
            count += 1;
        }
        match step.action {
            Action::Wait(key) => {
                if let Some(queue) = active.get_mut(&key)
                    && queue.pop_front().is_some()
                {
                    tested.remove(&key);
                    count -= 1;
                }
            }
            Action::Test { key, .. } => {
                if let Some(first) = active.get_mut(&key).and_then(VecDeque::front_mut) {
                    *first = Some(at);
                    tested.insert(key);
                }
            }
            Action::WaitAll(requests) => {
                if count > requests {
                    let tests = tested.iter().filter_map(|key| active[key].front());
                    ending.extend(tests.flatten());
                }
                active.clear();
                tested.clear();
                count = 0;
            }
            _ => (),
        }
    }
    ending.extend(active.values().flatten().flatten());
    for at in ending {
        if let Action::Test { ends, .. } = &mut steps[at].action {
            *ends = true;
        }
    }
}

/// Marks receives from `MPI_PROC_NULL`, which a trace writes like receives from any rank: those of
/// a tag with which no more messages come than there are receives from known ranks.
pub(super) fn find_null_receives(ranks: &mut [Vec<Step>]) {
    let mut surplus: HashMap<(usize, u32), i64> = HashMap::new();
    for (rank, steps) in ranks.iter().enumerate() {
        for step in steps {
            match step.action {
                Action::Send {
                    peer: Some(peer),
                    tag,
                    ..
                } => *surplus.entry((peer, tag)).or_default() += 1,
                Action::Receive {
                    peer: Some(_),
                    tag: Some(tag),
                    ..
                } => *surplus.entry((rank, tag)).or_default() -= 1,
                Action::Exchange { to, .. } => {
                    *surplus.entry((to, EXCHANGE_TAG)).or_default() += 1;
                }
                _ => (),
            }
        }
    }
    for (rank, steps) in ranks.iter_mut().enumerate() {
        for step in steps.iter_mut() {
            if let Action::Receive {
                peer: None,
                tag: Some(tag),
                key: Some(_),
                is_null,
                ..
            } = &mut step.action
            {
                *is_null = surplus.get(&(rank, *tag)).is_none_or(|&more| more <= 0);
            }
        }
    }
}
