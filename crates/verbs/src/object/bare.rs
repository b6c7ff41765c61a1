//! A minimal loop that calls the C functions with prepared structures: the baseline for measuring
//! the overhead of an abstraction over verbs.

use crate::error::{Error, Result};
use crate::object::completion_queue::CompletionQueue;
use crate::object::queue_pair::QueuePair;
use crate::object::region::Segment;
use verbena_abi as abi;

impl QueuePair {
    /// Writes `segment` to (address, key) `count` times, each signalled and its completion polled
    /// before the next.
    ///
    /// # Errors
    ///
    /// Posting fails, or a write completes in error.
    pub fn bare_writes(
        &self,
        completions: &CompletionQueue,
        segment: Segment<'_>,
        (address, key): (u64, u32),
        count: u64,
    ) -> Result<()> {
        let Some(post) = self.post_send_function() else {
            return Err(Error::call("ibv_post_send", "queue pair", libc::EOPNOTSUPP));
        };
        let mut entry = segment.entry;
        let mut work = abi::ibv_send_wr {
            sg_list: &mut entry,
            num_sge: 1,
            opcode: abi::IBV_WR_RDMA_WRITE,
            send_flags: abi::IBV_SEND_SIGNALED,
            ..abi::ibv_send_wr::default()
        };
        work.wr.rdma = abi::ibv_send_wr_rdma {
            remote_addr: address,
            rkey: key,
        };
        let mut completion = abi::ibv_wc::default();
        for _ in 0..count {
            let mut bad = std::ptr::null_mut();
            // SAFETY: queue pair and completion queue are alive; the request, its entry and the
            // completion are valid during the calls, and the segment's region during its borrow.
            let status = unsafe {
                let errno = post(self.raw_pointer(), &mut work, &mut bad);
                if errno != 0 {
                    return Err(Error::call("ibv_post_send", "queue pair", errno.abs()));
                }
                while completions.poll_function()(completions.raw.as_ptr(), 1, &mut completion) == 0
                {
                    std::hint::spin_loop();
                }
                completion.status
            };
            if status != abi::IBV_WC_SUCCESS {
                return Err(Error::invalid(
                    "bare_writes",
                    format!("completion status {status}"),
                ));
            }
        }
        Ok(())
    }
}
