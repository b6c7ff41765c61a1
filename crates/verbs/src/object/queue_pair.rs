//! Queue pairs: `ibv_create_qp(3)`, `ibv_modify_qp(3)`, `ibv_query_qp(3)`. Their options and
//! attributes are in [`crate::qp`].

use crate::error::{Error, Result};
use crate::library::Functions;
use crate::object::completion_queue::CompletionQueue;
use crate::object::domain::{ProtectionDomain, XrcDomain};
use crate::object::post::{
    self, Opcode, PostError, ReceiveWork, Scratch, SendFlags, SendTarget, SendWork,
};
use crate::object::region::Segment;
use crate::object::shared_receive::SharedReceiveQueue;
use crate::object::thread_safe;
use crate::qp::attributes::Change;
use crate::qp::builder::PairOptions;
use crate::qp::transition;
use crate::qp::{PairState, PairType};
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// A queue pair.
pub struct QueuePair {
    raw: NonNull<abi::ibv_qp>,
    pair_type: PairType,
    max_inline: u32,
    post_send: Option<abi::post_send_fn>,
    post_recv: Option<abi::post_recv_fn>,
    domain: Arc<ProtectionDomain>,
    _completions: [Arc<CompletionQueue>; 2],
    _shared: Option<Arc<SharedReceiveQueue>>,
    _xrc: Option<Arc<XrcDomain>>,
}
thread_safe!(QueuePair);

impl QueuePair {
    pub(crate) fn create(options: PairOptions<'_>) -> Result<QueuePair> {
        let domain = options.domain;
        let context = &domain.context;
        let functions = &context.library.functions;
        let describe = || {
            format!(
                "{} ({}, {} sends, {} receives, {} inline)",
                context.name(),
                options.pair_type,
                options.send_depth,
                options.receive_depth,
                options.inline
            )
        };
        let cap = abi::ibv_qp_cap {
            max_send_wr: options.send_depth,
            max_recv_wr: options.receive_depth,
            max_send_sge: options.segments,
            max_recv_sge: options.segments,
            max_inline_data: options.inline,
        };
        let shared = options
            .shared
            .map_or(std::ptr::null_mut(), |shared| shared.raw.as_ptr());
        let (raw, granted) = match options.pair_type {
            PairType::XrcReceive => {
                let create = context
                    .extended()
                    .and_then(|extended| extended.create_qp_ex);
                let (Some(create), Some(xrc)) = (create, options.xrc) else {
                    return Err(Error::call(
                        "ibv_create_qp_ex",
                        describe(),
                        libc::EOPNOTSUPP,
                    ));
                };
                let mut attributes = abi::ibv_qp_init_attr_ex {
                    qp_type: options.pair_type.code(),
                    comp_mask: abi::IBV_QP_INIT_ATTR_XRCD,
                    xrcd: xrc.raw.as_ptr(),
                    ..abi::ibv_qp_init_attr_ex::default()
                };
                // SAFETY: context and domain are alive; the attributes are valid during the call.
                let raw = unsafe { create(context.raw.as_ptr(), &mut attributes) };
                (raw, attributes.cap)
            }
            _ => {
                let mut attributes = abi::ibv_qp_init_attr {
                    qp_context: std::ptr::null_mut(),
                    send_cq: options.send_completions.raw.as_ptr(),
                    recv_cq: options.receive_completions.raw.as_ptr(),
                    srq: shared,
                    cap,
                    qp_type: options.pair_type.code(),
                    sq_sig_all: 0,
                };
                // SAFETY: domain, queues and shared queue are alive; the attributes are valid
                // during the call.
                let raw = unsafe { (functions.create_qp)(domain.raw.as_ptr(), &mut attributes) };
                (raw, attributes.cap)
            }
        };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_qp", describe()))?;
        // SAFETY: the context is open; its operations do not change.
        let operations = unsafe { &(*context.raw.as_ptr()).ops };
        Ok(QueuePair {
            raw,
            pair_type: options.pair_type,
            max_inline: granted.max_inline_data,
            post_send: operations.post_send,
            post_recv: operations.post_recv,
            domain: Arc::clone(domain),
            _completions: [
                Arc::clone(options.send_completions),
                Arc::clone(options.receive_completions),
            ],
            _shared: options.shared.cloned(),
            _xrc: options.xrc.cloned(),
        })
    }

    pub(crate) fn raw_pointer(&self) -> *mut abi::ibv_qp {
        self.raw.as_ptr()
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.domain.context.library.functions
    }

    pub(crate) fn post_send_function(&self) -> Option<abi::post_send_fn> {
        self.post_send
    }

