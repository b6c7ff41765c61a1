//! Reads Chakra execution traces (MLCommons): for each rank a file with the nodes of a graph.
//!
//! A file is a sequence of protobuf messages, each after its length as a varint: one
//! `GlobalMetadata`, then `Node`s. A node computes, sends, receives, or takes part in a collective
//! operation, and begins after the nodes that it depends on. Source: mlcommons/chakra,
//! `schema/protobuf/et_def.proto` and `src/feeder`; the meaning of attributes, groups and
//! dependencies is that of astra-sim/astra-sim, `astra-sim/workload/Workload.cc`. The older form in
//! JSON is that of `src/feeder/JSONNode.cpp`.

mod attribute;
mod error;
mod groups;
mod json;
mod message;
mod node;
mod reader;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use node::{Action, Collective, Node};
pub use reader::{Rank, Reader, Trace};
