//! Queue pair states and the attributes of each transition (specification 10.3.1 and 11.2.5.2;
//! ibv_modify_qp(3); Linux' `ib_modify_qp_is_ok`).

use core::fmt;
use core::ops::BitOr;

/// A queue pair state (specification 10.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// As created: nothing may be posted.
    Reset,
    /// Receives may be posted.
    Initialized,
    /// Ready to receive: the peer's requests are answered.
    ReadyToReceive,
    /// Ready to send as well.
    ReadyToSend,
    /// Send queue drain: started requests finish, no others start.
    SendQueueDrain,
    /// Send queue error: an unreliable queue pair that cannot send until a transition to ready to
    /// send.
    SendQueueError,
    /// All work requests are flushed.
    Error,
}

impl State {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Initialized,
        Self::ReadyToReceive,
        Self::ReadyToSend,
        Self::SendQueueDrain,
        Self::SendQueueError,
        Self::Error,
    ];

    /// Returns the state with this number in `ibv_qp_state`.
    #[inline]
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Reset,
            1 => Self::Initialized,
            2 => Self::ReadyToReceive,
            3 => Self::ReadyToSend,
            4 => Self::SendQueueDrain,
            5 => Self::SendQueueError,
            6 => Self::Error,
            _ => return None,
        })
    }

    /// Returns the name in the C interface, without `IBV_QPS_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reset => "RESET",
            Self::Initialized => "INIT",
            Self::ReadyToReceive => "RTR",
            Self::ReadyToSend => "RTS",
            Self::SendQueueDrain => "SQD",
            Self::SendQueueError => "SQE",
            Self::Error => "ERR",
        }
    }

    /// Returns whether the peer's requests are answered.
    #[inline]
    pub const fn responds(self) -> bool {
        Self::code_responds(self as u32)
    }

    /// Returns whether the peer's requests are answered in the state with this number: each message
    /// checks it.
    #[inline]
    pub const fn code_responds(code: u32) -> bool {
        const RTR: u32 = State::ReadyToReceive as u32;
        const RTS: u32 = State::ReadyToSend as u32;
        const SQD: u32 = State::SendQueueDrain as u32;
        const SQE: u32 = State::SendQueueError as u32;
        matches!(code, RTR | RTS | SQD | SQE)
    }

    /// Returns how posted receive requests are treated.
    #[inline]
    pub const fn receives(self) -> Receives {
        match self {
            Self::Reset => Receives::Refused,
            Self::Error => Receives::Flushed,
            _ => Receives::Kept,
        }
    }

    /// Returns how posted send requests are treated.
    #[inline]
    pub const fn sends(self) -> Sends {
        match self {
            Self::Reset | Self::Initialized | Self::ReadyToReceive => Sends::Refused,
            Self::ReadyToSend => Sends::Start,
            Self::SendQueueDrain => Sends::Wait,
            Self::SendQueueError | Self::Error => Sends::Flushed,
        }
    }
}

/// The treatment of send requests in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sends {
    /// Posting fails.
    Refused,
    /// They start.
    Start,
    /// They wait until the queue pair is ready to send again.
    Wait,
    /// They complete with a flush error.
    Flushed,
}

/// The treatment of receive requests in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Receives {
    /// Posting fails.
    Refused,
    /// They wait for messages.
    Kept,
    /// They complete with a flush error.
    Flushed,
}

/// The type of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// The initiator (sender) of XRC.
    XrcInitiator,
    /// The target (receiver) of XRC.
    XrcTarget,
}

impl Kind {
    /// All types.
    pub const ALL: [Self; 5] = [
        Self::Rc,
        Self::Uc,
        Self::Ud,
        Self::XrcInitiator,
        Self::XrcTarget,
    ];

    /// Returns whether requests are acknowledged and repeated.
    #[inline]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Uc | Self::Ud)
    }

    /// Returns the state that follows the failure of a send request (10.3.1).
    pub const fn after_failed_send(self) -> State {
        match self.is_reliable() {
            true => State::Error,
            false => State::SendQueueError,
        }
    }
}

