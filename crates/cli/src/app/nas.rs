//! NAS' integer sort, class A: 2^23 keys, in ten rounds all ranks hand keys to all.

use super::catalogue::Found;
use super::launch::OUTPUT;
use super::outcome::{Outcome, text};
use std::io;
use std::path::Path;
use verbena_measure::compare::Better;
use verbena_measure::result::Metric;

pub fn prepare(_: &Path, _: &Found, processes: usize) -> io::Result<Vec<String>> {
    Ok(vec![processes.to_string(), "A".to_owned()])
}

pub fn read(directory: &Path) -> Result<Outcome, String> {
    parse(&text(&directory.join(OUTPUT))?)
}

/// What it prints at its end. It verifies its own result; the time is told in hundredths of a second.
fn parse(output: &str) -> Result<Outcome, String> {
    let value = |name: &str| {
        let mut lines = output.lines().filter_map(|line| line.split_once('='));
        let found = lines.find(|(key, _)| key.trim() == name);
        found.map(|(_, value)| value.trim())
    };
    match value("Verification") {
        Some("SUCCESSFUL") => (),
        Some(other) => return Err(format!("IS found its own result {other}")),
        None => return Err("IS did not come to its end".to_owned()),
    }
    let number = |name: &str| {
        let number = value(name).and_then(|word| word.parse().ok());
        let number = number.filter(|number: &f64| number.is_finite() && *number > 0.0);
        number.ok_or_else(|| format!("IS does not tell its {name}"))
    };
    Ok(Outcome {
        processes: number("Total processes")? as usize,
        metrics: vec![
            Metric::figure(
                "sort-rate",
                "1/s",
                Better::Higher,
                number("Mop/s total")? * 1e6,
            ),
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
    use super::parse;

    const TOLD: &str = " IS Benchmark Completed\n Class           =   A\n Time in seconds =   0.25\n Total processes =   2\n \
        Mop/s total     =   300.50\n Verification    =   SUCCESSFUL\n";

    #[test]
    fn a_verified_end_is_an_outcome_and_no_other() {
        let outcome = parse(TOLD).unwrap();
        assert_eq!(outcome.processes, 2);
        let figures: Vec<f64> = outcome.metrics.iter().map(|one| one.value).collect();
        assert_eq!(figures, [3.005e8, 2.5e8]);
        let wrong = TOLD.replace("SUCCESSFUL", "UNSUCCESSFUL");
        assert!(parse(&wrong).unwrap_err().contains("UNSUCCESSFUL"));
        for part in ["Verification", "Time in", "Total processes"] {
            assert!(parse(&TOLD.replace(part, "")).is_err(), "{part}");
        }
    }
}