    /// Returns its number.
    pub fn number(&self) -> u32 {
        // SAFETY: the pair is alive; its number does not change.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// Returns its type.
    pub fn pair_type(&self) -> PairType {
        self.pair_type
    }

    /// Returns the maximum inline payload in bytes, as granted.
    pub fn max_inline(&self) -> u32 {
        self.max_inline
    }

    /// Changes the state (`ibv_modify_qp(3)`), after a check against the transition table.
    ///
    /// # Errors
    ///
    /// Required attributes are missing, or the call fails.
    pub fn modify(&self, change: &Change) -> Result<()> {
        transition::check(self.pair_type, change)?;
        let mut attributes = change.attributes;
        // SAFETY: the pair is alive, the attributes are valid during the call.
        let errno = unsafe {
            (self.domain.context.library.functions.modify_qp)(
                self.raw.as_ptr(),
                &mut attributes,
                change.mask,
            )
        };
        if errno == 0 {
            return Ok(());
        }
        let object = format!("{} pair {} to {}", self.pair_type, self.number(), change.to);
        Err(Error::call("ibv_modify_qp", object, errno.abs()))
    }

    /// Returns the state that the adapter reports.
    ///
    /// # Errors
    ///
    /// `ibv_query_qp` fails.
    pub fn state(&self) -> Result<PairState> {
        let mut attributes = abi::ibv_qp_attr::default();
        let mut initial = abi::ibv_qp_init_attr::default();
        // SAFETY: the pair is alive, both structures are valid.
        let errno = unsafe {
            (self.domain.context.library.functions.query_qp)(
                self.raw.as_ptr(),
                &mut attributes,
                abi::IBV_QP_STATE,
                &mut initial,
            )
        };
        if errno == 0 {
            return Ok(PairState(attributes.qp_state));
        }
        Err(Error::call(
            "ibv_query_qp",
            format!("pair {}", self.number()),
            errno.abs(),
        ))
    }

    /// Posts a list with one doorbell (`ibv_post_send(3)`).
    ///
    /// # Errors
    ///
    /// A request was refused; those before it were posted.
    #[inline]
    pub fn post_send<'a, S>(
        &self,
        scratch: &mut Scratch,
        requests: impl IntoIterator<Item = SendWork<'a, S>>,
    ) -> std::result::Result<(), PostError>
    where
        S: IntoIterator<Item = Segment<'a>>,
    {
        let Some(post) = self.post_send else {
            return Err(PostError {
                index: 0,
                errno: libc::EOPNOTSUPP,
            });
        };
        // SAFETY: the pair is alive; the list is valid during the call, its memory during the
        // borrow of the segments.
        scratch.sends(requests, |first, bad| unsafe {
            post(self.raw.as_ptr(), first, bad)
        })
    }

    /// Posts one request with one segment on the shortest code path (`ibv_post_send(3)`).
    ///
    /// # Errors
    ///
    /// The request was refused.
    #[inline]
    pub fn post_one(
        &self,
        scratch: &mut Scratch,
        work: (u64, Opcode, SendFlags),
        segment: Segment<'_>,
        target: SendTarget<'_>,
    ) -> std::result::Result<(), PostError> {
        let Some(post) = self.post_send else {
            return Err(PostError {
                index: 0,
                errno: libc::EOPNOTSUPP,
            });
        };
        // SAFETY: the pair is alive; request and entry are valid during the call, the memory during
        // the segment's borrow.
        scratch.send_one(work, segment, target, |first, bad| unsafe {
            post(self.raw.as_ptr(), first, bad)
        })
    }

    /// Posts a complete C request (`ibv_post_send(3)`).
    pub(crate) fn post_raw(&self, work: &mut abi::ibv_send_wr) -> Result<()> {
        let object = || format!("queue pair {}", self.number());
        let Some(post) = self.post_send else {
            return Err(Error::call("ibv_post_send", object(), libc::EOPNOTSUPP));
        };
        let mut bad = std::ptr::null_mut();
        // SAFETY: the pair is alive; the request and the objects it refers to are valid during the
        // call.
        match unsafe { post(self.raw.as_ptr(), work, &mut bad) } {
            0 => Ok(()),
            errno => Err(Error::call("ibv_post_send", object(), errno.abs())),
        }
    }

    /// Posts a list (`ibv_post_recv(3)`).
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
        let Some(post) = self.post_recv else {
            return Err(PostError {
                index: 0,
                errno: libc::EOPNOTSUPP,
            });
        };
        // SAFETY: the pair is alive; the list is valid during the call, its memory during the
        // borrow of the segments.
        scratch.receives(requests, |first, bad| unsafe {
            post(self.raw.as_ptr(), first, bad)
        })
    }

    /// Posts one request with one segment on the shortest code path (`ibv_post_recv(3)`).
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
        let Some(post) = self.post_recv else {
            return Err(PostError {
                index: 0,
                errno: libc::EOPNOTSUPP,
            });
        };
        post::one_receive(id, segment, |work, bad| {
            // SAFETY: the pair is alive; the request is valid during the call, its memory during
            // the borrow of the segment.
            unsafe { post(self.raw.as_ptr(), work, bad) }
        })
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: owned by self and not used after this.
        unsafe { (self.domain.context.library.functions.destroy_qp)(self.raw.as_ptr()) };
    }
}