/// A set of attributes, with the bits of `ibv_qp_attr_mask`. Displayed as in C:
/// `IBV_QP_AV|IBV_QP_PORT`, or `nothing`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub u32);

#[allow(missing_docs)] // The names are those of the C interface, without IBV_QP_.
impl Attributes {
    pub const NONE: Self = Self(0);
    pub const STATE: Self = Self(1);
    pub const CUR_STATE: Self = Self(1 << 1);
    pub const EN_SQD_ASYNC_NOTIFY: Self = Self(1 << 2);
    pub const ACCESS_FLAGS: Self = Self(1 << 3);
    pub const PKEY_INDEX: Self = Self(1 << 4);
    pub const PORT: Self = Self(1 << 5);
    pub const QKEY: Self = Self(1 << 6);
    pub const AV: Self = Self(1 << 7);
    pub const PATH_MTU: Self = Self(1 << 8);
    pub const TIMEOUT: Self = Self(1 << 9);
    pub const RETRY_CNT: Self = Self(1 << 10);
    pub const RNR_RETRY: Self = Self(1 << 11);
    pub const RQ_PSN: Self = Self(1 << 12);
    pub const MAX_QP_RD_ATOMIC: Self = Self(1 << 13);
    pub const ALT_PATH: Self = Self(1 << 14);
    pub const MIN_RNR_TIMER: Self = Self(1 << 15);
    pub const SQ_PSN: Self = Self(1 << 16);
    pub const MAX_DEST_RD_ATOMIC: Self = Self(1 << 17);
    pub const PATH_MIG_STATE: Self = Self(1 << 18);
    pub const CAP: Self = Self(1 << 19);
    pub const DEST_QPN: Self = Self(1 << 20);
    pub const RATE_LIMIT: Self = Self(1 << 25);

    const NAMES: [(Self, &'static str); 22] = [
        (Self::STATE, "STATE"),
        (Self::CUR_STATE, "CUR_STATE"),
        (Self::EN_SQD_ASYNC_NOTIFY, "EN_SQD_ASYNC_NOTIFY"),
        (Self::ACCESS_FLAGS, "ACCESS_FLAGS"),
        (Self::PKEY_INDEX, "PKEY_INDEX"),
        (Self::PORT, "PORT"),
        (Self::QKEY, "QKEY"),
        (Self::AV, "AV"),
        (Self::PATH_MTU, "PATH_MTU"),
        (Self::TIMEOUT, "TIMEOUT"),
        (Self::RETRY_CNT, "RETRY_CNT"),
        (Self::RNR_RETRY, "RNR_RETRY"),
        (Self::RQ_PSN, "RQ_PSN"),
        (Self::MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"),
        (Self::ALT_PATH, "ALT_PATH"),
        (Self::MIN_RNR_TIMER, "MIN_RNR_TIMER"),
        (Self::SQ_PSN, "SQ_PSN"),
        (Self::MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"),
        (Self::PATH_MIG_STATE, "PATH_MIG_STATE"),
        (Self::CAP, "CAP"),
        (Self::DEST_QPN, "DEST_QPN"),
        (Self::RATE_LIMIT, "RATE_LIMIT"),
    ];

    /// Returns the union.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the difference.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Attributes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        let mut separator = "";
        for bit in (0..u32::BITS).filter(|bit| self.0 & 1 << bit != 0) {
            f.write_str(separator)?;
            match Self::NAMES.iter().find(|(one, _)| one.0 == 1 << bit) {
                Some((_, name)) => write!(f, "IBV_QP_{name}")?,
                None => write!(f, "bit {bit}")?,
            }
            separator = "|";
        }
        Ok(())
    }
}

/// The attributes of a transition besides the state itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transition {
    /// Required attributes.
    pub required: Attributes,
    /// Optional attributes.
    pub optional: Attributes,
}

/// Why a transition is refused. The queue pair is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// This type has no transition between these states.
    #[error("no transition from {} to {}", from.name(), to.name())]
    NoTransition {
        /// The current state.
        from: State,
        /// The requested state.
        to: State,
    },
    /// The attributes are not those of the transition.
    #[error("the attributes lack {missing} and must not have {foreign}")]
    Attributes {
        /// Required attributes that are missing.
        missing: Attributes,
        /// Attributes that do not belong to the transition.
        foreign: Attributes,
    },
}

