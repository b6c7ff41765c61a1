//! Batches of work requests: the extended posting interface (`qp_ex`) collects them between
//! `ibv_wr_start` and `ibv_wr_complete`, which posts all or none of them.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{hint, ptr, slice, thread};

use verbena_abi::*;
use verbena_hca::qp::{Qp, SendRequest};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::{ah, post};

/// A batch.
pub struct Batch {
    /// The operations that the queue pair was created for (IBV_QP_EX_WITH_*).
    pub operations: u64,
    taken: AtomicBool,
    work: UnsafeCell<Work>,
}

// SAFETY: `work` is only accessed by the thread that holds `taken`. The pointers in it are the
// program's, and only that thread uses them.
unsafe impl Sync for Batch {}
// SAFETY: the pointers in `work` are only used by the thread that holds `taken`.
unsafe impl Send for Batch {}

/// The requests of a batch.
#[derive(Default)]
pub struct Work {
    requests: Vec<Request>,
    sges: Vec<ibv_sge>,
    /// Window, new key and target of bind requests: rare, and too large to be part of each request.
    binds: Vec<(*mut ibv_mw, u32, ibv_mw_bind_info)>,
    /// Copies of inline data. Until the batch is posted, the address of an inline buffer is its
    /// offset here, because the copies may move.
    inline: Vec<u8>,
    /// The first error.
    failure: Option<Errno>,
}

/// A request. The fields are those of [`SendRequest`], with C's pointers.
#[derive(Clone, Copy)]
pub struct Request {
    wr_id: u64,
    opcode: ibv_wr_opcode,
    flags: u32,
    /// Immediate data or key to invalidate.
    pub immediate: u32,
    /// Address at the peer.
    pub remote_address: u64,
    /// Key of the peer.
    pub rkey: u32,
    /// Operand of an atomic; length of a flush.
    pub compare_add: u64,
    /// Second operand of compare-and-swap; placement and selectivity of a flush.
    pub swap: u64,
    /// XRC SRQ number.
    pub srq: u32,
    /// Destination of a datagram.
    pub address: *mut ibv_ah,
    /// Queue pair number of a datagram's destination.
    pub remote_qpn: u32,
    /// Its queue key.
    pub remote_qkey: u32,
    /// Index of its bind, if it is one.
    pub bind: u32,
    /// Start and end of its buffers in [`Work::sges`].
    sges: (u32, u32),
}

impl Request {
    /// Returns a request without further fields.
    #[inline]
    pub fn new(wr_id: u64, opcode: ibv_wr_opcode, flags: u32) -> Request {
        Request {
            wr_id,
            opcode,
            flags,
            immediate: 0,
            remote_address: 0,
            rkey: 0,
            compare_add: 0,
            swap: 0,
            srq: 0,
            address: ptr::null_mut(),
            remote_qpn: 0,
            remote_qkey: 0,
            bind: 0,
            sges: (0, 0),
        }
    }
}

impl Batch {
    /// Returns the batch of a queue pair that was created for these operations.
    pub fn new(operations: u64) -> Batch {
        Batch {
            operations,
            taken: AtomicBool::new(false),
            work: UnsafeCell::default(),
        }
    }

    /// Begins a batch: waits for exclusive access, and drops the requests of the previous one.
    #[inline]
    pub fn begin(&self) {
        let mut tries = 0u32;
        while self.taken.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries.is_multiple_of(64) {
                thread::yield_now()
            } else {
                hint::spin_loop()
            }
        }
        // SAFETY: `taken` was just acquired.
        unsafe { self.work() }.clear();
    }

    /// Returns the collected requests.
    ///
    /// # Safety
    /// The calling thread must have begun and not ended the batch, and not use another result of
    /// this function.
    #[expect(clippy::mut_from_ref, reason = "`taken` makes it exclusive")]
    #[inline]
    pub unsafe fn work(&self) -> &mut Work {
        // SAFETY: the caller promises exclusive access between begin and end.
        unsafe { &mut *self.work.get() }
    }

    /// Ends the batch without posting.
    #[inline]
    pub fn abort(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Ends the batch by posting all of its requests or none.
    ///
    /// # Errors
    /// The first error of a request.
    ///
    /// # Safety
    /// The calling thread must have begun and not ended the batch; the pointers in the requests
    /// must be null or live.
    #[inline]
    pub unsafe fn complete(&self, qp: &Arc<Qp>) -> Result<()> {
        // SAFETY: the caller promises exclusive access, and null or live pointers in the requests.
        let result = unsafe { self.work().post(qp) };
        self.abort();
        result
    }
}

