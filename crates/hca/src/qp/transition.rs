//! State transitions of a queue pair and their attributes: the table of ibv_modify_qp(3) and of the
//! architecture specification, chapter 11.2.5.2.

use crate::errno::{Errno, Result};
use crate::refused;
use std::ffi::c_int;
use std::fmt;
use verbena_abi::*;

/// Required and optional attributes of a transition for one type, besides the state itself.
struct Row {
    kind: ibv_qp_type,
    required: c_int,
    optional: c_int,
}

const fn row(kind: ibv_qp_type, required: c_int, optional: c_int) -> Row {
    Row {
        kind,
        required,
        optional,
    }
}

const RC: ibv_qp_type = IBV_QPT_RC;
const UC: ibv_qp_type = IBV_QPT_UC;
const UD: ibv_qp_type = IBV_QPT_UD;
const XRC_INI: ibv_qp_type = IBV_QPT_XRC_SEND;
const XRC_TGT: ibv_qp_type = IBV_QPT_XRC_RECV;

const CUR: c_int = IBV_QP_CUR_STATE;
const ACCESS: c_int = IBV_QP_ACCESS_FLAGS;
const PKEY: c_int = IBV_QP_PKEY_INDEX;
const QKEY: c_int = IBV_QP_QKEY;
const AV: c_int = IBV_QP_AV;
const ALT: c_int = IBV_QP_ALT_PATH;
const MIG: c_int = IBV_QP_PATH_MIG_STATE;
const RNR_TIMER: c_int = IBV_QP_MIN_RNR_TIMER;
const RATE: c_int = IBV_QP_RATE_LIMIT;
const NOTIFY: c_int = IBV_QP_EN_SQD_ASYNC_NOTIFY;

const CONNECTED_INIT: c_int = PKEY | IBV_QP_PORT | ACCESS;
const DATAGRAM_INIT: c_int = PKEY | IBV_QP_PORT | QKEY;
const UC_RTR: c_int = AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RC_RTR: c_int = UC_RTR | IBV_QP_MAX_DEST_RD_ATOMIC | RNR_TIMER;
const RTR_OPTIONAL: c_int = ALT | ACCESS | PKEY;
const RC_RTS: c_int =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
const UC_LIVE: c_int = CUR | ALT | ACCESS | MIG | RATE;
const RC_LIVE: c_int = UC_LIVE | RNR_TIMER;
const UD_LIVE: c_int = CUR | QKEY | RATE;

const RESET_INIT: &[Row] = &[
    row(RC, CONNECTED_INIT, 0),
    row(UC, CONNECTED_INIT, 0),
    row(UD, DATAGRAM_INIT, 0),
    row(XRC_INI, CONNECTED_INIT, 0),
    row(XRC_TGT, CONNECTED_INIT, 0),
];
const INIT_INIT: &[Row] = &[
    row(RC, 0, CONNECTED_INIT),
    row(UC, 0, CONNECTED_INIT),
    row(UD, 0, DATAGRAM_INIT),
    row(XRC_INI, 0, CONNECTED_INIT),
    row(XRC_TGT, 0, CONNECTED_INIT),
];
const INIT_RTR: &[Row] = &[
    row(RC, RC_RTR, RTR_OPTIONAL),
    row(UC, UC_RTR, RTR_OPTIONAL),
    row(UD, 0, PKEY | QKEY),
    // An XRC initiator answers no requests, so the last two have no meaning for it; perftest sets
    // them all the same.
    row(
        XRC_INI,
        UC_RTR,
        RTR_OPTIONAL | IBV_QP_MAX_DEST_RD_ATOMIC | RNR_TIMER,
    ),
    row(XRC_TGT, RC_RTR, RTR_OPTIONAL),
];
const RTR_RTS: &[Row] = &[
    row(RC, RC_RTS, RC_LIVE),
    row(UC, IBV_QP_SQ_PSN, UC_LIVE),
    row(UD, IBV_QP_SQ_PSN, UD_LIVE),
    row(XRC_INI, RC_RTS, RC_LIVE),
    // An XRC target makes no requests, so retries have no meaning for it; perftest sets them, too.
    row(XRC_TGT, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, RC_LIVE | RC_RTS),
];
const RTS_RTS: &[Row] = &[
    row(RC, 0, RC_LIVE),
    row(UC, 0, UC_LIVE),
    row(UD, 0, UD_LIVE),
    row(XRC_INI, 0, RC_LIVE),
    row(XRC_TGT, 0, RC_LIVE),
];
const RTS_SQD: &[Row] = &[
    row(RC, 0, NOTIFY),
    row(UC, 0, NOTIFY),
    row(UD, 0, NOTIFY),
    row(XRC_INI, 0, NOTIFY),
    row(XRC_TGT, 0, NOTIFY),
];
const RC_SQD: c_int = IBV_QP_PORT
    | AV
    | IBV_QP_TIMEOUT
    | IBV_QP_RETRY_CNT
    | IBV_QP_RNR_RETRY
    | IBV_QP_MAX_QP_RD_ATOMIC
    | IBV_QP_MAX_DEST_RD_ATOMIC
    | ALT
    | ACCESS
    | PKEY
    | RNR_TIMER
    | MIG;
