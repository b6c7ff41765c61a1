//! `ibdiagnet2.db_csv`: sections of comma-separated values. Columns differ by version and are found
//! by name.

use std::collections::HashMap;

use crate::Error;
use crate::build::{Builder, LinkEnd, NodeKind};
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
        let text = self.text(name)?.trim();
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    }
}

/// Reads the sections NODES, PORTS and LINKS; others do not describe the topology.
///
/// # Errors
///
/// Fails if a section lacks a column that is needed, or a row a value.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Result<(), Error> {
    let mut section = "";
    let mut columns: Option<HashMap<String, usize>> = None;
    let mut rates = HashMap::new();
    let mut addresses = Vec::new();
    let mut links = Vec::new();
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
        if !matches!(section, "NODES" | "PORTS" | "LINKS") || line.trim().is_empty() {
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
                let (guid, node) =
                    node(&row, builder)?.ok_or_else(|| fault("invalid row of a node"))?;
                ids.insert(guid, node);
            }
            "PORTS" => {
                let key = row.guid("NodeGuid").zip(row.number("PortNum"));
                let key = key.ok_or_else(|| fault("invalid row of a port"))?;
                if let Some(rate) = rate(&row) {
                    rates.insert(key, rate);
                }
                addresses.push((key, row.number("LID"), row.guid("PortGuid")));
            }
            _ => {
                let end = |guid, port| row.guid(guid).zip(row.number(port));
                let ends = end("NodeGuid1", "PortNum1").zip(end("NodeGuid2", "PortNum2"));
                links.push((
                    number + 1,
                    ends.ok_or_else(|| fault("invalid row of a link"))?,
                ));
            }
        }
    }
    let end = |(guid, port): (u64, u64)| {
        let node = *ids.get(&guid)?;
        let port = u32::try_from(port).ok()?;
        Some(LinkEnd { node, port })
    };
    for (port, lid, guid) in addresses {
        if let Some(end) = end(port) {
            builder.address(end, lid.and_then(|lid| u32::try_from(lid).ok()), guid);
        }
    }
    for (line, (one, other)) in links {
        match (end(one), end(other)) {
            (Some(from), Some(to)) => {
                let rate = rates.get(&one).or_else(|| rates.get(&other)).copied();
                builder.link_both(from, to, rate);
            }
            _ => builder.remark("links of nodes that are not listed are left out", || {
                format!("line {line}")
            }),
        }
    }
    Ok(())
}

fn node(row: &Row<'_>, builder: &mut Builder) -> Result<Option<(u64, usize)>, Error> {
    let (Some(guid), Some(kind)) = (row.guid("NodeGUID"), row.number("NodeType")) else {
        return Ok(None);
    };
    let (letter, kind) = match kind {
        1 => ('H', NodeKind::Adapter),
        2 => ('S', NodeKind::Switch),
        3 => ('R', NodeKind::Router),
        _ => return Ok(None),
    };
    let node = builder.node(&format!("{letter}-{guid:016x}"), kind)?;
    let ports = row.number("NumPorts");
    builder.list(
        node,
        kind,
        ports.and_then(|ports| u32::try_from(ports).ok()),
    );
    builder.describe(node, row.text("NodeDesc").unwrap_or_default());
    Ok(Some((guid, node)))
}

/// Rate from the codes of PortInfo: LinkWidthActive, LinkSpeedActive and LinkSpeedExtActive. Files
/// without the latter have its code in the second byte of LinkSpeedActv.
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
