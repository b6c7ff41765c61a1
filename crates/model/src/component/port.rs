//! Ports of adapters.

/// A port of a node's adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Node.
    pub node: usize,
    /// Port of its adapter, from 0.
    pub port: usize,
}
