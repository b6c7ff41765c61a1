//! `ibnetdiscover`'s output, with or without `-g`, and net files of ibsim: a block per node, a line
//! per port.

use crate::Error;
use crate::build::{Builder, Hardware, LinkEnd, NodeKind};
use crate::line::{
    behind_description, bracketed, description, guid_in_parentheses, hexadecimal, lid, lmc,
    past_parenthesis, quoted,
};
use crate::rate::{Rate, Speed};

/// Returns the kind of node, number of ports and id of the first line of a block.
fn head(line: &str) -> Option<(NodeKind, u32, &str, &str)> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let kind = match word {
        "Switch" => NodeKind::Switch,
        "Ca" | "Hca" => NodeKind::Adapter,
        "Rt" => NodeKind::Router,
        _ => return None,
    };
    let (ports, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    let (id, rest) = quoted(rest)?;
    Some((kind, ports.parse().ok()?, id, rest))
}

/// Returns whether a line is the first of a block.
pub(crate) fn begins(line: &str) -> bool {
    head(line).is_some()
}

/// Reads the blocks.
///
/// # Errors
///
/// Fails if a line of a port is invalid or outside a block.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Result<(), Error> {
    let mut block = None;
    // The lines before the first line of a block, which identify its node.
    let mut hardware = Hardware::default();
    let mut port_guid = None;
    for (number, line) in text.lines().enumerate() {
        let fault = |reason: &str| Error::line(number + 1, line, reason);
        let line = line.trim();
        if let Some((kind, ports, id, rest)) = head(line) {
            let comment = rest.split_once('#').map_or("", |(_, comment)| comment);
            let text = description(comment).unwrap_or_default();
            let node = builder.node_described(id, text, kind)?;
            builder.list(node, kind, Some(ports));
            builder.describe(node, text);
            let behind = behind_description(comment);
            if kind == NodeKind::Switch {
                let whole = LinkEnd { node, port: 0 };
                builder.address(whole, lid(behind), port_guid);
                hardware.lmc = lmc(behind);
                hardware.is_enhanced = behind.contains("enhanced");
            }
            builder.identify(node, hardware);
            (hardware, port_guid) = (Hardware::default(), None);
            block = Some(node);
        } else if line.starts_with('[') {
            let node = block.ok_or_else(|| fault("a port before the first node"))?;
            port(line, node, builder)?.ok_or_else(|| fault("invalid line of a port"))?;
        } else if line.starts_with("Switch") || line.starts_with("Ca\t") || line.starts_with("Ca ")
        {
            return Err(fault("invalid first line of a node"));
        } else if let Some(rest) = line.strip_prefix("# Initiated from node ") {
            let port = rest
                .split_once("port")
                .and_then(|(_, port)| hexadecimal(port));
            if let Some(port) = port {
                builder.originate(port);
            }
        } else if identify(line, &mut hardware, &mut port_guid) {
            // Kept for the node that follows.
        } else if is_of_simulator(line) {
            builder.remark("instructions to ibsim are left out", || {
                format!("line {}: {}", number + 1, shortened(line))
            });
        } else if !is_known(line) {
            builder.remark("lines are not understood and left out", || {
                format!("line {}: {}", number + 1, shortened(line))
            });
        }
    }
    Ok(())
}

/// Reads a line that identifies the node of the next block; returns whether it is one.
fn identify(line: &str, hardware: &mut Hardware, port_guid: &mut Option<u64>) -> bool {
    let Some((name, value)) = line.split_once('=') else {
        return false;
    };
    let number = hexadecimal(value);
    match name {
        "vendid" => hardware.vendor = number.and_then(|number| u32::try_from(number).ok()),
        "devid" => hardware.device = number.and_then(|number| u16::try_from(number).ok()),
        "sysimgguid" => hardware.system_guid = number,
        "switchguid" | "caguid" | "rtguid" => {
            hardware.node_guid = number.filter(|guid| *guid != 0);
            let behind = value.find('(').map(|at| &value[at..]);
            *port_guid = behind.and_then(guid_in_parentheses);
        }
        _ => return false,
    }
    true
}