const fn all(attributes: &[Attributes]) -> Attributes {
    let mut union = Attributes::NONE;
    let mut at = 0;
    while at < attributes.len() {
        union = union.with(attributes[at]);
        at += 1;
    }
    union
}

use Attributes as A;
const CONNECTED_INIT: A = all(&[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS]);
const DATAGRAM_INIT: A = all(&[A::PKEY_INDEX, A::PORT, A::QKEY]);
const CONNECTED_RTR: A = all(&[A::AV, A::PATH_MTU, A::DEST_QPN, A::RQ_PSN]);
const RESPONDER_RTR: A = all(&[A::MAX_DEST_RD_ATOMIC, A::MIN_RNR_TIMER]);
const RTR_OPTIONAL: A = all(&[A::ALT_PATH, A::ACCESS_FLAGS, A::PKEY_INDEX]);
const REQUESTER_RTS: A = all(&[
    A::TIMEOUT,
    A::RETRY_CNT,
    A::RNR_RETRY,
    A::SQ_PSN,
    A::MAX_QP_RD_ATOMIC,
]);
const UC_LIVE: A = all(&[
    A::CUR_STATE,
    A::ALT_PATH,
    A::ACCESS_FLAGS,
    A::PATH_MIG_STATE,
    A::RATE_LIMIT,
]);
const RC_LIVE: A = UC_LIVE.with(A::MIN_RNR_TIMER);
const UD_LIVE: A = all(&[A::CUR_STATE, A::QKEY, A::RATE_LIMIT]);
const UC_SQD: A = all(&[
    A::AV,
    A::ALT_PATH,
    A::ACCESS_FLAGS,
    A::PKEY_INDEX,
    A::PATH_MIG_STATE,
]);
const RC_SQD: A = all(&[
    UC_SQD,
    A::PORT,
    A::TIMEOUT,
    A::RETRY_CNT,
    A::RNR_RETRY,
    A::MAX_QP_RD_ATOMIC,
    A::MAX_DEST_RD_ATOMIC,
    A::MIN_RNR_TIMER,
]);

