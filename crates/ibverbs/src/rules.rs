//! For the tracer, which decides about calls by the rules of `verbena run --fault`.

use libc::c_uint;
use verbena_faults::cm::CmEvent;
use verbena_hca_net::link;
use verbena_rdmacm::causes;

/// Plants the event with this number ([`CmEvent`]) for the next command of this
/// thread, or none for 0. Returns the one that was planted before and not taken, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_plant(number: c_uint) -> c_uint {
    causes::plant(CmEvent::of_number(number)).map_or(0, |event| event as c_uint)
}

/// Returns whether the adapter of this process has failed.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_has_failed() -> bool {
    link::has_failed()
}
