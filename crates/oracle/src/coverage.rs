//! Coverage: counts of each kind of call, completion and event.

use crate::program::{Action, Call, Operation};
use crate::reference::candidate_states::Seen;
use crate::reference::outcome::EventKind;
use std::collections::BTreeMap;
use std::fmt;
use verbena_abi as abi;
use verbena_abi::names::WC_STATUSES;

/// Counts by kind.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Number of programs run.
    pub programs: u64,
    /// Number of programs that were too concurrent to be judged.
    pub unjudged: u64,
    /// Number of steps run.
    pub steps: u64,
    counts: BTreeMap<(&'static str, String), u64>,
}

impl Coverage {
    fn count(&mut self, table: &'static str, kind: String) {
        *self.counts.entry((table, kind)).or_default() += 1;
    }

    /// Counts a call.
    pub fn call(&mut self, call: &Call, code: i32) {
        let result = if code == 0 { "" } else { " refused" };
        self.count("calls", format!("{}{result}", call.action.name()));
        if let Action::PostSend { wrs, .. } = &call.action {
            for wr in wrs {
                self.count("requests", wr.operation.name().to_owned());
            }
        }
    }

    /// Counts a completion.
    pub fn completion(&mut self, seen: &Seen) {
        self.count("statuses", status_name(seen.status).to_owned());
    }

    /// Counts an event.
    pub fn event(&mut self, kind: EventKind) {
        self.count("events", format!("{kind:?}"));
    }

    /// Returns the count of a kind in a table.
    pub fn of(&self, table: &'static str, kind: &str) -> u64 {
        self.counts
            .get(&(table, kind.to_owned()))
            .copied()
            .unwrap_or(0)
    }
}

/// Statuses that an unrestricted run must reach.
const STATUSES: &[u32] = &[
    abi::IBV_WC_SUCCESS,
    abi::IBV_WC_LOC_LEN_ERR,
    abi::IBV_WC_LOC_PROT_ERR,
    abi::IBV_WC_WR_FLUSH_ERR,
    abi::IBV_WC_MW_BIND_ERR,
    abi::IBV_WC_LOC_ACCESS_ERR,
    abi::IBV_WC_REM_INV_REQ_ERR,
    abi::IBV_WC_REM_ACCESS_ERR,
    abi::IBV_WC_REM_OP_ERR,
    abi::IBV_WC_RETRY_EXC_ERR,
    abi::IBV_WC_RNR_RETRY_EXC_ERR,
];

impl Coverage {
    /// Returns the calls, operations, statuses and events that an unrestricted run must reach and
    /// has not.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut want = |table: &'static str, kind: &str| {
            if self.of(table, kind) == 0 {
                missing.push(format!("{table}: {kind}"));
            }
        };
        Action::WORDS.iter().for_each(|word| want("calls", word));
        Operation::WORDS
            .iter()
            .for_each(|word| want("requests", word));
        STATUSES
            .iter()
            .for_each(|status| want("statuses", status_name(*status)));
        for event in [EventKind::SrqLimit, EventKind::Drained, EventKind::LastWqe] {
            want("events", &format!("{event:?}"));
        }
        missing
    }
}

/// Returns the name of a completion status.
pub fn status_name(status: u32) -> &'static str {
    WC_STATUSES.word(status).unwrap_or("another")
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} programs ({} too concurrent to be judged), {} steps",
            self.programs, self.unjudged, self.steps
        )?;
        let mut last = "";
        for ((table, kind), count) in &self.counts {
            if *table != last {
                writeln!(f, "{table}:")?;
                last = table;
            }
            writeln!(f, "  {count:>8} {kind}")?;
        }
        Ok(())
    }
}
