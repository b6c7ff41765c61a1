//! How switches are joined, as a profile says it: by one of a few rules, or cable by cable.

use super::super::error::Error;
use super::super::quantity::Count;
use super::super::reader::{Field, Section};
use crate::topology::{self, Routing, Shape, Wiring};
use std::sync::Arc;

section! {
    /// Two levels of switches; a leaf with more nodes than cables upwards is oversubscribed.
    FatTree {
        /// Leaf switches.
        leaves: Count,
        /// Nodes of a leaf.
        nodes: Count,
        /// Spine switches.
        spines: Count,
        /// Cables between a leaf and a spine; without it one.
        parallel: Option<Count>,
    }
}

section! {
    /// Rings in one to three dimensions.
    Torus {
        /// Switches in the first dimension.
        x: Count,
        /// In the second.
        y: Option<Count>,
        /// In the third.
        z: Option<Count>,
        /// Nodes of a switch.
        nodes: Count,
    }
}

section! {
    /// Groups of switches, joined completely within, and group with group.
    Dragonfly {
        /// Groups.
        groups: Count,
        /// Switches of a group.
        switches: Count,
        /// Nodes of a switch.
        nodes: Count,
        /// Cables of a switch to other groups.
        global: Count,
    }
}

impl Field for Option<Routing> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<Routing>, Error> {
        section.choice_if_there(
            key,
            &[
                ("deterministic", Routing::Deterministic),
                ("adaptive", Routing::Adaptive),
                ("valiant", Routing::Valiant),
                ("ugal", Routing::Ugal),
            ],
        )
    }
}

/// Switches and cables of a system.
#[derive(Debug, Clone)]
pub struct Topology {
    /// In words.
    pub about: String,
    /// What it comes to.
    pub wiring: Arc<Wiring>,
}

/// The sections, of which a profile has one, and how each becomes a shape.
type Read = fn(&Section<'_>) -> Result<Shape, Error>;
const SHAPES: [(&str, Read); 4] = [
    ("fat_tree", fat_tree),
    ("torus", torus),
    ("dragonfly", dragonfly),
    ("table", table),
];

impl Topology {
    pub(in crate::profile) fn read(root: &Section<'_>) -> Result<Topology, Error> {
        let about = root.word("about")?;
        let routing: Option<Routing> = Field::take(root, "routing")?;
        // A profile with a shape of its own has not that of its base.
        let depths = SHAPES.map(|(name, _)| root.depth(name));
        let nearest = depths.iter().flatten().min();
        let mut named = SHAPES
            .iter()
            .zip(depths)
            .filter(|(_, depth)| depth.is_some() && depth.as_ref() == nearest);
        let (Some(((name, read), _)), None) = (named.next(), named.next()) else {
            let names = SHAPES.map(|(name, _)| name).join(", ");
            let reason = format!("expected exactly one of the sections {names}");
            return Err(root.fault("fat_tree", 0, reason));
        };
        let shape = read(&root.expect(name)?)?;
        let routing = routing.unwrap_or_default();
        if routing.goes_around() && !matches!(shape, Shape::Dragonfly(_)) {
            let reason = format!(
                "goes by a third group, and a {name} has none: \"valiant\" and \"ugal\" are a dragonfly's alone"
            );
            return Err(root.about("routing", reason));
        }
        let wiring = Wiring::new(shape, routing);
        Ok(Topology {
            about,
            wiring: Arc::new(wiring),
        })
    }
}

fn number(count: Count) -> usize {
    count.0 as usize
}

/// Most switches, nodes and cables of a topology: more is a slip of the pen, and no memory has room for it.
const MOST: usize = 1 << 20;

/// Refuses what nobody can build.
fn size(section: &Section<'_>, key: &str, factors: &[usize]) -> Result<(), Error> {
    let product = factors
        .iter()
        .try_fold(1usize, |all, factor| all.checked_mul(*factor));
    match product.is_some_and(|product| product <= MOST) {
        true => Ok(()),
        false => Err(section.about_itself(format!(
            "has more than {MOST} {key}, which is more than the models take"
        ))),
    }
}

fn fat_tree(section: &Section<'_>) -> Result<Shape, Error> {
    let read = FatTree::read(section)?;
    let tree = topology::FatTree {
        leaves: number(read.leaves),
        nodes: number(read.nodes),
        spines: number(read.spines),
        parallel: read.parallel.map_or(1, number),
    };
    size(section, "nodes", &[tree.leaves, tree.nodes])?;
    size(
        section,
        "cables",
        &[tree.leaves, tree.spines, tree.parallel],
    )?;
    Ok(Shape::FatTree(tree))
}

fn torus(section: &Section<'_>) -> Result<Shape, Error> {
    let read = Torus::read(section)?;
    let sizes = [Some(read.x), read.y, read.z].map(|extent| extent.map_or(1, number));
    let nodes = number(read.nodes);
    size(section, "nodes", &[sizes[0], sizes[1], sizes[2], nodes])?;
    Ok(Shape::Torus(topology::Torus::new(sizes, nodes)))
}

fn dragonfly(section: &Section<'_>) -> Result<Shape, Error> {
    let read = Dragonfly::read(section)?;
    let (groups, switches) = (number(read.groups), number(read.switches));
    let (nodes, global) = (number(read.nodes), number(read.global));
    size(section, "nodes", &[groups, switches, nodes])?;
    size(section, "cables", &[groups, switches, switches])?;
    size(section, "pairs of groups", &[groups, groups])?;
    size(section, "cables", &[groups, switches, global])?;
    topology::Dragonfly::new(groups, switches, nodes, global)
        .map(Shape::Dragonfly)
        .map_err(|reason| section.about_itself(reason))
}

fn table(section: &Section<'_>) -> Result<Shape, Error> {
    let switches: Count = Field::take(section, "switches")?;
    let attached = section.numbers("nodes")?;
    let cables = section.rows("cables")?;
    let forwarding = section.rows_if_there("forwarding")?;
    section.finish()?;
    let fault = |key: &str, reason: String| section.about(key, reason);
    let natural = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    size(
        section,
        "pairs of switches",
        &[number(switches), number(switches)],
    )?;
    if attached.is_empty() {
        return Err(fault(
            "nodes",
            "expected the switch of each node, found none".to_owned(),
        ));
    }
    let attached = attached.into_iter().map(natural).collect();
    let cables = cables.into_iter().map(|ends| match ends.as_slice() {
        [one, other] => Ok((natural(*one), natural(*other))),
        _ => Err(fault(
            "cables",
            "expected the two switches of each cable, as in [[0, 1], [1, 2]]".to_owned(),
        )),
    });
    let cables: Vec<_> = cables.collect::<Result<_, _>>()?;
    let table = topology::Table::new(number(switches), attached, cables)
        .map_err(|reason| section.about_itself(reason))?;
    let table = match forwarding {
        Some(tables) => table
            .forwarding(&tables)
            .map_err(|reason| fault("forwarding", reason))?,
        None => table,
    };
    Ok(Shape::Table(table))
}
