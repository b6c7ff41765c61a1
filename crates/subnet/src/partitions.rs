//! Partitions of the manager, in the syntax of OpenSM's `partitions.conf`:
//!
//! ```text
//! # name [= P_Key] [, flags] : port [= full | limited], ... ;
//! Default=0x7fff, ipoib : ALL=limited, SELF=full;
//! storage=0x10, ipoib, mtu=5 : 0x0002000000000201=full, 0x0002000000000301;
//! ```
//!
//! As with OpenSM, all ports are limited members of the default partition, and the manager's port
//! is a full one, unless the file has other lines for it; of several lines for a port in a
//! partition the last counts. Source: doc/partition-config.txt of OpenSM.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use crate::agent::PARTITIONS;
use crate::fabric::{End, Fabric, Kind};

/// Partition key of the default partition, without the bit of full membership.
pub const DEFAULT: u16 = 0x7fff;
/// The bit of full membership in a partition key.
pub const FULL: u16 = 0x8000;
/// Most bytes of a file: each of the partitions of a port with thousands of ports.
pub const MOST_BYTES: usize = 16 << 20;
/// Codes of an MTU: from 256 to 4096 bytes.
const MTUS: RangeInclusive<u64> = 1..=5;
/// Codes of a rate in OpenSM's table, from 2.5 to 1200 Gbit/s.
const RATES: RangeInclusive<u64> = 2..=24;
/// Most characters of a file that an error quotes.
const QUOTED: usize = 60;
/// Characters that editors put before a text in UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Name in the first definition, or empty. Later definitions without a key mean this name's.
    pub name: String,
    /// Partition key, without the bit of full membership.
    pub p_key: u16,
    /// Whether the key has index 0 in the tables of its members.
    pub is_first: bool,
    /// IPoIB's broadcast group, if it has one.
    pub broadcast: Option<Broadcast>,
    /// Members, each once, and whether they are full ones; of several entries for a port the last
    /// counts.
    pub members: Vec<(Members, bool)>,
}

/// Ports that an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Members {
    /// All ports.
    All,
    /// The ports of nodes of this kind.
    Of(Kind),
    /// The port of the manager.
    Manager,
    /// The port with this GUID.
    Port(u64),
}

/// Properties of IPoIB's broadcast group, as codes of MCMemberRecord.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broadcast {
    /// MTU.
    pub mtu: u8,
    /// Rate.
    pub rate: u8,
    /// Service level.
    pub service_level: u8,
    /// Scope of the address.
    pub scope: u8,
    /// Q_Key.
    pub q_key: u32,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: u32,
}

impl Default for Broadcast {
    /// Returns OpenSM's: 2048 bytes, 10 Gbit/s, link-local.
    fn default() -> Self {
        Broadcast {
            mtu: 4,
            rate: 3,
            service_level: 0,
            scope: 2,
            q_key: 0x0b1b,
            traffic_class: 0,
            flow_label: 0,
        }
    }
}

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct PartitionError {
    /// Its number, from 1.
    pub line: usize,
    /// The problem.
    pub reason: String,
}

/// Reads partitions; a file without any gives none, so that all ports are full members of the
/// default one.
///
/// # Errors
///
/// Fails if a line is invalid, there are more partitions than a port has keys, or the text has more
/// than [`MOST_BYTES`] bytes.
pub fn read(text: &str) -> Result<Vec<Partition>, PartitionError> {
    let fault = |line: usize, reason: String| PartitionError { line, reason };
    if text.len() > MOST_BYTES {
        let reason = format!("the file has more than {MOST_BYTES} bytes");
        return Err(fault(1, reason));
    }
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mut all = vec![Partition {
        name: "Default".to_owned(),
        p_key: DEFAULT,
        is_first: false,
        broadcast: None,
        members: vec![(Members::All, false), (Members::Manager, true)],
    }];
    let (mut statement, mut is_blank) = (String::new(), true);
    // The line on which the statement begins.
    let (mut begins, mut is_empty) = (1, true);
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.split('#').next().unwrap_or_default();
        for (at, part) in content.split(';').enumerate() {
            if at > 0 {
                if !is_blank {
                    add(&mut all, &statement).map_err(|reason| fault(begins, reason))?;
                    is_empty = false;
                }
                statement.clear();
                is_blank = true;
            }
            if is_blank {
                begins = number;
            }
            is_blank &= part.trim().is_empty();
            statement += part;
        }
        match is_blank {
            true => statement.clear(),
            false => statement.push(' '),
        }
    }
    if !is_blank {
        return Err(fault(begins, "no ; ends the partition".to_owned()));
    }
    if is_empty {
        return Ok(Vec::new());
    }
    all.iter_mut().for_each(|one| keep_last(&mut one.members));
    Ok(all)
}

