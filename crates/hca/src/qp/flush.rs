//! What a FLUSH asks for (ibv_wr_flush(3), annex A19), between the interface, the channel and the wire.
//!
//! Everything that was written before it is in place already when a FLUSH is executed, on every path: what is left of it is the
//! question whether it may. As with Linux' Soft-RoCE the key alone decides that; a queue pair has no attribute for it.

use crate::qp::send::SendRequest;
use verbena_abi::*;
use verbena_wire::feth::{Feth, Placement, Selectivity};

/// Of which memory, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Visible to everything on the responder.
    pub visible: bool,
    /// Kept over a loss of power, which no memory here is.
    pub persistent: bool,
    /// The whole region that the key names, whatever range is named.
    pub region: bool,
}

impl Flush {
    /// What a request asks for. Placement and selectivity stand in `swap`, as the library's extended interface puts them
    /// there; the plain one has no place for them, and asks for visible bytes.
    pub fn of(request: &SendRequest<'_>) -> Flush {
        let placement = request.swap as u8;
        Flush {
            visible: placement & IBV_FLUSH_GLOBAL != 0 || placement == 0,
            persistent: placement & IBV_FLUSH_PERSISTENT != 0,
            region: (request.swap >> 8) as u8 == IBV_FLUSH_MR,
        }
    }

    /// How many bytes a request names, beginning at its remote address.
    pub fn length(request: &SendRequest<'_>) -> u64 {
        match request.swap {
            0 => request.length(),
            _ => request.compare_add,
        }
    }

    /// What the key must allow.
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
    fn every_flush_survives_the_wire() {
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
