//! A process of the program: makes its calls when it is told to, and tells what it sees.

use super::message::{self, Fact, Order};
use super::objects::{Objects, PORT, QueuePair};
use super::post::{QKEY, access_bits};
use crate::program::{Access, Action, Program, QpId, Service, SrqId, Target, WindowType};
use crate::reference::memory::pattern;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use verbena_abi as abi;

/// What a worker says when it has not made a call because an object is not there.
pub const NOT_MADE: i32 = -1;
/// How long a worker looks for something new before it says that there is nothing.
const LOOK: Duration = Duration::from_micros(100);
/// Completions taken in one call.
const BATCH: usize = 16;
const QUEUE_DEPTH: u32 = 128;
const MOST_SGES: u32 = 4;
/// Bytes that every queue pair takes inline.
pub const INLINE_BYTES: u32 = 64;
/// 4.096 us * 2^10: a request is repeated after 4 ms.
const TIMEOUT: u8 = 10;

/// A worker's whole life. Returns when the conductor's end is closed.
pub fn live(
    program: &Program,
    process: u16,
    mut stream: UnixStream,
    files: &Path,
) -> io::Result<()> {
    let mut worker = match Objects::open(process, program.arena as usize) {
        Ok(objects) => Worker {
            objects,
            process,
            files,
        },
        Err(error) => {
            eprintln!("p{process}: {error}");
            return Err(io::Error::other(error));
        }
    };
    message::send(&mut stream, &[])?;
    loop {
        let words = match message::receive(&mut stream) {
            Ok(words) => words,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        match words.first().copied().and_then(Order::from_word) {
            Some(Order::Step) => {
                let reply = worker.step(program, &words[1..]);
                message::send(&mut stream, &reply)?;
            }
            Some(Order::Observe) => {
                let reply = worker.observe(words.get(1) == Some(&1));
                message::send(&mut stream, &reply)?;
            }
            Some(Order::Memory) => {
                use std::io::Write;
                stream.write_all(worker.arena())?;
            }
            None => return Err(io::Error::other("an order that there is not")),
        }
    }
}

struct Worker<'a> {
    objects: Objects,
    process: u16,
    files: &'a Path,
}

fn errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Puts a new object into its table, or says why there is none.
fn keep<K: std::hash::Hash + Eq, T>(
    table: &mut std::collections::HashMap<K, *mut T>,
    id: K,
    made: *mut T,
) -> i32 {
    if made.is_null() {
        return errno();
    }
    table.insert(id, made);
    0
}

