//! Detection of processes that share a host, from data of the processes themselves: launchers
//! assign ranks in blocks, in turn or as configured, and do not report how.
//!
//! A *node* is a network namespace: packets connect it with other nodes. Several nodes, containers
//! for example, may be on one *machine* and share its processors.

use super::exchange::Connection;
use super::job::Placement;
use super::wait_limit::WaitLimit;
use crate::error::{Error, Result};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use verbena_measure::start::SharedPage;

/// The hosts of a job, as seen by one of its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    rank: usize,
    machines: Vec<usize>,
    nodes: Vec<usize>,
    addresses: Vec<Option<IpAddr>>,
}

/// The data that a process sends about itself, one item per line.
struct HostInfo {
    machine: String,
    network: String,
    /// Local address of its connection to the exchange.
    own: Option<IpAddr>,
    /// Remote address of its connection to the exchange.
    exchange: Option<IpAddr>,
}

impl HostInfo {
    fn of(exchange: &Connection) -> HostInfo {
        HostInfo {
            machine: machine(),
            network: network(),
            own: exchange.address().filter(leads_out),
            exchange: exchange.address_of_hub().filter(leads_out),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let word =
            |address: Option<IpAddr>| address.map_or_else(String::new, |one| one.to_string());
        let addresses = [word(self.own), word(self.exchange)];
        [&self.machine, &self.network, &addresses[0], &addresses[1]]
            .map(String::as_str)
            .join("\n")
            .into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> HostInfo {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split('\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        HostInfo {
            machine: next(),
            network: next(),
            own: next().parse().ok(),
            exchange: next().parse().ok(),
        }
    }
}

fn leads_out(address: &IpAddr) -> bool {
    !address.is_loopback()
}

impl Hosts {
    /// Exchanges host data among all processes of a job.
    ///
    /// # Errors
    ///
    /// Returns an error if the exchange fails.
    pub fn ask(
        exchange: &mut Connection,
        rank: usize,
        size: usize,
        wait_limit: &WaitLimit,
    ) -> Result<Hosts> {
        let all_ranks: Vec<usize> = (0..size).collect();
        let mine = HostInfo::of(exchange).to_bytes();
        let told = exchange.gather(&all_ranks, &mine, wait_limit)?;
        let told: Vec<HostInfo> = told.iter().map(|one| HostInfo::from_bytes(one)).collect();
        // A process on the hub's node connects over loopback; its address is the one at which the
        // others reached the hub.
        let beside_exchange = told.iter().find_map(|one| one.exchange);
        Ok(Hosts {
            rank,
            machines: numbered(told.iter().map(|one| &one.machine)),
            nodes: numbered(told.iter().map(|one| (&one.machine, &one.network))),
            addresses: told.iter().map(|one| one.own.or(beside_exchange)).collect(),
        })
    }

    /// Returns the placement for the group of the job.
    pub fn placement(&self) -> Placement {
        Placement {
            rank: self.rank,
            nodes: self.nodes.clone(),
            machines: self.machines.clone(),
            addresses: self.addresses.clone(),
        }
    }

    /// Opens the shared page for barriers in the file at `path`; `None` unless all processes are on
    /// one node and see the same file.
    ///
    /// # Errors
    ///
    /// Returns an error if the page cannot be opened or the exchange fails.
    pub fn page(
        &self,
        exchange: &mut Connection,
        path: &Path,
        wait_limit: &WaitLimit,
    ) -> Result<Option<SharedPage>> {
        if self.nodes.iter().any(|node| *node != 0) {
            return Ok(None);
        }
        let opened = SharedPage::open(path).and_then(|page| Ok((page, fs::metadata(path)?)));
        let identity = match &opened {
            Ok((_, file)) => format!("{} {}", file.dev(), file.ino()),
            Err(_) => String::new(),
        };
        // A process that failed takes part as well, so that no other waits for it.
        let all_ranks: Vec<usize> = (0..self.nodes.len()).collect();
        let told = exchange.gather(&all_ranks, identity.as_bytes(), wait_limit)?;
        let (page, _) = opened.map_err(|error| {
            Error::adapter(
                format!("the shared page {}", path.display()),
                error.to_string(),
            )
        })?;
        let same = told.iter().all(|one| one == identity.as_bytes());
        Ok(same.then_some(page))
    }
}

/// Returns an identifier of the machine: its kernel's boot ID, which all its containers share.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).ok();
    read("/proc/sys/kernel/random/boot_id")
        .or_else(|| read("/proc/sys/kernel/hostname"))
        .map_or_else(String::new, |text| text.trim().to_owned())
}

/// Returns an identifier of the network namespace.
fn network() -> String {
    fs::read_link("/proc/self/ns/net").map_or_else(
        |_| String::new(),
        |link| link.to_string_lossy().into_owned(),
    )
}

/// Numbers distinct values from 0 in the order of first appearance.
fn numbered<T: PartialEq>(told: impl Iterator<Item = T>) -> Vec<usize> {
    let mut seen: Vec<T> = Vec::new();
    told.map(|one| {
        seen.iter()
            .position(|other| *other == one)
            .unwrap_or_else(|| {
                seen.push(one);
                seen.len() - 1
            })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_by_first_appearance() {
        assert_eq!(numbered(["b", "a", "b", "c", "a"].iter()), [0, 1, 0, 2, 1]);
    }

    #[test]
    fn host_message_encoding_round_trips() {
        let told = HostInfo {
            machine: "m".to_owned(),
            network: "net:[1]".to_owned(),
            own: None,
            exchange: Some(IpAddr::from([10, 9, 0, 1])),
        };
        let heard = HostInfo::from_bytes(&told.to_bytes());
        assert_eq!((heard.machine, heard.network), (told.machine, told.network));
        assert_eq!((heard.own, heard.exchange), (told.own, told.exchange));
        // An absent process sends nothing.
        assert_eq!(HostInfo::from_bytes(b"").own, None);
    }
}
