//! Links, cables and switches.
//!
//! A port is a server at the link's rate. A switch forwards cut-through: a packet leaves `latency` after its first byte
//! came in, if the port is free. Several switches form a fat tree of two or three levels, routed by destination
//! (D-mod-k), as subnet managers do by default. Adapters store a packet until its check has been seen.

use super::{Flow, Load};
use crate::kernel::{Server, Sim, Time};
use crate::profile::{Cable, Link, Switch};
use crate::stage;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A port of an adapter: which node, which of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Node.
    pub node: usize,
    /// Port of its adapter, from 0.
    pub port: usize,
}

/// An egress port of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Egress {
    Adapter(Port),
    ToAdapter(Port),
    Up {
        leaf: usize,
        spine: usize,
    },
    Down {
        spine: usize,
        pod: usize,
        leaf: usize,
    },
    UpCore {
        pod: usize,
        spine: usize,
        core: usize,
    },
    DownCore {
        spine: usize,
        core: usize,
        pod: usize,
    },
}

/// All links of a system.
pub struct Network {
    sim: Sim,
    link: Link,
    switch: Option<Switch>,
    cable: Time,
    nodes: usize,
    servers: RefCell<BTreeMap<Egress, Rc<Server>>>,
}

impl Network {
    /// Joins `nodes` adapters.
    pub fn new(
        sim: &Sim,
        link: &Link,
        cable: &Cable,
        switch: Option<&Switch>,
        nodes: usize,
    ) -> Network {
        Network {
            sim: sim.clone(),
            link: link.clone(),
            switch: switch.cloned(),
            cable: cable.per_metre * cable.length.0 + cable.transceiver * 2,
            nodes,
            servers: RefCell::new(BTreeMap::new()),
        }
    }

    fn server(&self, egress: Egress) -> Rc<Server> {
        self.servers.borrow_mut().entry(egress).or_default().clone()
    }

    /// Egress ports that follow the adapter's own on the way to `to`.
    fn route(&self, from: Port, to: Port) -> Vec<Egress> {
        let Some(switch) = &self.switch else {
            return Vec::new();
        };
        let ports = switch.ports.0 as usize;
        let mut hops = Vec::with_capacity(5);
        if self.nodes > ports {
            let half = ports / 2;
            let (leaf, target) = (from.node / half, to.node / half);
            let levels = if self.nodes <= ports * half { 2 } else { 3 };
            let pod_of = |leaf: usize| if levels == 2 { 0 } else { leaf / half };
            let (pod, target_pod) = (pod_of(leaf), pod_of(target));
            if leaf != target {
                let spine = to.node % half;
                hops.push(Egress::Up { leaf, spine });
                if pod != target_pod {
                    let core = (to.node / half) % half;
                    hops.push(Egress::UpCore { pod, spine, core });
                    hops.push(Egress::DownCore {
                        spine,
                        core,
                        pod: target_pod,
                    });
                }
                hops.push(Egress::Down {
                    spine,
                    pod: target_pod,
                    leaf: target,
                });
            }
        }
        hops.push(Egress::ToAdapter(to));
        hops
    }

    /// Wire time of a load with `header` bytes in each packet.
    fn span(&self, bytes: u64, packets: u64, header: u64) -> Time {
        self.link
            .rate
            .time(bytes + packets * header)
            .scaled(1.0 + self.link.control.0)
    }

    /// Sends a load whose packets are ready as `flow` says (its head: now); returns when it is at the other adapter.
    /// The future completes when the head has arrived.
    pub async fn carry(&self, from: Port, to: Port, load: Load, header: u64, flow: Flow) -> Flow {
        let span = self.span(load.bytes, load.packets, header);
        let first = self.span(load.first, 1, header);
        let tail = self.span(load.last(), 1, header);
        let turn = self
            .server(Egress::Adapter(from))
            .reserve_train(flow.head, span, flow.tail, tail);
        let latency = self.switch.as_ref().map_or(Time::ZERO, |s| s.latency);
        let acknowledgement = self.link.packet_overhead.0 + self.link.acknowledgement_header.0;
        let on_link = match load.bytes == 0 && header == acknowledgement {
            true => stage::ACKNOWLEDGEMENT,
            false => stage::WIRE,
        };
        let note = |name, start, end| self.sim.span(name, from.node, start, end);
        note(on_link, turn.start, turn.end + self.cable);
        let mut begin = turn.start;
        let mut end = turn.end;
        for egress in self.route(from, to) {
            // The first byte reaches the switch a cable later and may leave a latency after that.
            let entered = begin + self.cable;
            self.sim.sleep_until(entered + latency).await;
            let last = (end + self.cable + latency).since(tail);
            let turn = self
                .server(egress)
                .reserve_train(self.sim.now(), span, last, tail);
            if on_link == stage::WIRE {
                note(stage::SWITCH, entered, turn.start);
            }
            note(on_link, turn.start, turn.end + self.cable);
            begin = turn.start;
            end = turn.end;
        }
        let arrived = Flow {
            head: begin + first + self.cable,
            tail: end + self.cable,
        };
        self.sim.sleep_until(arrived.head).await;
        arrived
    }

    /// When the adapter's own port is free.
    pub fn port_free(&self, port: Port) -> Time {
        self.server(Egress::Adapter(port)).free()
    }

    /// The link's profile.
    pub fn link(&self) -> &Link {
        &self.link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Library, Overrides};

    fn network(nodes: usize) -> (Sim, Network) {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let system = library.system("connectx-ddr").expect("a shipped system");
        let sim = Sim::new();
        let network = Network::new(
            &sim,
            &system.link,
            &system.cable,
            system.switch.as_ref(),
            nodes,
        );
        (sim, network)
    }

    fn port(node: usize) -> Port {
        Port { node, port: 0 }
    }

    #[test]
    fn routes_grow_with_distance() {
        let (_, small) = network(24);
        assert_eq!(small.route(port(0), port(23)).len(), 1);
        let (_, two) = network(200);
        assert_eq!(two.route(port(0), port(1)).len(), 1);
        assert_eq!(two.route(port(0), port(199)).len(), 3);
        let (_, three) = network(3000);
        assert_eq!(three.route(port(0), port(2999)).len(), 5);
        assert_eq!(three.route(port(0), port(13)).len(), 3);
    }

    #[test]
    fn a_train_of_packets_takes_what_its_packets_take() {
        let (sim, single) = network(2);
        let single = Rc::new(single);
        let own = single.clone();
        let each = sim
            .block_on(async move {
                let mut last = Time::ZERO;
                for _ in 0..8 {
                    let now = own.sim.now();
                    last = own
                        .carry(port(0), port(1), Load::single(2048), 26, Flow::at(now))
                        .await
                        .tail;
                }
                last
            })
            .expect("runs");
        let (sim, train) = network(2);
        let whole = sim
            .block_on(async move {
                let load = Load::message(8 * 2048, 2048);
                train
                    .carry(port(0), port(1), load, 26, Flow::at(Time::ZERO))
                    .await
                    .tail
            })
            .expect("runs");
        // One after the other, each packet also waits for its predecessor's arrival.
        assert!(whole < each);
        let link = single.link();
        assert!(whole >= link.rate.time(8 * (2048 + 26)));
    }
}
