//! For the tracer, which decides about calls by the rules of `verbena run --fault`.

use libc::c_uint;
use verbena_faults::cm::CmEvent;
use verbena_hca_net::link;
use verbena_rdmacm::causes::{self, Planted};

/// Plants the event with this number ([`CmEvent`]) for the next command of this thread, by which
/// call `count` fails as rule `rule` says; none for 0.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_cm_plant(number: c_uint, rule: usize, count: u64) {
    causes::plant(CmEvent::of_number(number).map(|event| Planted { event, rule, count }));
}

/// Returns whether the adapter of this process has failed.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_has_failed() -> bool {
    link::has_failed()
}
