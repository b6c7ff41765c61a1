//! Fuzzes topology files, and forwarding tables behind a zero byte: an accepted topology has links
//! between its own nodes, each counted once in the survey; every pair of its adapters has a path or
//! is broken, and the load of the cables is that of the paths.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_topology::{Forwarding, Network, Survey, Topology, read, read_routes};

/// Limit on topologies that are surveyed. Larger ones would only take longer.
const LINKS: usize = 2000;

fuzz_target!(|input: &[u8]| {
    let (input, routes) = match input.iter().position(|byte| *byte == 0) {
        Some(end) => (&input[..end], &input[end + 1..]),
        None => (input, &input[..0]),
    };
    let routes = read_routes(routes);
    let Ok(topology) = read(input) else {
        return;
    };
    for link in &topology.links {
        assert!(link.ends.iter().all(|end| end.node < topology.nodes.len()));
    }
    if topology.links.len() > LINKS {
        return;
    }
    let survey = Survey::of(&topology);
    let counted: usize = survey.rates.iter().map(|&(_, links)| links).sum();
    assert_eq!(counted, topology.links.len());
    assert!(survey.parts >= 1 && survey.parts <= topology.nodes.len());
    if let Some(bisection) = survey.bisection {
        assert!(bisection.capacity <= bisection.needed * (1.0 + 1e-9) + 1e-6, "{bisection:?}");
    }
    if let (Ok(network), Ok(routes)) = (Network::of(&topology, None), routes) {
        follow(&topology, &network, &routes);
    }
});

fn follow(topology: &Topology, network: &Network, routes: &verbena_topology::Routes) {
    let Ok(forwarding) = Forwarding::of(topology, network, routes) else {
        return;
    };
    let paths = forwarding.survey(network);
    let adapters = network.adapters.len();
    assert_eq!(paths.pairs, adapters * (adapters - 1));
    assert_eq!(paths.lengths.iter().sum::<usize>() + paths.broken, paths.pairs);
    let cables = paths.lengths.iter().enumerate().map(|(cables, pairs)| cables * pairs);
    assert_eq!(cables.sum::<usize>(), paths.load.iter().sum::<usize>());
}
