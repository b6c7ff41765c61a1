//! NAS parallel benchmarks, class A; LU in class W, because class A takes a minute. The integer
//! sort (2^23 keys, exchanged among all ranks in ten rounds) is the original. Multigrid, LU and
//! conjugate gradient were implemented here from their specification, because no package provides
//! them (`nas/common.h`).

use super::files::{Found, OUTPUT};
use super::outcome::{Outcome, text};
use crate::program::{Program, sources};
use std::io;
use std::path::Path;
use verbena_measure::compare::Better;
use verbena_measure::result::Metric;

/// Exchanges faces with neighbours in three dimensions.
pub const MULTIGRID: Program = Program {
    name: "nas-mg",
    title: "NAS' MG",
    sources: sources!("nas":
        "common.h", "run.c", "random.c",
        "mg.h", "mg.c", "mg_levels.c", "mg_exchange.c", "mg_operators.c", "mg_charges.c",
    ),
};

/// Sends many small messages in wavefronts.
pub const RELAXATION: Program = Program {
    name: "nas-lu",
    title: "NAS' LU",
    sources: sources!("nas":
        "common.h", "run.c",
        "lu.h", "lu.c", "lu_part.c", "lu_exchange.c", "lu_solution.c", "lu_equations.c",
        "lu_sweeps.c", "lu_norms.c",
    ),
};

/// Reduces along rows of processes, and transposes.
pub const CONJUGATE_GRADIENT: Program = Program {
    name: "nas-cg",
    title: "NAS' CG",
    sources: sources!("nas":
        "common.h", "run.c", "random.c",
        "cg.h", "cg.c", "cg_grid.c", "cg_matrix.c",
    ),
};

pub fn prepare(_: &Path, _: &Found, processes: usize) -> io::Result<Vec<String>> {
    Ok(vec![processes.to_string(), "A".to_owned()])
}

pub fn read(directory: &Path) -> Result<Outcome, String> {
    parse(&text(&directory.join(OUTPUT))?, "sort-rate")
}

/// The programs implemented here determine the number of processes themselves.
pub fn prepare_own(_: &Path, _: &Found, _: usize) -> io::Result<Vec<String>> {
    Ok(vec!["A".to_owned()])
}

/// A smaller problem of 33^3 points, which takes seconds.
pub fn prepare_relaxation(_: &Path, _: &Found, _: usize) -> io::Result<Vec<String>> {
    Ok(vec!["W".to_owned()])
}

pub fn read_own(directory: &Path) -> Result<Outcome, String> {
    parse(&text(&directory.join(OUTPUT))?, "operation-rate")
}

/// Parses the output of a benchmark, which verifies its own result. The sort prints its time in
/// hundredths of a second.
pub(super) fn parse(output: &str, rate: &str) -> Result<Outcome, String> {
    let value = |name: &str| {
        let mut lines = output.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| key.trim() == name);
        found.map(|(_, value)| value.trim())
    };
    match value("Verification") {
        Some("SUCCESSFUL") => (),
        Some(other) => return Err(format!("its own check of the result says {other}")),
        None => return Err("it ended early".to_owned()),
    }
    let number = |name: &str| {
        let number = value(name).and_then(|word| word.parse().ok());
        let number = number.filter(|number: &f64| number.is_finite() && *number > 0.0);
        number.ok_or_else(|| format!("its output lacks {name}"))
    };
    Ok(Outcome {
        processes: number("Total processes")? as usize,
        metrics: vec![
            Metric::figure(rate, "1/s", Better::Higher, number("Mop/s total")? * 1e6),
            Metric::figure(
                "run-time",
                "ns",
                Better::Lower,
                number("Time in seconds")? * 1e9,
            ),
        ],
        computed: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = " IS Benchmark Completed\n Class           =   A\n Time in seconds =   \
                        0.25\n Total processes =   2\n Mop/s total     =   300.50\n \
                        Verification    =   SUCCESSFUL\n";

    #[test]
    fn only_verified_output_gives_an_outcome() {
        let outcome = parse(TOLD, "sort-rate").unwrap();
        assert_eq!(outcome.processes, 2);
        let figures: Vec<f64> = outcome.metrics.iter().map(|one| one.value).collect();
        assert_eq!(figures, [3.005e8, 2.5e8]);
        let wrong = TOLD.replace("SUCCESSFUL", "UNSUCCESSFUL");
        assert!(
            parse(&wrong, "sort-rate")
                .unwrap_err()
                .contains("UNSUCCESSFUL")
        );
        for part in ["Verification", "Time in", "Total processes"] {
            assert!(
                parse(&TOLD.replace(part, ""), "sort-rate").is_err(),
                "{part}"
            );
        }
    }

    #[test]
    fn every_included_header_is_shipped() {
        for program in [MULTIGRID, RELAXATION, CONJUGATE_GRADIENT] {
            let lines = program.sources.iter().flat_map(|(_, text)| text.lines());
            let included = lines
                .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'))
                .filter(|name| !program.sources.iter().any(|(file, _)| file == name));
            assert_eq!(included.collect::<Vec<_>>(), Vec::<&str>::new());
        }
    }
}
