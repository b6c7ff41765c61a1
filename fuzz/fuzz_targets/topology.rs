//! Fuzzes topology files: an accepted one has links between its own nodes, each counted once in the
//! survey.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_topology::{Survey, read};

/// Limit on topologies that are surveyed. Larger ones would only take longer.
const LINKS: usize = 2000;

fuzz_target!(|input: &[u8]| {
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
});
