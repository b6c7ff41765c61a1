//! FLUSH operations (ibv_wr_flush(3), annex A19): conversion between the interface, the channel and
//! the wire.
//!
//! When a FLUSH is executed, all earlier writes are already in place, on every path; only the
//! permission remains to be checked. As in Linux' Soft-RoCE the key alone decides; a queue pair has
//! no attribute for it.

use verbena_abi::*;
use verbena_wire::feth::{Feth, Placement, Selectivity};

/// Scope and placement of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Visible to everything on the responder.
    pub visible: bool,
    /// Preserved over a power loss, which no memory here is.
    pub persistent: bool,
    /// The whole memory region of the key, instead of the given range.
    pub region: bool,
}

impl Flush {
    /// Returns the access flags that the key must have.
    pub fn access(self) -> u32 {
        let mut access = 0;
        if self.visible {
            access |= IBV_ACCESS_FLUSH_GLOBAL;
        }
        if self.persistent {
            access |= IBV_ACCESS_FLUSH_PERSISTENT;
        }
        access
    }
}

impl From<Flush> for Feth {
    fn from(flush: Flush) -> Feth {
        Feth {
            placement: match (flush.visible, flush.persistent) {
                (true, true) => Placement::VisibleAndPersistent,
                (false, true) => Placement::Persistent,
                (_, false) => Placement::Visible,
            },
            selectivity: match flush.region {
                true => Selectivity::Region,
                false => Selectivity::Range,
            },
        }
    }
}

impl From<Feth> for Flush {
    fn from(feth: Feth) -> Flush {
        Flush {
            visible: feth.placement != Placement::Persistent,
            persistent: feth.placement != Placement::Visible,
            region: feth.selectivity == Selectivity::Region,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_round_trips() {
        for (visible, persistent) in [(true, false), (false, true), (true, true)] {
            for region in [false, true] {
                let flush = Flush {
                    visible,
                    persistent,
                    region,
                };
                assert_eq!(Flush::from(Feth::from(flush)), flush);
            }
        }
    }
}
