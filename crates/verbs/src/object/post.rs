//! Lists of work requests: `ibv_post_send(3)`, `ibv_post_recv(3)`.
//!
//! A [`Scratch`] holds the C structures of a list and is reused for the next, so that posting
//! allocates nothing. Requests are iterators; segments are converted once, directly into place.

use crate::object::address_handle::AddressHandle;
use crate::object::region::Segment;
use crate::object::thread_safe;
use std::io;
use verbena_abi as abi;

/// A list was not posted completely; the requests before `index` were posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("posting request {index} of the list failed: {}", io::Error::from_raw_os_error(*errno))]
pub struct PostError {
    /// The index of the first refused request.
    pub index: usize,
    /// The error number.
    pub errno: i32,
}

/// The operation of a send request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA write to (address, key).
    Write(u64, u32),
    /// RDMA write to (address, key) with immediate data.
    WriteImmediate(u64, u32, u32),
    /// RDMA read from (address, key).
    Read(u64, u32),
    /// Send.
    Send,
    /// Send with immediate data.
    SendImmediate(u32),
    /// Compare-and-swap at (address, key): compare, swap.
    CompareSwap(u64, u32, u64, u64),
    /// Fetch-and-add at (address, key).
    FetchAdd(u64, u32, u64),
}

/// `enum ibv_send_flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendFlags(u32);

impl SendFlags {
    /// No completion on success.
    pub const SILENT: SendFlags = SendFlags(0);
    /// A completion on success.
    pub const SIGNALED: SendFlags = SendFlags(abi::IBV_SEND_SIGNALED);

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Adds: raise a solicited event at the receiver.
    pub fn solicited(self) -> Self {
        SendFlags(self.0 | abi::IBV_SEND_SOLICITED)
    }

    /// Adds: copy the payload during the call.
    pub fn inline(self) -> Self {
        SendFlags(self.0 | abi::IBV_SEND_INLINE)
    }

    /// Adds: wait for earlier reads and atomics.
    pub fn fence(self) -> Self {
        SendFlags(self.0 | abi::IBV_SEND_FENCE)
    }
}

/// The destination of a request.
#[derive(Clone, Copy, Default)]
pub enum SendTarget<'a> {
    /// The connected peer.
    #[default]
    Connected,
    /// A datagram to a queue pair with this number and queue key.
    Datagram(&'a AddressHandle, u32, u32),
    /// The XRC shared receive queue of this number.
    SharedReceive(u32),
}

/// A send request.
pub struct SendWork<'a, S> {
    /// Returned in the completion.
    pub id: u64,
    /// The operation.
    pub opcode: Opcode,
    /// Flags.
    pub flags: SendFlags,
    /// Local memory.
    pub segments: S,
    /// The destination.
    pub target: SendTarget<'a>,
}

/// A receive request.
pub struct ReceiveWork<S> {
    /// Returned in the completion.
    pub id: u64,
    /// The memory for the message.
    pub segments: S,
}

/// The C structures of a list, reused for the next one.
#[derive(Default)]
pub struct Scratch {
    sends: Vec<abi::ibv_send_wr>,
    receives: Vec<abi::ibv_recv_wr>,
    entries: Vec<abi::ibv_sge>,
    /// For a single request with one segment.
    one: abi::ibv_send_wr,
    entry: abi::ibv_sge,
}
// Pointers inside are followed only during the call that sets them.
thread_safe!(Scratch);

impl Scratch {
    /// Returns an empty one.
    pub fn new() -> Self {
        Scratch::default()
    }

