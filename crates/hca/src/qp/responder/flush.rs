//! The permission of a FLUSH, which is all that remains to be checked (see [`crate::qp::flush`]).

use super::explain;
use crate::qp::flush::Flush;
use std::sync::atomic::Ordering;
use verbena_hca_memory::resolve::{AccessRequest, Refusal, grant, grant_whole};
use verbena_hca_shm::context_table::KeyRecord;
use verbena_hca_shm::section::Section;

/// Checks that the key permits the flush of a range, or of its whole region if the flush says so.
///
/// # Errors
/// The key does not permit it; the reason is noted.
pub(super) fn check(
    section: &Section<'_>,
    key: &KeyRecord,
    access_request: AccessRequest,
    flush: Flush,
    (address, length): (u64, u64),
) -> Result<(), Refusal> {
    let (granted, address, length) = match flush.region {
        true => {
            let start = key.iova.load(Ordering::Relaxed);
            (grant_whole(section, key, access_request), start, 0)
        }
        false => {
            let granted = grant(section, key, access_request, address, length);
            (granted, address, length)
        }
    };
    granted
        .map(drop)
        .inspect_err(|_| explain::note_access_request(key, access_request, address, length))
}
