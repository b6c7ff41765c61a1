//! The multicast groups of an interface.

use std::collections::HashSet;
use std::fs::File;
use std::net::IpAddr;

use verbena_verbs::Gid;

use crate::adapter::Adapter;
use crate::address::Prefixed;
use crate::group;
use crate::membership;

/// Most groups of an interface.
const MOST_GROUPS: usize = 1024;

/// Returns the groups that an interface with these addresses in a partition is always a member of.
pub(super) fn fixed_groups(addresses: &[Prefixed], partition: u16) -> HashSet<Gid> {
    let of = |address: IpAddr| group::of(address, partition);
    let mut all = HashSet::from([group::broadcast(partition), of(group::ALL_IPV4.into())]);
    for one in addresses {
        if let IpAddr::V6(address) = one.address {
            all.insert(of(group::ALL_IPV6.into()));
            all.insert(of(group::solicited_node(address).into()));
        }
    }
    all
}

/// The groups of an interface.
pub(super) struct Groups {
    pub(super) fixed: HashSet<Gid>,
    pub(super) joined: HashSet<Gid>,
    pub(super) files: [File; 2],
    pub(super) interface: u32,
    pub(super) is_changed: bool,
    /// Groups that were not joined: too many, or refused by the adapter.
    pub(super) refused: HashSet<Gid>,
}

impl Groups {
    /// Joins and leaves groups as the programs in the namespace have done.
    pub(super) fn update(&mut self, adapter: &Adapter) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let of_programs = membership::read(&self.files, self.interface);
        let of = |one| group::of(one, adapter.partition());
        let of_programs = of_programs.into_iter().map(of);
        let mut wanted = self.fixed.clone();
        wanted.extend(of_programs);
        let left: Vec<Gid> = self.joined.difference(&wanted).copied().collect();
        for gid in left {
            // It fails if the queue pair has failed, and with it all memberships.
            let _ = adapter.leave(gid);
            self.joined.remove(&gid);
        }
        // The fixed ones first: without them neighbours do not find the interface.
        let others = wanted.difference(&self.fixed);
        let new: Vec<Gid> = self.fixed.iter().chain(others).copied().collect();
        for gid in new {
            if self.joined.contains(&gid) {
                continue;
            }
            match self.joined.len() < MOST_GROUPS && adapter.join(gid).is_ok() {
                true => self.joined.insert(gid),
                false => self.refused.insert(gid),
            };
        }
    }
}
