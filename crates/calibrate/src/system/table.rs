//! Text tables of a calibration: the values, the quality of the fit, and the parameters that the
//! data do not determine.

use super::{Calibrated, Fit, Free, Identified, Observation};
use std::fmt::Write;

/// A value counts as at a bound if it is this near to it, relative to the whole range.
const AT_BOUND: f64 = 1e-6;

/// A value counts as hardly known if its standard error is a larger share of it than this.
const HARDLY_KNOWN: f64 = 0.25;

/// Returns the tables.
pub fn text(calibrated: &Calibrated, observations: &[Observation]) -> String {
    let Calibrated {
        free,
        units,
        fit,
        identified,
        ..
    } = calibrated;
    let mut out = values(free, units, fit, identified);
    fits(&mut out, calibrated, observations);
    out.push_str(&limits(free, fit, identified));
    out
}

/// Returns the table of values with their uncertainty.
pub(crate) fn values(
    free: &[Free],
    units: &[String],
    fit: &Fit,
    identified: &Identified,
) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<36} {:>10} {:>10} {:>10} {:<5} {:>18}",
        "value", "before", "fitted", "error", "unit", "bounds"
    );
    for (number, free) in free.iter().enumerate() {
        let value = fit.values[number];
        let error = match identified.errors[number] {
            Some(error) => short(error),
            None => "not seen".to_owned(),
        };
        let near = |bound: f64| (value - bound).abs() <= AT_BOUND * (free.high - free.low);
        let note = match near(free.low) || near(free.high) {
            true => "  at its bound",
            false => "",
        };
        let bounds = format!("{} to {}", free.low, free.high);
        let _ = writeln!(
            out,
            "{:<36} {:>10} {:>10} {:>10} {:<5} {:>18}{note}",
            free.path,
            short(free.start),
            short(value),
            error,
            units[number],
            bounds
        );
    }
    out
}

/// All measurements of one quantity, over all launches.
struct Group {
    label: String,
    unit: &'static str,
    model: f64,
    measured: Vec<f64>,
}

fn fits(out: &mut String, calibrated: &Calibrated, observations: &[Observation]) {
    let mut groups: Vec<Group> = Vec::new();
    for (observation, model) in observations.iter().zip(&calibrated.predicted) {
        let label = observation.label();
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.measured.push(observation.figure),
            None => groups.push(Group {
                label,
                unit: observation.unit(),
                model: *model,
                measured: vec![observation.figure],
            }),
        }
    }
    let _ = writeln!(
        out,
        "\n{:<44} {:>6} {:>10} {:>10} {:<5} {:>9}",
        "measurement", "number", "mean", "model", "unit", "residual"
    );
    for group in &groups {
        let mean = group.measured.iter().sum::<f64>() / group.measured.len() as f64;
        let _ = writeln!(
            out,
            "{:<44} {:>6} {:>10} {:>10} {:<5} {:>+7.1} %",
            group.label,
            group.measured.len(),
            short(mean),
            short(group.model),
            group.unit,
            (group.model / mean - 1.0) * 100.0
        );
    }
    let squares =
        |(observation, model): (&Observation, &f64)| (model / observation.figure).ln().powi(2);
    let sum: f64 = observations
        .iter()
        .zip(&calibrated.predicted)
        .map(squares)
        .sum();
    let _ = writeln!(
        out,
        "{} measurements, {} values, {} steps; root of the mean square of the residuals {:.2} %",
        observations.len(),
        calibrated.free.len(),
        calibrated.fit.steps,
        (sum / observations.len().max(1) as f64).sqrt() * 100.0
    );
}

/// Returns the parameters that the measurements do not determine.
pub(crate) fn limits(free: &[Free], fit: &Fit, identified: &Identified) -> String {
    let mut out = String::new();
    for pair in &identified.inseparable {
        let _ = writeln!(
            out,
            "not distinguishable: {} and {} (correlation {:+.3}); only a combination of them was \
             measured",
            pair.one, pair.other, pair.correlation
        );
    }
    // Three or more values of which only a sum is measured are less correlated in pairs; large
    // errors reveal them.
    let paired = |path: &String| {
        let mut pairs = identified.inseparable.iter();
        pairs.any(|pair| pair.one == *path || pair.other == *path)
    };
    for (number, free) in free.iter().enumerate() {
        let (value, error) = (fit.values[number], identified.errors[number]);
        if let Some(error) = error.filter(|error| *error > HARDLY_KNOWN * value)
            && !paired(&free.path)
        {
            let _ = writeln!(
                out,
                "poorly determined: {} ({} of {}); other values compensate for it, or there are \
                 too few measurements",
                free.path,
                short(error),
                short(value)
            );
        }
    }
    for path in &identified.unseen {
        let _ = writeln!(out, "not determined: {path}; no measurement depends on it");
    }
    out
}

/// Formats with four significant digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        zero if zero < 1e-9 => 0,
        size => (3 - size.log10().floor() as i32).clamp(0, 9) as usize,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::super::{Fit, Free, Identified, Inseparable};
    use super::*;

    fn calibrated(errors: Vec<Option<f64>>, inseparable: Vec<Inseparable>) -> Calibrated {
        let free = |path: &str| Free {
            path: path.to_owned(),
            low: 0.0,
            high: 200.0,
            start: 50.0,
        };
        Calibrated {
            free: vec![free("a"), free("b"), free("c")],
            units: vec!["ns".to_owned(); 3],
            fit: Fit {
                values: vec![100.0, 100.0, 200.0],
                residuals: Vec::new(),
                jacobian: Vec::new(),
                steps: 1,
            },
            identified: Identified {
                errors,
                inseparable,
                unseen: Vec::new(),
            },
            predicted: Vec::new(),
        }
    }

    #[test]
    fn poorly_determined_values_and_values_at_bounds_are_reported() {
        let told = text(
            &calibrated(vec![Some(24.0), Some(26.0), Some(1.0)], Vec::new()),
            &[],
        );
        assert!(
            told.contains("poorly determined: b (26.00 of 100.0)"),
            "{told}"
        );
        assert!(!told.contains("poorly determined: a"), "{told}");
        assert_eq!(told.matches("at its bound").count(), 1, "{told}");
    }

    #[test]
    fn an_inseparable_pair_is_named_once() {
        let pair = Inseparable {
            one: "a".to_owned(),
            other: "b".to_owned(),
            correlation: -0.99,
        };
        let told = text(
            &calibrated(vec![Some(90.0), Some(90.0), Some(1.0)], vec![pair]),
            &[],
        );
        assert!(told.contains("not distinguishable: a and b"), "{told}");
        assert!(!told.contains("poorly determined"), "{told}");
    }

    #[test]
    fn values_are_formatted_with_four_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.012_345, "0.01235"),
            (1.5, "1.500"),
            (123.456, "123.5"),
            (123_456.7, "123457"),
        ] {
            assert_eq!(short(value), expected);
        }
    }
}