impl Work {
    #[inline]
    fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
        self.binds.clear();
        self.inline.clear();
        self.failure = None;
    }

    /// Records the first error.
    pub fn fail(&mut self, error: impl FnOnce() -> Errno) {
        self.failure.get_or_insert_with(error);
    }

    /// Returns the request that a setter changes. A setter without one is an error of the program.
    #[inline]
    pub fn last(&mut self) -> Option<&mut Request> {
        if self.requests.is_empty() {
            self.fail(|| {
                refused!(
                    EINVAL,
                    "a setter (ibv_wr_set_*) was called before the first work request: call it \
                     after the request that it completes"
                )
            });
        }
        self.requests.last_mut()
    }

    /// Appends a request.
    #[inline]
    pub fn push(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// Stores the arguments of a bind request; returns their index, for [`Request::bind`].
    pub fn add_bind(&mut self, window: *mut ibv_mw, key: u32, info: ibv_mw_bind_info) -> u32 {
        self.binds.push((window, key, info));
        (self.binds.len() - 1) as u32
    }

    /// Sets the buffers of the last request.
    #[inline]
    pub fn set_buffers(&mut self, buffers: &[ibv_sge]) {
        let start = self.sges.len() as u32;
        self.sges.extend_from_slice(buffers);
        let end = self.sges.len() as u32;
        if let Some(last) = self.last() {
            last.sges = (start, end);
        }
    }

    /// Sets the inline data of the last request: copies it into one buffer.
    ///
    /// # Safety
    /// Each pair must be readable memory.
    pub unsafe fn set_inline(&mut self, buffers: impl Iterator<Item = (*const u8, usize)>) {
        let start = self.inline.len();
        for (address, length) in buffers.filter(|(_, length)| *length > 0) {
            // SAFETY: the caller promises readable memory.
            self.inline
                .extend_from_slice(unsafe { slice::from_raw_parts(address, length) });
        }
        let length = u32::try_from(self.inline.len() - start);
        let Ok(length) = length else {
            return self.fail(|| {
                refused!(
                    EINVAL,
                    "the inline data have 4 GiB or more: give at most max_inline_data of the \
                     queue pair"
                )
            });
        };
        self.set_buffers(&[ibv_sge {
            addr: start as u64,
            length,
            lkey: 0,
        }]);
        if let Some(last) = self.last() {
            last.flags |= IBV_SEND_INLINE;
        }
    }

    /// # Safety
    /// The pointers in the requests must be null or live.
    #[inline]
    unsafe fn post(&mut self, qp: &Arc<Qp>) -> Result<()> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if !self.inline.is_empty() {
            self.settle_inline();
        }
        let datagram = qp.kind() == IBV_QPT_UD;
        let mut poster = qp.poster();
        // SAFETY: the caller promises null or live pointers in the requests.
        unsafe {
            // A single request needs no check in advance.
            if self.requests.len() > 1 {
                poster.check_room(self.requests.len())?;
                for request in &self.requests {
                    with_whole(self, request, datagram, |whole| poster.check(whole))?;
                }
            }
            for request in &self.requests {
                with_whole(self, request, datagram, |whole| poster.post(whole))?;
                if request.opcode == IBV_WR_BIND_MW {
                    let (window, key, _) = &self.binds[request.bind as usize];
                    post::show_key(*window, *key)?;
                }
            }
        }
        Ok(())
    }

    /// Converts offsets of inline data to addresses, as the copies no longer move.
    fn settle_inline(&mut self) {
        let base = self.inline.as_ptr() as u64;
        for request in &self.requests {
            if request.flags & IBV_SEND_INLINE != 0 {
                for sge in &mut self.sges[range(request.sges)] {
                    sge.addr += base;
                }
            }
        }
    }
}

/// Returns the range of a request's buffers.
#[inline]
fn range(sges: (u32, u32)) -> std::ops::Range<usize> {
    sges.0 as usize..sges.1 as usize
}

/// Calls `then` with the adapter's form of a request. (Returning it would copy it, and the reads of
/// the copy would wait for the writes.)
///
/// # Safety
/// The pointers in the request must be null or live.
#[inline(always)]
unsafe fn with_whole(
    work: &Work,
    request: &Request,
    datagram: bool,
    then: impl FnOnce(&SendRequest<'_>) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller promises null or live pointers in the request.
    let (address, bind) = unsafe {
        let address = if datagram {
            Some(ah::of(request.address)?)
        } else {
            None
        };
        let bind = if request.opcode == IBV_WR_BIND_MW {
            let (window, key, info) = &work.binds[request.bind as usize];
            Some(post::bind(*window, *key, info)?)
        } else {
            None
        };
        (address, bind)
    };
    then(&SendRequest {
        wr_id: request.wr_id,
        opcode: request.opcode,
        flags: request.flags,
        immediate: request.immediate,
        sges: &work.sges[range(request.sges)],
        remote_address: request.remote_address,
        rkey: request.rkey,
        compare_add: request.compare_add,
        swap: request.swap,
        srq: request.srq,
        address,
        remote_qpn: request.remote_qpn,
        remote_qkey: request.remote_qkey,
        bind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request::new(0, IBV_WR_SEND, 0)
    }

    #[test]
    fn inline_data_is_copied_when_set() {
        let mut work = Work::default();
        for _ in 0..100 {
            let mut data = *b"abcdef";
            work.requests.push(request());
            // SAFETY: both parts are inside `data`.
            unsafe {
                let parts = [(data.as_ptr(), 2), (data.as_ptr().add(4), 2)];
                work.set_inline(parts.into_iter());
            }
            data.fill(b'x');
        }
        work.settle_inline();
        for request in &work.requests {
            let [sge] = work.sges[range(request.sges)] else {
                panic!("one buffer")
            };
            assert_eq!(request.flags & IBV_SEND_INLINE, IBV_SEND_INLINE);
            // SAFETY: the address points into `work.inline`.
            let bytes =
                unsafe { slice::from_raw_parts(sge.addr as *const u8, sge.length as usize) };
            assert_eq!(bytes, b"abef");
        }
    }

    #[test]
    fn a_setter_without_a_request_fails_the_batch() {
        let mut work = Work::default();
        work.set_buffers(&[]);
        assert_eq!(work.failure, Some(Errno::EINVAL));
        work.clear();
        assert_eq!(work.failure, None);
    }
}