    #[inline]
    pub(crate) fn sends<'a, S>(
        &mut self,
        requests: impl IntoIterator<Item = SendWork<'a, S>>,
        post: impl FnOnce(*mut abi::ibv_send_wr, *mut *mut abi::ibv_send_wr) -> i32,
    ) -> Result<(), PostError>
    where
        S: IntoIterator<Item = Segment<'a>>,
    {
        self.entries.clear();
        let mut total = 0;
        for request in requests {
            let before = self.entries.len();
            for segment in request.segments {
                self.entries.push(segment.entry);
            }
            // Structures of earlier lists are overwritten in place: a new one would cost two cache
            // lines of zeros.
            if total == self.sends.len() {
                self.sends.push(abi::ibv_send_wr::default());
            }
            let raw = &mut self.sends[total];
            raw.wr_id = request.id;
            raw.num_sge = (self.entries.len() - before) as i32;
            raw.send_flags = request.flags.0;
            set_operation(raw, request.opcode);
            set_target(raw, request.target);
            total += 1;
        }
        if total == 0 {
            return Ok(());
        }
        // Addresses are known only when both vectors are complete.
        post_list(link(&mut self.sends[..total], &mut self.entries), post)
    }

    /// Posts one request with one segment on the shortest code path. Fields equal to those of the
    /// previous request are not stored again: the adapter reads the request at once, and a wide
    /// load of fields just stored in parts waits for the store buffer.
    #[inline]
    pub(crate) fn send_one(
        &mut self,
        (id, opcode, flags): (u64, Opcode, SendFlags),
        segment: Segment<'_>,
        target: SendTarget<'_>,
        post: impl FnOnce(*mut abi::ibv_send_wr, *mut *mut abi::ibv_send_wr) -> i32,
    ) -> Result<(), PostError> {
        let abi::ibv_sge { addr, length, lkey } = segment.entry;
        if self.entry.addr != addr || self.entry.length != length || self.entry.lkey != lkey {
            self.entry = segment.entry;
        }
        self.one.wr_id = id;
        self.one.sg_list = &raw mut self.entry;
        self.one.num_sge = 1;
        self.one.send_flags = flags.0;
        set_operation(&mut self.one, opcode);
        set_target(&mut self.one, target);
        post_list(std::slice::from_mut(&mut self.one), post)
    }

    #[inline]
    pub(crate) fn receives<'a, S>(
        &mut self,
        requests: impl IntoIterator<Item = ReceiveWork<S>>,
        post: impl FnOnce(*mut abi::ibv_recv_wr, *mut *mut abi::ibv_recv_wr) -> i32,
    ) -> Result<(), PostError>
    where
        S: IntoIterator<Item = Segment<'a>>,
    {
        self.receives.clear();
        self.entries.clear();
        for request in requests {
            let before = self.entries.len();
            self.entries
                .extend(request.segments.into_iter().map(|segment| segment.entry));
            self.receives.push(abi::ibv_recv_wr {
                wr_id: request.id,
                num_sge: (self.entries.len() - before) as i32,
                ..abi::ibv_recv_wr::default()
            });
        }
        if self.receives.is_empty() {
            return Ok(());
        }
        post_list(link(&mut self.receives, &mut self.entries), post)
    }
}

/// A work request of a linked list with its scatter/gather list.
trait Linked: Sized {
    /// Sets the segments and the next request. Returns the number of segments.
    fn join(&mut self, segments: *mut abi::ibv_sge, next: *mut Self) -> usize;
}

impl Linked for abi::ibv_send_wr {
    #[inline]
    fn join(&mut self, segments: *mut abi::ibv_sge, next: *mut Self) -> usize {
        self.sg_list = segments;
        self.next = next;
        self.num_sge as usize
    }
}

impl Linked for abi::ibv_recv_wr {
    #[inline]
    fn join(&mut self, segments: *mut abi::ibv_sge, next: *mut Self) -> usize {
        self.sg_list = segments;
        self.next = next;
        self.num_sge as usize
    }
}

/// Links requests to a list and to their segments, which are consecutive in `entries`.
#[inline]
fn link<'a, R: Linked>(requests: &'a mut [R], entries: &mut [abi::ibv_sge]) -> &'a mut [R] {
    let (base, total) = (requests.as_mut_ptr(), requests.len());
    let mut entry = entries.as_mut_ptr();
    for (i, request) in requests.iter_mut().enumerate() {
        let next = match i + 1 < total {
            true => base.wrapping_add(i + 1),
            false => std::ptr::null_mut(),
        };
        entry = entry.wrapping_add(request.join(entry, next));
    }
    requests
}

/// Posts a linked list; the error has the index of the refused request.
#[inline]
fn post_list<R>(
    list: &mut [R],
    post: impl FnOnce(*mut R, *mut *mut R) -> i32,
) -> Result<(), PostError> {
    let base = list.as_mut_ptr();
    let mut bad = std::ptr::null_mut();
    let errno = post(base, &mut bad);
    if errno == 0 {
        return Ok(());
    }
    let index = (bad as usize).wrapping_sub(base as usize) / size_of::<R>();
    Err(PostError {
        index: index.min(list.len()),
        errno: errno.abs(),
    })
}

