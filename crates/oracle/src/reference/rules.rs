//! The effect of rules on requests. A rule plants a cause; its consequences are those of any other
//! request with that cause.

use super::object::World;
use super::outcome::{FLUSHED, Statuses};
use super::requester::is_local;
use crate::program::rule::{Cause, Effect, Run};
use crate::program::{Flags, Key, Operation, QpId, Remote, SendWr};
use verbena_abi as abi;

impl World {
    /// Returns the cause by which requests of a queue pair end.
    fn cause(&self, id: QpId) -> Option<Cause> {
        let qp = self.qps.get(&id)?;
        self.rules.iter().find_map(|rule| match rule.effect {
            Effect::Ends(number, cause) if rule.by == qp.owner && number == qp.number => {
                Some(cause)
            }
            _ => None,
        })
    }

    /// Returns a request with the keys that its rule gives it.
    pub fn with_planted_keys(&self, id: QpId, mut wr: SendWr) -> SendWr {
        let has_bytes = wr.length() > 0 && !is_local(&wr.operation);
        match self.cause(id) {
            Some(Cause::Protection) if has_bytes && !wr.flags.has(Flags::INLINE) => {
                wr.sges.iter_mut().for_each(|sge| sge.key = Key::Bad);
            }
            Some(Cause::Access) if has_bytes && self.qps[&id].reliable() => {
                if let Some(remote) = remote(&mut wr.operation) {
                    remote.key = Key::Bad;
                }
            }
            _ => {}
        }
        wr
    }

    /// Returns the status of a request that the adapter does not even send, by a rule.
    pub fn planted_locally(&self, id: QpId) -> Option<Statuses> {
        match self.cause(id)? {
            Cause::QpOperation => Some(Statuses::of(abi::IBV_WC_LOC_QP_OP_ERR)),
            Cause::Flush if self.qps[&id].reliable() => Some(FLUSHED),
            _ => None,
        }
    }

    /// Returns whether no transmission of a queue pair's requests is answered, by a rule.
    pub fn is_never_answered(&self, id: QpId) -> bool {
        self.cause(id) == Some(Cause::Retries) && self.qps[&id].reliable()
    }

    /// Returns whether a message of a queue pair may be lost for good: by a service that does not
    /// repeat it, or because its rules may lose more transmissions in a row than its retries.
    pub fn may_lose(&self, id: QpId) -> bool {
        let qp = &self.qps[&id];
        let runs = self.rules.iter().filter_map(|rule| match rule.effect {
            Effect::Loses(run) if rule.by == qp.owner => Some(run),
            _ => None,
        });
        match runs.collect::<Vec<Run>>()[..] {
            [] => false,
            [Run::One] => !qp.reliable() || qp.retry == 0,
            _ => true,
        }
    }
}

/// Returns the responder's memory that an operation names.
fn remote(operation: &mut Operation) -> Option<&mut Remote> {
    match operation {
        Operation::Write { to } | Operation::WriteImm { to, .. } => Some(to),
        Operation::Read { from } => Some(from),
        Operation::CmpSwap { at, .. } | Operation::FetchAdd { at, .. } => Some(at),
        _ => None,
    }
}
