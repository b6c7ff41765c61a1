//! `opensm-subnet.lst`, and ibdiagnet's `.lst`: a line per port and link.

use crate::Error;
use crate::build::{Builder, Hardware, LinkEnd, NodeKind};
use crate::rate::{Rate, Speed};

/// Reads the lines.
///
/// # Errors
///
/// Fails if a line is invalid.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Result<(), Error> {
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if take(line, builder)?.is_none() {
            return Err(Error::line(number + 1, line, "invalid line of a link"));
        }
    }
    Ok(())
}

fn take(line: &str, builder: &mut Builder) -> Result<Option<()>, Error> {
    // Descriptions contain any text, so the end of a port is found by its last field.
    let Some((one, rest)) = line.strip_prefix('{').and_then(split_port) else {
        return Ok(None);
    };
    let Some((other, rest)) = rest.trim_start().strip_prefix('{').and_then(split_port) else {
        return Ok(None);
    };
    let (Some(from), Some(to)) = (end(one, builder)?, end(other, builder)?) else {
        return Ok(None);
    };
    builder.link(from, to, rate(rest))?;
    Ok(Some(()))
}

/// Splits behind a port, whose last field is `PN:01 }`.
fn split_port(text: &str) -> Option<(&str, &str)> {
    let at = text.find(" PN:")?;
    let end = at + text[at..].find('}')?;
    Some((&text[..end], &text[end + 1..]))
}

fn end(text: &str, builder: &mut Builder) -> Result<Option<LinkEnd>, Error> {
    let (before, behind, description) = match (text.find('{'), text.rfind('}')) {
        (Some(open), Some(close)) if open < close => {
            (&text[..open], &text[close + 1..], &text[open + 1..close])
        }
        _ => (text, text, ""),
    };
    let kind = match before.split_whitespace().next() {
        Some(word) if word.starts_with("SW") => NodeKind::Switch,
        Some(word) if word.starts_with("CA") => NodeKind::Adapter,
        Some(word) if word.to_ascii_uppercase().starts_with("RT") => NodeKind::Router,
        _ => return Ok(None),
    };
    let field = |text: &str, name: &str| {
        let word = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name))?;
        u64::from_str_radix(word, 16).ok()
    };
    let (Some(guid), Some(port)) = (field(before, "NodeGUID:"), field(behind, "PN:")) else {
        return Ok(None);
    };
    let Ok(port) = u32::try_from(port) else {
        return Ok(None);
    };
    let letter = match kind {
        NodeKind::Switch => 'S',
        NodeKind::Router => 'R',
        _ => 'H',
    };
    let node = builder.node(&format!("{letter}-{guid:016x}"), kind)?;
    builder.describe(node, description);
    builder.seen(node);
    let ports = field(before, "Ports:").and_then(|ports| u32::try_from(ports).ok());
    builder.ports(node, ports);
    // OpenSM prints the device of the second port in the upper half of 32 bits.
    let device = field(before, "DevID:").map(|device| match device >> 16 {
        0 => device,
        upper => upper,
    });
    let hardware = Hardware {
        vendor: field(before, "VenID:").and_then(|vendor| u32::try_from(vendor).ok()),
        device: device.and_then(|device| u16::try_from(device).ok()),
        system_guid: field(before, "SystemGUID:"),
        ..Hardware::default()
    };
    builder.identify(node, hardware);
    let addressed = LinkEnd {
        node,
        port: match kind {
            NodeKind::Switch => 0,
            _ => port,
        },
    };
    let lid = field(behind, "LID:").and_then(|lid| u32::try_from(lid).ok());
    builder.address(addressed, lid, field(before, "PortGUID:"));
    Ok(Some(LinkEnd { node, port }))
}

fn rate(rest: &str) -> Option<Rate> {
    let field = |name: &str| {
        rest.split_whitespace()
            .find_map(|word| word.strip_prefix(name))
    };
    let width = field("PHY=")?.strip_suffix('x')?.parse().ok()?;
    let speed = Speed::of_number(field("SPD=")?)?;
    Some(Rate { width, speed })
}
