//! The IP interfaces of a user's programs (`verbena ipoib`), as the connection manager finds them:
//! symbolic links in the runtime directory of the adapter, whose targets are an [`Entry`] as text.
//!
//! An interface has a link for its network namespace ([`of_namespace`]) and one for each of its
//! addresses ([`of_address`]). The process that serves it makes and removes them; links of a
//! process that has been killed remain, so a reader checks that the process lives
//! ([`Entry::start`]).

use std::fmt;
use std::net::IpAddr;

/// The bit of a P_Key that full members have; members of a partition agree in the others.
const FULL_MEMBER: u16 = 0x8000;

/// An interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Number of the network namespace that it is in: the inode of its file.
    pub namespace: u64,
    /// Number of the process that serves it.
    pub process: u32,
    /// Time at which that process started ([`start_of`]): its number may be used again.
    pub start: u64,
    /// P_Key of its partition.
    pub partition: u16,
    /// LID of its port.
    pub lid: u16,
    /// GID of its port.
    pub gid: [u8; 16],
}

/// The text of an entry.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry {
            namespace,
            process,
            start,
            partition,
            lid,
            gid,
        } = self;
        let gid = u128::from_be_bytes(*gid);
        write!(
            f,
            "{namespace} {process} {start} {partition:04x} {lid:04x} {gid:032x}"
        )
    }
}

impl Entry {
    /// Reads the text of an entry; `None` if it is none.
    pub fn of(text: &str) -> Option<Entry> {
        let mut words = text.split(' ');
        let mut word = || words.next();
        let entry = Entry {
            namespace: word()?.parse().ok()?,
            process: word()?.parse().ok()?,
            start: word()?.parse().ok()?,
            partition: u16::from_str_radix(word()?, 16).ok()?,
            lid: u16::from_str_radix(word()?, 16).ok()?,
            gid: u128::from_str_radix(word()?, 16).ok()?.to_be_bytes(),
        };
        word().is_none().then_some(entry)
    }
}

/// Returns the name of the link of the interface in a network namespace.
pub fn of_namespace(namespace: u64) -> String {
    format!("ib-in-{namespace}")
}

/// Returns the name of the link of the interface with an address, in the partition with a P_Key of
/// the fabric with a number, or 0 without a fabric.
pub fn of_address(fabric: u64, partition: u16, address: IpAddr) -> String {
    format!("ib-{fabric:x}-{:04x}-{address}", partition & !FULL_MEMBER)
}

/// Returns the time at which a process started, in ticks of the clock since the system did, from
/// the text of `/proc/PID/stat` (proc(5)); `None` if the process has ended.
pub fn start_of(stat: &str) -> Option<u64> {
    // The name in brackets may have any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // Field 22; the state is the third.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_is_read_back(
            namespace: u64, process: u32, start: u64, partition: u16, lid: u16, gid: [u8; 16],
        ) {
            let entry = Entry { namespace, process, start, partition, lid, gid };
            prop_assert_eq!(Entry::of(&entry.to_string()), Some(entry));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = Entry::of(&text);
        }
    }

    #[test]
    fn text_with_too_few_or_too_many_words_is_refused() {
        let whole = "7 8 9 ffff 0001 fe800000000000000000000000000001";
        assert!(Entry::of(whole).is_some());
        assert_eq!(Entry::of(&format!("{whole} 9")), None);
        for (at, _) in whole.match_indices(' ') {
            assert_eq!(Entry::of(&whole[..at]), None);
        }
    }

    #[test]
    fn members_of_a_partition_find_each_other() {
        let address = "10.0.0.2".parse().unwrap();
        assert_eq!(of_address(0, 0x8010, address), of_address(0, 0x10, address));
        assert_ne!(
            of_address(0, 0x8010, address),
            of_address(0, 0xffff, address)
        );
        assert_ne!(
            of_address(0, 0x8010, address),
            of_address(1, 0x8010, address)
        );
    }

    #[test]
    fn a_process_has_a_start_until_it_ends() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(start_of(&format!("7 (a) b) S {rest}")), Some(4711));
        assert_eq!(start_of(&format!("7 (a) Z {rest}")), None);
        assert_eq!(start_of("7 (a) S 1"), None);
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(start_of(&own).is_some());
    }
}
