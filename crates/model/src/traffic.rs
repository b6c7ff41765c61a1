//! Payload that the links and buses of a system have carried: nothing can have passed faster than
//! the busiest of them allows.

use crate::kernel::Time;

/// The payload carried since a system's start, or between two instants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes sent and placed by the adapter of each node.
    pub(crate) nodes: Vec<(u64, u64)>,
    /// Time of each link for packets with payload, their headers included.
    pub(crate) links: Vec<Time>,
    /// Time for which each port had packets to send and no credits; of a fabric that exists.
    pub(crate) stalls: Vec<Time>,
    /// The time for which it was carried.
    pub(crate) span: Time,
}

impl Traffic {
    /// Returns the payload bytes of all nodes together.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(|(sent, _)| sent).sum()
    }

    /// Returns the sum with the traffic of other nodes and links of the same system.
    pub(crate) fn and(&self, others: &Traffic) -> Traffic {
        let nodes = self.nodes.iter().zip(&others.nodes);
        let both = |own: &[Time], other: &[Time]| {
            let both = own.iter().zip(other);
            both.map(|(own, other)| *own + *other).collect()
        };
        Traffic {
            nodes: nodes
                .map(|(own, other)| (own.0 + other.0, own.1 + other.1))
                .collect(),
            links: both(&self.links, &others.links),
            stalls: both(&self.stalls, &others.stalls),
            span: self.span.max(others.span),
        }
    }

    /// Returns the traffic after an earlier instant of the same system.
    pub fn since(&self, earlier: &Traffic) -> Traffic {
        let nodes = self.nodes.iter().zip(&earlier.nodes);
        let spent = |now: &[Time], then: &[Time]| {
            let both = now.iter().zip(then);
            both.map(|(now, then)| now.since(*then)).collect()
        };
        Traffic {
            nodes: nodes
                .map(|(now, then)| (now.0 - then.0, now.1 - then.1))
                .collect(),
            links: spent(&self.links, &earlier.links),
            stalls: spent(&self.stalls, &earlier.stalls),
            span: self.span.since(earlier.span),
        }
    }
}

/// A port of a fabric that exists, and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotPort {
    /// Its name.
    pub port: String,
    /// The port at the far end of its link.
    pub to: String,
    /// The time for which it sent packets with payload.
    pub carried: Time,
    /// The time for which it had packets to send, and sent none for lack of credits.
    pub stalled: Time,
    /// The time of which these are parts.
    pub span: Time,
}

/// Number of ports that [`Cluster::hot_ports`](crate::cluster::Cluster::hot_ports) returns at most.
pub const HOTTEST: usize = 5;

/// The link or bus that needs most time for some traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bottleneck {
    /// Its name.
    pub what: String,
    /// The time: no system with the same links, buses and routes takes less.
    pub time: Time,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Fidelity, Kind, Placement, Request, Transport};
    use crate::cluster::Cluster;
    use crate::profile::{Library, Overrides};

    /// Runs a write of 1 MiB between nodes and returns the bottleneck, its time and the time
    /// of the whole.
    fn written(
        overrides: &Overrides,
        nodes: usize,
        pairs: &[(usize, usize)],
    ) -> (String, Time, Time) {
        let library = Library::shipped(overrides).expect("shipped profiles are sound");
        let system = library.system("connectx6-hdr").expect("a shipped system");
        let cluster = Cluster::new(&system, nodes, Fidelity::Message);
        let before = cluster.traffic();
        for &pair in pairs {
            let (one, _) = cluster.connected(pair, 0, Transport::Reliable);
            let process = cluster.process(pair.0);
            cluster.sim().start(async move {
                let request = Request::new(Kind::Write, 1 << 20, Placement::Reference);
                process.post(&one, [request]).await;
            });
        }
        cluster.sim().run();
        let traffic = cluster.traffic().since(&before);
        assert_eq!(traffic.bytes(), (pairs.len() as u64) << 20);
        let bottleneck = cluster.bottleneck(&traffic).expect("something was carried");
        (bottleneck.what, bottleneck.time, cluster.sim().now())
    }

    #[test]
    fn the_busiest_link_bounds_the_time() {
        let (what, least, took) = written(&Overrides::none(), 4, &[(1, 0), (2, 0), (3, 0)]);
        assert_eq!(what, "the link to node 0");
        // 3 MiB at 25 GB/s, with headers; acknowledgements do not count.
        let wire = 3.0 * f64::from(1 << 20) / 25e9 * 1e9;
        assert!((1.01..1.03).contains(&(least.nanos() / wire)), "{least}");
        assert!(least < took && took.nanos() < 1.1 * least.nanos(), "{took}");
    }

    #[test]
    fn links_between_switches_and_slow_buses_count() {
        // A spine is chosen by the receiver's number, modulo 20.
        let (what, least, _) = written(&Overrides::none(), 80, &[(0, 20), (1, 40), (2, 60)]);
        assert_eq!(what, "the link from leaf 0 to spine 0");
        assert!(least.nanos() > 3.0 * 42_000.0, "{least}");
        let narrow = Overrides::none().with("pcie3-x16.pcie.lanes", 4.0);
        let (what, ..) = written(&narrow, 2, &[(0, 1)]);
        assert!(what.starts_with("the bus of node "), "{what}");
    }
}
