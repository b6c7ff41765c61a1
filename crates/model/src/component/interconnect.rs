//! The socket interconnect of a host whose adapter is on a different socket than its processes and
//! their memory. All traffic between bus and memory, and from a core to the adapter, crosses it.

use super::load::Flow;
use crate::kernel::{Server, Time};
use crate::profile::Numa;

/// One server per direction, and the latency.
pub(super) struct Interconnect {
    profile: Numa,
    to_memory: Server,
    from_memory: Server,
}

impl Interconnect {
    /// Creates it from its profile.
    pub fn new(profile: &Numa) -> Interconnect {
        Interconnect {
            profile: profile.clone(),
            to_memory: Server::new(),
            from_memory: Server::new(),
        }
    }

    /// Returns when packets of `bytes` in total, `first` in the first packet, have crossed towards
    /// memory if they arrive as `flow`; the latency is not included.
    pub fn inwards(&self, flow: Flow, (bytes, first): (u64, u64)) -> Flow {
        self.pass(&self.to_memory, flow, (bytes, first))
    }

    /// The same for packets from memory.
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

    /// Returns the one-way latency.
    pub fn latency(&self) -> Time {
        self.profile.latency
    }

    /// Returns the rate in bytes per second in each direction.
    pub fn rate(&self) -> f64 {
        self.profile.rate.0
    }

    /// Returns both directions' servers, for audits.
    pub fn servers(&self) -> [(&'static str, &Server); 2] {
        [
            ("sockets, to memory", &self.to_memory),
            ("sockets, from memory", &self.from_memory),
        ]
    }
}