/// Removes all but the last entry of each kind, as the last counts.
fn keep_last(members: &mut Vec<(Members, bool)>) {
    let mut seen = HashSet::new();
    members.reverse();
    members.retain(|(members, _)| seen.insert(*members));
    members.reverse();
}

/// Adds the partition of a statement, or its members to the partition with its key or, without a
/// key, with its name. A key of 0 is none.
fn add(all: &mut Vec<Partition>, statement: &str) -> Result<(), String> {
    let (definition, ports) = statement
        .split_once(':')
        .ok_or("no : separates the partition from its ports")?;
    let mut words = definition.split(',').map(str::trim);
    let name = words.next().unwrap_or_default();
    let (name, key) = match name.split_once('=') {
        Some((name, key)) => (name.trim(), number(key, 0..=0xffff)?),
        // A number in place of the name is the key.
        None if name.starts_with(|c: char| c.is_ascii_digit()) => ("", number(name, 0..=0xffff)?),
        None => (name, 0),
    };
    let key = key as u16 & DEFAULT;
    let at = match key {
        0 => all
            .iter()
            .position(|one| !name.is_empty() && one.name == name),
        key => all.iter().position(|one| one.p_key == key),
    };
    let mut flags = Flags::default();
    words.try_for_each(|word| flags.add(word))?;
    let members = ports.split(',').map(str::trim);
    let members = members.filter(|port| !port.is_empty());
    let members = members.filter_map(|port| member(port, flags.is_full).transpose());
    let members = members.collect::<Result<Vec<_>, String>>()?;
    let at = match at {
        Some(at) => at,
        None if all.len() >= usize::from(PARTITIONS) => {
            return Err(format!("a port has at most {PARTITIONS} partitions"));
        }
        None => {
            let p_key = if key == 0 { unused(all) } else { key };
            all.push(Partition {
                name: name.to_owned(),
                p_key,
                is_first: false,
                broadcast: None,
                members: Vec::new(),
            });
            all.len() - 1
        }
    };
    all[at].is_first |= flags.is_first;
    all[at].members.extend(members);
    if flags.has_broadcast {
        all[at].broadcast = Some(flags.broadcast);
    }
    Ok(())
}

/// Returns the lowest key of no partition; there are more keys than partitions.
fn unused(all: &[Partition]) -> u16 {
    let used: HashSet<u16> = all.iter().map(|one| one.p_key).collect();
    (1..DEFAULT)
        .find(|key| !used.contains(key))
        .unwrap_or(DEFAULT)
}

/// Returns the beginning of a text between quotation marks.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Returns a decimal or hexadecimal number in a range.
fn number(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let text = text.trim();
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    if radix == 10 && is_number && text.len() > 1 && text.starts_with('0') {
        let quoted = quoted(text);
        return Err(format!(
            "{quoted} begins with 0, so OpenSM reads it as an octal number"
        ));
    }
    let read = u64::from_str_radix(digits, radix).ok();
    let read = read.filter(|read| is_number && range.contains(read));
    read.ok_or_else(|| {
        let (first, last) = range.into_inner();
        let last = match last {
            0..=255 => last.to_string(),
            _ => format!("{last:#x}"),
        };
        format!("{} is not a number from {first} to {last}", quoted(text))
    })
}

/// Returns whether members are full ones.
fn is_full(word: &str) -> Result<bool, String> {
    match word {
        "full" => Ok(true),
        "limited" => Ok(false),
        _ => Err(format!("{} is neither full nor limited", quoted(word))),
    }
}