impl Worker<'_> {
    fn arena(&self) -> &[u8] {
        // SAFETY: the arena is mapped for as long as the process lives. Peers may change it while
        // it is read; the bytes are only copied.
        unsafe { std::slice::from_raw_parts(self.objects.arena, self.objects.arena_len) }
    }

    /// Makes the calls of a step. The reply: the number of codes, (index, code)..., new facts.
    fn step(&mut self, program: &Program, words: &[u64]) -> Vec<u64> {
        let step = &program.steps[words[0] as usize];
        for fact in words[1..].chunks_exact(3) {
            let kind = Fact::from_word(fact[0]).expect("a fact that there is");
            self.objects.facts.insert((kind, fact[1] as u16), fact[2]);
        }
        let before = self.objects.facts.clone();
        let mut codes = Vec::new();
        for (index, call) in step.calls.iter().enumerate() {
            let by_conductor = matches!(call.action, Action::Kill {} | Action::Pause {});
            if call.by.0 == self.process && !by_conductor {
                let code = self.call(&call.action);
                codes.extend([index as u64, code as u32 as u64]);
            }
        }
        let mut reply = vec![codes.len() as u64 / 2];
        reply.extend(codes);
        for ((fact, id), value) in &self.objects.facts {
            if before.get(&(*fact, *id)) != Some(value) {
                reply.extend([*fact as u64, u64::from(*id), *value]);
            }
        }
        reply
    }

    fn call(&mut self, action: &Action) -> i32 {
        self.try_call(action).unwrap_or(NOT_MADE)
    }

    /// Makes a call; `None` if an object that it needs is not there.
    fn try_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        let library = &objects.library;
        // SAFETY (of every call below): handles come from the tables, which hold what exists; all
        // attributes are valid places that outlive the call.
        Some(match action {
            Action::AllocPd { pd } => {
                // SAFETY: see above.
                let made = unsafe { (library.alloc_pd)(objects.context) };
                keep(&mut objects.pds, *pd, made)
            }
            Action::DeallocPd { pd } => {
                let handle = *objects.pds.get(pd)?;
                if let Some(address) = objects.ahs.remove(pd) {
                    // SAFETY: see above.
                    unsafe { (library.destroy_ah)(address) };
                }
                // SAFETY: see above.
                let code = unsafe { (library.dealloc_pd)(handle) };
                if code == 0 {
                    objects.pds.remove(pd);
                }
                code
            }
            Action::RegMr {
                mr,
                pd,
                at,
                len,
                access,
            } => {
                let (pd, address) = (*objects.pds.get(pd)?, objects.address(*at));
                let bits = access_bits(*access) as i32;
                // SAFETY: see above; the range is within the arena.
                let made = unsafe { (library.reg_mr)(pd, address as *mut _, *len as usize, bits) };
                let code = keep(&mut objects.mrs, *mr, made);
                self.learn_region(*mr);
                code
            }
            Action::ReregMr {
                mr,
                pd,
                at,
                len,
                access,
            } => {
                let (handle, pd) = (*objects.mrs.get(mr)?, *objects.pds.get(pd)?);
                let address = objects.address(*at);
                let bits = access_bits(*access) as i32;
                let all = abi::IBV_REREG_MR_FLAGS_SUPPORTED;
                // SAFETY: see above; the range is within the arena.
                let code = unsafe {
                    (library.rereg_mr)(handle, all, pd, address as *mut _, *len as usize, bits)
                };
                self.learn_region(*mr);
                code
            }
            Action::DeregMr { mr } => {
                // SAFETY: see above.
                let code = unsafe { (library.dereg_mr)(*objects.mrs.get(mr)?) };
                if code == 0 {
                    objects.mrs.remove(mr);
                }
                code
            }
            Action::AllocMw { mw, pd, kind } => {
                let pd = *objects.pds.get(pd)?;
                let Some(alloc) = objects.operations().alloc_mw else {
                    return Some(libc::EOPNOTSUPP);
                };
                let kind = match kind {
                    WindowType::One => abi::IBV_MW_TYPE_1,
                    WindowType::Two => abi::IBV_MW_TYPE_2,
                };
                // SAFETY: see above.
                let made = unsafe { alloc(pd, kind) };
                let code = keep(&mut objects.mws, *mw, made);
                self.learn_window(*mw);
                code
            }
            Action::DeallocMw { mw } => {
                let dealloc = objects.operations().dealloc_mw?;
                // SAFETY: see above.
                let code = unsafe { dealloc(*objects.mws.get(mw)?) };
                if code == 0 {
                    objects.mws.remove(mw);
                }
                code
            }
            Action::BindMw {
                qp,
                id,
                mw,
                mr,
                at,
                len,
                access,
            } => {
                let mut bind = abi::ibv_mw_bind {
                    wr_id: *id,
                    send_flags: abi::IBV_SEND_SIGNALED,
                    bind_info: abi::ibv_mw_bind_info {
                        mr: *objects.mrs.get(mr)?,
                        addr: objects.address(*at),
                        length: u64::from(*len),
                        mw_access_flags: access_bits(*access),
                    },
                };
                let (qp, window) = (objects.qps.get(qp)?.handle, *objects.mws.get(mw)?);
                // SAFETY: see above. The header's inline function refuses other types.
                if unsafe { (*window).type_ } != abi::IBV_MW_TYPE_1 {
                    return Some(libc::EINVAL);
                }
                let bind_mw = objects.operations().bind_mw?;
                // SAFETY: see above.
                let code = unsafe { bind_mw(qp, window, &mut bind) };
                self.learn_window(*mw);
                code
            }
            Action::CreateCq { cq, depth } => {
                let depth = *depth as i32;
                let null = std::ptr::null_mut();
                // SAFETY: see above.
                let made = unsafe {
                    (library.create_cq)(objects.context, depth, null, std::ptr::null_mut(), 0)
                };
                keep(&mut objects.cqs, *cq, made)
            }
            Action::DestroyCq { cq } => {
                // SAFETY: see above.
                let code = unsafe { (library.destroy_cq)(*objects.cqs.get(cq)?) };
                if code == 0 {
                    objects.cqs.remove(cq);
                }
                code
            }
            Action::CreateSrq { srq, pd, depth } => {
                let mut init = abi::ibv_srq_init_attr {
                    attr: abi::ibv_srq_attr {
                        max_wr: *depth,
                        max_sge: MOST_SGES,
                        srq_limit: 0,
                    },
                    ..Default::default()
                };
                // SAFETY: see above.
                let made = unsafe { (library.create_srq)(*objects.pds.get(pd)?, &mut init) };
                keep(&mut objects.srqs, *srq, made)
            }
            Action::CreateXrcSrq {
                srq,
                pd,
                xrcd,
                cq,
                depth,
            } => {
                let mut init = abi::ibv_srq_init_attr_ex {
                    attr: abi::ibv_srq_attr {
                        max_wr: *depth,
                        max_sge: MOST_SGES,
                        srq_limit: 0,
                    },
                    comp_mask: abi::IBV_SRQ_INIT_ATTR_TYPE
                        | abi::IBV_SRQ_INIT_ATTR_PD
                        | abi::IBV_SRQ_INIT_ATTR_XRCD
                        | abi::IBV_SRQ_INIT_ATTR_CQ,
                    srq_type: abi::IBV_SRQT_XRC,
                    pd: *objects.pds.get(pd)?,
                    xrcd: *objects.xrcds.get(xrcd)?,
                    cq: *objects.cqs.get(cq)?,
                    ..Default::default()
                };
                let create = match objects.extended().map(|extended| extended.create_srq_ex) {
                    Ok(Some(create)) => create,
                    _ => return Some(libc::EOPNOTSUPP),
                };
                // SAFETY: see above.
                let made = unsafe { create(objects.context, &mut init) };
                let code = keep(&mut objects.srqs, *srq, made);
                self.learn_shared_queue(*srq);
                code
            }
            Action::ArmSrq { srq, limit } => {
                let mut attributes = abi::ibv_srq_attr {
                    srq_limit: *limit,
                    ..Default::default()
                };
                let srq = *objects.srqs.get(srq)?;
                // SAFETY: see above.
                unsafe { (library.modify_srq)(srq, &mut attributes, abi::IBV_SRQ_LIMIT) }
            }
            Action::DestroySrq { srq } => {
                // SAFETY: see above.
                let code = unsafe { (library.destroy_srq)(*objects.srqs.get(srq)?) };
                if code == 0 {
                    objects.srqs.remove(srq);
                }
                code
            }
            Action::OpenXrcd { xrcd, file } => {
                let open = match objects.extended().map(|extended| extended.open_xrcd) {
                    Ok(Some(open)) => open,
                    _ => return Some(libc::EOPNOTSUPP),
                };
                let path = self.files.join(format!("xrcd{file}"));
                let file = std::fs::OpenOptions::new()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .read(true)
                    .open(path)
                    .expect("a file for the domain");
                let mut init = abi::ibv_xrcd_init_attr {
                    comp_mask: abi::IBV_XRCD_INIT_ATTR_FD | abi::IBV_XRCD_INIT_ATTR_OFLAGS,
                    fd: std::os::fd::AsRawFd::as_raw_fd(&file),
                    oflags: libc::O_CREAT,
                };
                // SAFETY: see above.
                let made = unsafe { open(objects.context, &mut init) };
                keep(&mut objects.xrcds, *xrcd, made)
            }
            Action::CloseXrcd { xrcd } => {
                let close = match objects.extended().map(|extended| extended.close_xrcd) {
                    Ok(Some(close)) => close,
                    _ => return Some(libc::EOPNOTSUPP),
                };
                // SAFETY: see above.
                let code = unsafe { close(*objects.xrcds.get(xrcd)?) };
                if code == 0 {
                    objects.xrcds.remove(xrcd);
                }
                code
            }
            Action::CreateQp {
                qp,
                service,
                pd,
                send_cq,
                recv_cq,
                srq,
                all_signaled,
            } => {
                let shared = match srq {
                    Some(srq) => *objects.srqs.get(srq)?,
                    None => std::ptr::null_mut(),
                };
                let receives = srq.is_none() && *service != Service::XrcSend;
                let mut init = abi::ibv_qp_init_attr {
                    send_cq: *objects.cqs.get(send_cq)?,
                    recv_cq: *objects.cqs.get(recv_cq)?,
                    srq: shared,
                    cap: abi::ibv_qp_cap {
                        max_send_wr: QUEUE_DEPTH,
                        max_recv_wr: if receives { QUEUE_DEPTH } else { 0 },
                        max_send_sge: MOST_SGES,
                        max_recv_sge: if receives { MOST_SGES } else { 0 },
                        max_inline_data: INLINE_BYTES,
                    },
                    qp_type: match service {
                        Service::Rc => abi::IBV_QPT_RC,
                        Service::Uc => abi::IBV_QPT_UC,
                        Service::Ud => abi::IBV_QPT_UD,
                        Service::XrcSend => abi::IBV_QPT_XRC_SEND,
                        Service::XrcReceive => return None,
                    },
                    sq_sig_all: i32::from(*all_signaled),
                    ..Default::default()
                };
                // SAFETY: see above.
                let made = unsafe { (library.create_qp)(*objects.pds.get(pd)?, &mut init) };
                self.keep_qp(*qp, *service, srq.is_some(), made)
            }
            Action::CreateXrcTarget { qp, xrcd } => {
                let mut init = abi::ibv_qp_init_attr_ex {
                    qp_type: abi::IBV_QPT_XRC_RECV,
                    comp_mask: abi::IBV_QP_INIT_ATTR_XRCD,
                    xrcd: *objects.xrcds.get(xrcd)?,
                    ..Default::default()
                };
                let create = match objects.extended().map(|extended| extended.create_qp_ex) {
                    Ok(Some(create)) => create,
                    _ => return Some(libc::EOPNOTSUPP),
                };
                // SAFETY: see above.
                let made = unsafe { create(objects.context, &mut init) };
                self.keep_qp(*qp, Service::XrcReceive, true, made)
            }
            Action::DestroyQp { qp } => {
                // SAFETY: see above.
                let code = unsafe { (library.destroy_qp)(objects.qps.get(qp)?.handle) };
                if code == 0 {
                    objects.qps.remove(qp);
                }
                code
            }
            Action::Init { qp, access } => self.init(*qp, *access)?,
            Action::Rtr {
                qp,
                peer,
                psn,
                rnr_timer,
            } => self.rtr(*qp, *peer, *psn, *rnr_timer)?,
            Action::Rts {
                qp,
                psn,
                retry,
                rnr_retry,
            } => self.rts(*qp, *psn, *retry, *rnr_retry)?,
            Action::Modify { qp, to } => {
                let mut mask = abi::IBV_QP_STATE;
                let mut attributes = abi::ibv_qp_attr {
                    qp_state: match to {
                        Target::Reset => abi::IBV_QPS_RESET,
                        Target::Err => abi::IBV_QPS_ERR,
                        Target::Sqd => abi::IBV_QPS_SQD,
                        Target::Rts => abi::IBV_QPS_RTS,
                    },
                    ..Default::default()
                };
                if *to == Target::Sqd {
                    attributes.en_sqd_async_notify = 1;
                    mask |= abi::IBV_QP_EN_SQD_ASYNC_NOTIFY;
                }
                self.modify(*qp, &mut attributes, mask)?
            }
            Action::SetAccess { qp, access } => {
                let mut attributes = abi::ibv_qp_attr {
                    qp_state: abi::IBV_QPS_RTS,
                    qp_access_flags: access_bits(*access),
                    ..Default::default()
                };
                let mask = abi::IBV_QP_STATE | abi::IBV_QP_ACCESS_FLAGS;
                self.modify(*qp, &mut attributes, mask)?
            }
            Action::PostSend { qp, wrs } => {
                let service = objects.qps.get(qp)?.service;
                let windows = wrs.iter().all(|wr| match &wr.operation {
                    crate::program::Operation::BindMw { mw, mr, .. } => {
                        objects.mws.contains_key(mw) && objects.mrs.contains_key(mr)
                    }
                    _ => true,
                });
                if service == Service::XrcReceive || !windows || wrs.is_empty() {
                    return None;
                }
                objects.post_send(*qp, wrs)
            }
            Action::PostRecv { qp, wrs } => {
                let pair = objects.qps.get(qp)?;
                if pair.shared || pair.service == Service::XrcSend || wrs.is_empty() {
                    return None;
                }
                objects.post_recv(*qp, wrs)
            }
            Action::PostSrqRecv { srq, wrs } => {
                objects.srqs.get(srq)?;
                objects.post_srq_recv(*srq, wrs)
            }
            Action::Fill { at, len, tag } => {
                for index in 0..*len {
                    // SAFETY: the place is within the arena; the store is volatile because the
                    // adapter reads the arena behind the compiler's back.
                    unsafe {
                        let place = self.objects.arena.add((*at + index) as usize);
                        place.write_volatile(pattern(*tag, index));
                    }
                }
                0
            }
            Action::DontNeed { at, len } => {
                let address = self.objects.address(*at) as *mut _;
                // SAFETY: whole pages of the arena.
                match unsafe { libc::madvise(address, *len as usize, libc::MADV_DONTNEED) } {
                    0 => 0,
                    _ => errno(),
                }
            }
            Action::Fork {} => self.fork(),
            Action::Kill {} | Action::Pause {} => return None,
        })
    }

    fn keep_qp(&mut self, id: QpId, service: Service, shared: bool, made: *mut abi::ibv_qp) -> i32 {
        if made.is_null() {
            return errno();
        }
        self.objects.qps.insert(
            id,
            QueuePair {
                handle: made,
                service,
                shared,
            },
        );
        // SAFETY: it was just made.
        let number = unsafe { (*made).qp_num };
        self.objects
            .facts
            .insert((Fact::QpNumber, id.0), number.into());
        0
    }

    fn learn_region(&mut self, id: crate::program::MrId) {
        if let Some(mr) = self.objects.mrs.get(&id) {
            // SAFETY: a region in the table is registered.
            let key = unsafe { (**mr).rkey };
            self.objects.facts.insert((Fact::MrKey, id.0), key.into());
        }
    }

    fn learn_window(&mut self, id: crate::program::MwId) {
        if let Some(mw) = self.objects.mws.get(&id) {
            // SAFETY: a window in the table is allocated.
            let key = unsafe { (**mw).rkey };
            self.objects.facts.insert((Fact::MwKey, id.0), key.into());
        }
    }

    fn learn_shared_queue(&mut self, id: SrqId) {
        let Some(srq) = self.objects.srqs.get(&id) else {
            return;
        };
        let get = self
            .objects
            .extended()
            .ok()
            .and_then(|extended| extended.get_srq_num);
        let mut number = 0;
        // SAFETY: a queue in the table exists.
        if get.is_some_and(|get| unsafe { get(*srq, &mut number) } == 0) {
            self.objects
                .facts
                .insert((Fact::SrqNumber, id.0), number.into());
        }
    }

    fn modify(&mut self, qp: QpId, attributes: &mut abi::ibv_qp_attr, mask: i32) -> Option<i32> {
        let handle = self.objects.qps.get(&qp)?.handle;
        // SAFETY: the queue pair exists and the attributes are valid.
        Some(unsafe { (self.objects.library.modify_qp)(handle, attributes, mask) })
    }

    fn init(&mut self, qp: QpId, access: Access) -> Option<i32> {
        let service = self.objects.qps.get(&qp)?.service;
        let mut attributes = abi::ibv_qp_attr {
            qp_state: abi::IBV_QPS_INIT,
            port_num: PORT,
            qkey: QKEY,
            qp_access_flags: access_bits(access),
            ..Default::default()
        };
        let own = if service == Service::Ud {
            abi::IBV_QP_QKEY
        } else {
            abi::IBV_QP_ACCESS_FLAGS
        };
        let mask = abi::IBV_QP_STATE | abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_PORT | own;
        self.modify(qp, &mut attributes, mask)
    }

    fn rtr(&mut self, qp: QpId, peer: QpId, psn: u32, rnr_timer: u8) -> Option<i32> {
        let service = self.objects.qps.get(&qp)?.service;
        let mut attributes = abi::ibv_qp_attr {
            qp_state: abi::IBV_QPS_RTR,
            path_mtu: abi::IBV_MTU_1024,
            dest_qp_num: self.objects.fact(Fact::QpNumber, peer.0),
            rq_psn: psn,
            ah_attr: self.objects.route(),
            max_dest_rd_atomic: 4,
            min_rnr_timer: rnr_timer,
            ..Default::default()
        };
        let connection =
            abi::IBV_QP_AV | abi::IBV_QP_PATH_MTU | abi::IBV_QP_DEST_QPN | abi::IBV_QP_RQ_PSN;
        let reliable = abi::IBV_QP_MAX_DEST_RD_ATOMIC | abi::IBV_QP_MIN_RNR_TIMER;
        let mask = abi::IBV_QP_STATE
            | match service {
                Service::Ud => 0,
                Service::Uc => connection,
                Service::XrcSend => connection,
                Service::Rc | Service::XrcReceive => connection | reliable,
            };
        self.modify(qp, &mut attributes, mask)
    }

    fn rts(&mut self, qp: QpId, psn: u32, retry: u8, rnr_retry: u8) -> Option<i32> {
        let service = self.objects.qps.get(&qp)?.service;
        let mut attributes = abi::ibv_qp_attr {
            qp_state: abi::IBV_QPS_RTS,
            sq_psn: psn,
            timeout: TIMEOUT,
            retry_cnt: retry,
            rnr_retry,
            max_rd_atomic: 4,
            ..Default::default()
        };
        let requester =
            abi::IBV_QP_RETRY_CNT | abi::IBV_QP_RNR_RETRY | abi::IBV_QP_MAX_QP_RD_ATOMIC;
        let mask = abi::IBV_QP_STATE
            | abi::IBV_QP_SQ_PSN
            | match service {
                Service::Uc | Service::Ud => 0,
                Service::XrcReceive => abi::IBV_QP_TIMEOUT,
                Service::Rc | Service::XrcSend => abi::IBV_QP_TIMEOUT | requester,
            };
        self.modify(qp, &mut attributes, mask)
    }

    /// The child has what the parent had, and what it writes is its own.
    fn fork(&mut self) -> i32 {
        let before = self.arena().to_vec();
        // SAFETY: the child touches only its own memory and ends at once.
        match unsafe { libc::fork() } {
            -1 => errno(),
            0 => {
                let same = self.arena() == before;
                for index in 0..self.objects.arena_len {
                    // SAFETY: within the arena.
                    unsafe { self.objects.arena.add(index).write_volatile(0xdd) };
                }
                // SAFETY: ends the child without running what the parent registered.
                unsafe { libc::_exit(if same { 0 } else { libc::EFAULT }) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the child was just made, and the status is a valid place.
                unsafe { libc::waitpid(child, &mut status, 0) };
                if libc::WIFEXITED(status) {
                    libc::WEXITSTATUS(status)
                } else {
                    libc::EINTR
                }
            }
        }
    }

    /// New completions and events; if something is expected, looks for a moment. The reply: the number of completions, nine words each, then
    /// events of three words each.
    fn observe(&mut self, patient: bool) -> Vec<u64> {
        let end = Instant::now() + if patient { LOOK } else { Duration::ZERO };
        loop {
            let mut reply = vec![0];
            let queues: Vec<_> = self.objects.cqs.iter().map(|(id, cq)| (*id, *cq)).collect();
            for (id, cq) in queues {
                self.poll(id.0, cq, &mut reply);
            }
            self.events(&mut reply);
            if reply.len() > 1 || Instant::now() >= end {
                return reply;
            }
            std::thread::yield_now();
        }
    }

    fn poll(&mut self, id: u16, cq: *mut abi::ibv_cq, reply: &mut Vec<u64>) {
        let Some(poll) = self.objects.operations().poll_cq else {
            return;
        };
        let mut entries = [abi::ibv_wc::default(); BATCH];
        // SAFETY: the queue exists and there is room for a batch.
        let count = unsafe { poll(cq, BATCH as i32, entries.as_mut_ptr()) };
        for entry in entries.iter().take(count.max(0) as usize) {
            // SAFETY: both members are a u32.
            let carried = unsafe { entry.imm.imm_data };
            let immediate = entry.wc_flags & abi::IBV_WC_WITH_IMM != 0;
            reply[0] += 1;
            reply.extend([
                id.into(),
                entry.wr_id,
                entry.status.into(),
                entry.opcode.into(),
                entry.byte_len.into(),
                if immediate {
                    u32::from_be(carried)
                } else {
                    carried
                }
                .into(),
                entry.wc_flags.into(),
                entry.qp_num.into(),
                entry.src_qp.into(),
            ]);
        }
    }

    fn events(&mut self, reply: &mut Vec<u64>) {
        let mut event = abi::ibv_async_event::default();
        // SAFETY: the context is open and the event a valid place.
        while unsafe { (self.objects.library.get_async_event)(self.objects.context, &mut event) }
            == 0
        {
            let kind = event.event_type;
            let shared = matches!(
                kind,
                abi::IBV_EVENT_SRQ_ERR | abi::IBV_EVENT_SRQ_LIMIT_REACHED
            );
            // SAFETY: the member in use follows from the event's type.
            let (subject, id) = unsafe {
                if shared {
                    let of = |(_, srq): &(&SrqId, &*mut abi::ibv_srq)| **srq == event.element.srq;
                    (1, self.objects.srqs.iter().find(of).map(|(id, _)| id.0))
                } else {
                    let of = |(_, qp): &(&QpId, &QueuePair)| qp.handle == event.element.qp;
                    (0, self.objects.qps.iter().find(of).map(|(id, _)| id.0))
                }
            };
            // SAFETY: the event was got and is acknowledged once.
            unsafe { (self.objects.library.ack_async_event)(&mut event) };
            reply.extend([kind.into(), subject, id.map_or(u64::MAX, u64::from)]);
        }
    }
}
