//! `read` of events: a read of fewer bytes than an event fails and leaves the event, as in the
//! kernel's `ib_uverbs_event_read`. The descriptor is the reading end of a packet-mode pipe, where
//! a short read would lose the rest. `read` itself is in `blocking.c`.

use libc::c_int;

use crate::errno;
use crate::kinds::{self, DescriptorKind};

/// The longest record, in bytes.
const LONGEST: usize = 16;

/// Records that `descriptor` has events of `record` bytes each. Called by the adapter.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_event_descriptor(descriptor: c_int, record: usize) {
    let kind = match record {
        8 => DescriptorKind::Completions,
        LONGEST => DescriptorKind::Asynchronous,
        _ => return,
    };
    errno::kept(|| kinds::set_events(descriptor, kind));
}

/// Returns whether `count` is less than a record of the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_shim_is_too_short(descriptor: c_int, count: usize) -> c_int {
    is_too_short(descriptor, count).into()
}

fn is_too_short(descriptor: c_int, count: usize) -> bool {
    let record = match kinds::of(descriptor) {
        DescriptorKind::Completions => 8,
        DescriptorKind::Asynchronous => LONGEST,
        _ => return false,
    };
    count < record && errno::kept(|| kinds::is_still(descriptor))
}
