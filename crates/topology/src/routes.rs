//! Reads unicast forwarding tables of switches.
//!
//! | written by | heading of a table | entries |
//! |---|---|---|
//! | `dump_fts`, `dump_lfts.sh`, `ibroute` | `Unicast lids ... guid 0x...` | `0x0001 003 : (...)` |
//! | OpenSM, `opensm-lfts.dump` | the same | `0x0001 003 # ...` |
//! | OpenSM, `opensm.fdbs` | `dump_ucast_routes: Switch 0x...` | `0x0001 : 003  : 01   : yes` |
//!
//! The formats are described by their writers' sources (infiniband-diags/dump_fts.c, ibroute.c,
//! opensm/osm_dump.c).

use std::collections::{BTreeMap, HashSet};

use crate::build::Remark;
use crate::{BYTE_ORDER_MARK, Error, MOST_BYTES, MOST_NODES};

/// The forwarding tables of a fabric's switches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    /// The tables, in the order of the file.
    pub tables: Vec<ForwardingTable>,
    /// Contradictions and omissions in the file.
    pub remarks: Vec<Remark>,
}

/// The forwarding table of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardingTable {
    /// GUID of the switch.
    pub guid: u64,
    /// The entries, in the order of the file.
    pub entries: Vec<Entry>,
}

/// An entry of a forwarding table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// LID of the destination.
    pub lid: u32,
    /// Port of the switch; 0 is the switch itself, `None` that there is no way.
    pub port: Option<u32>,
    /// GUID of the destination's port, if it is stated.
    pub guid: Option<u64>,
}

/// Largest port number; 255 says that there is no way.
const MOST_PORTS: u32 = 254;

/// Reads forwarding tables from the content of a file.
///
/// # Errors
///
/// Returns [`Error`] if the file contains none, or a line is invalid, or it is too large.
pub fn read_routes(content: &[u8]) -> Result<Routes, Error> {
    if content.len() > MOST_BYTES {
        let text = format!("{} bytes, at most {MOST_BYTES} are read", content.len());
        return Err(Error::TooLarge(text));
    }
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let text = String::from_utf8_lossy(content);
    let mut reader = Reader::default();
    for (number, line) in text.lines().enumerate() {
        reader.line(number + 1, line.trim())?;
    }
    reader.close();
    if reader.tables.is_empty() {
        return Err(Error::NoRoutes);
    }
    Ok(Routes {
        tables: reader.tables,
        remarks: reader.remarks.into_values().collect(),
    })
}

#[derive(Default)]
struct Reader {
    tables: Vec<ForwardingTable>,
    known: HashSet<u64>,
    remarks: BTreeMap<&'static str, Remark>,
    /// Whether lines belong to a unicast table, and whether that has a last line.
    inside: Inside,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Inside {
    #[default]
    Nothing,
    /// A table whose last line states the number of entries.
    Counted,
    /// A table without a last line.
    Open,
    /// A table that is left out: multicast, or a repetition.
    Skipped,
}

impl Reader {
    fn remark(&mut self, text: &'static str, example: String) {
        let remark = self.remarks.entry(text).or_insert_with(|| Remark {
            text,
            count: 0,
            examples: Vec::new(),
        });
        remark.count += 1;
        if remark.examples.len() < 3 {
            remark.examples.push(example);
        }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), Error> {
        let fault = |reason: &str| Error::line(number, line, reason);
        if let Some(rest) = line.strip_prefix("Unicast lids") {
            let guid = guid_behind(rest, " guid ").ok_or_else(|| fault("no GUID of a switch"))?;
            return self.open(guid, Inside::Counted);
        }
        if let Some((_, rest)) = line.split_once("dump_ucast_routes: Switch") {
            let guid = guid_behind(rest, "").ok_or_else(|| fault("no GUID of a switch"))?;
            return self.open(guid, Inside::Open);
        }
        if line.starts_with("Multicast mlids") {
            self.close();
            self.inside = Inside::Skipped;
            return Ok(());
        }
        if self.inside == Inside::Nothing || self.inside == Inside::Skipped {
            let is_entry = line.starts_with("0x");
            if self.inside == Inside::Nothing && is_entry {
                return Err(fault("an entry before the first table"));
            }
            return Ok(());
        }
        if line.starts_with("0x") {
            let entry = entry(line).ok_or_else(|| fault("invalid entry of a table"))?;
            let table = self.tables.last_mut().expect("a table is open");
            table.entries.push(entry);
        } else if let Some((count, is_of_entries)) = last_line(line) {
            let table = self.tables.last().expect("a table is open");
            let (guid, read) = (table.guid, table.entries.len());
            if read > count || (is_of_entries && read < count) {
                let text = "tables have another number of entries than their last line states";
                self.remark(text, format!("{guid:#018x}: {read} of {count}"));
            }
            self.inside = Inside::Nothing;
        } else if !is_heading(line) {
            self.remark(
                "lines are not understood and left out",
                format!(
                    "line {number}: {}",
                    line.chars().take(80).collect::<String>()
                ),
            );
        }
        Ok(())
    }

