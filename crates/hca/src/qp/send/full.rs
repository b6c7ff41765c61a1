//! The error of a full send queue.

use verbena_hca_os::errno::Errno;
use verbena_hca_os::refused;

#[cold]
#[inline(never)]
pub(super) fn full(capacity: u64) -> Errno {
    refused!(
        ENOMEM,
        "{capacity} requests are posted and not polled, the queue pair's limit (cap.max_send_wr): \
         first poll a completion of one of them or of a later one"
    )
}
