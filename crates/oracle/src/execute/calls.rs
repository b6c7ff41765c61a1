//! Makes a program's calls on the library. Those that create and destroy objects are in `regions`,
//! `queues` and `pairs`.

use super::created::errno;
use super::worker::Worker;
use crate::program::{Action, Operation, Service};
use crate::reference::memory::pattern;
use std::time::{Duration, Instant};

impl Worker<'_> {
    /// Makes a call and returns its code; `None` if a required object does not exist.
    pub(super) fn try_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        Some(match action {
            Action::AllocPd { .. }
            | Action::DeallocPd { .. }
            | Action::RegMr { .. }
            | Action::ReregMr { .. }
            | Action::DeregMr { .. } => return self.region_call(action),
            Action::AllocMw { .. } | Action::DeallocMw { .. } | Action::BindMw { .. } => {
                return self.window_call(action);
            }
            Action::CreateCq { .. }
            | Action::DestroyCq { .. }
            | Action::CreateSrq { .. }
            | Action::CreateXrcSrq { .. }
            | Action::ArmSrq { .. }
            | Action::DestroySrq { .. } => return self.queue_call(action),
            Action::OpenXrcd { .. } | Action::CloseXrcd { .. } => return self.xrcd_call(action),
            Action::CreateQp { .. } | Action::CreateXrcTarget { .. } | Action::DestroyQp { .. } => {
                return self.pair_call(action);
            }
            Action::Init { .. }
            | Action::Rtr { .. }
            | Action::Rts { .. }
            | Action::Modify { .. }
            | Action::SetAccess { .. } => return self.state_call(action),
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
