//! Send and receive requests, valid and invalid.

use super::{ARENA, Class, Generator, MOST_OUTSTANDING, RECEIVES, TARGETS};
use crate::program::{
    Action, Flags, Key, Operation, ProcessId, QpId, RecvWr, Remote, SendWr, Service, Sge, SrqId,
};
use crate::reference::object::State;

/// Length of a receive buffer in bytes.
const SLOT: u32 = 256;
const SLOTS: u32 = (TARGETS - RECEIVES) / SLOT;
/// Percentage of invalid requests.
const WRONG: u32 = 4;

impl Generator {
    /// Posts to a send queue. With a stripe, requests access only the stripe's bytes.
    pub(super) fn send_action(&mut self, qp: QpId, stripe: Option<u32>) -> Action {
        let count = if self.random.percent(60) {
            1
        } else {
            1 + self.random.below(4)
        };
        let count = if stripe.is_some() {
            count.min(2)
        } else {
            count
        };
        let wrs = (0..count).map(|_| self.send_request(qp, stripe)).collect();
        Action::PostSend { qp, wrs }
    }

    /// Adds a step that sends, or one that makes sending possible.
    pub(super) fn send(&mut self) {
        let ready = self.qps_in(&[State::Rts, State::Sqd]);
        let sends = |qp: &QpId| {
            let qp = &self.world.qps[qp];
            qp.service != Service::XrcReceive && qp.sq.len() < MOST_OUTSTANDING
        };
        let ready: Vec<QpId> = ready.into_iter().filter(sends).collect();
        let Some(qp) = self.random.among(&ready) else {
            return self.reconnect();
        };
        let unready = !self.allows(Class::Rnr) || self.random.percent(85);
        if unready && let Some(peer) = self.world.qps[&qp].peer {
            self.provide_receives(qp, peer);
        }
        let action = self.send_action(qp, None);
        self.write(self.owner(qp), action);
    }

    /// Provides receives at the peer for a list.
    fn provide_receives(&mut self, qp: QpId, peer: QpId) {
        let Some(there) = self.world.qps.get(&peer) else {
            return;
        };
        let (by, srq) = (there.owner, there.srq);
        if there.service == Service::XrcReceive {
            let found = self.xrc_srq(qp);
            if let Some(srq) = found.filter(|srq| self.world.srqs[srq].queue.len() < 4) {
                self.post_shared(srq);
            }
        } else if let Some(srq) = srq {
            if self.world.srqs[&srq].queue.len() < 4 {
                self.post_shared(srq);
            }
        } else if there.rq.len() < 4 && !matches!(there.state, State::Reset | State::Err) {
            let action = self.receive_action(by, peer);
            self.write(by, action);
        }
    }

    fn post_shared(&mut self, srq: SrqId) {
        let by = self.world.srqs[&srq].owner;
        let wrs = self.receive_requests(by);
        self.write(by, Action::PostSrqRecv { srq, wrs });
    }

    pub(super) fn receive(&mut self) {
        let srqs = self.srqs();
        if !srqs.is_empty() && self.random.percent(40) {
            let srq = self.random.among(&srqs).expect("there is one");
            if self.world.srqs[&srq].queue.len() < MOST_OUTSTANDING {
                self.post_shared(srq);
            }
            return;
        }
        let states = [
            State::Init,
            State::Rtr,
            State::Rts,
            State::Sqd,
            State::Sqe,
            State::Err,
        ];
        let own = |qp: &QpId| {
            let qp = &self.world.qps[qp];
            qp.srq.is_none()
                && !matches!(qp.service, Service::XrcSend | Service::XrcReceive)
                && qp.rq.len() < MOST_OUTSTANDING
        };
        let found: Vec<QpId> = self.qps_in(&states).into_iter().filter(own).collect();
        if let Some(qp) = self.random.among(&found) {
            let by = self.owner(qp);
            let action = self.receive_action(by, qp);
            self.write(by, action);
        }
    }

    pub(super) fn receive_action(&mut self, by: ProcessId, qp: QpId) -> Action {
        Action::PostRecv {
            qp,
            wrs: self.receive_requests(by),
        }
    }

    fn receive_requests(&mut self, by: ProcessId) -> Vec<RecvWr> {
        let count = 1 + self.random.below(4);
        (0..count)
            .map(|_| {
                let id = self.request();
                let slot = RECEIVES + (id as u32 % SLOTS) * SLOT;
                let parts = 1 + self.random.below(3);
                let len = if self.wrong() {
                    self.random.below(16)
                } else {
                    SLOT / parts
                };
                let sges = (0..parts)
                    .map(|part| Sge {
                        at: slot + part * (SLOT / parts),
                        len: len.min(SLOT / parts),
                        key: self.local_key(by),
                    })
                    .collect();
                RecvWr { id, sges }
            })
            .collect()
    }

