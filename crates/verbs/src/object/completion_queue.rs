//! Completion queues: `ibv_create_cq(3)`, `ibv_poll_cq(3)`, `ibv_req_notify_cq(3)`.

use crate::error::{Error, Result};
use crate::object::channel::Channel;
use crate::object::context::Context;
use crate::object::thread_safe;
use crate::status::{CompletionOpcode, WorkStatus};
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// The maximum number of completions taken by one call of the library.
const BATCH: usize = 16;

/// A completion queue.
pub struct CompletionQueue {
    pub(crate) raw: NonNull<abi::ibv_cq>,
    poll: abi::poll_cq_fn,
    channel: Option<Arc<Channel>>,
    context: Arc<Context>,
}
thread_safe!(CompletionQueue);

/// A completion (`struct ibv_wc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkCompletion {
    /// The request's id.
    pub id: u64,
    /// Its status.
    pub status: WorkStatus,
    /// The completed operation; undefined unless the status is success.
    pub opcode: CompletionOpcode,
    /// Vendor error code.
    pub vendor_error: u32,
    /// Received bytes; only for receives.
    pub length: u32,
    /// Immediate data in host byte order.
    pub immediate: Option<u32>,
    /// Queue pair number.
    pub pair: u32,
    /// Source queue pair number; only for datagrams.
    pub source: u32,
    /// Source LID; only for datagrams.
    pub source_lid: u16,
    /// Whether a global route header precedes the data; only for datagrams.
    pub has_route: bool,
}

/// A completion as the library writes it. It stays in place until it is used: a copy of fields that
/// were just stored waits for the store buffer, which takes a fifth of an operation's time.
#[derive(Default)]
pub struct Entry(abi::ibv_wc);

impl Entry {
    /// Returns whether the status is success.
    #[inline]
    pub fn is_success(&self) -> bool {
        self.0.status == abi::IBV_WC_SUCCESS
    }

    /// Returns the whole completion.
    #[inline]
    pub fn completion(&self) -> WorkCompletion {
        convert_entry(&self.0)
    }
}

impl Context {
    /// Creates a completion queue (`ibv_create_cq(3)`).
    ///
    /// # Errors
    ///
    /// `depth` is too large, or the library fails to create it.
    pub fn completion_queue(
        self: &Arc<Self>,
        depth: u32,
        channel: Option<&Arc<Channel>>,
    ) -> Result<Arc<CompletionQueue>> {
        let object = || format!("{} with {depth} entries", self.name());
        let entries = i32::try_from(depth)
            .map_err(|_| Error::invalid("ibv_create_cq", format!("{depth} entries")))?;
        let raw_channel = channel.map_or(std::ptr::null_mut(), |channel| channel.raw.as_ptr());
        // SAFETY: the context is open; the channel is alive or null.
        let raw = unsafe {
            let user = std::ptr::null_mut();
            (self.library.functions.create_cq)(self.raw.as_ptr(), entries, user, raw_channel, 0)
        };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_cq", object()))?;
        // SAFETY: the context is open; its operations do not change.
        let poll = unsafe { (*self.raw.as_ptr()).ops.poll_cq };
        let queue = |poll| CompletionQueue {
            raw,
            poll,
            channel: channel.cloned(),
            context: Arc::clone(self),
        };
        match poll {
            Some(poll) => Ok(Arc::new(queue(poll))),
            None => {
                // SAFETY: created here and not used elsewhere.
                unsafe { (self.library.functions.destroy_cq)(raw.as_ptr()) };
                Err(Error::call("ibv_poll_cq", object(), libc::EOPNOTSUPP))
            }
        }
    }
}

impl CompletionQueue {
    /// Takes completions, converts each with `convert` and returns their number. Calls the library
    /// once, so at most 16.
    ///
    /// # Errors
    ///
    /// `ibv_poll_cq` fails.
    #[inline]
    pub fn poll<T>(&self, into: &mut [T], convert: impl Fn(&WorkCompletion) -> T) -> Result<usize> {
        let mut entries = [const { std::mem::MaybeUninit::<abi::ibv_wc>::uninit() }; BATCH];
        let room = into.len().min(BATCH);
        // For a failed request the library fills only some fields; clear the entries it may write.
        for entry in &mut entries[..room] {
            entry.write(abi::ibv_wc::default());
        }
        // SAFETY: the queue is alive and `room` entries are writable.
        let count =
            unsafe { (self.poll)(self.raw.as_ptr(), room as i32, entries.as_mut_ptr().cast()) };
        if count < 0 {
            return Err(self.poll_failed(count));
        }
        let count = (count as usize).min(room);
        for (entry, place) in entries[..count].iter().zip(into) {
            // SAFETY: the loop over `entries[..room]` has initialized it, and `count` is at most
            // `room`.
            let entry = unsafe { entry.assume_init_ref() };
            *place = convert(&convert_entry(entry));
        }
        Ok(count)
    }

    pub(crate) fn poll_function(&self) -> abi::poll_cq_fn {
        self.poll
    }

    /// Takes one completion into `entry` and returns whether there was one.
    ///
    /// # Errors
    ///
    /// `ibv_poll_cq` fails.
    #[inline]
    pub fn poll_entry(&self, entry: &mut Entry) -> Result<bool> {
        // SAFETY: the queue is alive and one entry is writable.
        let count = unsafe { (self.poll)(self.raw.as_ptr(), 1, &mut entry.0) };
        if count < 0 {
            return Err(self.poll_failed(count));
        }
        Ok(count > 0)
    }

    #[cold]
    fn poll_failed(&self, answer: i32) -> Error {
        Error::call("ibv_poll_cq", self.context.name(), answer.abs())
    }

    /// Requests an event for the next completion (`ibv_req_notify_cq(3)`).
    ///
    /// # Errors
    ///
    /// The call fails or is not supported.
    pub fn arm(&self) -> Result<()> {
        // SAFETY: the context is open.
        let notify = unsafe { (*self.context.raw.as_ptr()).ops.req_notify_cq };
        let errno = match notify {
            // SAFETY: the queue is alive.
            Some(notify) => unsafe { notify(self.raw.as_ptr(), 0) },
            None => libc::EOPNOTSUPP,
        };
        if errno == 0 {
            return Ok(());
        }
        Err(Error::call("ibv_req_notify_cq", self.context.name(), errno))
    }

    /// Returns the channel that it was created with.
    pub fn channel(&self) -> Option<&Arc<Channel>> {
        self.channel.as_ref()
    }
}

#[inline]
fn convert_entry(entry: &abi::ibv_wc) -> WorkCompletion {
    let has_immediate = entry.wc_flags & abi::IBV_WC_WITH_IMM != 0;
    WorkCompletion {
        id: entry.wr_id,
        status: WorkStatus(entry.status),
        opcode: CompletionOpcode(entry.opcode),
        vendor_error: entry.vendor_err,
        length: entry.byte_len,
        // SAFETY: both members of the union are a u32.
        immediate: has_immediate.then(|| u32::from_be(unsafe { entry.imm.imm_data })),
        pair: entry.qp_num,
        source: entry.src_qp,
        source_lid: entry.slid,
        has_route: entry.wc_flags & abi::IBV_WC_GRH != 0,
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: its queue pairs keep the queue alive, so none is left; all events are
        // acknowledged when taken.
        unsafe { (self.context.library.functions.destroy_cq)(self.raw.as_ptr()) };
    }
}