/// Returns the ports of an entry, if it names any, and whether they are full members.
fn member(text: &str, default: bool) -> Result<Option<(Members, bool)>, String> {
    let (name, word) = match text.split_once('=') {
        Some((name, word)) => (name.trim(), Some(word.trim())),
        None => (text, None),
    };
    if name == "mgid" {
        return Err("multicast groups (mgid) are not read".to_owned());
    }
    let is_full = word.map_or(Ok(default), is_full)?;
    let members = match name {
        "NONE" => return Ok(None),
        "ALL" => Members::All,
        "ALL_CAS" => Members::Of(Kind::Adapter),
        "ALL_SWITCHES" => Members::Of(Kind::Switch),
        "ALL_ROUTERS" => Members::Of(Kind::Router),
        "SELF" => Members::Manager,
        guid if guid.starts_with(|c: char| c.is_ascii_digit()) => {
            Members::Port(number(guid, 0..=u64::MAX)?)
        }
        _ => {
            return Err(format!(
                "{}: expected a port GUID, ALL, ALL_CAS, ALL_SWITCHES, ALL_ROUTERS or SELF",
                quoted(name)
            ));
        }
    };
    Ok(Some((members, is_full)))
}

/// The flags of a partition.
#[derive(Default)]
struct Flags<'a> {
    /// Names of those that are given.
    given: Vec<&'a str>,
    is_first: bool,
    is_full: bool,
    has_broadcast: bool,
    broadcast: Broadcast,
}

impl<'a> Flags<'a> {
    fn add(&mut self, word: &'a str) -> Result<(), String> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (word, None),
        };
        let broadcast = &mut self.broadcast;
        let number = |range: RangeInclusive<u64>| {
            number(value.unwrap_or_default(), range).map_err(|error| format!("{name}: {error}"))
        };
        // OpenSM skips an MTU, a rate and a scope of 0.
        match name {
            "indx0" | "ipoib" if value.is_some() => {
                return Err(format!("{name} is a flag without a value"));
            }
            "indx0" => self.is_first = true,
            "ipoib" => self.has_broadcast = true,
            "defmember" => self.is_full = is_full(value.unwrap_or_default())?,
            "rate" => broadcast.rate = number(RATES)? as u8,
            "mtu" => broadcast.mtu = number(MTUS)? as u8,
            "sl" => broadcast.service_level = number(0..=15)? as u8,
            "scope" => broadcast.scope = number(1..=15)? as u8,
            "Q_Key" => {
                broadcast.q_key = match number(0..=u32::MAX.into())? {
                    0 => Broadcast::default().q_key,
                    q_key => q_key as u32,
                }
            }
            "TClass" => broadcast.traffic_class = number(0..=255)? as u8,
            "FlowLabel" => broadcast.flow_label = number(0..=0xf_ffff)? as u32,
            _ => return Err(format!("unknown flag {}", quoted(word))),
        }
        if self.given.contains(&name) {
            return Err(format!("{name} is given twice"));
        }
        self.given.push(name);
        Ok(())
    }
}

/// Returns the port GUIDs of partitions that the fabric lacks, each once.
pub fn unknown_ports(partitions: &[Partition], fabric: &Fabric) -> Vec<u64> {
    let members = partitions.iter().flat_map(|one| &one.members);
    let mut seen = HashSet::new();
    let unknown = members.filter_map(|(members, _)| match members {
        Members::Port(guid) if end_of_port(fabric, *guid).is_none() => {
            seen.insert(*guid).then_some(*guid)
        }
        _ => None,
    });
    unknown.collect()
}

/// Returns the port that has a GUID.
fn end_of_port(fabric: &Fabric, guid: u64) -> Option<End> {
    let end = fabric.end_of_guid(guid)?;
    let port = fabric.port(end)?;
    (port.guid == guid).then_some(end)
}

