//! Makes a program's calls on the library.

use super::message::Fact;
use super::objects::QueuePair;
use super::post::access_bits;
use super::worker::Worker;
use crate::program::{Action, Operation, QpId, Service, SrqId, Target, WindowType};
use crate::reference::memory::pattern;
use std::io;
use std::time::{Duration, Instant};
use verbena_abi as abi;

const QUEUE_DEPTH: u32 = 128;
const MOST_SGES: u32 = 4;
/// Maximum inline payload of every queue pair, in bytes.
const INLINE_BYTES: u32 = 64;
fn errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Enters a new object into its table, or returns the errno value if it was not created.
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
    /// Makes a call and returns its code; `None` if a required object does not exist.
    pub(super) fn try_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        let library = &objects.library;
        // SAFETY (for every call in this function): handles come from the tables, which hold
        // existing objects; all attributes are valid and outlive the call.
        Some(match action {
            Action::AllocPd { pd } => {
                // SAFETY: the context is open.
                let made = unsafe { (library.alloc_pd)(objects.context) };
                keep(&mut objects.pds, *pd, made)
            }
            Action::DeallocPd { pd } => {
                let handle = *objects.pds.get(pd)?;
                objects.ahs.retain(|(of, _), address| {
                    if of == pd {
                        // SAFETY: the handles come from the tables, so they exist; all arguments
                        // outlive the call.
                        unsafe { (library.destroy_ah)(*address) };
                    }
                    of != pd
                });
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                // SAFETY: the domain comes from its table, so it exists; the range is within the
                // arena.
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
                // SAFETY: region and domain come from their tables, so they exist; the range is
                // within the arena.
                let code = unsafe {
                    (library.rereg_mr?)(handle, all, pd, address as *mut _, *len as usize, bits)
                };
                self.learn_region(*mr);
                code
            }
            Action::DeregMr { mr } => {
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
                let made = unsafe { alloc(pd, kind) };
                let code = keep(&mut objects.mws, *mw, made);
                self.learn_window(*mw);
                code
            }
            Action::DeallocMw { mw } => {
                let dealloc = objects.operations().dealloc_mw?;
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                // SAFETY: the window comes from its table, so it exists. The header's inline
                // function refuses other types.
                if unsafe { (*window).type_ } != abi::IBV_MW_TYPE_1 {
                    return Some(libc::EINVAL);
                }
                let bind_mw = objects.operations().bind_mw?;
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
                let code = unsafe { bind_mw(qp, window, &mut bind) };
                if code == 0 {
                    // SAFETY: the window comes from its table, so it exists.
                    let key = unsafe { (*window).rkey };
                    self.objects.posted_bind(*id, *mw, key);
                }
                code
            }
            Action::CreateCq { cq, depth } => {
                let depth = *depth as i32;
                let null = std::ptr::null_mut();
                // SAFETY: the context is open, the channel is open or null; all arguments outlive
                // the call.
                let made = unsafe {
                    (library.create_cq)(objects.context, depth, null, objects.channel, 0)
                };
                keep(&mut objects.cqs, *cq, made)
            }
            Action::DestroyCq { cq } => {
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
                let code = unsafe { (library.destroy_cq)(*objects.cqs.get(cq)?) };
                if code == 0 {
                    objects.cqs.remove(cq);
                    self.armed.remove(cq);
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
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                // SAFETY: the context is open, handles come from the tables; all arguments outlive
                // the call.
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
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
                unsafe { (library.modify_srq)(srq, &mut attributes, abi::IBV_SRQ_LIMIT) }
            }
            Action::DestroySrq { srq } => {
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                // SAFETY: the context is open; all arguments outlive the call.
                let made = unsafe { open(objects.context, &mut init) };
                keep(&mut objects.xrcds, *xrcd, made)
            }
            Action::CloseXrcd { xrcd } => {
                let close = match objects.extended().map(|extended| extended.close_xrcd) {
                    Ok(Some(close)) => close,
                    _ => return Some(libc::EOPNOTSUPP),
                };
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                // SAFETY: the context is open, handles come from the tables; all arguments outlive
                // the call.
                let made = unsafe { create(objects.context, &mut init) };
                self.keep_qp(*qp, Service::XrcReceive, true, made)
            }
            Action::DestroyQp { qp } => {
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
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
                    Operation::BindMw { mw, mr, .. } => {
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
                // Backwards: the filling must not overwrite bytes that a peer goes on writing from
                // the beginning.
                for index in (0..*len).rev() {
                    // SAFETY: the address is within the arena; the store is volatile because the
                    // adapter reads the arena concurrently.
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
            Action::Spin { us } => {
                let end = Instant::now() + Duration::from_micros(u64::from(*us).min(100_000));
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                0
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
        // SAFETY: it was just created.
        let number = unsafe { (*made).qp_num };
        self.objects
            .facts
            .insert((Fact::QpNumber, id.0), number.into());
        self.objects.learn_gid(id);
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

    /// Forks. The child checks that it has the parent's memory, and overwrites its copy.
    fn fork(&mut self) -> i32 {
        let before = self.arena().to_vec();
        // SAFETY: the child accesses only its own memory and exits at once.
        match unsafe { libc::fork() } {
            -1 => errno(),
            0 => {
                let same = self.arena() == before;
                for index in 0..self.objects.arena_len {
                    // SAFETY: within the arena.
                    unsafe { self.objects.arena.add(index).write_volatile(0xdd) };
                }
                // SAFETY: exits the child without running the parent's exit handlers.
                unsafe { libc::_exit(if same { 0 } else { libc::EFAULT }) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the child was just created, and the out-pointer is valid.
                unsafe { libc::waitpid(child, &mut status, 0) };
                if libc::WIFEXITED(status) {
                    libc::WEXITSTATUS(status)
                } else {
                    libc::EINTR
                }
            }
        }
    }
}
