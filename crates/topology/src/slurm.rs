//! Slurm's topology.conf for the plugin topology/tree: switches with their nodes or switches.

use std::collections::HashMap;

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
    // Upper switch of each node and switch.
    let mut above: HashMap<usize, usize> = HashMap::new();
    let mut steps = Vec::new();
    let lines = joined(text);
    for (at, (number, line)) in lines.iter().enumerate() {
        let (number, line) = (*number, line.as_str());
        let content = line.split('#').next().unwrap_or_default();
        if content.trim().is_empty() {
            continue;
        }
        let Some(names) = field(content, "switchname") else {
            builder.remark("lines without a switch are left out", || {
                format!("line {number}")
            });
            continue;
        };
        let fault = |reason: &str| Error::line(number, line, reason);
        let names = expand(names, MOST_NODES);
        let [name] = names.as_slice() else {
            return Err(fault("a line describes one switch"));
        };
        let switch = builder.node(name, NodeKind::Switch)?;
        if builder.kind(switch) != NodeKind::Switch {
            return Err(fault(&format!("{name} is both a node and a switch")));
        }
        builder.list(switch, NodeKind::Switch, None);
        let below = [("nodes", NodeKind::Adapter), ("switches", NodeKind::Switch)];
        // `scontrol show topology` prints the level, and the nodes below an upper switch too.
        let is_upper = field(content, "level").is_some_and(|level| level != "0");
        let mut has_any = false;
        for (key, kind) in below {
            let Some(list) = field(content, key) else {
                continue;
            };
            if is_upper && kind == NodeKind::Adapter {
                continue;
            }
            if !is_well_formed(list) {
                return Err(fault("an invalid list of names"));
            }
            for name in expand(list, MOST_NODES) {
                has_any = true;
                let node = builder.node(&name, kind)?;
                if node == switch {
                    return Err(fault("the switch is below itself"));
                }
                if builder.kind(node) != kind {
                    return Err(fault(&format!("{name} is both a node and a switch")));
                }
                if let Some(other) = above.insert(node, switch) {
                    let text = match (kind, other == switch) {
                        (_, true) => "names occur twice in a switch",
                        (NodeKind::Switch, _) => "switches are below several switches",
                        _ => "nodes are below several switches",
                    };
                    builder.remark(text, || name.clone());
                }
                match kind {
                    NodeKind::Adapter => builder.seen(node),
                    _ => steps.push(Step {
                        upper: switch,
                        lower: node,
                        line: at,
                    }),
                }
                let (from, to) = (builder.next_port(switch), builder.next_port(node));
                builder.link_both(from, to, None)?;
            }
        }
        if !has_any {
            return Err(fault("the switch has neither Nodes nor Switches"));
        }
    }
    match closes_loop(&steps) {
        Some(at) => {
            let (number, line) = &lines[at];
            let reason = "the switch is below itself, by way of others";
            Err(Error::line(*number, line, reason))
        }
        None => Ok(()),
    }
}

/// A switch directly below another.
struct Step {
    upper: usize,
    lower: usize,
    /// Index of the line.
    line: usize,
}

/// Returns the index of the last line of a loop, if there is one. The time is linear.
fn closes_loop(steps: &[Step]) -> Option<usize> {
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    // By switch, the steps to it from switches that are not removed yet.
    let mut left: HashMap<usize, usize> = HashMap::new();
    for step in steps {
        below.entry(step.upper).or_default().push(step.lower);
        left.entry(step.upper).or_default();
        *left.entry(step.lower).or_default() += 1;
    }
    // Without loops, removing the topmost switches again and again removes all.
    let topmost = left.iter().filter(|(_, count)| **count == 0);
    let mut topmost: Vec<usize> = topmost.map(|(switch, _)| *switch).collect();
    while let Some(switch) = topmost.pop() {
        left.remove(&switch);
        for lower in below.get(&switch).into_iter().flatten() {
            if let Some(count) = left.get_mut(lower) {
                *count -= 1;
                if *count == 0 {
                    topmost.push(*lower);
                }
            }
        }
    }
    // Each switch that is left is below another one, so the way up from any ends in a loop.
    let others = steps.iter().filter(|step| left.contains_key(&step.upper));
    let up: HashMap<usize, &Step> = others.map(|step| (step.lower, step)).collect();
    let mut switch = steps
        .iter()
        .map(|step| step.lower)
        .find(|lower| left.contains_key(lower))?;
    for _ in 0..left.len() {
        switch = up.get(&switch)?.upper;
    }
    let (first, mut last) = (switch, 0);
    loop {
        let step = up.get(&switch)?;
        last = last.max(step.line);
        switch = step.upper;
        if switch == first {
            return Some(last);
        }
    }
}

/// Returns the lines with their numbers; a backslash at the end continues a line, which has the
/// number of its first one.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (number, line) in (1..).zip(text.lines()) {
        let (content, goes_on) = match line.strip_suffix('\\') {
            Some(content) => (content, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some((_, last)) if continues => {
                last.push(' ');
                last.push_str(content);
            }
            _ => lines.push((number, content.to_owned())),
        }
        continues = goes_on;
    }
    lines
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
