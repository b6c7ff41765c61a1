//! Send work requests: as posted, and as kept until completion.

use crate::ah::AddressHandle;
use crate::qp::flush::Flush;
use crate::qp::inline_data::gather_inline;
use crate::receive::SgeList;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::region::Region;
use verbena_hca_memory::window::Window;
use verbena_hca_os::slots::Slot;

/// A posted send work request (ibv_post_send(3)). The opcode determines which fields have a
/// meaning.
#[derive(Clone, Copy, Default)]
pub struct SendRequest<'a> {
    /// The application's identifier.
    pub wr_id: u64,
    /// IBV_WR_*.
    pub opcode: ibv_wr_opcode,
    /// IBV_SEND_*.
    pub flags: u32,
    /// Immediate data (in network order) or key to invalidate.
    pub immediate: u32,
    /// Local buffers; with IBV_SEND_INLINE their keys are ignored.
    pub sges: &'a [ibv_sge],
    /// Remote address.
    pub remote_address: u64,
    /// Remote key.
    pub rkey: u32,
    /// First operand of an atomic; bytes of a flush.
    pub compare_add: u64,
    /// Second operand of compare-and-swap; the value of an atomic write; placement and selectivity
    /// of a flush ([`crate::qp::flush`]).
    pub swap: u64,
    /// XRC SRQ number.
    pub srq: u32,
    /// Destination of a datagram.
    pub address: Option<&'a Arc<AddressHandle>>,
    /// Queue pair number of a datagram's destination.
    pub remote_qpn: u32,
    /// Queue key of a datagram.
    pub remote_qkey: u32,
    /// Window and region of a bind.
    pub bind: Option<Bind<'a>>,
}

impl SendRequest<'_> {
    /// Returns a FLUSH request's flush. The library's extended interface stores placement and
    /// selectivity in `swap`; the plain interface has no field for them, and means global
    /// visibility.
    pub fn flush(&self) -> Flush {
        let placement = self.swap as u8;
        Flush {
            visible: placement & IBV_FLUSH_GLOBAL != 0 || placement == 0,
            persistent: placement & IBV_FLUSH_PERSISTENT != 0,
            region: (self.swap >> 8) as u8 == IBV_FLUSH_MR,
        }
    }

    /// Returns the number of bytes that a flush names, from its remote address on.
    pub fn flush_length(&self) -> u64 {
        match self.swap {
            0 => self.length(),
            _ => self.compare_add,
        }
    }

    /// Returns the bytes of the local buffers.
    #[inline]
    pub fn length(&self) -> u64 {
        match self.sges {
            [one] => one.length.into(),
            // As UCX sends: a header and data.
            [one, other] => u64::from(one.length) + u64::from(other.length),
            several => several.iter().map(|sge| u64::from(sge.length)).sum(),
        }
    }

    /// Returns whether the local buffers are only valid during posting, and need no keys.
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.flags & IBV_SEND_INLINE != 0
    }

    /// Returns whether the receiver's event is solicited.
    pub fn is_solicited(&self) -> bool {
        self.flags & IBV_SEND_SOLICITED != 0
    }
}

/// How far a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// Not begun, or only partly sent.
    #[default]
    Waiting,
    Sent,
    /// Has a result, which waits for earlier requests.
    Finished(ibv_wc_status),
}

/// Progress of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestProgress {
    /// Bytes sent, or bytes of the answer received.
    pub bytes: u64,
    /// The bytes of a write with immediate data are in place; only the receive queue must be
    /// notified.
    pub is_placed: bool,
}

/// A bind work request.
#[derive(Clone, Copy)]
pub struct Bind<'a> {
    /// The window.
    pub window: &'a Arc<Window>,
    /// The region, unless the window is unbound.
    pub region: Option<&'a Arc<Region>>,
    /// The window's new key.
    pub key: u32,
    /// First address, in the region's address space.
    pub address: u64,
    /// Bytes; 0 unbinds.
    pub length: u64,
    /// IBV_ACCESS_*.
    pub access: u32,
}

