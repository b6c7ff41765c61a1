//! Completions of work requests.

use verbena_wire::aeth::NakCode;
use verbena_wire::immediate::Immediate;
use verbena_wire::{Qpn, RKey};

use crate::request::WorkId;

/// Completion status. The names are those of `ibv_wc_status` without their prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// IBV_WC_SUCCESS.
    Success,
    /// IBV_WC_LOC_LEN_ERR: the message does not fit the receive.
    LocalLength,
    /// IBV_WC_LOC_QP_OP_ERR: this queue pair cannot execute the request.
    LocalQpOperation,
    /// IBV_WC_LOC_PROT_ERR: local memory does not permit the access.
    LocalProtection,
    /// IBV_WC_WR_FLUSH_ERR: the queue pair entered the error state before the request was executed.
    Flushed,
    /// IBV_WC_BAD_RESP_ERR: the responder sent an invalid response.
    BadResponse,
    /// IBV_WC_REM_INV_REQ_ERR: the responder rejected the request as invalid.
    RemoteInvalidRequest,
    /// IBV_WC_LOC_ACCESS_ERR: for a receive, the memory named by a WRITE with immediate may not be
    /// written (11.6.2).
    LocalAccess,
    /// IBV_WC_REM_ACCESS_ERR: the remote key does not permit the access.
    RemoteAccess,
    /// IBV_WC_REM_OP_ERR: the responder could not complete the operation.
    RemoteOperation,
    /// IBV_WC_RETRY_EXC_ERR: no response after all retries.
    RetryExceeded,
    /// IBV_WC_RNR_RETRY_EXC_ERR: the receiver was not ready after all retries.
    RnrRetryExceeded,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 12] = [
        Self::Success,
        Self::LocalLength,
        Self::LocalQpOperation,
        Self::LocalProtection,
        Self::Flushed,
        Self::BadResponse,
        Self::RemoteInvalidRequest,
        Self::LocalAccess,
        Self::RemoteAccess,
        Self::RemoteOperation,
        Self::RetryExceeded,
        Self::RnrRetryExceeded,
    ];

    /// Returns the status of a request that a NAK refuses for good (specification 9.9.2, requester
    /// class B); `None` for a PSN sequence error, after which the request is retransmitted.
    pub const fn of_refusal(code: NakCode) -> Option<Self> {
        match code {
            NakCode::PsnSequenceError => None,
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => Some(Self::RemoteInvalidRequest),
            NakCode::RemoteAccessError => Some(Self::RemoteAccess),
            NakCode::RemoteOperationalError => Some(Self::RemoteOperation),
        }
    }
}

/// Data that accompanies a message's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tail {
    /// None.
    Nothing,
    /// Immediate data.
    Immediate(Immediate),
    /// The local key that was invalidated.
    Invalidated(RKey),
}

/// The peer's operation that a receive completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Received {
    /// A SEND: the bytes are in the receive's buffers.
    Send,
    /// An RDMA WRITE with immediate: the bytes are at the address that the peer named.
    WriteImmediate,
    /// A datagram: the receive's buffers hold a 40-byte global route header, then the payload.
    Datagram {
        /// The source queue pair.
        source: Qpn,
    },
}

/// The completion of a receive request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReceiveCompletion {
    /// The request.
    pub id: WorkId,
    /// Its status. The other fields are meaningful only on success.
    pub status: Status,
    /// The operation.
    pub received: Received,
    /// Length of the message in bytes.
    pub length: u32,
    /// Immediate data or invalidated key.
    pub tail: Tail,
    /// Whether the sender requested a solicited event.
    pub solicited: bool,
}
