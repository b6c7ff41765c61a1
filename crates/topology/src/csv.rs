//! `ibdiagnet2.db_csv`: sections of comma-separated values. Columns differ by version and are found
//! by name.

use std::collections::{HashMap, HashSet};

use crate::Error;
use crate::MOST_STATEMENTS;
use crate::build::{Builder, Hardware, LinkEnd, NodeKind};
use crate::rate::{Rate, Speed};

/// A row of a section, with the columns' names.
struct Row<'a> {
    columns: &'a HashMap<String, usize>,
    fields: Vec<String>,
}

impl Row<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.fields
            .get(*self.columns.get(name)?)
            .map(String::as_str)
    }

    /// Returns a number, decimal or with 0x.
    fn number(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?.trim();
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn guid(&self, name: &str) -> Option<u64> {
        guid(self.text(name)?)
    }

    /// Returns the GUID of a node in one spelling, or the text in its place.
    fn node(&self, name: &str) -> Option<String> {
        let text = self.text(name)?.trim();
        (!text.is_empty()).then(|| match guid(text) {
            Some(guid) => format!("{guid:016x}"),
            None => text.to_owned(),
        })
    }
}

fn guid(text: &str) -> Option<u64> {
    let text = text.trim();
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Contents of a row of PORTS.
struct Port {
    lid: Option<u64>,
    guid: Option<u64>,
    lmc: Option<u64>,
    lanes: Option<u64>,
}

/// Reads the sections NODES, PORTS, SWITCHES and LINKS; others do not describe the topology.
///
/// # Errors
///
/// Fails if a section lacks a column that is needed, or a row a value.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Result<(), Error> {
    let mut section = "";
    let mut columns: Option<HashMap<String, usize>> = None;
    let mut rates = HashMap::new();
    let mut ports = Vec::new();
    let mut links = Vec::new();
    let mut enhanced = HashSet::new();
    let mut ids = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        let fault = |reason: &str| Error::line(number + 1, line, reason);
        if let Some(name) = line.strip_prefix("START_") {
            section = name.trim();
            columns = None;
            continue;
        }
        if line.starts_with("END_") {
            section = "";
            continue;
        }
        let is_read = matches!(section, "NODES" | "PORTS" | "SWITCHES" | "LINKS");
        if !is_read || line.trim().is_empty() {
            continue;
        }
        let fields = split(line);
        let Some(columns) = &columns else {
            let names = fields.iter().enumerate();
            columns = Some(
                names
                    .map(|(at, name)| (name.trim().to_owned(), at))
                    .collect(),
            );
            continue;
        };
        let row = Row { columns, fields };
        match section {
            "NODES" => {
                let (key, node) =
                    node(&row, builder)?.ok_or_else(|| fault("invalid row of a node"))?;
                ids.insert(key, node);
            }
            "SWITCHES" => {
                let is_enhanced = row.number("ENP0").is_some_and(|flag| flag != 0);
                enhanced.extend(row.node("NodeGUID").filter(|_| is_enhanced));
            }
            "PORTS" => {
                let key = row.node("NodeGuid").zip(row.number("PortNum"));
                let key = key.ok_or_else(|| fault("invalid row of a port"))?;
                if let Some(rate) = rate(&row) {
                    rates.insert(key.clone(), rate);
                }
                let port = Port {
                    lid: row.number("LID"),
                    guid: row.guid("PortGuid"),
                    lmc: row.number("LMC"),
                    lanes: row.number("VLCap"),
                };
                ports.push((key, port));
            }
            _ => {
                let end = |guid, port| row.node(guid).zip(row.number(port));
                let ends = end("NodeGuid1", "PortNum1").zip(end("NodeGuid2", "PortNum2"));
                links.push((
                    number + 1,
                    ends.ok_or_else(|| fault("invalid row of a link"))?,
                ));
            }
        }
        if ports.len().max(links.len()) > MOST_STATEMENTS {
            let text = format!("more than {MOST_STATEMENTS} rows of ports or of links");
            return Err(Error::TooLarge(text));
        }
    }
    let end = |(node, port): &(String, u64)| {
        let node = *ids.get(node)?;
        let port = u32::try_from(*port).ok()?;
        Some(LinkEnd { node, port })
    };
    for (key, port) in ports {
        let Some(end) = end(&key) else {
            continue;
        };
        let lid = port.lid.and_then(|lid| u32::try_from(lid).ok());
        builder.address(end, lid, port.guid);
        let narrow = |value: Option<u64>| value.and_then(|value| u8::try_from(value).ok());
        // The external ports of a switch have none.
        if builder.kind(end.node) != NodeKind::Switch || end.port == 0 {
            builder.mask(end.node, narrow(port.lmc).filter(|lmc| *lmc < 8));
        }
        let lanes = narrow(port.lanes).filter(|code| (1..=5).contains(code));
        builder.lanes(end, lanes.filter(|_| end.port != 0));
    }
    for node in enhanced.iter().filter_map(|key| ids.get(key)) {
        builder.enhance(*node);
    }
    for (line, (one, other)) in links {
        match (end(&one), end(&other)) {
            (Some(from), Some(to)) => {
                let stated = [one, other].map(|end| rates.get(&end).copied());
                builder.link_stated(from, to, stated)?;
            }
            _ => builder.remark("links of nodes that are not listed are left out", || {
                format!("line {line}")
            }),
        }
    }
    Ok(())
}