const SQD_SQD: &[Row] = &[
    row(RC, 0, RC_SQD),
    row(UC, 0, AV | ALT | ACCESS | PKEY | MIG),
    row(UD, 0, PKEY | QKEY),
    row(XRC_INI, 0, RC_SQD),
    row(XRC_TGT, 0, RC_SQD),
];
const SQE_RTS: &[Row] = &[row(UC, 0, CUR | ACCESS), row(UD, 0, CUR | QKEY)];

/// Checks a transition of a queue pair of type `kind` with the attributes in `mask`.
///
/// # Errors
/// EINVAL if the transition is not allowed, or an attribute is missing or does not belong to it.
pub fn check(kind: ibv_qp_type, from: ibv_qp_state, to: ibv_qp_state, mask: c_int) -> Result<()> {
    let given = mask & !IBV_QP_STATE;
    let rows = match (from, to) {
        // Reachable from any state; no attributes apply, except the caller's assumed current state.
        (_, IBV_QPS_RESET | IBV_QPS_ERR) => {
            return match given & !CUR {
                0 => Ok(()),
                foreign => Err(refused!(
                    EINVAL,
                    "to {}: no attribute is allowed, and attr_mask has {}",
                    state_name(to),
                    mask_names(foreign)
                )),
            };
        }
        (IBV_QPS_RESET, IBV_QPS_INIT) => RESET_INIT,
        (IBV_QPS_INIT, IBV_QPS_INIT) => INIT_INIT,
        (IBV_QPS_INIT, IBV_QPS_RTR) => INIT_RTR,
        (IBV_QPS_RTR, IBV_QPS_RTS) => RTR_RTS,
        (IBV_QPS_RTS, IBV_QPS_RTS) | (IBV_QPS_SQD, IBV_QPS_RTS) => RTS_RTS,
        (IBV_QPS_RTS, IBV_QPS_SQD) => RTS_SQD,
        (IBV_QPS_SQD, IBV_QPS_SQD) => SQD_SQD,
        (IBV_QPS_SQE, IBV_QPS_RTS) => SQE_RTS,
        _ => return Err(no_way(kind, from, to)),
    };
    let row = rows
        .iter()
        .find(|row| row.kind == kind)
        .ok_or_else(|| no_way(kind, from, to))?;
    let missing = row.required & !given;
    let foreign = given & !(row.required | row.optional);
    if missing != 0 || foreign != 0 {
        let (from, to) = (state_name(from), state_name(to));
        return Err(refused!(
            EINVAL,
            "from {from} to {to} attr_mask lacks {} and must not have {}",
            mask_names(missing),
            mask_names(foreign)
        ));
    }
    Ok(())
}

/// Returns the error for a transition that is not in the table.
fn no_way(kind: ibv_qp_type, from: ibv_qp_state, to: ibv_qp_state) -> Errno {
    refused!(
        EINVAL,
        "qp_state: no transition from {} to {} for a queue pair of type {kind}: the order is \
         RESET, INIT, RTR, RTS, and any state may go to RESET and ERR",
        state_name(from),
        state_name(to)
    )
}

