//! The multicast groups of an interface.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::net::IpAddr;

use verbena_verbs::Gid;

use crate::adapter::Adapter;
use crate::address::Prefixed;
use crate::administration::{Administration, MOST, Refusal};
use crate::group;
use crate::membership;

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
    /// The groups whose packets the adapter receives, and their LIDs.
    pub(super) joined: HashMap<Gid, u16>,
    pub(super) files: [File; 2],
    pub(super) interface: u32,
    pub(super) is_changed: bool,
    /// Groups that were not joined: too many, or refused by the adapter or the subnet manager.
    pub(super) refused: HashSet<Gid>,
}

impl Groups {
    /// Joins and leaves groups as the programs in the namespace have done: by subnet
    /// administration, if the port has one.
    pub(super) fn update(
        &mut self,
        adapter: &Adapter,
        administration: Option<&mut Administration>,
        now: u64,
    ) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let of_programs = membership::read(&self.files, self.interface);
        let of = |one| group::of(one, adapter.partition());
        let of_programs = of_programs.into_iter().map(of);
        let mut wanted = self.fixed.clone();
        // The fixed ones first: without them neighbours do not find the interface.
        for gid in of_programs {
            match wanted.len() < MOST {
                true => _ = wanted.insert(gid),
                false if wanted.contains(&gid) => {}
                false => _ = self.refused.insert(gid),
            }
        }
        if let Some(administration) = administration {
            return administration.set_members(&wanted, now);
        }
        let is_left = |gid: &&Gid| !wanted.contains(*gid);
        let left: Vec<Gid> = self.joined.keys().filter(is_left).copied().collect();
        for gid in left {
            self.leave(adapter, gid);
        }
        for gid in wanted {
            if !self.joined.contains_key(&gid) {
                self.join(adapter, gid, group::LID);
            }
        }
    }

    /// Receives the packets of a group with this LID from now on.
    pub(super) fn join(&mut self, adapter: &Adapter, gid: Gid, lid: u16) {
        self.refused.remove(&gid);
        if self.joined.get(&gid) == Some(&lid) {
            return;
        }
        self.leave(adapter, gid);
        match adapter.attach(gid, lid) {
            Ok(()) => _ = self.joined.insert(gid, lid),
            Err(_) => _ = self.refused.insert(gid),
        }
    }

    /// Receives them no longer.
    pub(super) fn leave(&mut self, adapter: &Adapter, gid: Gid) {
        if let Some(lid) = self.joined.remove(&gid) {
            // It fails if the queue pair has failed, and with it all memberships.
            let _ = adapter.detach(gid, lid);
        }
    }

    /// Notes that the subnet manager refused a group.
    pub(super) fn refuse(&mut self, gid: Gid, refusal: Refusal) {
        if self.refused.insert(gid) {
            eprintln!(
                "verbena: the subnet manager did not let the interface join {gid}: {refusal}; it \
                 is asked again"
            );
        }
    }
}