/// A pending work request.
#[derive(Default)]
pub struct PendingRequest {
    pub(super) wr_id: u64,
    pub(super) opcode: ibv_wr_opcode,
    pub(super) flags: u32,
    pub(super) immediate: u32,
    pub(super) sges: SgeList,
    pub(super) inline: Vec<u8>,
    pub(super) remote_address: u64,
    pub(super) rkey: u32,
    pub(super) compare_add: u64,
    pub(super) swap: u64,
    pub(super) srq: u32,
    pub(super) address: Option<Arc<AddressHandle>>,
    pub(super) remote_qpn: u32,
    pub(super) remote_qkey: u32,
    bind: Option<OwnedBind>,
    pub(super) stage: RequestStage,
    pub(crate) index: u64,
    pub(crate) psn: u32,
    /// Number of go-backs when it was sent: an acknowledgement of an earlier transmission is
    /// ignored.
    pub(super) epoch: u32,
    pub(crate) progress: RequestProgress,
    /// Partly or wholly sent: it must finish before the send queue is drained.
    pub(super) is_started: bool,
}

struct OwnedBind {
    window: Arc<Window>,
    region: Option<Arc<Region>>,
    key: u32,
    address: u64,
    length: u64,
    access: u32,
}

impl OwnedBind {
    fn of(bind: Bind<'_>) -> OwnedBind {
        OwnedBind {
            window: bind.window.clone(),
            region: bind.region.cloned(),
            key: bind.key,
            address: bind.address,
            length: bind.length,
            access: bind.access,
        }
    }
}

impl Slot for PendingRequest {
    #[inline]
    fn release(&mut self) {
        self.address = None;
        self.bind = None;
        if self.inline.capacity() > INLINE_KEPT {
            self.inline = Vec::new();
        }
    }
}

/// Largest inline buffer in bytes that is kept for reuse.
const INLINE_KEPT: usize = 256;

impl PendingRequest {
    /// Stores a request that was just posted.
    pub(super) fn fill(&mut self, request: &SendRequest<'_>, index: u64, psn: u32) {
        self.fill_send(request, index, psn);
        self.immediate = request.immediate;
        self.remote_address = request.remote_address;
        self.rkey = request.rkey;
        self.compare_add = request.compare_add;
        self.swap = request.swap;
        self.srq = request.srq;
        self.address = request.address.cloned();
        self.remote_qpn = request.remote_qpn;
        self.remote_qkey = request.remote_qkey;
        self.bind = request.bind.map(OwnedBind::of);
    }

    /// As [`PendingRequest::fill`], for a send over a reliable connection: the opcode gives no
    /// meaning to the other fields.
    #[inline]
    pub(super) fn fill_send(&mut self, request: &SendRequest<'_>, index: u64, psn: u32) {
        self.wr_id = request.wr_id;
        self.opcode = request.opcode;
        self.flags = request.flags;
        self.stage = RequestStage::Waiting;
        self.index = index;
        self.psn = psn;
        self.epoch = 0;
        self.progress = RequestProgress::default();
        self.is_started = false;
        if request.is_inline() {
            self.keep_inline(request);
        } else {
            self.sges.set(request.sges);
        }
    }

    /// Copies inline data, which the application may reuse when posting returns.
    #[inline]
    fn keep_inline(&mut self, request: &SendRequest<'_>) {
        let length = request.length() as usize;
        self.inline.clear();
        self.inline.reserve(length);
        // SAFETY: the application keeps inline data readable during posting; there is capacity for
        // `length` bytes, the sum of the buffers.
        unsafe {
            gather_inline(request.sges, 0, self.inline.as_mut_ptr(), length);
            self.inline.set_len(length);
        }
        self.sges.set(&[ibv_sge {
            addr: self.inline.as_ptr() as u64,
            length: self.inline.len() as u32,
            lkey: 0,
        }]);
    }

    #[inline]
    pub(crate) fn request(&self) -> SendRequest<'_> {
        SendRequest {
            wr_id: self.wr_id,
            opcode: self.opcode,
            flags: self.flags,
            immediate: self.immediate,
            sges: self.sges.as_slice(),
            remote_address: self.remote_address,
            rkey: self.rkey,
            compare_add: self.compare_add,
            swap: self.swap,
            srq: self.srq,
            address: self.address.as_ref(),
            remote_qpn: self.remote_qpn,
            remote_qkey: self.remote_qkey,
            bind: self.bind.as_ref().map(|bind| Bind {
                window: &bind.window,
                region: bind.region.as_ref(),
                key: bind.key,
                address: bind.address,
                length: bind.length,
                access: bind.access,
            }),
        }
    }
}
