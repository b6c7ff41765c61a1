//! Shared receive queues: `ibv_create_srq(3)`, `ibv_create_srq_ex(3)` for XRC,
//! `ibv_post_srq_recv(3)`.

use crate::error::{Error, Result};
use crate::object::completion_queue::CompletionQueue;
use crate::object::domain::{ProtectionDomain, XrcDomain};
use crate::object::post::{self, PostError, ReceiveWork, Scratch};
use crate::object::region::Segment;
use crate::object::thread_safe;
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// A shared receive queue.
pub struct SharedReceiveQueue {
    pub(crate) raw: NonNull<abi::ibv_srq>,
    number: u32,
    domain: Arc<ProtectionDomain>,
    _xrc: Option<(Arc<XrcDomain>, Arc<CompletionQueue>)>,
}
thread_safe!(SharedReceiveQueue);

impl ProtectionDomain {
    /// Creates a shared receive queue (`ibv_create_srq(3)`).
    ///
    /// # Errors
    ///
    /// The call fails.
    pub fn shared_receive_queue(
        self: &Arc<Self>,
        depth: u32,
        segments: u32,
    ) -> Result<Arc<SharedReceiveQueue>> {
        let attr = abi::ibv_srq_attr {
            max_wr: depth,
            max_sge: segments,
            srq_limit: 0,
        };
        let mut attributes = abi::ibv_srq_init_attr {
            srq_context: std::ptr::null_mut(),
            attr,
        };
        // SAFETY: the domain is alive, the attributes are valid during the call.
        let raw = unsafe {
            (self.context.library.functions.create_srq)(self.raw.as_ptr(), &mut attributes)
        };
        let raw = NonNull::new(raw).ok_or_else(|| {
            Error::last(
                "ibv_create_srq",
                format!("{} with {depth}", self.context.name()),
            )
        })?;
        Ok(Arc::new(SharedReceiveQueue {
            raw,
            number: 0,
            domain: Arc::clone(self),
            _xrc: None,
        }))
    }

    /// Creates a shared receive queue for XRC (`ibv_create_srq_ex(3)`): receives complete on
    /// `completions`.
    ///
    /// # Errors
    ///
    /// A call fails or is not supported.
    pub fn xrc_shared_receive_queue(
        self: &Arc<Self>,
        depth: u32,
        segments: u32,
        domain: &Arc<XrcDomain>,
        completions: &Arc<CompletionQueue>,
    ) -> Result<Arc<SharedReceiveQueue>> {
        let extended = self.context.extended();
        let slots = extended.and_then(|slots| slots.create_srq_ex.zip(slots.get_srq_num));
        let Some((create, number_of)) = slots else {
            return Err(Error::call(
                "ibv_create_srq_ex",
                self.context.name(),
                libc::EOPNOTSUPP,
            ));
        };
        let mut attributes = abi::ibv_srq_init_attr_ex {
            attr: abi::ibv_srq_attr {
                max_wr: depth,
                max_sge: segments,
                srq_limit: 0,
            },
            comp_mask: abi::IBV_SRQ_INIT_ATTR_TYPE
                | abi::IBV_SRQ_INIT_ATTR_PD
                | abi::IBV_SRQ_INIT_ATTR_XRCD
                | abi::IBV_SRQ_INIT_ATTR_CQ,
            srq_type: abi::IBV_SRQT_XRC,
            pd: self.raw.as_ptr(),
            xrcd: domain.raw.as_ptr(),
            cq: completions.raw.as_ptr(),
            ..abi::ibv_srq_init_attr_ex::default()
        };
        // SAFETY: context, domains and queue are alive; the attributes are valid during the call.
        let raw = unsafe { create(self.context.raw.as_ptr(), &mut attributes) };
        let raw = NonNull::new(raw)
            .ok_or_else(|| Error::last("ibv_create_srq_ex", self.context.name()))?;
        let mut queue = SharedReceiveQueue {
            raw,
            number: 0,
            domain: Arc::clone(self),
            _xrc: Some((Arc::clone(domain), Arc::clone(completions))),
        };
        // SAFETY: the queue is alive, the out-pointer is valid.
        let errno = unsafe { number_of(raw.as_ptr(), &mut queue.number) };
        if errno != 0 {
            return Err(Error::call("ibv_get_srq_num", self.context.name(), errno));
        }
        Ok(Arc::new(queue))
    }
}

impl SharedReceiveQueue {
    /// Returns the number that XRC senders use; 0 for other queues.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Posts a list (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    ///
    /// A request was refused; those before it were posted.
    #[inline]
    pub fn post_receive<'a, S>(
        &self,
        scratch: &mut Scratch,
        requests: impl IntoIterator<Item = ReceiveWork<S>>,
    ) -> std::result::Result<(), PostError>
    where
        S: IntoIterator<Item = Segment<'a>>,
    {
        let post = self.post_function()?;
        // SAFETY: the queue is alive; the list is valid during the call.
        scratch.receives(requests, |first, bad| unsafe {
            post(self.raw.as_ptr(), first, bad)
        })
    }

    /// Posts one request with one segment on the shortest code path (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    ///
    /// The request was refused.
    #[inline]
    pub fn post_receive_one(
        &self,
        id: u64,
        segment: Segment<'_>,
    ) -> std::result::Result<(), PostError> {
        let post = self.post_function()?;
        post::one_receive(id, segment, |work, bad| {
            // SAFETY: the queue is alive; the request is valid during the call.
            unsafe { post(self.raw.as_ptr(), work, bad) }
        })
    }

    #[inline]
    fn post_function(&self) -> std::result::Result<abi::post_srq_recv_fn, PostError> {
        // SAFETY: the context is open.
        let post = unsafe { (*self.domain.context.raw.as_ptr()).ops.post_srq_recv };
        post.ok_or(PostError {
            index: 0,
            errno: libc::EOPNOTSUPP,
        })
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        // SAFETY: its queue pairs keep the queue alive, so none is left.
        unsafe { (self.domain.context.library.functions.destroy_srq)(self.raw.as_ptr()) };
    }
}
