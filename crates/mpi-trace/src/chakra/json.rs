//! The older form of a rank's file, in JSON: `{"workload_graph": [{"Id": 0, "NodeType": 7, ...}]}`.

use super::attribute::{Attribute, Attributes};
use super::node::{Raw, short};
use serde::Deserialize;
use std::io::Read;

#[derive(Deserialize)]
struct File {
    workload_graph: Vec<Node>,
}

/// A node; the attributes are those of the binary form.
#[derive(Deserialize)]
struct Node {
    #[serde(rename = "Id")]
    id: u64,
    #[serde(rename = "Name", default)]
    name: String,
    #[serde(rename = "NodeType")]
    kind: u64,
    #[serde(default)]
    is_cpu_op: Option<bool>,
    #[serde(default)]
    runtime: u64,
    #[serde(default)]
    num_ops: Option<u64>,
    #[serde(default)]
    data_deps: Vec<u64>,
    #[serde(default)]
    comm_type: Option<u64>,
    #[serde(default)]
    comm_size: Option<u64>,
    #[serde(default)]
    comm_src: Option<u64>,
    #[serde(default)]
    comm_dst: Option<u64>,
    #[serde(default)]
    comm_tag: Option<u64>,
}

/// Parses a file.
pub(super) fn nodes(bytes: impl Read) -> Result<Vec<Raw>, serde_json::Error> {
    let file: File = serde_json::from_reader(bytes)?;
    Ok(file.workload_graph.into_iter().map(raw).collect())
}

fn raw(node: Node) -> Raw {
    let integers = [
        ("num_ops", node.num_ops),
        ("comm_type", node.comm_type),
        ("comm_size", node.comm_size),
        ("comm_src", node.comm_src),
        ("comm_dst", node.comm_dst),
        ("comm_tag", node.comm_tag),
    ];
    let mut attributes = Attributes::default();
    for (name, value) in integers {
        if let Some(value) = value {
            let value = Attribute::Integer(i128::from(value));
            attributes.0.insert(name.to_owned(), value);
        }
    }
    if let Some(value) = node.is_cpu_op {
        let value = Attribute::Bool(value);
        attributes.0.insert("is_cpu_op".to_owned(), value);
    }
    Raw {
        id: node.id,
        name: short(&node.name),
        kind: node.kind,
        data: node.data_deps,
        micros: node.runtime,
        attributes,
        ..Raw::default()
    }
}
