//! A process's description of itself, requested through the registry.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A process on the adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub command: String,
    /// Connected processes.
    pub peers: Vec<Peer>,
    /// Its queue pairs, as many as fit into the answer.
    pub queue_pairs: Vec<QueuePair>,
    /// Total number of queue pairs.
    pub queue_pairs_in_all: u64,
    /// The UDP port at which other hosts reach it; 0 if there is none.
    #[serde(default)]
    pub udp_port: u16,
    /// Addresses of hosts reached over TCP, because UDP packets do not arrive there.
    #[serde(default)]
    pub tunnels: Vec<IpAddr>,
    /// The adapter's counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// A connected process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Process id.
    pub pid: u32,
    /// The path that most operations take.
    pub path: String,
}

/// A queue pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePair {
    /// Its number.
    pub number: u32,
    /// Its type, such as RC.
    #[serde(rename = "type")]
    pub transport: String,
    /// Its state, such as RTS.
    pub state: String,
    /// Number of the connected queue pair; 0 if there is none.
    pub destination: u32,
    /// Posted receives.
    pub receives: u64,
    /// Sends not yet complete.
    #[serde(default)]
    pub sends: u64,
    /// The event that the first of them waits for.
    #[serde(default)]
    pub waits_for: String,
}

/// The description of a process in the registry, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// A valid answer.
    Said(Description),
    /// No answer, or an invalid one.
    Silent {
        /// Process id.
        pid: u32,
        /// The reason.
        reason: String,
    },
}

impl Answer {
    /// Parses an answer.
    pub fn of<E: ToString>(pid: u32, text: Result<String, E>) -> Self {
        let said = text.map_err(|error| error.to_string()).and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("invalid answer: {error}"))
        });
        match said {
            Ok(description) => Answer::Said(description),
            Err(reason) => Answer::Silent { pid, reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_parsed() {
        let text = r#"{"pid":7,"command":"a","peers":[{"pid":8,"path":"mapped"}],
            "queue_pairs":[{"number":256,"type":"RC","state":"RTS","destination":512,"receives":16,
            "sends":2,"waits_for":"receiver"}],
            "queue_pairs_in_all":1,"counters":{"write_operations":3}}"#;
        let Answer::Said(said) = Answer::of::<String>(7, Ok(text.into())) else {
            panic!("silent")
        };
        assert_eq!(
            said.peers,
            [Peer {
                pid: 8,
                path: "mapped".into()
            }]
        );
        assert_eq!(said.queue_pairs[0].transport, "RC");
        assert_eq!(said.queue_pairs[0].receives, 16);
        assert_eq!(said.queue_pairs[0].waits_for, "receiver");
    }

    #[test]
    fn missing_and_invalid_descriptions_have_a_reason() {
        for text in [
            Err("refused".to_owned()),
            Ok("{".to_owned()),
            Ok(r#"{"pid":7}"#.to_owned()),
        ] {
            let Answer::Silent { pid, reason } = Answer::of(7, text) else {
                panic!("understood")
            };
            assert_eq!(pid, 7);
            assert!(!reason.is_empty());
        }
    }
}
