//! Selection among the paths that a shape allows.

/// The routing algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// The destination's number chooses among the minimal paths of the shape.
    #[default]
    Deterministic,
    /// Each switch chooses among the same, by the queues before its ports.
    Adaptive,
    /// As adaptive, but through an intermediate group of a dragonfly, drawn at random for each
    /// packet (Valiant). Source: Valiant and Brebner, "Universal schemes for parallel
    /// communication", STOC 1981; by groups: Kim et al., ISCA 2008.
    Valiant,
    /// Through the intermediate group only if the queues before the ports of the packet's first
    /// switch, multiplied by the path lengths, predict an earlier arrival (UGAL-L: universal
    /// globally adaptive, by local knowledge). Source: Singh, "Load-balanced routing in
    /// interconnection networks", Stanford 2005; Kim et al., ISCA 2008.
    Ugal,
}

impl Routing {
    /// Returns whether packets may take an intermediate group.
    pub fn goes_around(self) -> bool {
        matches!(self, Routing::Valiant | Routing::Ugal)
    }
}

/// The current leg of a packet's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leg {
    /// To its destination.
    Direct,
    /// To an intermediate group, neither the packet's first nor its last.
    Around(usize),
}

/// A link over which a packet may continue, and its class of virtual lanes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Number of the link.
    pub link: usize,
    /// Class of virtual lanes, from 0.
    pub class: usize,
}
