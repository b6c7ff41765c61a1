//! The wiring of a fabric that exists, read from the output of its tools.

use super::routing::Routing;
use super::table::Table;
use super::wiring::{Shape, Wiring};
use crate::profile::Rate;
use verbena_topology::{Forwarding, Network, Onward};

/// Rates of links that differ from that of the system's link profile; `None` where unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkRates {
    /// By node: the link between its adapter and its switch.
    pub nodes: Vec<Option<Rate>>,
    /// By cable between switches.
    pub cables: Vec<Option<Rate>>,
}

/// Returns the wiring of a network, with its switches' forwarding tables or, without them, with
/// shortest paths among which the destination's number chooses; and the rates of its links.
///
/// # Errors
///
/// Returns an error if an adapter cannot be reached, or the tables do not lead to it.
pub fn discovered(
    network: &Network,
    forwarding: Option<&Forwarding>,
) -> Result<(Wiring, LinkRates), String> {
    let switches = network.switches.len();
    let table = Table::new(switches, network.attached.clone(), network.cables.clone())?;
    let table = match forwarding {
        Some(forwarding) => table.forwarding(&numbers(forwarding))?,
        None => table,
    };
    let rates = |stated: &[Option<verbena_topology::Rate>]| {
        let rate = |rate: &Option<verbena_topology::Rate>| {
            rate.map(|rate| Rate(rate.gigabits() * 1e9 / 8.0))
        };
        stated.iter().map(rate).collect()
    };
    let rates = LinkRates {
        nodes: rates(&network.adapter_rates),
        cables: rates(&network.cable_rates),
    };
    let wiring = Wiring::new(Shape::Table(table), Routing::Deterministic);
    Ok((wiring, rates))
}

/// Returns the numbers of the cables, -1 for none.
fn numbers(forwarding: &Forwarding) -> Vec<Vec<i64>> {
    let number = |onward: &Onward| match onward {
        Onward::Cable(cable) => *cable as i64,
        Onward::Here | Onward::Elsewhere(_) | Onward::Nowhere => -1,
    };
    let row = |row: &Vec<Onward>| row.iter().map(number).collect();
    forwarding.tables.iter().map(row).collect()
}