/// Returns the attributes of a transition for this type; `None` if there is no such transition.
///
/// Beyond Linux' table, each half of XRC also accepts the attributes of the half it lacks, which
/// have no effect: perftest sets them.
pub const fn transition(kind: Kind, from: State, to: State) -> Option<Transition> {
    use Kind::{Rc, Uc, Ud, XrcInitiator, XrcTarget};
    use State::{
        Error, Initialized, ReadyToReceive, ReadyToSend, Reset, SendQueueDrain, SendQueueError,
    };
    let (required, optional) = match (from, to, kind) {
        // From every state; the caller may state the current state that it assumes.
        (_, Reset | Error, _) => (A::NONE, A::CUR_STATE),

        (Reset, Initialized, Ud) => (DATAGRAM_INIT, A::NONE),
        (Reset, Initialized, _) => (CONNECTED_INIT, A::NONE),

        (Initialized, Initialized, Ud) => (A::NONE, DATAGRAM_INIT),
        (Initialized, Initialized, _) => (A::NONE, CONNECTED_INIT),

        (Initialized, ReadyToReceive, Ud) => (A::NONE, A::PKEY_INDEX.with(A::QKEY)),
        (Initialized, ReadyToReceive, Uc) => (CONNECTED_RTR, RTR_OPTIONAL),
        (Initialized, ReadyToReceive, XrcInitiator) => {
            (CONNECTED_RTR, RTR_OPTIONAL.with(RESPONDER_RTR))
        }
        (Initialized, ReadyToReceive, Rc | XrcTarget) => {
            (CONNECTED_RTR.with(RESPONDER_RTR), RTR_OPTIONAL)
        }

        (ReadyToReceive, ReadyToSend, Ud) => (A::SQ_PSN, UD_LIVE),
        (ReadyToReceive, ReadyToSend, Uc) => (A::SQ_PSN, UC_LIVE),
        (ReadyToReceive, ReadyToSend, Rc | XrcInitiator) => (REQUESTER_RTS, RC_LIVE),
        (ReadyToReceive, ReadyToSend, XrcTarget) => {
            (A::TIMEOUT.with(A::SQ_PSN), RC_LIVE.with(REQUESTER_RTS))
        }

        (ReadyToSend | SendQueueDrain, ReadyToSend, Ud) => (A::NONE, UD_LIVE),
        (ReadyToSend | SendQueueDrain, ReadyToSend, Uc) => (A::NONE, UC_LIVE),
        (ReadyToSend | SendQueueDrain, ReadyToSend, Rc | XrcInitiator | XrcTarget) => {
            (A::NONE, RC_LIVE)
        }

        (ReadyToSend, SendQueueDrain, _) => (A::NONE, A::EN_SQD_ASYNC_NOTIFY),

        (SendQueueDrain, SendQueueDrain, Ud) => (A::NONE, A::PKEY_INDEX.with(A::QKEY)),
        (SendQueueDrain, SendQueueDrain, Uc) => (A::NONE, UC_SQD),
        (SendQueueDrain, SendQueueDrain, Rc | XrcInitiator | XrcTarget) => (A::NONE, RC_SQD),

        (SendQueueError, ReadyToSend, Ud) => (A::NONE, A::CUR_STATE.with(A::QKEY)),
        (SendQueueError, ReadyToSend, Uc) => (A::NONE, A::CUR_STATE.with(A::ACCESS_FLAGS)),

        _ => return None,
    };
    // Rows may share a set of optional attributes of which one row requires some.
    Some(Transition {
        required,
        optional: optional.without(required),
    })
}

