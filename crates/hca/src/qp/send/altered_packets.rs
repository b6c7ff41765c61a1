//! Packets of requests whose cause is in the packets ([`crate::causes`]): any responder answers
//! them as the rule says.

use crate::causes::Sends;
use crate::qp::requester::causes::NO_KEY;
use verbena_faults::status::Status;
use verbena_wire::bth;
use verbena_wire::opcode::{Header, Kind, Opcode, Operation};

/// Bytes of an address, which precede the key in a RETH and an AtomicETH.
const ADDRESS: usize = 8;
/// Bytes of a key.
const KEY: usize = 4;

/// Puts the cause of its request into a packet, from its BTH on. Returns whether the packet is left
/// out.
#[cold]
pub(super) fn alter(causes: &Sends, packet: &mut [u8]) -> bool {
    let Some([code, _, _, _, _, _, _, _, _, first, second, third]) =
        packet.first_chunk::<{ bth::LENGTH }>()
    else {
        return false;
    };
    let psn = u32::from_be_bytes([0, *first, *second, *third]);
    let (Some((status, number)), Some(opcode)) = (causes.at(psn), Opcode::from_code(*code)) else {
        return false;
    };
    match status {
        Status::RetryExceeded => return true,
        Status::RemoteAccess => {
            if let Some(key) =
                remote(opcode, packet).and_then(|it| it.get_mut(ADDRESS..ADDRESS + KEY))
            {
                key.copy_from_slice(&NO_KEY.to_be_bytes());
            }
        }
        Status::RemoteInvalidRequest if number == 0 => invalidate(opcode, packet),
        _ => (),
    }
    false
}

/// Makes a request invalid: a message without its beginning, of more than 2^31 bytes, or an atomic
/// on an address that is not a multiple of eight.
fn invalidate(opcode: Opcode, packet: &mut [u8]) {
    let operation = opcode.operation();
    let without_first = match operation {
        Operation::SendFirst => Some(Operation::SendMiddle),
        Operation::SendOnly => Some(Operation::SendLast),
        Operation::SendOnlyImmediate => Some(Operation::SendLastImmediate),
        Operation::SendOnlyInvalidate => Some(Operation::SendLastInvalidate),
        _ => None,
    };
    if let Some(continued) = without_first.and_then(|it| Opcode::new(opcode.service(), it)) {
        packet[0] = continued.code();
        return;
    }
    let Some(remote) = remote(opcode, packet) else {
        return;
    };
    match operation.kind() {
        Kind::Atomic => remote[ADDRESS - 1] |= 1,
        _ => {
            if let Some(length) = remote.get_mut(ADDRESS + KEY..ADDRESS + 2 * KEY) {
                length.fill(0xff);
            }
        }
    }
}

/// Returns a packet's bytes from the address of the responder's memory on; None if it names none.
fn remote(opcode: Opcode, packet: &mut [u8]) -> Option<&mut [u8]> {
    let mut at = bth::LENGTH;
    for header in opcode.headers() {
        if matches!(header, Header::Reth | Header::AtomicEth) {
            return packet
                .get_mut(at..)
                .filter(|rest| rest.len() >= ADDRESS + KEY);
        }
        at += header.length();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_wire::opcode::Service;

    fn packet(operation: Operation) -> (Opcode, [u8; 64]) {
        let opcode = Opcode::new(Service::Rc, operation).unwrap();
        let mut packet = [0x11; 64];
        packet[0] = opcode.code();
        (opcode, packet)
    }

    #[test]
    fn remote_memory_begins_behind_the_headers_before_it() {
        for (operation, at) in [
            (Operation::WriteOnly, 12),
            (Operation::ReadRequest, 12),
            (Operation::FetchAdd, 12),
            (Operation::Flush, 16),
        ] {
            let (opcode, mut packet) = packet(operation);
            let length = remote(opcode, &mut packet).unwrap().len();
            assert_eq!(64 - length, at, "{operation:?}");
        }
        let (opcode, mut packet) = packet(Operation::SendOnly);
        assert!(remote(opcode, &mut packet).is_none());
        let (opcode, mut packet) = self::packet(Operation::WriteOnly);
        assert!(remote(opcode, &mut packet[..20]).is_none());
    }

    #[test]
    fn requests_become_invalid_in_one_place() {
        let invalid = |operation| {
            let (opcode, before) = packet(operation);
            let mut packet = before;
            invalidate(opcode, &mut packet);
            let changed = (0..64).filter(|at| packet[*at] != before[*at]);
            (packet, changed.collect::<Vec<_>>())
        };
        let (sent, changed) = invalid(Operation::SendOnlyImmediate);
        let opcode = Opcode::from_code(sent[0]).unwrap();
        assert_eq!(
            (opcode.operation(), changed),
            (Operation::SendLastImmediate, vec![0])
        );
        // Length.
        let (_, changed) = invalid(Operation::WriteFirst);
        assert_eq!(changed, [24, 25, 26, 27]);
        // Address.
        let (atomic, _) = invalid(Operation::CompareSwap);
        assert_eq!(atomic[19] & 7, 1);
    }
}
