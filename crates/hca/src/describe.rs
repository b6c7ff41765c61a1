//! Describes the state of a process as text, for `verbena info`.

use crate::process::Process;
use crate::roce::route::plain;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use verbena_abi::names::{QP_STATES, QP_TYPES};
use verbena_abi::*;
use verbena_hca_memory::socket_message::{self, MOST_DESCRIPTION};
use verbena_hca_os::errno::Result;
use verbena_hca_shm::registry::Registry;

/// Returns every process in the registry at `directory`: its id, and its description as a JSON
/// object or the reason why there is none.
///
/// The object has `pid`, `command`, `peers` (`pid`, `path`), `queue_pairs` (`number`, `type`,
/// `state`, `destination`, number of posted `receives`, number of incomplete `sends`, and the
/// condition that the first of them `waits_for`), `queue_pairs_in_all`, `udp_port` (at which other
/// hosts reach it; 0 for none), `tunnels` (addresses of hosts that it reaches over TCP) and
/// `counters`.
///
/// # Errors
/// As [`Registry::open_existing`].
pub fn processes(directory: &Path) -> Result<Vec<(u32, Result<String>)>> {
    let registry = Registry::open_existing(directory)?;
    let ask = |identity| socket_message::ask_description(&registry.connect(identity)?);
    Ok(registry
        .processes()
        .into_iter()
        .map(|(identity, pid)| (pid, ask(identity)))
        .collect())
}

/// Returns the description of this process.
pub fn process(process: &Process) -> String {
    let command = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let mut text = format!(
        "{{\"pid\":{},\"command\":\"{}\",\"peers\":[",
        std::process::id(),
        command.trim().replace(['"', '\\'], "?")
    );
    let channels = process.channels.snapshot();
    let peers = channels.outbound.iter().map(|outbound| &outbound.peer);
    let peers: BTreeMap<i32, &str> = peers
        .chain(channels.inbound.iter().map(|inbound| &inbound.peer))
        .filter(|peer| peer.socket().is_some())
        .map(|peer| (peer.pid, peer.path_name()))
        .collect();
    for (index, (pid, path)) in peers.into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{{\"pid\":{pid},\"path\":\"{path}\"}}");
    }
    text.push_str("],\"queue_pairs\":[");
    let queue_pairs = process.queue_pairs.all();
    for (index, queue_pair) in queue_pairs.iter().enumerate() {
        if text.len() > MOST_DESCRIPTION - 8192 {
            break;
        }
        let comma = if index == 0 { "" } else { "," };
        let (sends, waits_for) = queue_pair.sends_waiting();
        let _ = write!(
            text,
            "{comma}{{\"number\":{},\"type\":\"{}\",\"state\":\"{}\",\"destination\":{}\
             ,\"receives\":{},\
             \"sends\":{sends},\"waits_for\":\"{waits_for}\"}}",
            queue_pair.number(),
            type_name(queue_pair.kind()),
            state_name(queue_pair.state()),
            queue_pair.destination(),
            queue_pair.receives_waiting(),
        );
    }
    let _ = write!(
        text,
        "],\"queue_pairs_in_all\":{},\"udp_port\":{},\"tunnels\":[",
        queue_pairs.len(),
        process
            .ports
            .roce()
            .map_or(0, |port| port.udp_port().port())
    );
    let over_tcp = process.ports.roce().map(|port| port.fallback.hosts());
    for (index, host) in over_tcp.into_iter().flatten().enumerate() {
        if text.len() > MOST_DESCRIPTION - 4096 {
            break;
        }
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\"{}\"", plain(host));
    }
    text.push_str("],\"counters\":{");
    for (index, (name, value)) in process.counters.all().into_iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\"{name}\":{value}");
    }
    text.push_str("}}");
    text
}

fn type_name(kind: ibv_qp_type) -> &'static str {
    QP_TYPES.word(kind).unwrap_or("?")
}

fn state_name(state: ibv_qp_state) -> &'static str {
    QP_STATES.word(state).unwrap_or("?")
}