/// Checks whether a queue pair may change its state with these attributes (which may include the
/// state itself).
///
/// # Errors
///
/// There is no such transition, an attribute is missing, or an attribute does not belong to the
/// transition.
pub fn check(kind: Kind, from: State, to: State, given: Attributes) -> Result<(), Refused> {
    let Some(Transition { required, optional }) = transition(kind, from, to) else {
        return Err(Refused::NoTransition { from, to });
    };
    let given = given.without(A::STATE);
    let missing = required.without(given);
    let foreign = given.without(required).without(optional);
    match missing.is_empty() && foreign.is_empty() {
        true => Ok(()),
        false => Err(Refused::Attributes { missing, foreign }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_from_rtr_to_sqe_respond() {
        use State::{ReadyToReceive, ReadyToSend, SendQueueDrain, SendQueueError};
        for (code, state) in (0..).zip(State::ALL) {
            assert_eq!(State::from_code(code), Some(state));
            let responds = [ReadyToReceive, ReadyToSend, SendQueueDrain, SendQueueError];
            assert_eq!(state.responds(), responds.contains(&state), "{state:?}");
        }
        assert_eq!(State::from_code(7), None);
        assert!(!State::code_responds(7));
    }

    /// Figure "QP/EE Context State Diagram": successors of each state, besides reset and error.
    #[test]
    fn transitions_follow_the_state_diagram() {
        use State::{
            Initialized, ReadyToReceive, ReadyToSend, Reset, SendQueueDrain, SendQueueError,
        };
        let edges = [
            (Reset, Initialized),
            (Initialized, Initialized),
            (Initialized, ReadyToReceive),
            (ReadyToReceive, ReadyToSend),
            (ReadyToSend, ReadyToSend),
            (ReadyToSend, SendQueueDrain),
            (SendQueueDrain, SendQueueDrain),
            (SendQueueDrain, ReadyToSend),
            (SendQueueError, ReadyToSend),
        ];
        for kind in Kind::ALL {
            for from in State::ALL {
                for to in State::ALL {
                    // Only unreliable queue pairs have the send queue error state.
                    let repaired = from != SendQueueError || matches!(kind, Kind::Uc | Kind::Ud);
                    let always = matches!(to, State::Reset | State::Error);
                    let expected = always || edges.contains(&(from, to)) && repaired;
                    assert_eq!(
                        transition(kind, from, to).is_some(),
                        expected,
                        "{kind:?} {from:?} {to:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn each_attribute_is_required_optional_or_refused() {
        for kind in Kind::ALL {
            for from in State::ALL {
                for to in State::ALL {
                    let Some(row) = transition(kind, from, to) else {
                        continue;
                    };
                    assert_eq!(check(kind, from, to, row.required | A::STATE), Ok(()));
                    for (attribute, name) in A::NAMES {
                        let required = !row
                            .required
                            .without(row.required.without(attribute))
                            .is_empty();
                        let optional = !row
                            .optional
                            .without(row.optional.without(attribute))
                            .is_empty();
                        assert!(!(required && optional), "{name} is both");
                        if required {
                            let less = row.required.without(attribute);
                            assert_eq!(
                                check(kind, from, to, less),
                                Err(Refused::Attributes {
                                    missing: attribute,
                                    foreign: A::NONE
                                })
                            );
                        } else {
                            let more = row.required | attribute;
                            let allowed = optional || attribute == A::STATE;
                            let verdict = if allowed {
                                Ok(())
                            } else {
                                Err(Refused::Attributes {
                                    missing: A::NONE,
                                    foreign: attribute,
                                })
                            };
                            assert_eq!(
                                check(kind, from, to, more),
                                verdict,
                                "{kind:?} {from:?} {to:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// ibv_modify_qp(3), the table of required attributes.
    #[test]
    fn required_attributes_equal_the_manual() {
        use State::{Initialized, ReadyToReceive, ReadyToSend, Reset};
        let table = [
            (
                Kind::Ud,
                Reset,
                Initialized,
                "IBV_QP_PKEY_INDEX|IBV_QP_PORT|IBV_QP_QKEY",
            ),
            (
                Kind::Rc,
                Reset,
                Initialized,
                "IBV_QP_ACCESS_FLAGS|IBV_QP_PKEY_INDEX|IBV_QP_PORT",
            ),
            (
                Kind::Uc,
                Initialized,
                ReadyToReceive,
                "IBV_QP_AV|IBV_QP_PATH_MTU|IBV_QP_RQ_PSN|IBV_QP_DEST_QPN",
            ),
            (
                Kind::Rc,
                Initialized,
                ReadyToReceive,
                "IBV_QP_AV|IBV_QP_PATH_MTU|IBV_QP_RQ_PSN|IBV_QP_MIN_RNR_TIMER|IBV_QP_MAX_DEST_RD_AT\
                 OMIC|IBV_QP_DEST_QPN",
            ),
            (Kind::Ud, ReadyToReceive, ReadyToSend, "IBV_QP_SQ_PSN"),
            (
                Kind::Rc,
                ReadyToReceive,
                ReadyToSend,
                "IBV_QP_TIMEOUT|IBV_QP_RETRY_CNT|IBV_QP_RNR_RETRY|IBV_QP_MAX_QP_RD_ATOMIC|IBV_QP_S\
                 Q_PSN",
            ),
        ];
        for (kind, from, to, required) in table {
            assert_eq!(
                transition(kind, from, to).unwrap().required.to_string(),
                required
            );
        }
    }
}
