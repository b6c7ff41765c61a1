//! LAMMPS: a solvated peptide with the CHARMM force field, particle-mesh electrostatics and rigid
//! bonds, replicated to 16,032 atoms. It resembles the rhodopsin benchmark of the paper, whose data
//! is in no package.

use super::files::Found;
use super::outcome::{Outcome, text};
use std::fs;
use std::io;
use std::path::Path;
use verbena_measure::compare::Better;
use verbena_measure::result::Metric;

const INPUT: &str = include_str!("../../programs/lammps/in.peptide");
const LOG: &str = "log.lammps";

pub fn prepare(directory: &Path, found: &Found, _: usize) -> io::Result<Vec<String>> {
    fs::write(directory.join("in.peptide"), INPUT)?;
    let data = found.data.display().to_string();
    let words = [
        "-in",
        "in.peptide",
        "-log",
        LOG,
        "-screen",
        "none",
        "-var",
        "data",
    ];
    Ok(words.map(str::to_owned).into_iter().chain([data]).collect())
}

pub fn read(directory: &Path) -> Result<Outcome, String> {
    parse(&text(&directory.join(LOG))?)
}

/// Parses the log: the state of the system at some steps, the loop time, and its breakdown.
fn parse(log: &str) -> Result<Outcome, String> {
    if let Some(error) = log.lines().find(|line| line.starts_with("ERROR")) {
        return Err(format!("LAMMPS: {error}"));
    }
    let (before, after) = log
        .split_once("\nLoop time of ")
        .ok_or("LAMMPS' log has no \"Loop time\": the program ended early")?;
    let (_, states) = before
        .rsplit_once("\nStep")
        .ok_or("LAMMPS' log has no table of states")?;
    // Skips the rest of the heading line.
    let states = states.split_once('\n').map_or("", |(_, rows)| rows);
    let words: Vec<&str> = after
        .lines()
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let [seconds, "on", processes, "procs", "for", steps, "steps", ..] = words[..] else {
        return Err(format!("LAMMPS' log has an invalid loop time: {words:?}"));
    };
    let number = |word: &str| {
        let value = word.parse().ok();
        let value = value.filter(|value: &f64| value.is_finite() && *value > 0.0);
        value.ok_or_else(|| format!("LAMMPS' log has {word:?} in place of a number"))
    };
    let (seconds, steps) = (number(seconds)?, number(steps)?);
    let mut metrics = vec![
        Metric::figure("step-time", "ns", Better::Lower, seconds / steps * 1e9),
        Metric::figure("run-time", "ns", Better::Lower, seconds * 1e9),
    ];
    for (part, name) in [("Comm", "neighbours-share"), ("Kspace", "mesh-share")] {
        let row = after.lines().find(|line| line.starts_with(part));
        let share = row.and_then(|row| row.rsplit('|').next()?.trim().parse().ok());
        let share = share.filter(|share: &f64| (0.0..=100.0).contains(share));
        metrics.extend(share.map(|share| Metric::figure(name, "%", Better::Lower, share)));
    }
    Ok(Outcome {
        processes: number(processes)? as usize,
        metrics,
        computed: states.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "LAMMPS (7 Jan 2022)\nMemory\nStep Temp TotEng \n       0    281.9   \
                        -41898.16\n      50    281.4   -41974.25\n\
        Loop time of 2.5 on 2 procs for 50 steps with 16032 atoms\n\n\
        Section |  min | avg | max |%varavg| %total\n\
        Kspace  | 14.255     | 15.149     | 16.044     |  23.0 | 26.17\n\
        Comm    | 3.9 | 4.0 | 4.1 |   4.1 |  6.95\n";

    #[test]
    fn a_log_gives_times_shares_and_thermodynamic_states() {
        let outcome = parse(TOLD).unwrap();
        assert_eq!(outcome.processes, 2);
        let figures: Vec<f64> = outcome.metrics.iter().map(|metric| metric.value).collect();
        assert_eq!(figures, [5e7, 2.5e9, 6.95, 26.17]);
        assert!(outcome.computed.starts_with("       0    281.9"));
        assert!(outcome.computed.ends_with("-41974.25"));
    }

    #[test]
    fn an_incomplete_log_is_refused() {
        for end in 0..TOLD.find("Loop time").unwrap() {
            assert!(parse(&TOLD[..end]).is_err(), "{end}");
        }
        for word in ["nan", "inf", "0", "-1"] {
            let told = TOLD.replace("2.5 on", &format!("{word} on"));
            assert!(parse(&told).is_err(), "{word}");
        }
        let shareless = parse(&TOLD.replace("6.95", "nan").replace("26.17", "-1")).unwrap();
        assert_eq!(shareless.metrics.len(), 2);
        assert!(
            parse(&format!("{TOLD}\nERROR: Lost atoms"))
                .unwrap_err()
                .contains("Lost")
        );
    }
}
