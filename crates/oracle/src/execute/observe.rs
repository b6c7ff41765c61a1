//! A worker's observations: completions, events, and message contents at the time of the
//! completion.

use super::objects::QueuePair;
use super::worker::Worker;
use crate::program::{CqId, QpId, SrqId};
use crate::reference::memory::sum_of;
use crate::reference::receive::places_of;
use std::time::{Duration, Instant};
use verbena_abi as abi;

/// Marks the first word of an event: it is a fact learnt from a completion.
pub const NEW_FACT: u64 = 1 << 32;

const BATCH: usize = 16;

impl Worker<'_> {
    /// Returns new completions and events, polling for up to `long`. The reply: the number of
    /// completions, eleven words each, then events of three words each, including facts
    /// ([`NEW_FACT`]).
    pub(super) fn observe(&mut self, long: Duration) -> Vec<u64> {
        let end = Instant::now() + long;
        loop {
            let mut reply = vec![0];
            for (id, cq) in self.queues_to_poll() {
                self.poll(id, cq, &mut reply);
            }
            self.events(&mut reply);
            for (fact, id, value) in self.new_facts() {
                reply.extend([NEW_FACT | fact as u64, id.into(), value]);
            }
            if reply.len() > 1 || Instant::now() >= end {
                return reply;
            }
            std::thread::yield_now();
        }
    }

    /// Returns every queue, or with events those that raised one and those that are not armed.
    fn queues_to_poll(&mut self) -> Vec<(CqId, *mut abi::ibv_cq)> {
        let all: Vec<_> = self.objects.cqs.iter().map(|(id, cq)| (*id, *cq)).collect();
        if self.objects.channel.is_null() {
            return all;
        }
        let (mut which, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        let library = &self.objects.library;
        let channel = self.objects.channel;
        // SAFETY: the channel is open and the out-pointers are valid.
        while unsafe { (library.get_cq_event)(channel, &mut which, &mut context) } == 0 {
            // SAFETY: the event came from this queue and is acknowledged once.
            unsafe { (library.ack_cq_events)(which, 1) };
            let announced = all.iter().find(|(_, cq)| *cq == which);
            announced.inspect(|(id, _)| {
                self.armed.remove(id);
            });
        }
        let silent: Vec<_> = all
            .into_iter()
            .filter(|(id, _)| !self.armed.contains(id))
            .collect();
        for (id, cq) in &silent {
            let Some(notify) = self.objects.operations().req_notify_cq else {
                continue;
            };
            // SAFETY: the queue exists.
            if unsafe { notify(*cq, 0) } == 0 {
                self.armed.insert(*id);
            }
        }
        silent
    }

    fn poll(&mut self, id: CqId, cq: *mut abi::ibv_cq, reply: &mut Vec<u64>) {
        let Some(poll) = self.objects.operations().poll_cq else {
            return;
        };
        let mut entries = [abi::ibv_wc::default(); BATCH];
        // SAFETY: the queue exists and `entries` has space for a batch.
        let mut count = unsafe { poll(cq, BATCH as i32, entries.as_mut_ptr()) };
        while count > 0 {
            for entry in entries.iter().take(count.max(0) as usize) {
                // SAFETY: both members are a u32.
                let carried = unsafe { entry.imm.imm_data };
                let immediate = entry.wc_flags & abi::IBV_WC_WITH_IMM != 0;
                let sum = self.sum_of_message(entry);
                if entry.status != abi::IBV_WC_SUCCESS {
                    self.objects.take_key_back(entry.wr_id);
                }
                reply[0] += 1;
                reply.extend([
                    id.0.into(),
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
                    sum.is_some().into(),
                    sum.unwrap_or(0),
                ]);
            }
            // An armed queue must be emptied first.
            // SAFETY: the queue exists and `entries` has space for a batch.
            count = unsafe { poll(cq, BATCH as i32, entries.as_mut_ptr()) };
        }
    }

    /// Returns the current checksum of the message of a receive completion.
    fn sum_of_message(&self, entry: &abi::ibv_wc) -> Option<u64> {
        if entry.status != abi::IBV_WC_SUCCESS {
            return None;
        }
        // SAFETY: both members are a u32.
        let carried = u32::from_be(unsafe { entry.imm.imm_data });
        let places = match entry.opcode {
            abi::IBV_WC_RECV => {
                places_of(self.messages.receives.get(&entry.wr_id)?, entry.byte_len)
            }
            abi::IBV_WC_RECV_RDMA_WITH_IMM => {
                vec![(*self.messages.writes.get(&carried)?, entry.byte_len)]
            }
            _ => return None,
        };
        let arena = self.objects.arena;
        let inside = |(at, len): &(u32, u32)| (at + len) as usize <= self.objects.arena_len;
        if !places.iter().all(inside) {
            return None;
        }
        let indices = places
            .into_iter()
            .flat_map(|(at, len)| at..at + len)
            .collect::<Vec<_>>();
        // SAFETY: within the arena; volatile, because the adapter writes there.
        let byte = |index: u32| unsafe { arena.add(index as usize).read_volatile() };
        Some(sum_of(indices.into_iter().map(byte)))
    }

    fn events(&mut self, reply: &mut Vec<u64>) {
        let mut event = abi::ibv_async_event::default();
        // SAFETY: the context is open and the event is valid.
        while unsafe { (self.objects.library.get_async_event)(self.objects.context, &mut event) }
            == 0
        {
            let kind = event.event_type;
            let shared = matches!(
                kind,
                abi::IBV_EVENT_SRQ_ERR | abi::IBV_EVENT_SRQ_LIMIT_REACHED
            );
            // SAFETY: the event's type determines the valid member.
            let (subject, id) = unsafe {
                if shared {
                    let of = |(_, srq): &(&SrqId, &*mut abi::ibv_srq)| **srq == event.element.srq;
                    (1, self.objects.srqs.iter().find(of).map(|(id, _)| id.0))
                } else {
                    let of = |(_, qp): &(&QpId, &QueuePair)| qp.handle == event.element.qp;
                    (0, self.objects.qps.iter().find(of).map(|(id, _)| id.0))
                }
            };
            // SAFETY: the event was read and is acknowledged once.
            unsafe { (self.objects.library.ack_async_event)(&mut event) };
            reply.extend([kind.into(), subject, id.map_or(u64::MAX, u64::from)]);
        }
    }
}
