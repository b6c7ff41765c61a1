//! How work requests end.

use verbena_wire::aeth::NakCode;
use verbena_wire::immediate::Immediate;
use verbena_wire::{Qpn, RKey};

use crate::request::WorkId;

/// How a work request ended. The names are those of `ibv_wc_status` without their prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// IBV_WC_SUCCESS.
    Success,
    /// IBV_WC_LOC_LEN_ERR: the message does not fit the receive.
    LocalLength,
    /// IBV_WC_LOC_QP_OP_ERR: the request cannot be carried out by this queue pair.
    LocalQpOperation,
    /// IBV_WC_LOC_PROT_ERR: the local memory may not be used so.
    LocalProtection,
    /// IBV_WC_WR_FLUSH_ERR: the queue pair went to the error state before its turn.
    Flushed,
    /// IBV_WC_BAD_RESP_ERR: the responder answered something impossible.
    BadResponse,
    /// IBV_WC_REM_INV_REQ_ERR: the responder could not make sense of the request.
    RemoteInvalidRequest,
    /// IBV_WC_LOC_ACCESS_ERR: the memory that a WRITE with immediate named may not be written (11.6.2); of a receive.
    LocalAccess,
    /// IBV_WC_REM_ACCESS_ERR: the key did not give the right.
    RemoteAccess,
    /// IBV_WC_REM_OP_ERR: the responder could not finish.
    RemoteOperation,
    /// IBV_WC_RETRY_EXC_ERR: no answer.
    RetryExceeded,
    /// IBV_WC_RNR_RETRY_EXC_ERR: the receiver was not ready too often.
    RnrRetryExceeded,
}

impl Status {
    /// How the request ends that a NAK refuses for good (specification 9.9.2, requester class B); nothing for a PSN
    /// sequence error, after which it is sent again.
    pub const fn of_refusal(code: NakCode) -> Option<Self> {
        match code {
            NakCode::PsnSequenceError => None,
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => Some(Self::RemoteInvalidRequest),
            NakCode::RemoteAccessError => Some(Self::RemoteAccess),
            NakCode::RemoteOperationalError => Some(Self::RemoteOperation),
        }
    }
}

/// The end of a send request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendCompletion {
    /// Which.
    pub id: WorkId,
    /// How.
    pub status: Status,
}

/// What came with a message beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tail {
    /// Nothing.
    Nothing,
    /// Immediate data.
    Immediate(Immediate),
    /// The key of this side that was invalidated.
    Invalidated(RKey),
}

/// Which operation of the peer a receive completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Received {
    /// A SEND: the bytes are in the receive's buffers.
    Send,
    /// An RDMA WRITE with immediate: the bytes are where the peer put them.
    WriteImmediate,
    /// A datagram: 40 bytes of global route header, then its own bytes, are in the receive's buffers.
    Datagram {
        /// The queue pair that sent it.
        source: Qpn,
    },
}

/// The end of a receive request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReceiveCompletion {
    /// Which.
    pub id: WorkId,
    /// How. Without success the rest means nothing.
    pub status: Status,
    /// What arrived.
    pub received: Received,
    /// Bytes of the message.
    pub length: u32,
    /// What came with it.
    pub tail: Tail,
    /// Whether the sender asked for a solicited event.
    pub solicited: bool,
}
