//! Checks of requests at the call.

use super::bytes::Bytes;
use super::registered::Segment;
use crate::error::Result;
use crate::operation::{Operation, Slice};
use crate::pair::Transport;

/// Converts the slices of a request to segments; `held` returns a region's key and bytes.
///
/// # Errors
///
/// Returns an error if a slice is outside its region.
pub(crate) fn segments<R>(
    call: &'static str,
    local: &[Slice<'_, R>],
    held: impl Fn(&R) -> (u32, &Bytes),
) -> Result<Vec<Segment>> {
    local
        .iter()
        .map(|slice| {
            let (key, bytes) = held(slice.region);
            bytes.check(call, slice.offset, slice.length)?;
            Ok(Segment {
                key,
                offset: slice.offset,
                length: slice.length,
            })
        })
        .collect()
}

/// Returns the reason why a queue pair of this transport cannot perform an operation, if there is
/// one.
pub(crate) fn refuse(transport: Transport, operation: &Operation) -> Option<&'static str> {
    let reads = matches!(
        operation,
        Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
    );
    let writes = matches!(
        operation,
        Operation::Write { .. } | Operation::WriteImmediate { .. }
    );
    match transport {
        Transport::Uc if reads => Some("a read or atomic on an unreliable connection"),
        Transport::Ud if reads || writes => Some("a one-sided operation on a datagram pair"),
        Transport::XrcTarget => Some("a post to the receiving half of XRC"),
        _ => None,
    }
}
