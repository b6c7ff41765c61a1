//! Calls about protection domains, regions and windows.

use super::created::keep;
use super::message::Fact;
use super::post::access_bits;
use super::worker::Worker;
use crate::program::{Action, MrId, MwId, WindowType};
use verbena_abi as abi;

impl Worker<'_> {
    /// Makes a call about protection domains or regions; `None` if a required object does not
    /// exist.
    pub(super) fn region_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        let library = &objects.library;
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
            _ => unreachable!("a call of another group"),
        })
    }

    /// Makes a call about windows; `None` if a required object does not exist.
    pub(super) fn window_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        Some(match action {
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
            _ => unreachable!("a call of another group"),
        })
    }

    fn learn_region(&mut self, id: MrId) {
        if let Some(mr) = self.objects.mrs.get(&id) {
            // SAFETY: a region in the table is registered.
            let key = unsafe { (**mr).rkey };
            self.objects.facts.insert((Fact::MrKey, id.0), key.into());
        }
    }

    fn learn_window(&mut self, id: MwId) {
        if let Some(mw) = self.objects.mws.get(&id) {
            // SAFETY: a window in the table is allocated.
            let key = unsafe { (**mw).rkey };
            self.objects.facts.insert((Fact::MwKey, id.0), key.into());
        }
    }
}
