//! Statuses of completions whose causes rules plant.

use std::fmt;

use crate::site::{Operation, Site};

/// The status with which a request or receive is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// IBV_WC_LOC_LEN_ERR.
    LocalLength,
    /// IBV_WC_LOC_QP_OP_ERR.
    LocalQpOperation,
    /// IBV_WC_LOC_PROT_ERR.
    LocalProtection,
    /// IBV_WC_MW_BIND_ERR.
    WindowBind,
    /// IBV_WC_WR_FLUSH_ERR: the queue pair moves to the error state.
    Flush,
    /// As [`Status::Flush`], with the event IBV_EVENT_QP_FATAL.
    Fatal,
    /// IBV_WC_REM_ACCESS_ERR.
    RemoteAccess,
    /// IBV_WC_REM_INV_REQ_ERR.
    RemoteInvalidRequest,
    /// IBV_WC_REM_OP_ERR.
    RemoteOperation,
    /// IBV_WC_RETRY_EXC_ERR.
    RetryExceeded,
    /// IBV_WC_RNR_RETRY_EXC_ERR.
    RnrRetryExceeded,
}

impl Status {
    /// All statuses, with their names in rules.
    pub const NAMES: [(&'static str, Status); 11] = [
        ("local-length", Status::LocalLength),
        ("local-qp-operation", Status::LocalQpOperation),
        ("local-protection", Status::LocalProtection),
        ("window-bind", Status::WindowBind),
        ("flush", Status::Flush),
        ("fatal", Status::Fatal),
        ("remote-access", Status::RemoteAccess),
        ("remote-invalid-request", Status::RemoteInvalidRequest),
        ("remote-operation", Status::RemoteOperation),
        ("retry-exceeded", Status::RetryExceeded),
        ("rnr-retry-exceeded", Status::RnrRetryExceeded),
    ];

    /// Returns the status with a name.
    pub fn named(name: &str) -> Option<Status> {
        let found = Status::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, status)| *status)
    }

    /// Returns the statuses with which a request or receive at this place can end; none for a
    /// call.
    pub fn possible(site: Site) -> impl Iterator<Item = Status> {
        let all = Status::NAMES.iter().map(|(_, status)| *status);
        all.filter(move |status| status.is_possible(site))
    }

    fn is_possible(self, site: Site) -> bool {
        let operation = match site {
            Site::Call(_) | Site::Port(_) | Site::Adapter | Site::Link(_) | Site::Queue(_) => {
                return false;
            }
            Site::Receives(_) => {
                return matches!(self, Status::LocalLength | Status::LocalProtection);
            }
            Site::Requests(_, Operation::Any) => return true,
            Site::Requests(_, operation) => operation,
        };
        match self {
            Status::LocalQpOperation | Status::Flush | Status::Fatal => true,
            Status::WindowBind => operation.is_local(),
            Status::LocalProtection => !operation.is_local() && operation != Operation::Flush,
            Status::LocalLength
            | Status::RemoteInvalidRequest
            | Status::RemoteOperation
            | Status::RetryExceeded => !operation.is_local(),
            Status::RemoteAccess => !operation.is_local() && operation != Operation::Send,
            // Only sends and writes with immediate data take a receive.
            Status::RnrRetryExceeded => matches!(operation, Operation::Send | Operation::Write),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Status::NAMES.iter().find(|(_, status)| status == self);
        to.write_str(named.map_or("", |(name, _)| name))
    }
}