    fn wrong(&mut self) -> bool {
        self.allows(Class::Wrong) && self.random.percent(WRONG)
    }

    /// Returns a local key: nearly always that of the region of the whole arena.
    fn local_key(&mut self, by: ProcessId) -> Key {
        if self.wrong() {
            self.any_key(Some(by))
        } else {
            Key::Mr(self.basics[usize::from(by.0)].mr)
        }
    }

    /// Returns any key: of a region or window of the process, or an invalid one.
    fn any_key(&mut self, owner: Option<ProcessId>) -> Key {
        let mut keys = vec![Key::Bad];
        // Only of this process: different processes may have equal keys.
        let own = |whose: ProcessId| Some(whose) == owner;
        let mrs = self.world.mrs.iter().filter(|(_, mr)| own(mr.owner));
        keys.extend(mrs.map(|(mr, _)| Key::Mr(*mr)));
        let mws = self.world.mws.iter().filter(|(_, mw)| own(mw.owner));
        keys.extend(mws.map(|(mw, _)| Key::Mw(*mw)));
        self.random.among(&keys).expect("there is one")
    }

    fn xrc_srq(&mut self, qp: QpId) -> Option<SrqId> {
        let target = self.world.qps.get(&self.world.qps[&qp].peer?)?;
        let (by, xrcd) = (target.owner, target.xrcd?);
        let fits = |srq: &SrqId| {
            let srq = &self.world.srqs[srq];
            srq.owner == by && srq.xrc.is_some_and(|(domain, _)| domain == xrcd)
        };
        let found: Vec<SrqId> = self.srqs().into_iter().filter(fits).collect();
        self.random.among(&found)
    }

    /// Returns the process that receives a queue pair's messages.
    fn target_process(&self, qp: QpId) -> Option<ProcessId> {
        let peer = self.world.qps[&qp].peer?;
        self.world.qps.get(&peer).map(|peer| peer.owner)
    }

    fn send_request(&mut self, qp: QpId, stripe: Option<u32>) -> SendWr {
        let service = self.world.qps[&qp].service;
        let by = self.owner(qp);
        let mut kinds = vec!["send", "send", "send_imm"];
        if service != Service::Ud {
            kinds.extend(["write", "write"]);
            if self.allows(Class::Immediates) {
                kinds.push("write_imm");
            }
        }
        if matches!(service, Service::Rc | Service::XrcSend) {
            if self.allows(Class::Reads) {
                kinds.extend(["read", "read"]);
            }
            if self.allows(Class::Atomics) {
                kinds.extend(["cmp_swap", "fetch_add"]);
            }
            let window = self.bound_window(qp);
            if self.allows(Class::Windows)
                && self.allows(Class::Invalidates)
                && (window.is_some() || self.wrong())
            {
                kinds.push("send_inv");
            }
        }
        let kind = self.random.among(&kinds).expect("there are some");
        let remote = |generator: &mut Generator, len: u32, align: u32| {
            generator.remote(qp, len, align, stripe)
        };
        let mut len = self.length(service);
        let operation = match kind {
            "send" => Operation::Send {},
            "send_imm" => Operation::SendImm {
                imm: self.random.number() as u32,
            },
            "send_inv" => {
                let owner = self.target_process(qp);
                let key = self.bound_window(qp).unwrap_or_else(|| self.any_key(owner));
                Operation::SendInv { key }
            }
            "write" => Operation::Write {
                to: remote(self, len, 1),
            },
            "write_imm" => {
                let to = remote(self, len, 1);
                Operation::WriteImm {
                    to,
                    imm: self.random.number() as u32,
                }
            }
            "read" => Operation::Read {
                from: remote(self, len, 1),
            },
            "cmp_swap" => {
                let at = remote(self, 8, 8);
                let owner = self.target_process(qp).unwrap_or(by);
                let now = self.world.memory[usize::from(owner.0)]
                    .slice(at.at..at.at + 8)
                    .number();
                let guess = self.random.percent(70);
                let compare = now.filter(|_| guess).unwrap_or(7);
                Operation::CmpSwap {
                    at,
                    compare,
                    swap: self.random.number(),
                }
            }
            _ => Operation::FetchAdd {
                at: remote(self, 8, 8),
                add: self.random.number(),
            },
        };
        let back = crate::reference::brings_back(&operation);
        if matches!(
            operation,
            Operation::CmpSwap { .. } | Operation::FetchAdd { .. }
        ) {
            len = 8;
        }
        let mut flags = Flags::NONE;
        for (cases, flag) in [
            (60, Flags::SIGNALED),
            (10, Flags::FENCE),
            (10, Flags::SOLICITED),
        ] {
            if self.random.percent(cases) {
                flags = flags | flag;
            }
        }
        if !back && len <= 64 && self.allows(Class::Inline) && self.random.percent(20) {
            flags = flags | Flags::INLINE;
        }
        let sges = self.local_sges(by, len, back, stripe);
        let to = (service == Service::Ud)
            .then(|| self.world.qps[&qp].peer)
            .flatten();
        let srq = (service == Service::XrcSend)
            .then(|| self.xrc_srq(qp))
            .flatten();
        SendWr {
            id: self.request(),
            operation,
            sges,
            flags,
            to,
            srq,
        }
    }

