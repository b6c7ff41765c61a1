//! Names of outcomes, as in the headers without their common prefix.

use verbena_abi::names;

use crate::outcome::{UNKNOWN_OPERATION, WITH_IMM, WITH_INV};

/// `enum rdma_cm_event_type`, in order.
const CM_EVENTS: [&str; 16] = [
    "ADDR_RESOLVED",
    "ADDR_ERROR",
    "ROUTE_RESOLVED",
    "ROUTE_ERROR",
    "CONNECT_REQUEST",
    "CONNECT_RESPONSE",
    "CONNECT_ERROR",
    "UNREACHABLE",
    "REJECTED",
    "ESTABLISHED",
    "DISCONNECTED",
    "DEVICE_REMOVAL",
    "MULTICAST_JOIN",
    "MULTICAST_ERROR",
    "ADDR_CHANGE",
    "TIMEWAIT_EXIT",
];

fn or_number(name: Option<&str>, number: i32) -> String {
    name.map_or_else(|| number.to_string(), ToOwned::to_owned)
}

/// Returns the name of a completion status.
pub fn status(number: i32) -> String {
    or_number(names::WC_STATUSES.word(number as u32), number)
}

/// Returns the name of a completion's operation.
pub fn operation(number: i32) -> String {
    if number == UNKNOWN_OPERATION {
        return "unknown".into();
    }
    let opcode = number & !(WITH_IMM | WITH_INV);
    let mut name = or_number(names::WC_OPCODES.word(opcode as u32), opcode);
    for (flag, words) in [(WITH_IMM, "+IMM"), (WITH_INV, "+INV")] {
        if number & flag != 0 {
            name.push_str(words);
        }
    }
    name
}

/// Returns the name of an asynchronous event.
pub fn event(number: i32) -> String {
    or_number(names::EVENT_TYPES.word(number as u32), number)
}

/// Returns the name of an event of the connection manager.
pub fn cm_event(number: i32) -> String {
    let name = usize::try_from(number)
        .ok()
        .and_then(|at| CM_EVENTS.get(at));
    or_number(name.copied(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_named_as_in_the_headers() {
        assert_eq!(status(13), "RNR_RETRY_EXC_ERR");
        assert_eq!(status(99), "99");
        assert_eq!(operation(128 | WITH_IMM), "RECV+IMM");
        assert_eq!(operation(UNKNOWN_OPERATION), "unknown");
        assert_eq!(event(9), "PORT_ACTIVE");
        assert_eq!(
            (cm_event(8), cm_event(-1)),
            ("REJECTED".into(), "-1".into())
        );
    }
}
