//! The peers that rules name, at one queue pair.

use verbena_faults::peer::{Peer, PeerAddress};
use verbena_faults::rule::Rule;

/// The peers that a rule is about.
pub(super) struct RuledPeer {
    /// None for all.
    wanted: Option<&'static Peer>,
    /// Whether the present peer is one of them.
    pub(super) is_met: bool,
}

impl RuledPeer {
    /// Returns those of a rule. A peer is met later.
    pub(super) fn of(rule: &'static Rule) -> RuledPeer {
        RuledPeer {
            wanted: rule.peer.as_ref(),
            is_met: rule.peer.is_none(),
        }
    }

    /// Returns whether the rule is about some peers only.
    pub(super) fn is_named(&self) -> bool {
        self.wanted.is_some()
    }

    /// Notes the present peer.
    pub(super) fn meet(&mut self, address: &PeerAddress) {
        self.is_met = self.wanted.is_none_or(|peer| peer.includes(address));
    }
}
