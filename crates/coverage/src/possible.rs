//! The outcomes that tests can see: four groups of items, each covered once it was seen.

use verbena_abi::*;

use crate::label;
use crate::seen::Seen;

/// A group of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Completion statuses.
    Statuses,
    /// Failures of the calls that the program makes.
    Calls,
    /// Asynchronous events.
    Events,
    /// Events of the connection manager, if the program uses it.
    CmEvents,
}

/// The groups, in the order of the report.
pub const GROUPS: [Group; 4] = [
    Group::Statuses,
    Group::Calls,
    Group::Events,
    Group::CmEvents,
];

/// Statuses that a request can end with. Not among them are those of reliable datagrams, which no
/// adapter has, and of tag matching; they count once they are seen.
const STATUSES: [ibv_wc_status; 17] = [
    IBV_WC_SUCCESS,
    IBV_WC_LOC_LEN_ERR,
    IBV_WC_LOC_QP_OP_ERR,
    IBV_WC_LOC_PROT_ERR,
    IBV_WC_WR_FLUSH_ERR,
    IBV_WC_MW_BIND_ERR,
    IBV_WC_BAD_RESP_ERR,
    IBV_WC_LOC_ACCESS_ERR,
    IBV_WC_REM_INV_REQ_ERR,
    IBV_WC_REM_ACCESS_ERR,
    IBV_WC_REM_OP_ERR,
    IBV_WC_RETRY_EXC_ERR,
    IBV_WC_RNR_RETRY_EXC_ERR,
    IBV_WC_REM_ABORT_ERR,
    IBV_WC_FATAL_ERR,
    IBV_WC_RESP_TIMEOUT_ERR,
    IBV_WC_GENERAL_ERR,
];

/// The last of the asynchronous events but the one of raw work queues, which counts once seen.
const LAST_EVENT: ibv_event_type = IBV_EVENT_GID_CHANGE;

/// Number of events of the connection manager.
const CM_EVENTS: i32 = 16;

/// Something that tests can see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its name: of a status, an event or a call.
    pub name: String,
    /// How often it was seen: completions, events, or failures of the call.
    pub count: u64,
}

impl Group {
    /// Returns the name that options have for it.
    pub fn name(self) -> &'static str {
        match self {
            Group::Statuses => "statuses",
            Group::Calls => "calls",
            Group::Events => "events",
            Group::CmEvents => "cm-events",
        }
    }

    /// Returns its title in reports.
    pub fn title(self) -> &'static str {
        match self {
            Group::Statuses => "completion statuses",
            Group::Calls => "failures of calls",
            Group::Events => "asynchronous events",
            Group::CmEvents => "connection manager events",
        }
    }

    /// Returns its items, in the order of the header; calls by name. None if the program does not
    /// use the connection manager.
    pub fn items(self, seen: &Seen) -> Vec<Item> {
        match self {
            Group::Statuses => {
                let others = seen.completions.keys().map(|(status, _)| *status);
                let mut all: Vec<i32> = STATUSES
                    .iter()
                    .map(|one| *one as i32)
                    .chain(others)
                    .collect();
                all.sort_unstable();
                all.dedup();
                let item = |status: i32| Item {
                    name: label::status(status),
                    count: sum(seen
                        .completions
                        .range((status, i32::MIN)..=(status, i32::MAX))),
                };
                all.into_iter().map(item).collect()
            }
            Group::Calls => {
                let calls = seen.calls.iter().map(|(name, results)| Item {
                    name: name.clone(),
                    count: sum(results.iter().filter(|(errno, _)| **errno != 0)),
                });
                calls.collect()
            }
            Group::Events => {
                let others = seen.events.keys().copied();
                let mut all: Vec<i32> = (0..=LAST_EVENT as i32).chain(others).collect();
                all.sort_unstable();
                all.dedup();
                let item = |event: i32| Item {
                    name: label::event(event),
                    count: seen.events.get(&event).copied().unwrap_or_default(),
                };
                all.into_iter().map(item).collect()
            }
            Group::CmEvents if !uses_cm(seen) => Vec::new(),
            Group::CmEvents => {
                let others = seen.cm_events.keys().map(|(event, _)| *event);
                let mut all: Vec<i32> = (0..CM_EVENTS).chain(others).collect();
                all.sort_unstable();
                all.dedup();
                let item = |event: i32| Item {
                    name: label::cm_event(event),
                    count: sum(seen.cm_events.range((event, i32::MIN)..=(event, i32::MAX))),
                };
                all.into_iter().map(item).collect()
            }
        }
    }

    /// Returns how many of its items were seen, and how many there are.
    pub fn covered(self, seen: &Seen) -> (usize, usize) {
        let items = self.items(seen);
        (
            items.iter().filter(|item| item.count > 0).count(),
            items.len(),
        )
    }
}

/// Returns how many items of all groups were seen, and how many there are.
pub fn covered(seen: &Seen) -> (usize, usize) {
    let groups = GROUPS.map(|group| group.covered(seen));
    let sum = |of: fn(&(usize, usize)) -> usize| groups.iter().map(of).sum();
    (sum(|group| group.0), sum(|group| group.1))
}

/// Returns the share of items that were seen, in percent; 0 if there are none.
pub fn percent((seen, all): (usize, usize)) -> f64 {
    match all {
        0 => 0.0,
        _ => 100.0 * seen as f64 / all as f64,
    }
}

fn uses_cm(seen: &Seen) -> bool {
    let calls = seen.calls.keys();
    !seen.cm_events.is_empty() || calls.into_iter().any(|name| name.starts_with("rdma_"))
}

fn sum<'a, K>(counts: impl Iterator<Item = (K, &'a u64)>) -> u64 {
    counts.fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn items_are_covered_once_seen() {
        let mut seen = Seen::default();
        assert_eq!(covered(&seen), (0, 36));
        seen.add(Outcome::Completion(0, 0), 2);
        seen.add(Outcome::Completion(0, 128), 3);
        seen.add(Outcome::Call("ibv_reg_mr", 0), 5);
        seen.add(Outcome::Call("ibv_create_cq", 0), 5);
        seen.add(Outcome::Call("ibv_create_cq", libc::ENOMEM), 1);
        assert_eq!(Group::Statuses.items(&seen)[0].count, 5);
        assert_eq!(Group::Calls.covered(&seen), (1, 2));
        assert_eq!(Group::CmEvents.covered(&seen), (0, 0));
        seen.add(Outcome::Call("rdma_connect", 0), 1);
        assert_eq!(Group::CmEvents.covered(&seen), (0, 16));
        assert_eq!(percent((1, 4)), 25.0);
    }

    #[test]
    fn unlisted_outcomes_count_once_seen() {
        let mut seen = Seen::default();
        seen.add(Outcome::Completion(IBV_WC_TM_ERR as i32, 0), 1);
        seen.add(Outcome::Event(77), 1);
        assert_eq!(Group::Statuses.covered(&seen), (1, 18));
        assert_eq!(Group::Events.covered(&seen), (1, 20));
    }
}