/// Sets the partition keys of ports.
pub(crate) fn set(partitions: &[Partition], fabric: &mut Fabric, manager: End, ends: &[End]) {
    // By port, the keys in the order of the tables.
    let mut keys: BTreeMap<End, Vec<u16>> = ends.iter().map(|end| (*end, Vec::new())).collect();
    let (first, others): (Vec<_>, Vec<_>) = partitions.iter().partition(|one| one.is_first);
    for partition in first.into_iter().chain(others) {
        for &(members, is_full) in &partition.members {
            let mut join = |end: &End| {
                let Some(keys) = keys.get_mut(end) else {
                    return;
                };
                let new = partition.p_key | if is_full { FULL } else { 0 };
                match keys
                    .iter_mut()
                    .find(|key| **key & DEFAULT == partition.p_key)
                {
                    Some(key) => *key = new,
                    None => keys.push(new),
                }
            };
            match members {
                Members::All => ends.iter().for_each(join),
                Members::Of(kind) => {
                    let of_kind = |end: &&End| fabric.nodes[end.node as usize].kind == kind;
                    ends.iter().filter(of_kind).for_each(join);
                }
                Members::Manager => join(&manager),
                Members::Port(guid) => end_of_port(fabric, guid).iter().for_each(join),
            }
        }
    }
    for (end, keys) in keys {
        if let Some(port) = fabric.port_mut(end) {
            port.tables_mut().p_keys = keys;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<Vec<u16>> {
        let mut fabric = crate::build(&crate::small()).unwrap();
        let ends: Vec<End> = fabric
            .ends()
            .filter(|end| end.port == fabric.nodes[end.node as usize].addressed(end.port))
            .collect();
        set(&read(text).unwrap(), &mut fabric, ends[0], &ends);
        let keys = |end: &End| fabric.port(*end).unwrap().tables.clone().unwrap().p_keys;
        ends.iter().map(keys).collect()
    }

    #[test]
    fn members_have_the_keys_of_their_partitions() {
        // The switch, where the manager is, and two hosts.
        assert_eq!(read("# none\n ;"), Ok(Vec::new()));
        assert_eq!(
            keys("A=5 : 7;"),
            [[0xffff], [0x7fff], [0x7fff]],
            "the default partition"
        );
        assert_eq!(
            keys("Default=0x7fff : ALL=full;"),
            [[0xffff], [0xffff], [0xffff]]
        );
        let text = "# comment ; : =\nA=0x8010, ipoib :\n 0x0002000000000201=full, # one\n\
                    0x0002000000000301;B, defmember=full : ALL_CAS; C : SELF=limited;\n";
        assert_eq!(
            keys(text),
            [
                vec![0xffff, 0x0002],
                vec![0x7fff, 0x8010, 0x8001],
                vec![0x7fff, 0x0010, 0x8001]
            ]
        );
        let text = "A=5, indx0 : ALL, SELF=full; A=5 : ALL_SWITCHES=limited;";
        assert_eq!(
            keys(text),
            [vec![0x0005, 0xffff], vec![5, 0x7fff], vec![5, 0x7fff]]
        );
    }

    #[test]
    fn invalid_files_are_refused_with_the_line() {
        for (text, line, reason) in [
            ("\n\nA=1 : ALL", 3, "no ; ends"),
            ("A=1;\n", 1, "no : separates"),
            (
                "A=1 : ALL;\nB=0x10000 : ALL;",
                2,
                "not a number from 0 to 0xffff",
            ),
            ("A=1,\nipoip : ALL;", 1, "unknown flag \"ipoip\""),
            ("A=1 : ALL=both;", 1, "neither full nor limited"),
            (
                "A=1 : host1;",
                1,
                "\"host1\": expected a port GUID, ALL, ALL_CAS, ",
            ),
            ("A=1 : 010;", 1, "\"010\" begins with 0"),
            ("A=1 : 0x+1;", 1, "\"0x+1\" is not a number"),
            ("A=+1 : ALL;", 1, "\"+1\" is not a number"),
            ("A=1 : 0x;", 1, "\"0x\" is not a number"),
            ("A=1 : mgid = ff12::1;", 1, "not read"),
            ("A=1 : mgid=ff12::1;", 1, "not read"),
            (
                "A=1, mtu=6 : ALL;",
                1,
                "mtu: \"6\" is not a number from 1 to 5",
            ),
            ("A=1, mtu=0 : ALL;", 1, "mtu: \"0\" is not"),
            ("A=1, mtu : ALL;", 1, "mtu: \"\" is not"),
            (
                "A=1, rate=0 : ALL;",
                1,
                "rate: \"0\" is not a number from 2 to 24",
            ),
            ("A=1, rate=1 : ALL;", 1, "rate: \"1\" is not"),
            ("A=1, rate=25 : ALL;", 1, "rate: \"25\" is not"),
            (
                "A=1,\nscope=0 : ALL;",
                1,
                "scope: \"0\" is not a number from 1 to 15",
            ),
            ("A=1, indx0=x : ALL;", 1, "indx0 is a flag without a value"),
            ("A=1, ipoib=0 : ALL;", 1, "ipoib is a flag without a value"),
            ("A=1, sl=1, ipoib, sl=1 : ALL;", 1, "sl is given twice"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.reason.contains(reason), "{text}: {error}");
        }
        let many: String = (1..200).map(|key| format!("P={key} : ALL;\n")).collect();
        let error = read(&many).unwrap_err();
        assert_eq!((error.line, PARTITIONS), (128, 128));
        assert!(error.reason.contains("at most 128"), "{error}");
    }

    #[test]
    fn errors_quote_the_beginning_of_a_long_word() {
        let word = "é".repeat(1000);
        let quote = format!("\"{}\"...", "é".repeat(QUOTED));
        for text in [
            format!("A=1 : {word};"),
            format!("A=1 : ALL={word};"),
            format!("A=1, {word} : ALL;"),
            format!("A={word} : ALL;"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.reason.contains(&quote), "{error}");
            assert!(error.reason.len() < 300, "{error}");
        }
    }

    #[test]
    fn a_definition_without_a_key_is_of_the_partition_with_its_name() {
        let p_keys = |text: &str| {
            let all = read(text).unwrap();
            all.iter().map(|one| one.p_key).collect::<Vec<_>>()
        };
        assert_eq!(
            keys("Default : ALL=full;"),
            [[0xffff], [0xffff], [0xffff]],
            "the default partition"
        );
        assert_eq!(
            keys("A=0x10 : ALL; A : 0x0002000000000201=full;"),
            [vec![0xffff, 0x10], vec![0x7fff, 0x8010], vec![0x7fff, 0x10]]
        );
        assert_eq!(p_keys("A : ALL; B : ALL; A : SELF;"), [DEFAULT, 1, 2]);
        // A key counts more than a name, and the first name of a key stays.
        assert_eq!(
            p_keys("A=5 : ALL; A=6 : ALL; B=5 : ALL; B : ALL; A=0 : SELF;"),
            [DEFAULT, 5, 6, 1]
        );
        // Numbers and empty names are not names.
        assert_eq!(
            p_keys(": ALL; : ALL; 7 : ALL; 7 : SELF;"),
            [DEFAULT, 1, 2, 7]
        );
    }

    #[test]
    fn special_entries_are_those_of_opensm() {
        let all = read("\u{feff}A=1, ipoib, Q_Key=0 : NONE, NONE=full;").unwrap();
        assert_eq!((all[1].name.as_str(), all[1].p_key), ("A", 1));
        assert_eq!(all[1].members, []);
        assert_eq!(all[1].broadcast, Some(Broadcast::default()));
        assert_eq!(read("\u{feff}# none"), Ok(Vec::new()));
    }

    #[test]
    fn time_and_memory_follow_the_size_of_the_file() {
        // Quadratic time would be hours.
        let lines = "\n".repeat(1_000_000);
        assert_eq!(read(&lines), Ok(Vec::new()));
        let error = read(&(lines.clone() + "A=1" + &lines + "# : ;")).unwrap_err();
        assert_eq!(error.line, 1_000_001);
        assert_eq!(read(&"# a comment\n".repeat(1_000_000)), Ok(Vec::new()));
        let members = "ALL,".repeat(1_000_000);
        let all = read(&format!("A=1 : SELF=full, {members} 7, {members} SELF;")).unwrap();
        let wanted = [Members::Port(7), Members::All, Members::Manager];
        assert_eq!(all[1].members, wanted.map(|members| (members, false)));
        assert_eq!(all[0].members.len(), 2);
        let error = read(&" ".repeat(MOST_BYTES + 1)).unwrap_err();
        assert!(error.reason.contains("more than 16777216 bytes"), "{error}");
    }

    #[test]
    fn ports_that_the_fabric_lacks_are_named() {
        let partitions = read("A=1 : 0x0002000000000201, 0x0002000000000200, 7;").unwrap();
        // The second is the GUID of a node.
        assert_eq!(
            unknown_ports(&partitions, &crate::build(&crate::small()).unwrap()),
            [0x0002_0000_0000_0200, 7]
        );
    }
}
