//! Slurm's topology.conf for the plugin topology/tree: switches with their nodes or switches.

use crate::Error;
use crate::MOST_NODES;
use crate::build::{Builder, NodeKind};
use crate::hostlist::expand;

/// Returns whether a line describes a switch.
pub(crate) fn begins(line: &str) -> bool {
    field(line, "switchname").is_some()
}

/// Returns the value of a field; names are compared without regard to case.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        key.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// Reads the lines. The file has neither port numbers nor rates.
///
/// # Errors
///
/// Fails if a line is invalid.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Result<(), Error> {
    // A backslash at the end continues a line.
    let text = text.replace("\\\r\n", " ").replace("\\\n", " ");
    for (number, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default();
        if content.trim().is_empty() {
            continue;
        }
        let Some(names) = field(content, "switchname") else {
            builder.remark("lines without a switch are left out", || {
                format!("line {}", number + 1)
            });
            continue;
        };
        let fault = |reason: &str| Error::line(number + 1, line, reason);
        let names = expand(names, MOST_NODES);
        let [name] = names.as_slice() else {
            return Err(fault("a line describes one switch"));
        };
        let switch = builder.node(name, NodeKind::Switch)?;
        builder.list(switch, NodeKind::Switch, None);
        let below = [("nodes", NodeKind::Adapter), ("switches", NodeKind::Switch)];
        let mut has_any = false;
        for (key, kind) in below {
            let Some(list) = field(content, key) else {
                continue;
            };
            if !is_well_formed(list) {
                return Err(fault("an invalid list of names"));
            }
            for name in expand(list, MOST_NODES) {
                has_any = true;
                let node = builder.node(&name, kind)?;
                if kind == NodeKind::Adapter {
                    builder.seen(node);
                }
                let (from, to) = (builder.next_port(switch), builder.next_port(node));
                builder.link_both(from, to, None);
            }
        }
        if !has_any {
            return Err(fault("the switch has neither Nodes nor Switches"));
        }
    }
    Ok(())
}

/// Returns whether brackets are closed and hold numbers and rising ranges alone: expanding skips
/// other items.
fn is_well_formed(list: &str) -> bool {
    let mut parts = list.split('[');
    let is_name = |text: &str| !text.contains([']', '@']);
    let is_range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let ends = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
        ends.is_some_and(|(first, last)| first <= last)
    };
    parts.next().is_some_and(is_name)
        && parts.all(|part| {
            part.split_once(']')
                .is_some_and(|(ranges, name)| ranges.split(',').all(is_range) && is_name(name))
        })
}
