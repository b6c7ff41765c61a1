//! Lattice QCD: conjugate gradients for the Wilson Dirac operator on 16 x 16 x 16 x 32 sites, whose
//! processes exchange faces in two dimensions. Implemented here (`lattice/main.c`), because no
//! package provides one.

use super::files::{Found, OUTPUT};
use super::nas;
use super::outcome::{Outcome, text};
use crate::program::{Program, sources};
use std::io;
use std::path::Path;

pub const SOLVER: Program = Program {
    name: "lattice-qcd",
    title: "lattice QCD",
    sources: sources!("lattice":
        "su3.h", "su3.c", "spinor.h", "random.h", "random.c", "geometry.h", "geometry.c",
        "field.h", "field.c", "gauge.h", "gauge.c",
        "halo.h", "halo.c", "dirac.h", "dirac.c", "solver.h", "solver.c", "arguments.h",
        "arguments.c", "verify.h", "verify.c", "main.c",
    ),
};

/// Output lines with the result, which does not depend on the distribution of the lattice.
const COMPUTED: [&str; 3] = ["Iterations", "Plaquette", "Solution norm"];

pub fn prepare(_: &Path, _: &Found, _: usize) -> io::Result<Vec<String>> {
    Ok(Vec::new())
}

pub fn read(directory: &Path) -> Result<Outcome, String> {
    parse(&text(&directory.join(OUTPUT))?)
}

fn parse(output: &str) -> Result<Outcome, String> {
    let is_computed = |line: &&str| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key.is_some_and(|key| COMPUTED.contains(&key))
    };
    let computed: Vec<&str> = output.lines().filter(is_computed).collect();
    if computed.len() != COMPUTED.len() {
        return Err("its output lacks the computed values".to_owned());
    }
    Ok(Outcome {
        computed: computed.join("\n"),
        ..nas::parse(output, "operation-rate")?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = " Lattice QCD Completed\n Iterations      = 30\n Time in seconds = 0.25\n \
                        Total processes = 2\n Mop/s total     = 300.50\n \
                        Plaquette       = 0.667784\n Solution norm   = 1.39167e+06\n \
                        Verification    = SUCCESSFUL\n";

    #[test]
    fn only_verified_output_gives_an_outcome() {
        let outcome = parse(TOLD).unwrap();
        assert_eq!(outcome.processes, 2);
        let figures: Vec<f64> = outcome.metrics.iter().map(|one| one.value).collect();
        assert_eq!(figures, [3.005e8, 2.5e8]);
        assert_eq!(outcome.computed.lines().count(), 3);
        assert!(outcome.computed.contains("1.39167e+06"));
        for part in ["Verification", "Plaquette", "Mop/s", "SUCC"] {
            assert!(parse(&TOLD.replace(part, "UN")).is_err(), "{part}");
        }
    }

    #[test]
    fn every_included_header_is_shipped() {
        let lines = SOLVER.sources.iter().flat_map(|(_, text)| text.lines());
        let mut included =
            lines.filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
        assert!(included.all(|name| SOLVER.sources.iter().any(|(file, _)| *file == name)));
    }
}
