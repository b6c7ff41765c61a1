//! Requests behind a read without a fence may be executed before the read (10.8.3.3: a read and
//! later changes to memory are ordered only by a fence), so the read may return data that they have
//! written.

use super::memory::{Bytes, Source};
use super::object::{Answer, World, Wqe};
use crate::program::{Flags, Operation, QpId};
use std::ops::Range;

impl World {
    /// Returns the answer to a request, taking into account that later ones may have been executed
    /// first.
    pub fn as_overtaken(&self, id: QpId, index: usize, responder: QpId, answer: Answer) -> Answer {
        let Some(wqe) = self.qps[&id].sq.get(index) else {
            return answer;
        };
        let (Operation::Read { from }, Answer::Executed(Some(data))) = (&wqe.wr.operation, &answer)
        else {
            return answer;
        };
        let read = from.at..from.at.saturating_add(wqe.wr.length());
        let behind = self.qps[&id].sq.iter().skip(index + 1);
        let mut unfenced = behind.take_while(|wqe| !wqe.wr.flags.has(Flags::FENCE));
        if !unfenced.any(|wqe| self.may_change(responder, wqe, &read)) {
            return answer;
        }
        Answer::Executed(Some(Bytes::of(data.len(), Source::Unknown)))
    }

    fn may_change(&self, responder: QpId, wqe: &Wqe, read: &Range<u32>) -> bool {
        let overlaps = |at: u32, len: u32| at < read.end && read.start < at.saturating_add(len);
        match &wqe.wr.operation {
            Operation::Write { to } | Operation::WriteImm { to, .. } => {
                overlaps(to.at, wqe.wr.length())
            }
            Operation::CmpSwap { at, .. } | Operation::FetchAdd { at, .. } => overlaps(at.at, 8),
            Operation::Send {} | Operation::SendImm { .. } | Operation::SendInv { .. } => self
                .receives_for(responder, &wqe.wr)
                .flat_map(|receive| &receive.sges)
                .any(|sge| overlaps(sge.at, sge.len)),
            Operation::Read { .. } | Operation::LocalInv { .. } | Operation::BindMw { .. } => false,
        }
    }
}
