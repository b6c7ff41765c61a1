//! Links, cables and switches.
//!
//! A port is a server at the link's rate. A switch forwards cut-through: a packet leaves `latency` after its first byte
//! came in, if the port is free. Adapters store a packet until its check has been seen.

use super::topology::{Port, Topology};
use super::{Flow, Load};
use crate::kernel::{Server, Sim, Time};
use crate::profile::{Cable, Link, Switch};
use crate::stage;

/// All links of a system.
pub struct Network {
    sim: Sim,
    link: Link,
    /// Of a switch.
    latency: Time,
    cable: Time,
    topology: Topology,
    /// By the topology's numbers of egress ports.
    servers: Vec<Server>,
}

impl Network {
    /// Joins `nodes` adapters of `ports` ports.
    pub fn new(
        sim: &Sim,
        link: &Link,
        cable: &Cable,
        switch: Option<&Switch>,
        (nodes, ports): (usize, usize),
    ) -> Network {
        let topology = Topology::new(nodes, ports, switch.map(|s| s.ports.0 as usize));
        Network {
            sim: sim.clone(),
            link: link.clone(),
            latency: switch.map_or(Time::ZERO, |s| s.latency),
            cable: Network::passage(cable),
            servers: (0..topology.egresses()).map(|_| Server::new()).collect(),
            topology,
        }
    }

    /// From one end of a cable to the other.
    fn passage(cable: &Cable) -> Time {
        cable.per_metre * cable.length.0 + cable.transceiver * 2
    }

    /// How long it takes at least until something in one node is felt in another, or in a switch.
    pub fn lookahead(cable: &Cable, switch: &Switch) -> Time {
        Network::passage(cable) + switch.latency
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
        let own = &self.servers[self.topology.own(from)];
        let turn = own.reserve_train(flow.head, span, flow.tail, tail);
        let acknowledgement = self.link.packet_overhead.0 + self.link.acknowledgement_header.0;
        let on_link = match load.bytes == 0 && header == acknowledgement {
            true => stage::ACKNOWLEDGEMENT,
            false => stage::WIRE,
        };
        let note = |name, start, end| self.sim.span(name, from.node, start, end);
        note(on_link, turn.start, turn.end + self.cable);
        let mut begin = turn.start;
        let mut end = turn.end;
        let route = self.topology.route(from.node, to);
        for hop in (0..route.length()).map(|number| route.hop(number)) {
            // The first byte reaches the switch a cable later and may leave a latency after that.
            let entered = begin + self.cable;
            self.sim.travel(hop.place, entered + self.latency).await;
            let last = (end + self.cable + self.latency).since(tail);
            let egress = &self.servers[hop.egress];
            let turn = egress.reserve_train(self.sim.now(), span, last, tail);
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
        self.servers[self.topology.own(port)].free()
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
    use std::rc::Rc;

    fn network(nodes: usize) -> (Sim, Network) {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let system = library.system("connectx-ddr").expect("a shipped system");
        let sim = Sim::new();
        let network = Network::new(
            &sim,
            &system.link,
            &system.cable,
            system.switch.as_ref(),
            (nodes, 1),
        );
        (sim, network)
    }

    fn port(node: usize) -> Port {
        Port { node, port: 0 }
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