    fn length(&mut self, service: Service) -> u32 {
        let room = if service == Service::Ud {
            SLOT - 40
        } else {
            SLOT
        };
        match self.random.below(10) {
            0 => 0,
            1..=5 => 1 + self.random.below(64),
            6..=8 => 1 + self.random.below(room - 10),
            _ if self.wrong() => room + 1 + self.random.below(1000),
            _ => 8,
        }
    }

    /// Returns local memory: sources at the arena's beginning, results among the targets.
    fn local_sges(&mut self, by: ProcessId, len: u32, back: bool, stripe: Option<u32>) -> Vec<Sge> {
        let (start, room) = match (back, stripe) {
            (false, _) => (0, RECEIVES),
            (true, None) => (TARGETS, ARENA - TARGETS),
            (true, Some(stripe)) => (TARGETS + stripe * 1024, 512),
        };
        let parts = if len >= 4 && !(back && len == 8) {
            1 + self.random.below(3)
        } else {
            1
        };
        let mut left = len;
        let mut at = start + self.random.below(room.saturating_sub(len + 64)) / 8 * 8;
        let mut sges = Vec::new();
        for part in 0..parts {
            let this = if part + 1 == parts {
                left
            } else {
                self.random.below(left / 2) + 1
            };
            let this = this.min(left);
            sges.push(Sge {
                at,
                len: this,
                key: self.local_key(by),
            });
            at += this + self.random.below(8);
            left -= this;
        }
        if len == 0 && self.random.percent(50) {
            sges.clear();
        }
        // Some adapters give entries without bytes another meaning.
        sges.retain(|sge| len == 0 || sge.len > 0);
        sges
    }

    fn remote(&mut self, qp: QpId, len: u32, align: u32, stripe: Option<u32>) -> Remote {
        let owner = self.target_process(qp);
        let (start, room) = match stripe {
            None => (TARGETS, ARENA - TARGETS),
            Some(stripe) => (TARGETS + stripe * 1024 + 512, 512),
        };
        let mut at = start + self.random.below(room.saturating_sub(len + 8)) / align * align;
        let mut key = match owner {
            Some(owner) => Key::Mr(self.basics[usize::from(owner.0)].mr),
            None => Key::Bad,
        };
        if let Some(owner) = owner {
            let others = self.keys_of(owner);
            if stripe.is_none()
                && self.random.percent(25)
                && let Some((other, from, bytes)) = self.random.among(&others)
            {
                key = other;
                let slack = bytes.saturating_sub(len);
                at = from + self.random.below(slack + 1) / align * align;
                if self.wrong() {
                    // Out of bounds, on either side.
                    at = if self.random.percent(50) {
                        (from + slack + align).min(self.program.arena)
                    } else {
                        from.saturating_sub(align)
                    };
                }
            }
        }
        if self.wrong() {
            key = self.any_key(owner);
        } else if align > 1 && self.wrong() {
            at += 1 + self.random.below(7);
        }
        Remote {
            at: at.min(self.program.arena.saturating_sub(len)),
            key,
        }
    }

    /// Returns a process's keys for parts of its arena, with offset and length.
    fn keys_of(&self, owner: ProcessId) -> Vec<(Key, u32, u32)> {
        let mut found = Vec::new();
        for (id, mr) in &self.world.mrs {
            if mr.owner == owner {
                found.push((Key::Mr(*id), mr.at, mr.len));
            }
        }
        for (id, mw) in &self.world.mws {
            if let (true, Some(binding)) = (mw.owner == owner, &mw.binding) {
                found.push((Key::Mw(*id), binding.at, binding.len));
            }
        }
        found
    }

    /// Returns a bound window of the peer, for send with invalidate.
    fn bound_window(&mut self, qp: QpId) -> Option<Key> {
        let peer = self.world.qps[&qp].peer?;
        let bound = |mw: &crate::reference::object::Mw| {
            mw.binding
                .as_ref()
                .is_some_and(|binding| binding.qp == Some(peer))
        };
        let mws = &self.world.mws;
        let found: Vec<Key> = mws
            .iter()
            .filter(|(_, mw)| bound(mw))
            .map(|(id, _)| Key::Mw(*id))
            .collect();
        self.random.among(&found)
    }
}