fn node(row: &Row<'_>, builder: &mut Builder) -> Result<Option<(String, usize)>, Error> {
    let (Some(key), Some(kind)) = (row.node("NodeGUID"), row.number("NodeType")) else {
        return Ok(None);
    };
    let (letter, kind) = match kind {
        1 => ('H', NodeKind::Adapter),
        2 => ('S', NodeKind::Switch),
        3 => ('R', NodeKind::Router),
        _ => return Ok(None),
    };
    let node = builder.node(&format!("{letter}-{key}"), kind)?;
    let ports = row.number("NumPorts");
    builder.list(
        node,
        kind,
        ports.and_then(|ports| u32::try_from(ports).ok()),
    );
    builder.describe(node, row.text("NodeDesc").unwrap_or_default());
    let narrow = |name| {
        row.number(name)
            .and_then(|number| u32::try_from(number).ok())
    };
    builder.identify(
        node,
        Hardware {
            vendor: narrow("VendorID"),
            device: narrow("DeviceID").and_then(|device| u16::try_from(device).ok()),
            system_guid: row.guid("SystemImageGUID"),
            ..Hardware::default()
        },
    );
    Ok(Some((key, node)))
}

/// Rate from the codes of PortInfo: LinkWidthActive, LinkSpeedActive and LinkSpeedExtActive. Files
/// without the latter have its code in the second byte of LinkSpeedActv, and XDR as bit 24 (ibdm's
/// IB_LINK_SPEED_200).
fn rate(row: &Row<'_>) -> Option<Rate> {
    let width = match row.number("LinkWidthActv")? {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => return None,
    };
    let base = row.number("LinkSpeedActv").unwrap_or(0);
    let stated = row.number("LinkSpeedExtActv").unwrap_or(0);
    let extended = match stated {
        0 if base >> 24 & 1 == 1 => 16,
        0 => base >> 8 & 0xff,
        stated => stated,
    };
    let speed = match (extended, base) {
        (1, _) => Speed::Fdr,
        (2, _) => Speed::Edr,
        (4, _) => Speed::Hdr,
        (8, _) => Speed::Ndr,
        (16, _) => Speed::Xdr,
        (_, 1) => Speed::Sdr,
        (_, 2) => Speed::Ddr,
        (_, 4) => Speed::Qdr,
        // ibdiagnet's code for FDR10 is that of its extended port information.
        (_, 65536) => Speed::Fdr10,
        _ => return None,
    };
    Some(Rate { width, speed })
}

/// Splits a row at commas. A field in quotes ends at a quote that a comma or the end follows, since
/// quotes in descriptions are not escaped.
fn split(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let quoted = text.strip_prefix('"').and_then(|inside| {
            let ended = inside.split_once("\",");
            let last = || inside.strip_suffix('"').map(|field| (field, None));
            ended
                .map(|(field, behind)| (field, Some(behind)))
                .or_else(last)
        });
        let (field, behind) = quoted.unwrap_or_else(|| match text.split_once(',') {
            Some((field, behind)) => (field, Some(behind)),
            None => (text, None),
        });
        fields.push(field.to_owned());
        rest = behind;
    }
    fields
}
