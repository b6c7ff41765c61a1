//! Devices and processes as text.

use std::fmt;

use verbena_hca_net::roce::udp_port::UdpPort;

use super::Adapter;
use super::description::{Answer, Description};
use super::device::{Device, Identifier, Port};

/// The devices, then the processes on them.
impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Device {
            name,
            node_guid,
            ports,
            ..
        } in &self.devices
        {
            writeln!(f, "device {name}, node GUID {node_guid}")?;
            ports.iter().try_for_each(|of| port(f, of))?;
        }
        // All devices have the same limits.
        writeln!(f, "  limits")?;
        let limits = self.devices.first().map(|device| &device.limits);
        for (name, value) in limits.into_iter().flatten() {
            writeln!(f, "    {name:<18}{value:>21}")?;
        }
        match self.processes.as_slice() {
            [] => writeln!(
                f,
                "no process uses the adapter ({})",
                self.registry.display()
            ),
            all => {
                writeln!(f, "processes ({})", self.registry.display())?;
                all.iter().try_for_each(|answer| process(f, answer))
            }
        }
    }
}

fn port(f: &mut fmt::Formatter<'_>, port: &Port) -> fmt::Result {
    let Port {
        number,
        state,
        link,
        lid,
        mtu,
        gids,
    } = port;
    writeln!(
        f,
        "  port {number}: {state}, {link}, LID {lid}, MTU {mtu} B"
    )?;
    for Identifier {
        index,
        gid,
        kind,
        chosen,
    } in gids
    {
        let word = if *chosen { ", chosen" } else { "" };
        writeln!(f, "  GID {index}: {gid}, {kind}{word}")?;
    }
    Ok(())
}

fn process(f: &mut fmt::Formatter<'_>, answer: &Answer) -> fmt::Result {
    let Description {
        pid,
        command,
        peers,
        queue_pairs,
        queue_pairs_in_all,
        udp_port,
        tunnels,
        ..
    } = match answer {
        Answer::Said(description) => description,
        Answer::Silent { pid, reason } => return writeln!(f, "  {pid}  does not answer: {reason}"),
    };
    writeln!(f, "  {pid}  {command}, queue pairs: {queue_pairs_in_all}")?;
    let public = UdpPort::PUBLIC.port();
    match *udp_port {
        // Over InfiniBand, or without a free port.
        0 => (),
        port if port == public => writeln!(f, "    reachable from other hosts at UDP port {port}")?,
        private => writeln!(
            f,
            "    reachable from other hosts at private UDP port {private}: {public} is in use"
        )?,
    }
    for host in tunnels {
        writeln!(
            f,
            "    reaches {host} over TCP: UDP packets do not arrive intact"
        )?;
    }
    for peer in peers {
        writeln!(f, "    peer {} by the path {}", peer.pid, peer.path)?;
    }
    for queue_pair in queue_pairs {
        write!(
            f,
            "    queue pair {:#08x}  {:<8}  {:<5}  {:>5} receives",
            queue_pair.number, queue_pair.transport, queue_pair.state, queue_pair.receives
        )?;
        match queue_pair.destination {
            0 => (),
            destination => write!(f, "  to {destination:#08x}")?,
        }
        match queue_pair.sends {
            0 => writeln!(f)?,
            sends => writeln!(f, "  {sends} sends, waiting for: {}", queue_pair.waits_for)?,
        }
    }
    let shown = queue_pairs.len() as u64;
    if shown < *queue_pairs_in_all {
        writeln!(
            f,
            "    ... and {} more queue pairs",
            queue_pairs_in_all - shown
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::{Peer, QueuePair};
    use std::collections::BTreeMap;

    fn port(number: u8, address: &str) -> Port {
        Port {
            number,
            state: "active",
            link: format!("Ethernet, RoCE v2 by eth{number}"),
            lid: 0,
            mtu: 1024,
            gids: vec![Identifier {
                index: 1,
                gid: format!("::ffff:{address}"),
                kind: "RoCE v2".into(),
                chosen: true,
            }],
        }
    }

    fn device() -> Device {
        Device {
            name: "verbena0".into(),
            node_guid: "02".into(),
            ports: vec![port(1, "10.0.0.1"), port(2, "10.0.1.1")],
            limits: vec![("max_qp", 9)],
        }
    }

    fn text(processes: &[Answer]) -> String {
        let adapter = Adapter {
            devices: vec![device()],
            processes: processes.to_vec(),
            registry: "/r".into(),
        };
        adapter.to_string()
    }

    #[test]
    fn a_host_without_processes_is_reported_as_idle() {
        let text = text(&[]);
        assert!(
            text.starts_with("device verbena0, node GUID 02\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "\n  port 1: active, Ethernet, RoCE v2 by eth1, LID 0, MTU 1024 B\n  GID 1: \
                 ::ffff:10.0.0.1, RoCE v2, chosen\n  port 2: active, Ethernet, RoCE v2 by eth2, \
                 LID 0, MTU 1024 B\n  GID 1: ::ffff:10.0.1.1, RoCE v2, chosen\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("no process uses the adapter (/r)\n"),
            "{text}"
        );
    }

    #[test]
    fn processes_are_listed_with_peers_and_queue_pairs() {
        let said = Description {
            pid: 7,
            command: "ib_write_lat".into(),
            peers: vec![Peer {
                pid: 8,
                path: "cma".into(),
            }],
            queue_pairs: vec![QueuePair {
                number: 0x100,
                transport: "RC".into(),
                state: "RTS".into(),
                destination: 0x200,
                receives: 16,
                sends: 2,
                waits_for: "receiver".into(),
            }],
            udp_port: 24791,
            tunnels: vec!["10.9.0.2".parse().unwrap()],
            queue_pairs_in_all: 3,
            counters: BTreeMap::new(),
        };
        let text = text(&[
            Answer::Said(said),
            Answer::Silent {
                pid: 9,
                reason: "timed out".into(),
            },
        ]);
        assert!(
            text.contains("  7  ib_write_lat, queue pairs: 3\n"),
            "{text}"
        );
        assert!(
            text.contains("at private UDP port 24791: 4791 is in use\n"),
            "{text}"
        );
        assert!(text.contains("    reaches 10.9.0.2 over TCP"), "{text}");
        assert!(text.contains("peer 8 by the path cma\n"), "{text}");
        assert!(
            text.contains(
                "queue pair 0x000100  RC        RTS       16 receives  to 0x000200  \
                 2 sends, waiting for: receiver\n"
            ),
            "{text}"
        );
        assert!(text.contains("... and 2 more queue pairs\n"), "{text}");
        assert!(text.contains("  9  does not answer: timed out\n"), "{text}");
    }
}