#[inline]
pub(crate) fn one_receive(
    id: u64,
    segment: Segment<'_>,
    post: impl FnOnce(*mut abi::ibv_recv_wr, *mut *mut abi::ibv_recv_wr) -> i32,
) -> Result<(), PostError> {
    let mut entry = segment.entry;
    let mut work = abi::ibv_recv_wr {
        wr_id: id,
        next: std::ptr::null_mut(),
        sg_list: &mut entry,
        num_sge: 1,
    };
    post_list(std::slice::from_mut(&mut work), post)
}

/// Sets the fields that the opcode needs; the rest of the unions keeps values of an earlier
/// request, which are not read.
#[inline]
fn set_operation(raw: &mut abi::ibv_send_wr, opcode: Opcode) {
    let rdma = |remote_addr, rkey| abi::ibv_send_wr_wr {
        rdma: abi::ibv_send_wr_rdma { remote_addr, rkey },
    };
    let immediate = |word: u32| abi::ibv_send_wr_imm {
        imm_data: word.to_be(),
    };
    match opcode {
        Opcode::Write(address, key) => {
            raw.opcode = abi::IBV_WR_RDMA_WRITE;
            raw.wr = rdma(address, key);
        }
        Opcode::WriteImmediate(address, key, word) => {
            raw.opcode = abi::IBV_WR_RDMA_WRITE_WITH_IMM;
            raw.wr = rdma(address, key);
            raw.imm = immediate(word);
        }
        Opcode::Read(address, key) => {
            raw.opcode = abi::IBV_WR_RDMA_READ;
            raw.wr = rdma(address, key);
        }
        Opcode::Send => raw.opcode = abi::IBV_WR_SEND,
        Opcode::SendImmediate(word) => {
            raw.opcode = abi::IBV_WR_SEND_WITH_IMM;
            raw.imm = immediate(word);
        }
        Opcode::CompareSwap(remote_addr, rkey, compare_add, swap) => {
            raw.opcode = abi::IBV_WR_ATOMIC_CMP_AND_SWP;
            raw.wr.atomic = abi::ibv_send_wr_atomic {
                remote_addr,
                compare_add,
                swap,
                rkey,
            };
        }
        Opcode::FetchAdd(remote_addr, rkey, compare_add) => {
            raw.opcode = abi::IBV_WR_ATOMIC_FETCH_AND_ADD;
            raw.wr.atomic = abi::ibv_send_wr_atomic {
                remote_addr,
                compare_add,
                swap: 0,
                rkey,
            };
        }
    }
}

#[inline]
fn set_target(raw: &mut abi::ibv_send_wr, target: SendTarget<'_>) {
    match target {
        SendTarget::Connected => {}
        SendTarget::Datagram(handle, remote_qpn, remote_qkey) => {
            raw.wr.ud = abi::ibv_send_wr_ud {
                ah: handle.raw.as_ptr(),
                remote_qpn,
                remote_qkey,
            };
        }
        SendTarget::SharedReceive(remote_srqn) => {
            raw.qp_type.xrc = abi::ibv_send_wr_xrc { remote_srqn };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(id: u64) -> SendWork<'static, [Segment<'static>; 0]> {
        SendWork {
            id,
            opcode: Opcode::Send,
            flags: SendFlags::SIGNALED,
            segments: [],
            target: SendTarget::Connected,
        }
    }

    #[test]
    fn a_list_is_linked_in_order_and_ends() {
        let mut scratch = Scratch::new();
        let outcome = scratch.sends((1..=3).map(empty), |first, _| {
            // SAFETY: the list is valid during the call.
            let (a, b, c) = unsafe { (&*first, &*(*first).next, &*(*(*first).next).next) };
            assert_eq!([a.wr_id, b.wr_id, c.wr_id], [1, 2, 3]);
            assert!(c.next.is_null());
            0
        });
        assert_eq!(outcome, Ok(()));
    }

    #[test]
    fn the_refused_request_is_named() {
        let mut scratch = Scratch::new();
        let outcome = scratch.sends((0..4).map(empty), |first, bad| {
            // SAFETY: the list has four elements.
            unsafe { *bad = first.add(2) };
            libc::ENOMEM
        });
        assert_eq!(
            outcome,
            Err(PostError {
                index: 2,
                errno: libc::ENOMEM
            })
        );
    }
}