    fn open(&mut self, guid: u64, inside: Inside) -> Result<(), Error> {
        self.close();
        if !self.known.insert(guid) {
            let text = "switches have several tables; the first counts";
            self.remark(text, format!("{guid:#018x}"));
            self.inside = Inside::Skipped;
            return Ok(());
        }
        if self.tables.len() >= MOST_NODES {
            return Err(Error::TooLarge(format!("more than {MOST_NODES} tables")));
        }
        let entries = Vec::new();
        self.tables.push(ForwardingTable { guid, entries });
        self.inside = inside;
        Ok(())
    }

    /// Ends the current table, if any.
    fn close(&mut self) {
        if self.inside == Inside::Counted {
            let guid = self.tables.last().map_or(0, |table| table.guid);
            let text = "tables have no last line: the file may be incomplete";
            self.remark(text, format!("{guid:#018x}"));
        }
        self.inside = Inside::Nothing;
    }
}

/// Returns the GUID behind a word.
fn guid_behind(text: &str, word: &str) -> Option<u64> {
    let rest = match word.is_empty() {
        true => text,
        false => text.split_once(word)?.1,
    };
    let rest = rest.trim_start().strip_prefix("0x")?;
    let end = rest
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(rest.len());
    u64::from_str_radix(&rest[..end], 16).ok()
}

/// Parses `0x0001 003 : (...)`, `0x0001 003 # ...`, `0x0001 : 003  : 01   : yes` and
/// `0x0001 : UNREACHABLE`.
fn entry(line: &str) -> Option<Entry> {
    let (lid, rest) = line.split_once(char::is_whitespace)?;
    let lid = u32::from_str_radix(lid.strip_prefix("0x")?, 16).ok()?;
    let rest = rest.trim_start().trim_start_matches(':').trim_start();
    let word = rest.split(|c: char| c.is_whitespace() || c == ':').next()?;
    let port = match word {
        "UNREACHABLE" => None,
        digits => Some(digits.parse::<u32>().ok()?).filter(|port| *port <= MOST_PORTS),
    };
    let guid = guid_behind(rest, "portguid ");
    Some(Entry { lid, port, guid })
}

/// Returns the number that a table's last line states, and whether it is that of entries: OpenSM
/// counts destinations without a way, too, which have none.
fn last_line(line: &str) -> Option<(usize, bool)> {
    let entries = line.strip_suffix(" valid lids dumped");
    let count = entries.or_else(|| line.strip_suffix(" lids dumped"))?;
    Some((count.parse().ok()?, entries.is_some()))
}

/// Returns whether a line is empty, a comment, or a heading of a table's columns.
fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    line.is_empty()
        || line.starts_with('#')
        || matches!(
            words.as_slice(),
            ["Lid", "Out", ..] | ["Port", ..] | ["LID", ":", ..]
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP_FTS: &str = "\
Unicast lids [0x0-0xb] of switch DR path slid 0; dlid 0; 0,1,3 guid 0x0000000000200002 (leaf-2):
  Lid  Out   Destination
       Port     Info 
0x0001 003 : (Channel Adapter portguid 0x0000000000100001: 'host 0')
0x0004 000 : (Switch portguid 0x0000000000200002: 'leaf-2')
0x0005 255 : (Channel Adapter portguid 0x0000000000100003: 'host-0-1')
3 valid lids dumped 
";
    const LFTS: &str = "\
Unicast lids [0-11] of switch Lid 2 guid 0x0000000000200000 ('leaf-0'):
0x0001 001 # Channel Adapter portguid 0x0000000000100001: 'host-0-0'
0x000a 003
2 lids dumped
Multicast mlids [0xc000-0xc00f] of switch Lid 2 guid 0x0000000000200000 ('leaf-0'):
0xc000      x
";
    const FDBS: &str = "\
dump_ucast_routes: Switch 0x0000000000200000
LID    : Port : Hops : Optimal
0x0001 : 001  : 01   : yes
0x000A : UNREACHABLE
0x000B : 004  : 03   : No 2 hop path possible via port 003!
dump_ucast_routes: Switch 0x0000000000200001
LID    : Port : Hops : Optimal
0x0001 : 003  : 03   : yes
";

    fn entry(lid: u32, port: Option<u32>, guid: Option<u64>) -> Entry {
        Entry { lid, port, guid }
    }

    #[test]
    fn each_format_gives_its_entries() {
        let read = |text: &str| read_routes(text.as_bytes()).unwrap();
        let fts = read(DUMP_FTS);
        assert_eq!(fts.remarks, []);
        assert_eq!(fts.tables[0].guid, 0x20_0002);
        assert_eq!(
            fts.tables[0].entries,
            [
                entry(1, Some(3), Some(0x10_0001)),
                entry(4, Some(0), Some(0x20_0002)),
                entry(5, None, Some(0x10_0003)),
            ]
        );
        let lfts = read(LFTS);
        assert_eq!(lfts.remarks, []);
        assert_eq!(
            lfts.tables[0].entries,
            [entry(1, Some(1), Some(0x10_0001)), entry(10, Some(3), None)]
        );
        let fdbs = read(&FDBS.replace('\n', "\r\n"));
        assert_eq!(fdbs.remarks, []);
        assert_eq!(fdbs.tables.len(), 2);
        assert_eq!(
            fdbs.tables[0].entries,
            [
                entry(1, Some(1), None),
                entry(10, None, None),
                entry(11, Some(4), None)
            ]
        );
    }

    #[test]
    fn cut_and_repeated_tables_are_remarked() {
        let remarks = |text: &str| {
            let routes = read_routes(text.as_bytes()).unwrap();
            routes
                .remarks
                .into_iter()
                .map(|remark| remark.text)
                .collect::<Vec<_>>()
        };
        let cut = &DUMP_FTS[..DUMP_FTS.find("3 valid").unwrap()];
        assert!(remarks(cut)[0].contains("no last line"));
        assert!(remarks(&DUMP_FTS.replace("3 valid", "4 valid"))[0].contains("another number"));
        assert!(remarks(&LFTS.replace("2 lids", "1 lids"))[0].contains("another number"));
        assert_eq!(remarks(&LFTS.replace("2 lids", "3 lids")), [""; 0]);
        assert!(remarks(&format!("{DUMP_FTS}{DUMP_FTS}"))[0].contains("several tables"));
        assert!(
            remarks(&DUMP_FTS.replace("0x0004 000", "ibwarn: 4"))[0].contains("not understood")
        );
    }

    #[test]
    fn other_files_and_invalid_entries_are_errors() {
        let error = |text: &str| read_routes(text.as_bytes()).unwrap_err().to_string();
        assert!(error("").contains("no forwarding tables"));
        assert!(error("Switch 4 \"S-1\"\n").contains("no forwarding tables"));
        assert!(error("0x0001 003\n").starts_with("line 1: an entry before"));
        assert!(error(&DUMP_FTS.replace("0x0001 003", "0x0001 port")).starts_with("line 4: "));
        assert!(error(&DUMP_FTS.replace("guid 0x", "guid ")).contains("no GUID"));
    }

    #[test]
    fn a_byte_order_mark_and_carriage_returns_change_nothing() {
        let marked = ["\u{feff}", DUMP_FTS].concat();
        let expected = format!("{:?}", read_routes(DUMP_FTS.as_bytes()).unwrap());
        for text in [marked.clone(), marked.replace('\n', "\r\n")] {
            let found = read_routes(text.as_bytes()).unwrap();
            assert_eq!(format!("{found:?}"), expected);
        }
    }
}
