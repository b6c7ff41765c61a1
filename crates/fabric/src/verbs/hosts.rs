//! Which processes of a job share a host, told by the processes themselves: launchers deal ranks out in blocks, in turn or
//! as they were told, and do not say how.
//!
//! A *node* is a network namespace: what is on another node is reached by packets. Several of them, containers for example,
//! may be on one *machine*, whose processors they share.

use super::exchange::Connection;
use super::job::Placement;
use super::patience::Patience;
use crate::error::{Error, Result};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use verbena_measure::start::SharedPage;

/// The hosts of a job, as one of its processes sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    rank: usize,
    machines: Vec<usize>,
    nodes: Vec<usize>,
    addresses: Vec<Option<IpAddr>>,
}

/// What a process tells of itself, a line each.
struct Told {
    machine: String,
    network: String,
    /// The address from which it reached the exchange.
    own: Option<IpAddr>,
    /// The address at which it reached the exchange.
    exchange: Option<IpAddr>,
}

impl Told {
    fn of(exchange: &Connection) -> Told {
        Told {
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

    fn from_bytes(bytes: &[u8]) -> Told {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split('\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        Told {
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
    /// Asks all processes of a job.
    pub fn ask(
        exchange: &mut Connection,
        rank: usize,
        size: usize,
        patience: &Patience,
    ) -> Result<Hosts> {
        let everybody: Vec<usize> = (0..size).collect();
        let mine = Told::of(exchange).to_bytes();
        let told = exchange.gather(&everybody, &mine, patience)?;
        let told: Vec<Told> = told.iter().map(|one| Told::from_bytes(one)).collect();
        // Whoever is beside the exchange has come to it by loopback, and is where the others came to it.
        let beside_exchange = told.iter().find_map(|one| one.exchange);
        Ok(Hosts {
            rank,
            machines: numbered(told.iter().map(|one| &one.machine)),
            nodes: numbered(told.iter().map(|one| (&one.machine, &one.network))),
            addresses: told.iter().map(|one| one.own.or(beside_exchange)).collect(),
        })
    }

    /// For the group of the job.
    pub fn placement(&self) -> Placement {
        Placement {
            rank: self.rank,
            nodes: self.nodes.clone(),
            machines: self.machines.clone(),
            addresses: self.addresses.clone(),
        }
    }

    /// The page for barriers, in the file at `path`, if all processes are on one node and see the same file there.
    pub fn page(
        &self,
        exchange: &mut Connection,
        path: &Path,
        patience: &Patience,
    ) -> Result<Option<SharedPage>> {
        if self.nodes.iter().any(|node| *node != 0) {
            return Ok(None);
        }
        let opened = SharedPage::open(path).and_then(|page| Ok((page, fs::metadata(path)?)));
        let identity = match &opened {
            Ok((_, file)) => format!("{} {}", file.dev(), file.ino()),
            Err(_) => String::new(),
        };
        // Also whoever failed, so that nobody waits for it.
        let everybody: Vec<usize> = (0..self.nodes.len()).collect();
        let told = exchange.gather(&everybody, identity.as_bytes(), patience)?;
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

/// What the machine is told by: its kernel's number of this boot, which the containers on it share.
fn machine() -> String {
    let read = |path| fs::read_to_string(path).ok();
    read("/proc/sys/kernel/random/boot_id")
        .or_else(|| read("/proc/sys/kernel/hostname"))
        .map_or_else(String::new, |text| text.trim().to_owned())
}

/// What the network namespace is told by.
fn network() -> String {
    fs::read_link("/proc/self/ns/net").map_or_else(
        |_| String::new(),
        |link| link.to_string_lossy().into_owned(),
    )
}

/// Numbers for what is told apart, from 0 in the order of first appearance.
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
    fn hosts_are_numbered_as_they_appear() {
        assert_eq!(numbered(["b", "a", "b", "c", "a"].iter()), [0, 1, 0, 2, 1]);
    }

    #[test]
    fn what_a_process_tells_arrives() {
        let told = Told {
            machine: "m".to_owned(),
            network: "net:[1]".to_owned(),
            own: None,
            exchange: Some(IpAddr::from([10, 9, 0, 1])),
        };
        let heard = Told::from_bytes(&told.to_bytes());
        assert_eq!((heard.machine, heard.network), (told.machine, told.network));
        assert_eq!((heard.own, heard.exchange), (told.own, told.exchange));
        // A process that is absent has told nothing.
        assert_eq!(Told::from_bytes(b"").own, None);
    }
}
