//! The connection table of this process: local IDs, owning identifiers, ended exchanges.

use crate::death_record::DeathRecord;
use crate::inbox::Host;
use crate::state_machine::StateMachine;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_os::clock;

/// Number of ended exchanges that are remembered.
const MOST_ENDED: usize = 4096;
/// Longest delay, in nanoseconds, of a retransmitted request that was answered already.
const MEMORY: u64 = 4_000_000_000;

/// The connection table of a process.
#[derive(Default)]
pub struct ConnectionTable {
    /// Owning identifiers, by local communication ID.
    pub(crate) owners: HashMap<u32, u32>,
    /// Pending DREQs: exchanges whose identifier was destroyed.
    pub(crate) pending_dreqs: HashMap<u32, StateMachine>,
    /// Ended exchanges: time until which a request may arrive again, peer, peer's ID.
    ended: VecDeque<(u64, Ipv6Addr, u32)>,
    /// Requests without a listener, and until when they are kept.
    pub(crate) unclaimed: Vec<(u64, CmMad)>,
    /// This process's death record.
    pub(crate) death_record: DeathRecord,
    /// Whether the alarm that probes the peers' hosts is set.
    pub(crate) probes: bool,
    /// Hosts that are being asked for private ports, and the exchanges that wait for the result.
    pub(crate) searches: HashMap<Host, Vec<u32>>,
    /// The last number assigned.
    pub(crate) count: u32,
}

impl ConnectionTable {
    /// Removes an exchange that is over.
    pub fn forget(&mut self, machine: &StateMachine) {
        self.owners.remove(&machine.number());
        self.death_record.clear(machine.number());
        if self.ended.len() == MOST_ENDED {
            self.ended.pop_front();
        }
        let (address, number) = (machine.address(), machine.remote_number());
        let until = clock::now() + MEMORY;
        self.ended.push_back((until, address, number));
    }

    /// Returns whether a request belongs to an exchange that is over.
    pub fn is_late(&mut self, cm_mad: &CmMad, number: u32) -> bool {
        let now = clock::now();
        while self.ended.front().is_some_and(|(until, ..)| *until <= now) {
            self.ended.pop_front();
        }
        let mut ended = self.ended.iter();
        ended.any(|(_, address, called)| (*address, *called) == (cm_mad.source, number))
    }
}
