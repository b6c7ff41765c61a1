//! The result of executing a send request.

use crate::qp::terms::status_code;
use verbena_abi::ibv_wc_status;
use verbena_transport::completion::Status;
use verbena_transport::order::{Outstanding, Start};
use verbena_transport::request::{Answer, Fence};

/// Result of executing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// Done, and a rule decides when it completes.
    DoneLater,
    /// Must wait until this time, by a rule.
    Wait(u64),
    /// Sent; the responder's position or answer completes it.
    Sent,
    /// Must wait for earlier requests.
    Order,
    /// The channel is full; the queue pair is woken when there is space.
    NoRoom,
    /// No channel to the owner of this number yet.
    Connect(u32),
    /// The peer does not answer.
    NoAnswer,
    /// Failed with this status.
    Failed(ibv_wc_status),
}

/// Returns the outcome of a read or an atomic beyond the limit of outstanding ones, on every path.
pub fn beyond_limit(outstanding: &Outstanding) -> Option<Outcome> {
    match outstanding.may_start(Answer::Response, Fence::Off) {
        Start::Now => None,
        Start::AfterOne | Start::AfterAll => Some(Outcome::Order),
        Start::Never => Some(Outcome::Failed(status_code(Status::LocalQpOperation))),
    }
}