/// Returns whether an id is a GUID behind a letter, as ibnetdiscover prints it.
fn is_guid(id: &str) -> bool {
    let digits = ["S-", "H-", "R-"]
        .iter()
        .find_map(|letter| id.strip_prefix(letter));
    digits.is_some_and(|digits| {
        digits.len() >= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Returns the beginning of a line, for a remark.
fn shortened(line: &str) -> String {
    line.chars().take(80).collect()
}

/// Returns whether a line of a net file is an instruction to ibsim: it names other files, prefixes
/// of ids or defaults of links.
fn is_of_simulator(line: &str) -> bool {
    const INSTRUCTIONS: [&str; 6] = ["module", "include", "do ", "width=", "speed=", "@["];
    INSTRUCTIONS.iter().any(|word| line.starts_with(word))
}

/// Lines without a port or a node, of ibnetdiscover (`-g` too).
fn is_known(line: &str) -> bool {
    const FIELDS: [&str; 4] = ["Chassis ", "Non-Chassis", "DR path", "rtrguid="];
    line.is_empty() || line.starts_with('#') || FIELDS.iter().any(|field| line.starts_with(field))
}

/// Reads the line of a port; `None` if it is invalid.
fn port(line: &str, node: usize, builder: &mut Builder) -> Result<Option<()>, Error> {
    let Some((number, rest)) = bracketed(line) else {
        return Ok(None);
    };
    // `[ext 3]` names the port of the enclosure.
    let rest = match rest.trim_start().strip_prefix("[ext") {
        Some(behind) => behind.split_once(']').map_or("", |(_, rest)| rest),
        None => rest,
    };
    let own_guid = guid_in_parentheses(rest);
    let Some((id, rest)) = quoted(past_parenthesis(rest)) else {
        return Ok(None);
    };
    // ibsim takes port 1 if there is none. Behind a GUID the line was cut.
    let is_bare = !rest.trim_start().starts_with('[') && !is_guid(id);
    let Some((peer_port, rest)) = bracketed(rest).or(is_bare.then_some((1, rest))) else {
        return Ok(None);
    };
    let peer_guid = guid_in_parentheses(rest);
    // ibsim's ids are names, so the kind of a peer that has not been seen is a guess.
    let guess = match id.as_bytes().first() {
        Some(b'S') => NodeKind::Switch,
        Some(b'R') if id.starts_with("R-") => NodeKind::Router,
        _ => NodeKind::Adapter,
    };
    let comment = rest.split_once('#').map_or("", |(_, comment)| comment);
    let text = description(comment);
    let peer = builder.node_described(id, text.unwrap_or_default(), guess)?;
    builder.describe(peer, text.unwrap_or_default());
    let words = behind_description(comment);
    let rate = rate(words).or_else(|| ibsim_rate(rest));
    if let (None, Some(word)) = (rate, words.split_whitespace().find(|word| is_a_rate(word))) {
        builder.remark("ports have an unknown rate", || word.to_owned());
    }
    let from = LinkEnd { node, port: number };
    let to = LinkEnd {
        node: peer,
        port: peer_port,
    };
    // The own LID is before the description, the peer's behind it. A switch has one address.
    if builder.kind(node) != NodeKind::Switch {
        let own = comment.split_once('"').map_or("", |(before, _)| before);
        builder.address(from, lid(own), own_guid);
        builder.mask(node, lmc(own));
    }
    let peer_lid = lid(behind_description(comment));
    // All ports of a switch have one address.
    let addressed = match guess {
        NodeKind::Switch => LinkEnd {
            node: peer,
            port: 0,
        },
        _ => to,
    };
    builder.address(addressed, peer_lid, peer_guid);
    builder.lanes(from, lanes(behind_description(comment)));
    builder.link(from, to, rate)?;
    Ok(Some(()))
}

/// Finds the rate among the words behind a description: `lid 4 4xSDR s=4 w=2`.
fn rate(words: &str) -> Option<Rate> {
    words.split_whitespace().find_map(Rate::parse)
}

/// Returns whether a word has the form of a rate, known or not: `4xHDR`, `8x???`.
fn is_a_rate(word: &str) -> bool {
    let Some((width, speed)) = word.split_once('x') else {
        return false;
    };
    let is_number = !width.is_empty() && width.bytes().all(|byte| byte.is_ascii_digit());
    is_number && speed.starts_with(|first: char| first.is_ascii_uppercase() || first == '?')
}

/// Finds VLCap among the words behind a description, which `ibnetdiscover -f` prints: `v=4`.
fn lanes(words: &str) -> Option<u8> {
    let code = words
        .split_whitespace()
        .find_map(|word| word.strip_prefix("v="))?;
    code.parse().ok().filter(|code| (1..=5).contains(code))
}

/// Reads ibsim's `w=2 s=4`: codes of LinkWidthActive and LinkSpeedActive.
fn ibsim_rate(words: &str) -> Option<Rate> {
    let field = |name: &str| {
        let word = words
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name))?;
        word.parse::<u8>().ok()
    };
    let width = match field("w=")? {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => return None,
    };
    let speed = match field("s=")? {
        1 => Speed::Sdr,
        2 => Speed::Ddr,
        4 => Speed::Qdr,
        _ => return None,
    };
    Some(Rate { width, speed })
}
