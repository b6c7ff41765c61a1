//! What is between the sockets of a host whose adapter is at another than its processes and their memory: everything that goes from
//! bus to memory, from memory to bus and from a core to the adapter passes it.

use super::Flow;
use crate::kernel::{Server, Time};
use crate::profile::Numa;

/// A server each way, and the time to the other side.
pub(super) struct Interconnect {
    profile: Numa,
    to_memory: Server,
    from_memory: Server,
}

impl Interconnect {
    /// From its profile.
    pub fn new(profile: &Numa) -> Interconnect {
        Interconnect {
            profile: profile.clone(),
            to_memory: Server::new(),
            from_memory: Server::new(),
        }
    }

    /// When packets of `bytes` in all, of which the first has `first`, have passed to memory that come as `flow` says; they are there
    /// a latency later.
    pub fn inwards(&self, flow: Flow, (bytes, first): (u64, u64)) -> Flow {
        self.pass(&self.to_memory, flow, (bytes, first))
    }

    /// The same of what comes from memory.
    pub fn outwards(&self, flow: Flow, (bytes, first): (u64, u64)) -> Flow {
        self.pass(&self.from_memory, flow, (bytes, first))
    }

    fn pass(&self, server: &Server, flow: Flow, (bytes, first): (u64, u64)) -> Flow {
        let rate = self.profile.rate;
        let turn = server.reserve_train(flow.head, rate.time(bytes), flow.tail, Time::ZERO);
        Flow {
            head: turn.start + rate.time(first),
            tail: turn.end,
        }
    }

    /// From one side to the other.
    pub fn latency(&self) -> Time {
        self.profile.latency
    }

    /// Bytes a second each way.
    pub fn rate(&self) -> f64 {
        self.profile.rate.0
    }

    /// Both ways, for accounts of what they have carried.
    pub fn servers(&self) -> [(&'static str, &Server); 2] {
        [
            ("sockets, to memory", &self.to_memory),
            ("sockets, from memory", &self.from_memory),
        ]
    }
}
