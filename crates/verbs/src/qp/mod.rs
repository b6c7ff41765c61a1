//! Options of queue pairs: types, states, attributes, and the required attributes of each
//! transition.
#![forbid(unsafe_code)]

pub mod attributes;
pub mod builder;
pub mod transition;

use std::fmt;
use verbena_abi as abi;
use verbena_abi::names::QP_STATES;

/// The types of `enum ibv_qp_type` that this client supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PairType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// XRC initiator (sender).
    XrcSend,
    /// XRC target (receiver).
    XrcReceive,
}

impl PairType {
    pub(crate) fn code(self) -> u32 {
        match self {
            PairType::Rc => abi::IBV_QPT_RC,
            PairType::Uc => abi::IBV_QPT_UC,
            PairType::Ud => abi::IBV_QPT_UD,
            PairType::XrcSend => abi::IBV_QPT_XRC_SEND,
            PairType::XrcReceive => abi::IBV_QPT_XRC_RECV,
        }
    }
}

impl fmt::Display for PairType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PairType::Rc => "RC",
            PairType::Uc => "UC",
            PairType::Ud => "UD",
            PairType::XrcSend => "XRC initiator",
            PairType::XrcReceive => "XRC target",
        })
    }
}

/// `enum ibv_qp_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PairState(pub u32);

impl PairState {
    /// Just created.
    pub const RESET: PairState = PairState(abi::IBV_QPS_RESET);
    /// Receives may be posted.
    pub const INIT: PairState = PairState(abi::IBV_QPS_INIT);
    /// Ready to receive.
    pub const RTR: PairState = PairState(abi::IBV_QPS_RTR);
    /// Ready to send.
    pub const RTS: PairState = PairState(abi::IBV_QPS_RTS);
    /// No further request is started.
    pub const SQD: PairState = PairState(abi::IBV_QPS_SQD);
    /// Failed; all requests are flushed.
    pub const ERROR: PairState = PairState(abi::IBV_QPS_ERR);
}

impl fmt::Display for PairState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match QP_STATES.word(self.0) {
            Some(word) => f.write_str(word),
            None => write!(f, "state {}", self.0),
        }
    }
}
