//! Required attributes of each state transition, by type: the table of `ibv_modify_qp(3)`
//! (rdma-core v44). Checked before the library is called, so that an error can name the missing
//! attributes instead of `EINVAL`.

use crate::error::{Error, Result};
use crate::qp::attributes::Change;
use crate::qp::{PairState, PairType};
use verbena_abi as abi;

/// (state, types, required attributes besides the state itself).
const REQUIRED: &[(PairState, &[PairType], i32)] = {
    use PairType::{Rc, Uc, Ud, XrcReceive, XrcSend};
    const PORT: i32 = abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_PORT;
    const PEER: i32 =
        abi::IBV_QP_AV | abi::IBV_QP_PATH_MTU | abi::IBV_QP_DEST_QPN | abi::IBV_QP_RQ_PSN;
    const SERVE: i32 = abi::IBV_QP_MAX_DEST_RD_ATOMIC | abi::IBV_QP_MIN_RNR_TIMER;
    const RETRY: i32 = abi::IBV_QP_RETRY_CNT | abi::IBV_QP_RNR_RETRY | abi::IBV_QP_MAX_QP_RD_ATOMIC;
    &[
        (
            PairState::INIT,
            &[Rc, Uc, XrcSend, XrcReceive],
            PORT | abi::IBV_QP_ACCESS_FLAGS,
        ),
        (PairState::INIT, &[Ud], PORT | abi::IBV_QP_QKEY),
        (PairState::RTR, &[Rc, XrcReceive], PEER | SERVE),
        (PairState::RTR, &[Uc, XrcSend], PEER),
        (PairState::RTR, &[Ud], 0),
        (
            PairState::RTS,
            &[Rc, XrcSend],
            abi::IBV_QP_SQ_PSN | abi::IBV_QP_TIMEOUT | RETRY,
        ),
        (
            PairState::RTS,
            &[XrcReceive],
            abi::IBV_QP_SQ_PSN | abi::IBV_QP_TIMEOUT,
        ),
        (PairState::RTS, &[Uc, Ud], abi::IBV_QP_SQ_PSN),
    ]
};

const NAMES: &[(i32, &str)] = &[
    (abi::IBV_QP_PKEY_INDEX, "IBV_QP_PKEY_INDEX"),
    (abi::IBV_QP_PORT, "IBV_QP_PORT"),
    (abi::IBV_QP_ACCESS_FLAGS, "IBV_QP_ACCESS_FLAGS"),
    (abi::IBV_QP_QKEY, "IBV_QP_QKEY"),
    (abi::IBV_QP_AV, "IBV_QP_AV"),
    (abi::IBV_QP_PATH_MTU, "IBV_QP_PATH_MTU"),
    (abi::IBV_QP_DEST_QPN, "IBV_QP_DEST_QPN"),
    (abi::IBV_QP_RQ_PSN, "IBV_QP_RQ_PSN"),
    (abi::IBV_QP_MAX_DEST_RD_ATOMIC, "IBV_QP_MAX_DEST_RD_ATOMIC"),
    (abi::IBV_QP_MIN_RNR_TIMER, "IBV_QP_MIN_RNR_TIMER"),
    (abi::IBV_QP_SQ_PSN, "IBV_QP_SQ_PSN"),
    (abi::IBV_QP_TIMEOUT, "IBV_QP_TIMEOUT"),
    (abi::IBV_QP_RETRY_CNT, "IBV_QP_RETRY_CNT"),
    (abi::IBV_QP_RNR_RETRY, "IBV_QP_RNR_RETRY"),
    (abi::IBV_QP_MAX_QP_RD_ATOMIC, "IBV_QP_MAX_QP_RD_ATOMIC"),
];

/// Checks that `change` has the attributes that its state requires.
pub(crate) fn check(pair: PairType, change: &Change) -> Result<()> {
    let required = REQUIRED
        .iter()
        .find(|(to, types, _)| *to == change.to && types.contains(&pair))
        .map_or(0, |(_, _, required)| *required);
    let missing = required & !change.mask;
    if missing == 0 {
        return Ok(());
    }
    let names: Vec<&str> = NAMES
        .iter()
        .filter(|(bit, _)| missing & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    let reason = format!(
        "a {pair} pair needs {} to reach {}",
        names.join(", "),
        change.to
    );
    Err(Error::invalid("ibv_modify_qp", reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::region::AccessFlags;
    use crate::qp::attributes::{Connection, Path};

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
            message.contains("IBV_QP_AV, IBV_QP_MIN_RNR_TIMER"),
            "{message}"
        );
    }
}
