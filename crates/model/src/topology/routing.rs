//! Which of the ways that a shape allows are taken.

/// Who chooses, and among which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// The destination's number, among those of the shape's rule.
    #[default]
    Deterministic,
    /// Each switch, among the same, by what waits before its ports.
    Adaptive,
    /// As adaptive, but by a third group of a dragonfly, drawn for each packet (Valiant). Source: Valiant and Brebner, "Universal
    /// schemes for parallel communication", STOC 1981; by groups: Kim et al., ISCA 2008.
    Valiant,
    /// By the third group only if what waits before the ports of the packet's first switch, times the links to go, says that this
    /// is sooner there (UGAL-L: universal globally adaptive, by local knowledge). Source: Singh, "Load-balanced routing in
    /// interconnection networks", Stanford 2005; Kim et al., ISCA 2008.
    Ugal,
}

impl Routing {
    /// Whether packets may go by a third group.
    pub fn goes_around(self) -> bool {
        matches!(self, Routing::Valiant | Routing::Ugal)
    }
}

/// Where a packet goes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leg {
    /// To its destination.
    Direct,
    /// To a group that is neither its own nor its destination's.
    Around(usize),
}
