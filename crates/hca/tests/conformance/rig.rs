//! Two connected queue pairs and their memory.

use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_abi::*;
use verbena_hca::context::Context;
use verbena_hca::cq::Timestamps;
use verbena_hca::process::Cq;
use verbena_hca::process::Process;
use verbena_hca::qp::multicast_groups::Loopback;
use verbena_hca::qp::{Qp, QpInit, SendRequest};
use verbena_hca::srq::Srq;
use verbena_hca::xrcd::Xrcd;
use verbena_hca_memory::domain::Pd;
use verbena_hca_memory::region::Region;
use verbena_hca_net::device::Device;

/// All access rights.
pub const ALL: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND;

/// One side.
pub struct Side {
    pub context: Arc<Context>,
    pub pd: Arc<Pd>,
    pub cq: Arc<Cq>,
    pub qp: Arc<Qp>,
    pub srq: Option<Arc<Srq>>,
    pub region: Region,
    pub buffer: &'static mut [u8],
}

pub const BUFFER: usize = 1 << 20;

/// Returns page-aligned, zeroed memory that lives for ever.
pub fn pages(length: usize) -> &'static mut [u8] {
    let layout = std::alloc::Layout::from_size_align(length, 4096).unwrap();
    // SAFETY: the layout has a size; the memory is never freed.
    unsafe { std::slice::from_raw_parts_mut(std::alloc::alloc_zeroed(layout), length) }
}

impl Side {
    pub fn new(kind: ibv_qp_type, access: u32) -> Side {
        Side::with(kind, access, BUFFER, false)
    }

    /// Returns a side with a buffer of this length, and with a shared receive queue if wanted.
    pub fn with(kind: ibv_qp_type, access: u32, length: usize, shares: bool) -> Side {
        let context = Context::open(Device::FIRST).unwrap();
        let pd = Pd::allocate(&context.process.memory).unwrap();
        let cq = Cq::create(
            &context.process,
            &context.events,
            256,
            None,
            Timestamps::Off,
        )
        .unwrap();
        let cap = ibv_qp_cap {
            max_send_wr: 64,
            max_recv_wr: 64,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline_data: 256,
        };
        let xrcd = (kind == IBV_QPT_XRC_RECV).then(|| {
            let process = Process::current().unwrap();
            Xrcd::open(|| process.join(), -1, libc::O_CREAT).unwrap()
        });
        let xrc = xrcd.clone().zip(Some(cq.clone()));
        let srq = shares.then(|| Srq::create(&context, &pd, 64, 4, xrc).unwrap());
        let init = QpInit {
            kind,
            pd: Some(pd.clone()),
            send_cq: Some(cq.clone()),
            recv_cq: Some(cq.clone()),
            srq: srq.clone().filter(|_| xrcd.is_none()),
            xrcd,
            cap,
            signal_all: false,
            loopback: Loopback::Wanted,
        };
        let qp = Qp::create(&context, init).unwrap();
        let buffer = pages(length);
        let address = buffer.as_ptr() as u64;
        let region = Region::register(&pd, address, length as u64, address, access).unwrap();
        Side {
            srq,
            context,
            pd,
            cq,
            qp,
            region,
            buffer,
        }
    }

    pub fn address(&self, offset: usize) -> u64 {
        self.buffer.as_ptr() as u64 + offset as u64
    }

    pub fn sge(&self, offset: usize, length: usize) -> ibv_sge {
        ibv_sge {
            addr: self.address(offset),
            length: length as u32,
            lkey: self.region.key(),
        }
    }

    pub fn post(&self, request: &SendRequest<'_>) {
        self.qp.poster().post(request).unwrap();
    }

    pub fn receive(&self, wr_id: u64, offset: usize, length: usize) {
        self.qp
            .post_receive(wr_id, &[self.sge(offset, length)])
            .unwrap();
    }

    /// Returns the next completion; panics when none comes within 20 s.
    pub fn wait(&self) -> ibv_wc {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(completion) = self.cq.take() {
                return completion.wc;
            }
            assert!(Instant::now() < deadline, "no completion came");
        }
    }

    pub fn wait_ok(&self) -> ibv_wc {
        let wc = self.wait();
        assert_eq!(wc.status, IBV_WC_SUCCESS);
        wc
    }

    pub fn init(&self) {
        self.init_with(ALL);
    }

    pub fn init_with(&self, access: u32) {
        let mut attributes = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num: 1,
            ..Default::default()
        };
        let mut mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        if self.qp.kind() == IBV_QPT_UD {
            attributes.qkey = QKEY;
            mask |= IBV_QP_QKEY;
        } else {
            attributes.qp_access_flags = access;
            mask |= IBV_QP_ACCESS_FLAGS;
        }
        self.qp.modify(&attributes, mask).unwrap();
    }

    pub fn ready(&self, destination: u32, timeout: u8, rnr_retry: u8) {
        self.ready_to_receive(destination, 4);
        self.ready_to_send(timeout, rnr_retry, 4);
    }

    pub fn ready_to_receive(&self, destination: u32, max_dest_rd_atomic: u8) {
        let mut attributes = ibv_qp_attr {
            qp_state: IBV_QPS_RTR,
            path_mtu: IBV_MTU_1024,
            dest_qp_num: destination,
            rq_psn: 100,
            max_dest_rd_atomic,
            min_rnr_timer: 1,
            ..Default::default()
        };
        attributes.ah_attr.dlid = 1;
        attributes.ah_attr.port_num = 1;
        let connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        let reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        let rtr = match self.qp.kind() {
            IBV_QPT_UD => 0,
            IBV_QPT_UC => connected,
            _ => connected | reliable,
        };
        self.qp.modify(&attributes, IBV_QP_STATE | rtr).unwrap();
    }

    pub fn ready_to_send(&self, timeout: u8, rnr_retry: u8, max_rd_atomic: u8) {
        let attributes = ibv_qp_attr {
            qp_state: IBV_QPS_RTS,
            sq_psn: 100,
            timeout,
            retry_cnt: 1,
            rnr_retry,
            max_rd_atomic,
            ..Default::default()
        };
        let reliable =
            IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        let rts = match self.qp.kind() {
            IBV_QPT_UD | IBV_QPT_UC => 0,
            _ => reliable,
        };
        self.qp
            .modify(&attributes, IBV_QP_STATE | IBV_QP_SQ_PSN | rts)
            .unwrap();
    }
}

pub const QKEY: u32 = 0x1111;

/// Returns two connected sides.
pub fn pair(kind: ibv_qp_type) -> (Side, Side) {
    pair_with(kind, ALL, 14, 7)
}

pub fn pair_with(kind: ibv_qp_type, access: u32, timeout: u8, rnr_retry: u8) -> (Side, Side) {
    let (a, b) = (Side::new(kind, ALL), Side::new(kind, access));
    a.init();
    b.init();
    a.ready(b.qp.number(), timeout, rnr_retry);
    b.ready(a.qp.number(), timeout, rnr_retry);
    (a, b)
}

/// Returns a signalled request without operands.
pub fn request<'a>(opcode: ibv_wr_opcode, sges: &'a [ibv_sge]) -> SendRequest<'a> {
    SendRequest {
        wr_id: 7,
        opcode,
        flags: IBV_SEND_SIGNALED,
        sges,
        ..SendRequest::default()
    }
}

/// Fills the buffer with bytes that differ from place to place.
pub fn pattern(buffer: &mut [u8], seed: u8) {
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index as u8)
            .wrapping_mul(31)
            .wrapping_add((index >> 8) as u8)
            .wrapping_add(seed);
    }
}