pub(super) fn state_name(state: ibv_qp_state) -> &'static str {
    const NAMES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
    NAMES
        .get(state as usize)
        .copied()
        .unwrap_or("an unknown state")
}

/// Returns the names of the bits of an attribute mask.
fn mask_names(mask: c_int) -> MaskNames {
    MaskNames(mask)
}

struct MaskNames(c_int);

impl fmt::Display for MaskNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// In the order of their bits.
        const NAMES: [&str; 26] = [
            "STATE",
            "CUR_STATE",
            "EN_SQD_ASYNC_NOTIFY",
            "ACCESS_FLAGS",
            "PKEY_INDEX",
            "PORT",
            "QKEY",
            "AV",
            "PATH_MTU",
            "TIMEOUT",
            "RETRY_CNT",
            "RNR_RETRY",
            "RQ_PSN",
            "MAX_QP_RD_ATOMIC",
            "ALT_PATH",
            "MIN_RNR_TIMER",
            "SQ_PSN",
            "MAX_DEST_RD_ATOMIC",
            "PATH_MIG_STATE",
            "CAP",
            "DEST_QPN",
            "21",
            "22",
            "23",
            "24",
            "RATE_LIMIT",
        ];
        let is_set = |bit: &usize| self.0 & 1 << bit != 0;
        let names: Vec<String> = (0..32)
            .filter(is_set)
            .map(|bit| match NAMES.get(bit) {
                Some(name) => format!("IBV_QP_{name}"),
                None => format!("bit {bit}"),
            })
            .collect();
        match names.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&names.join("|")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [ibv_qp_type; 5] = [RC, UC, UD, XRC_INI, XRC_TGT];

    #[test]
    fn usual_transitions_of_each_type_are_allowed() {
        for kind in KINDS {
            let all = [
                (IBV_QPS_RESET, IBV_QPS_INIT, RESET_INIT),
                (IBV_QPS_INIT, IBV_QPS_RTR, INIT_RTR),
                (IBV_QPS_RTR, IBV_QPS_RTS, RTR_RTS),
            ];
            for (from, to, rows) in all {
                let row = rows.iter().find(|row| row.kind == kind).unwrap();
                assert_eq!(check(kind, from, to, row.required | IBV_QP_STATE), Ok(()));
            }
        }
    }

    #[test]
    fn attribute_bits_are_named() {
        for (bit, name) in [
            (IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS"),
            (IBV_QP_AV, "IBV_QP_AV"),
            (IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"),
            (IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN"),
            (IBV_QP_RATE_LIMIT, "IBV_QP_RATE_LIMIT"),
            (IBV_QP_STATE | IBV_QP_CAP, "IBV_QP_STATE|IBV_QP_CAP"),
        ] {
            assert_eq!(mask_names(bit).to_string(), name);
        }
        assert_eq!(state_name(IBV_QPS_ERR), "ERR");
    }

    #[test]
    fn missing_required_attribute_is_refused() {
        for bit in (0..26).map(|bit| 1 << bit).filter(|bit| RC_RTR & bit != 0) {
            let mask = (RC_RTR & !bit) | IBV_QP_STATE;
            assert_eq!(
                check(RC, IBV_QPS_INIT, IBV_QPS_RTR, mask),
                Err(Errno::EINVAL)
            );
        }
    }

    proptest! {
        #[test]
        fn transition_out_of_order_is_refused(
            kind in proptest::sample::select(KINDS.to_vec()),
            from in 0u32..7,
            to in 0u32..7,
            mask in any::<i32>(),
        ) {
            let forward = [(0, 1), (1, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 3), (4, 4), (5, 3)];
            let ends = to == IBV_QPS_RESET || to == IBV_QPS_ERR;
            if !ends && !forward.contains(&(from, to)) {
                prop_assert_eq!(check(kind, from, to, mask), Err(Errno::EINVAL));
            }
            prop_assert!(ends || check(kind, from, to, mask | IBV_QP_CAP).is_err());
        }
    }
}
