//! Checks state transitions of a queue pair by the rules of [`verbena_transport::state`], in the
//! terms of the C interface.

use std::ffi::c_int;
use verbena_abi::*;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;
use verbena_transport::state::{self, Attributes, Kind, Refused, State};

fn kind_of(kind: ibv_qp_type) -> Option<Kind> {
    Some(match kind {
        IBV_QPT_RC => Kind::Rc,
        IBV_QPT_UC => Kind::Uc,
        IBV_QPT_UD => Kind::Ud,
        IBV_QPT_XRC_SEND => Kind::XrcInitiator,
        IBV_QPT_XRC_RECV => Kind::XrcTarget,
        _ => return None,
    })
}

/// Checks a transition of a queue pair of type `kind` with the attributes in `mask`.
///
/// # Errors
/// EINVAL if the transition is not allowed, or an attribute is missing or does not belong to it.
pub fn check(kind: ibv_qp_type, from: ibv_qp_state, to: ibv_qp_state, mask: c_int) -> Result<()> {
    let checked = match (kind_of(kind), State::from_code(from), State::from_code(to)) {
        (Some(kind), Some(from), Some(to)) => {
            state::check(kind, from, to, Attributes(mask.cast_unsigned()))
        }
        _ => return Err(no_transition(kind, from, to)),
    };
    match checked {
        Ok(()) => Ok(()),
        Err(Refused::NoTransition { .. }) => Err(no_transition(kind, from, to)),
        Err(Refused::Attributes { foreign, .. }) if matches!(to, IBV_QPS_RESET | IBV_QPS_ERR) => {
            Err(refused!(
                EINVAL,
                "to {}: no attribute is allowed, and attr_mask has {foreign}",
                state_name(to)
            ))
        }
        Err(Refused::Attributes { missing, foreign }) => Err(refused!(
            EINVAL,
            "from {} to {} attr_mask lacks {missing} and must not have {foreign}",
            state_name(from),
            state_name(to)
        )),
    }
}

/// Returns the error for a transition that is not in the table.
fn no_transition(
    kind: ibv_qp_type,
    from: ibv_qp_state,
    to: ibv_qp_state,
) -> verbena_hca_os::errno::Errno {
    refused!(
        EINVAL,
        "qp_state: no transition from {} to {} for a queue pair of type {kind}: the order is \
         RESET, INIT, RTR, RTS, and any state may go to RESET and ERR",
        state_name(from),
        state_name(to)
    )
}

pub(super) fn state_name(state: ibv_qp_state) -> &'static str {
    State::from_code(state).map_or("an unknown state", State::name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verbena_hca_os::errno::Errno;

    const KINDS: [(ibv_qp_type, Kind); 5] = [
        (IBV_QPT_RC, Kind::Rc),
        (IBV_QPT_UC, Kind::Uc),
        (IBV_QPT_UD, Kind::Ud),
        (IBV_QPT_XRC_SEND, Kind::XrcInitiator),
        (IBV_QPT_XRC_RECV, Kind::XrcTarget),
    ];
    const STATES: [(ibv_qp_state, State); 7] = [
        (IBV_QPS_RESET, State::Reset),
        (IBV_QPS_INIT, State::Initialized),
        (IBV_QPS_RTR, State::ReadyToReceive),
        (IBV_QPS_RTS, State::ReadyToSend),
        (IBV_QPS_SQD, State::SendQueueDrain),
        (IBV_QPS_SQE, State::SendQueueError),
        (IBV_QPS_ERR, State::Error),
    ];

    #[test]
    fn constants_of_the_c_interface_are_those_of_the_rules() {
        for (code, state) in STATES {
            assert_eq!(State::from_code(code), Some(state));
        }
        for (bit, attribute, name) in [
            (IBV_QP_STATE, Attributes::STATE, "IBV_QP_STATE"),
            (
                IBV_QP_ACCESS_FLAGS,
                Attributes::ACCESS_FLAGS,
                "IBV_QP_ACCESS_FLAGS",
            ),
            (IBV_QP_AV, Attributes::AV, "IBV_QP_AV"),
            (
                IBV_QP_MIN_RNR_TIMER,
                Attributes::MIN_RNR_TIMER,
                "IBV_QP_MIN_RNR_TIMER",
            ),
            (IBV_QP_DEST_QPN, Attributes::DEST_QPN, "IBV_QP_DEST_QPN"),
            (
                IBV_QP_RATE_LIMIT,
                Attributes::RATE_LIMIT,
                "IBV_QP_RATE_LIMIT",
            ),
        ] {
            assert_eq!(attribute, Attributes(bit.cast_unsigned()));
            assert_eq!(attribute.to_string(), name);
        }
        assert_eq!(state_name(IBV_QPS_ERR), "ERR");
        assert_eq!(state_name(7), "an unknown state");
    }

    #[test]
    fn unknown_types_and_states_are_refused() {
        for (kind, from, to) in [
            (99, IBV_QPS_RESET, IBV_QPS_INIT),
            (IBV_QPT_RC, 7, IBV_QPS_INIT),
            (IBV_QPT_RC, IBV_QPS_RESET, 7),
        ] {
            assert_eq!(check(kind, from, to, IBV_QP_STATE), Err(Errno::EINVAL));
        }
    }

    proptest! {
        #[test]
        fn every_transition_is_judged_by_the_rules(
            (code, kind) in proptest::sample::select(KINDS.to_vec()),
            (from, old) in proptest::sample::select(STATES.to_vec()),
            (to, new) in proptest::sample::select(STATES.to_vec()),
            flip in 0u32..32,
        ) {
            // The exact attributes, and those with one more or one less.
            let row = state::transition(kind, old, new);
            let required = row.map_or(Attributes::NONE, |row| row.required);
            for mask in [required.0, required.0 ^ 1 << flip] {
                let by_rules = state::check(kind, old, new, Attributes(mask));
                let checked = check(code, from, to, mask.cast_signed());
                prop_assert_eq!(checked.is_ok(), by_rules.is_ok());
            }
        }
    }
}
