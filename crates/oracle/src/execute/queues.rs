//! Calls about completion queues, shared receive queues and XRC domains.

use super::created::keep;
use super::message::Fact;
use super::worker::Worker;
use crate::program::{Action, SrqId};
use verbena_abi as abi;

/// Maximum number of buffers of a request.
pub(super) const MOST_SGES: u32 = 4;

impl Worker<'_> {
    /// Makes a call about completion queues or shared receive queues; `None` if a required object
    /// does not exist.
    pub(super) fn queue_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        let library = &objects.library;
        Some(match action {
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
            _ => unreachable!("a call of another group"),
        })
    }

    /// Makes a call about XRC domains; `None` if a required object does not exist.
    pub(super) fn xrcd_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        Some(match action {
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
            _ => unreachable!("a call of another group"),
        })
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
}
