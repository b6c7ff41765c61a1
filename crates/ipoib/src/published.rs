//! The entries of an interface in the runtime directory of the adapter, by which the connection
//! manager of programs in other namespaces finds it ([`verbena_fabric_protocol::interface`]).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use verbena_fabric_protocol::interface::{self, Entry};

use crate::address::Prefixed;

/// The entries of an interface; they are removed when this is dropped.
pub(crate) struct Published {
    directory: PathBuf,
    fabric: u64,
    /// The entry, and the names of the links that have it.
    entry: Entry,
    links: HashSet<String>,
    /// The names of links with an earlier entry.
    outdated: HashSet<String>,
}

impl Published {
    /// Publishes an interface and its addresses in a directory, on the fabric with a number, or 0.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn new(
        directory: &Path,
        fabric: u64,
        entry: Entry,
        addresses: &[Prefixed],
    ) -> io::Result<Published> {
        let mut published = Published {
            directory: directory.to_owned(),
            fabric,
            entry,
            links: HashSet::new(),
            outdated: HashSet::new(),
        };
        published.set_addresses(entry.lid, addresses)?;
        Ok(published)
    }

    /// Publishes other addresses, or another LID.
    ///
    /// # Errors
    ///
    /// The system's. Links that could not be made are made by the next call.
    pub(crate) fn set_addresses(&mut self, lid: u16, addresses: &[Prefixed]) -> io::Result<()> {
        let partition = self.entry.partition;
        let of = |one: &Prefixed| interface::of_address(self.fabric, partition, one.address);
        let mut wanted: HashSet<String> = addresses.iter().map(of).collect();
        wanted.insert(interface::of_namespace(self.entry.namespace));
        if lid != self.entry.lid {
            self.entry.lid = lid;
            self.outdated.extend(self.links.drain());
        }
        let known = self.links.union(&self.outdated);
        let unwanted: Vec<String> = known
            .filter(|name| !wanted.contains(*name))
            .cloned()
            .collect();
        for name in unwanted {
            self.remove(&name);
            self.links.remove(&name);
            self.outdated.remove(&name);
        }
        let mut result = Ok(());
        for name in wanted {
            if self.links.contains(&name) {
                continue;
            }
            match self.make(&name) {
                Ok(()) => {
                    self.outdated.remove(&name);
                    self.links.insert(name);
                }
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Makes a link. It replaces the one of an interface with the same address.
    fn make(&self, name: &str) -> io::Result<()> {
        let new = self
            .directory
            .join(format!("{name}.{}.new", self.entry.process));
        let _ = fs::remove_file(&new);
        symlink(self.entry.to_string(), &new)?;
        fs::rename(&new, self.directory.join(name))
    }

    /// Removes a link, unless another interface has replaced it.
    fn remove(&self, name: &str) {
        let path = self.directory.join(name);
        let is_own = fs::read_link(&path)
            .ok()
            .and_then(|target| Entry::of(target.to_str()?))
            .is_some_and(|entry| entry.process == self.entry.process);
        if is_own {
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        for name in self.links.union(&self.outdated) {
            self.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const ENTRY: Entry = Entry {
        namespace: 4_026_532_000,
        process: 17,
        start: 5,
        partition: 0xffff,
        lid: 1,
        gid: [7; 16],
    };

    fn addresses(all: &[&str]) -> Vec<Prefixed> {
        all.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn entry_at(directory: &Path, address: &str) -> Option<Entry> {
        let name = interface::of_address(0, 0xffff, address.parse::<IpAddr>().unwrap());
        Entry::of(fs::read_link(directory.join(name)).ok()?.to_str()?)
    }

    #[test]
    fn entries_follow_the_addresses_and_end_with_the_interface() {
        let directory =
            std::env::temp_dir().join(format!("verbena-entries-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let both = addresses(&["10.0.0.1/24", "fd00::1/64"]);
        let mut published = Published::new(&directory, 0, ENTRY, &both).unwrap();
        assert_eq!(entry_at(&directory, "10.0.0.1"), Some(ENTRY));
        assert_eq!(entry_at(&directory, "fd00::1"), Some(ENTRY));
        let own = directory.join(interface::of_namespace(ENTRY.namespace));
        assert!(fs::read_link(&own).is_ok());

        published
            .set_addresses(9, &addresses(&["10.0.0.1/24", "10.0.0.3/24"]))
            .unwrap();
        let moved = Entry { lid: 9, ..ENTRY };
        assert_eq!(entry_at(&directory, "10.0.0.1"), Some(moved));
        assert_eq!(entry_at(&directory, "10.0.0.3"), Some(moved));
        assert_eq!(entry_at(&directory, "fd00::1"), None);

        // Another interface takes an address over, and keeps it.
        let other = Entry {
            process: 18,
            namespace: 4_026_532_001,
            ..ENTRY
        };
        let taken = addresses(&["10.0.0.3/24"]);
        let later = Published::new(&directory, 0, other, &taken).unwrap();
        drop(published);
        assert_eq!(entry_at(&directory, "10.0.0.1"), None);
        assert_eq!(entry_at(&directory, "10.0.0.3"), Some(other));
        drop(later);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir(directory).unwrap();
    }
}
