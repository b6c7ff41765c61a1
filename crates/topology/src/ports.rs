//! `ibnetdiscover -p`: a line per port, with the peer's port.

use crate::Error;
use crate::build::{Builder, LinkEnd, NodeKind};
use crate::rate::Rate;

/// A port as a line describes it: kind, number, GUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Port {
    kind: NodeKind,
    lid: u32,
    number: u32,
    guid: u64,
}

/// Takes a port from the words of a line: `CA     5  1 0x0000000000100007`.
fn port<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Port> {
    let kind = match words.next()? {
        "SW" => NodeKind::Switch,
        "CA" => NodeKind::Adapter,
        "RT" => NodeKind::Router,
        _ => return None,
    };
    let lid = words.next()?.parse().ok()?;
    Some(Port {
        kind,
        lid,
        number: words.next()?.parse().ok()?,
        guid: u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?,
    })
}

/// Returns whether a line describes a port.
pub(crate) fn begins(line: &str) -> bool {
    port(&mut line.split_whitespace()).is_some()
}

/// Reads the lines.
///
/// # Errors
///
/// Fails if a line is invalid.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Result<(), Error> {
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if take(line, builder)?.is_none() {
            return Err(Error::line(number + 1, line, "invalid line of a port"));
        }
    }
    Ok(())
}

fn take(line: &str, builder: &mut Builder) -> Result<Option<()>, Error> {
    let mut words = line.split_whitespace();
    let Some(from) = port(&mut words) else {
        return Ok(None);
    };
    let rate = words.next().zip(words.next());
    let rate = rate.and_then(|(width, speed)| Rate::parse(&format!("{width}{speed}")));
    if words.next() != Some("-") {
        // Without a link. The description is in quotes, but not of old versions.
        let name = line.split_once('\'').map_or_else(
            || rest_behind(line, WORDS_OF_PORT),
            |(_, name)| name.trim_end().trim_end_matches('\''),
        );
        node(from, name, builder)?;
        return Ok(Some(()));
    }
    let Some(to) = port(&mut words) else {
        return Ok(None);
    };
    let names = line.split_once("( '").and_then(|(_, names)| {
        let names = names.trim_end().strip_suffix("' )")?;
        names.split_once("' - '")
    });
    let Some((own, peer)) = names else {
        return Ok(None);
    };
    let node_from = node(from, own, builder)?;
    let node_to = node(to, peer, builder)?;
    let from = LinkEnd {
        node: node_from,
        port: from.number,
    };
    let to = LinkEnd {
        node: node_to,
        port: to.number,
    };
    builder.link(from, to, rate)?;
    Ok(Some(()))
}

/// Words that describe a port: kind, LID, number, GUID, width and speed.
const WORDS_OF_PORT: usize = 6;

/// Returns the text behind this many words.
fn rest_behind(line: &str, words: usize) -> &str {
    let mut rest = line.trim();
    for _ in 0..words {
        let behind = rest.split_once(char::is_whitespace);
        rest = behind.map_or("", |(_, behind)| behind.trim_start());
    }
    rest
}

/// Returns the node of a port. The lines have the GUIDs of ports: those of an adapter with two
/// ports usually follow its own, so ports of one description whose GUID less their number is the
/// same are one node.
fn node(port: Port, description: &str, builder: &mut Builder) -> Result<usize, Error> {
    let (letter, own) = match port.kind {
        NodeKind::Switch => ('S', port.guid),
        NodeKind::Router => ('R', port.guid),
        _ => ('H', port.guid.wrapping_sub(u64::from(port.number))),
    };
    let key = format!("{letter}-{own:016x} {description}");
    let id = format!("{letter}-{:016x}", port.guid);
    let node = builder.node_by_key(key, id, port.kind)?;
    builder.describe(node, description);
    builder.seen(node);
    builder.has_port(node, port.number);
    let addressed = match port.kind {
        NodeKind::Switch => 0,
        _ => port.number,
    };
    let end = LinkEnd {
        node,
        port: addressed,
    };
    builder.address(end, Some(port.lid), Some(port.guid));
    Ok(node)
}
