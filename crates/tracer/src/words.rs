//! Names of constants, as in the header without their common prefix.

use std::fmt;

use verbena_abi::names::{self, Names};
use verbena_abi::*;

/// One of several values; shown as a number if it has no name.
pub struct One(Names, u32);

impl fmt::Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.word(self.1) {
            Some(word) => f.write_str(word),
            None => write!(f, "{}", self.1),
        }
    }
}

/// A set of bits; those without a name are shown as a number.
pub struct Flags(Names, u32);

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.1;
        let mut separator = "";
        for (word, bit) in self.0.words() {
            if rest & bit != 0 {
                rest &= !bit;
                write!(f, "{separator}{word}")?;
                separator = "|";
            }
        }
        match (rest, self.1) {
            (0, 0) => f.write_str("0"),
            (0, _) => Ok(()),
            (rest, _) => write!(f, "{separator}{rest:#x}"),
        }
    }
}

pub fn qp_type(value: ibv_qp_type) -> One {
    One(names::QP_TYPES, value)
}

pub fn qp_state(value: ibv_qp_state) -> One {
    One(names::QP_STATES, value)
}

pub fn path_migration(value: ibv_mig_state) -> One {
    One(names::MIG_STATES, value)
}

pub fn mtu(value: ibv_mtu) -> One {
    One(names::MTUS, value)
}

pub fn port_state(value: ibv_port_state) -> One {
    One(names::PORT_STATES, value)
}

pub fn srq_type(value: ibv_srq_type) -> One {
    One(names::SRQ_TYPES, value)
}

pub fn request(value: ibv_wr_opcode) -> One {
    One(names::WR_OPCODES, value)
}

pub fn status(value: ibv_wc_status) -> One {
    One(names::WC_STATUSES, value)
}

pub fn completion(value: ibv_wc_opcode) -> One {
    One(names::WC_OPCODES, value)
}

pub fn event(value: ibv_event_type) -> One {
    One(names::EVENT_TYPES, value)
}

pub fn access(value: u32) -> Flags {
    Flags(names::ACCESS_FLAGS, value)
}

pub fn send_flags(value: u32) -> Flags {
    Flags(names::SEND_FLAGS, value)
}

pub fn completion_flags(value: u32) -> Flags {
    Flags(names::WC_FLAGS, value)
}

pub fn rereg(value: libc::c_int) -> Flags {
    Flags(names::REREG_MR_FLAGS, value as u32)
}

pub use verbena_coverage::errno::name as errno;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_named_as_in_the_header() {
        assert_eq!(qp_type(IBV_QPT_RC).to_string(), "RC");
        assert_eq!(qp_type(77).to_string(), "77");
        assert_eq!(access(0).to_string(), "0");
        assert_eq!(
            access(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | 1 << 30).to_string(),
            "LOCAL_WRITE|REMOTE_READ|0x40000000"
        );
        assert_eq!(errno(libc::EINVAL), "EINVAL");
        assert_eq!(errno(4095), "errno 4095");
    }
}
