//! Wire operations and extension headers of request packets: each function returns the operation of
//! a packet and sets its headers.

use verbena_wire::atomic::AtomicEth;
use verbena_wire::feth::Feth;
use verbena_wire::immediate::{Ieth, Immediate};
use verbena_wire::opcode::{Operation as Wire, Place};
use verbena_wire::packet::Extensions;
use verbena_wire::reth::Reth;

use crate::access::AtomicOperation;
use crate::request::{Remote, SendTail};

pub(crate) fn send(place: Place, tail: SendTail, extensions: &mut Extensions) -> Wire {
    match (place, tail) {
        (Place::First, _) => Wire::SendFirst,
        (Place::Middle, _) => Wire::SendMiddle,
        (Place::Last, SendTail::Nothing) => Wire::SendLast,
        (Place::Only, SendTail::Nothing) => Wire::SendOnly,
        (Place::Last, SendTail::Immediate(immediate)) => {
            extensions.immediate = Some(immediate);
            Wire::SendLastImmediate
        }
        (Place::Only, SendTail::Immediate(immediate)) => {
            extensions.immediate = Some(immediate);
            Wire::SendOnlyImmediate
        }
        (Place::Last, SendTail::Invalidate(key)) => {
            extensions.ieth = Some(Ieth { key });
            Wire::SendLastInvalidate
        }
        (Place::Only, SendTail::Invalidate(key)) => {
            extensions.ieth = Some(Ieth { key });
            Wire::SendOnlyInvalidate
        }
    }
}

pub(crate) fn write(
    place: Place,
    remote: Remote,
    length: u32,
    immediate: Option<Immediate>,
    extensions: &mut Extensions,
) -> Wire {
    if matches!(place, Place::First | Place::Only) {
        extensions.reth = Some(reth(remote, 0, length));
    }
    if matches!(place, Place::Last | Place::Only) {
        extensions.immediate = immediate;
    }
    match (place, immediate) {
        (Place::First, _) => Wire::WriteFirst,
        (Place::Middle, _) => Wire::WriteMiddle,
        (Place::Last, None) => Wire::WriteLast,
        (Place::Only, None) => Wire::WriteOnly,
        (Place::Last, Some(_)) => Wire::WriteLastImmediate,
        (Place::Only, Some(_)) => Wire::WriteOnlyImmediate,
    }
}

/// Returns the operation of an RDMA READ of `length` bytes, without the first `skipped`, and sets
/// its headers.
pub(crate) fn read(remote: Remote, skipped: u32, length: u32, extensions: &mut Extensions) -> Wire {
    extensions.reth = Some(reth(remote, skipped, length - skipped));
    Wire::ReadRequest
}

pub(crate) fn atomic(
    remote: Remote,
    operation: AtomicOperation,
    extensions: &mut Extensions,
) -> Wire {
    let (wire, swap_or_add, compare) = match operation {
        AtomicOperation::CompareSwap { compare, swap } => (Wire::CompareSwap, swap, compare),
        AtomicOperation::FetchAdd { add } => (Wire::FetchAdd, add, 0),
    };
    let Remote { address, key } = remote;
    extensions.atomic_eth = Some(AtomicEth {
        address,
        key,
        swap_or_add,
        compare,
    });
    wire
}

pub(crate) fn atomic_write(remote: Remote, extensions: &mut Extensions) -> Wire {
    extensions.reth = Some(reth(remote, 0, 8));
    Wire::AtomicWrite
}

pub(crate) fn flush(remote: Remote, length: u32, feth: Feth, extensions: &mut Extensions) -> Wire {
    extensions.feth = Some(feth);
    extensions.reth = Some(reth(remote, 0, length));
    Wire::Flush
}

fn reth(remote: Remote, skipped: u32, length: u32) -> Reth {
    // Addresses wrap; the responder's check refuses a range that exceeds the address space.
    let address = remote.address.wrapping_add(skipped.into());
    Reth {
        address,
        key: remote.key,
        length,
    }
}
