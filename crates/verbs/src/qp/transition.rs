//! Required attributes of each state transition, by type ([`verbena_transport::state`]). Checked
//! before the library is called, so that an error can name the missing attributes instead of
//! `EINVAL`.

use crate::error::{Error, Result};
use crate::qp::attributes::Change;
use crate::qp::{PairState, PairType};
use verbena_transport::state::{Attributes, Kind, State, transition};

/// Checks that `change` has the attributes that its state requires.
pub(crate) fn check(pair: PairType, change: &Change) -> Result<()> {
    let kind = match pair {
        PairType::Rc => Kind::Rc,
        PairType::Uc => Kind::Uc,
        PairType::Ud => Kind::Ud,
        PairType::XrcSend => Kind::XrcInitiator,
        PairType::XrcReceive => Kind::XrcTarget,
    };
    let (from, to) = match change.to {
        PairState::INIT => (State::Reset, State::Initialized),
        PairState::RTR => (State::Initialized, State::ReadyToReceive),
        PairState::RTS if change.is_from_drained => (State::SendQueueDrain, State::ReadyToSend),
        PairState::RTS => (State::ReadyToReceive, State::ReadyToSend),
        _ => return Ok(()),
    };
    let required = transition(kind, from, to).map_or(Attributes::NONE, |row| row.required);
    let missing = required.without(Attributes(change.mask.cast_unsigned()));
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid(
            "ibv_modify_qp",
            format!("a {pair} pair needs {missing} to reach {}", change.to),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::region::AccessFlags;
    use crate::qp::attributes::{Connection, Path};
    use verbena_abi as abi;

    const CONNECTION: Connection = Connection {
        path: Path {
            lid: 1,
            gid: None,
            source_gid: 0,
            traffic_class: 0,
            service_level: 0,
            port: 1,
        },
        peer: 2,
        peer_psn: 3,
        psn: 4,
        mtu_code: 5,
        reads_served: 1,
        reads_initiated: 1,
        timeout: 14,
        retries: 7,
        rnr_retries: 7,
    };

    #[test]
    fn own_transitions_satisfy_the_attribute_table() {
        use PairType::*;
        for pair in [Rc, Uc, Ud, XrcSend, XrcReceive] {
            for change in [
                Change::to_init(pair, 1, AccessFlags::LOCAL, 0),
                Change::to_rtr(pair, &CONNECTION),
                Change::to_rts(pair, &CONNECTION),
                Change::to_drained(),
                Change::from_drained(),
                Change::to_error(),
            ] {
                assert!(check(pair, &change).is_ok(), "{pair} to {}", change.to);
            }
        }
    }

    #[test]
    fn missing_attributes_are_named() {
        let change = Change::to_rtr(PairType::Rc, &CONNECTION)
            .without(abi::IBV_QP_AV | abi::IBV_QP_MIN_RNR_TIMER);
        let message = check(PairType::Rc, &change).unwrap_err().to_string();
        assert!(
            message.contains("IBV_QP_AV|IBV_QP_MIN_RNR_TIMER"),
            "{message}"
        );
    }
}
