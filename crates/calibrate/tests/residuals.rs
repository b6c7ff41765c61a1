//! The stored residuals are those of the profiles, and the intervals from them hold the promised
//! share of left-out points.

use std::path::Path;
use verbena_calibrate::interval::Intervals;
use verbena_calibrate::interval::coverage::{TARGET, text as coverage};
use verbena_calibrate::methods::{Method, Table};
use verbena_calibrate::predictions::Predictions;
use verbena_calibrate::residual::{Basis, Residuals, shipped};
use verbena_model::profile::{Library, Overrides};
use verbena_reproduce::validation::of_shipped;

/// Largest relative difference of a stored figure: they have five digits.
const ROUNDING: f64 = 1e-3;

fn differs(stored: &Residuals, computed: &Residuals) -> bool {
    let far = |a: f64, b: f64| (a / b - 1.0).abs() > ROUNDING;
    let points = stored.points.iter().zip(&computed.points);
    let mut points = points.filter(|(a, b)| {
        far(a.blind, b.blind) || far(a.anchored, b.anchored) || a.is_anchor != b.is_anchor
    });
    points.next().is_some() || stored.adapter != computed.adapter || stored.host != computed.host
}

#[test]
fn stored_residuals_are_those_of_the_profiles() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let validated = of_shipped(&library, 2).expect("the curves can be computed");
    let computed = Predictions::of(&library, &validated, 2).expect("systems are there");
    println!("{}", computed.text());
    let stored = shipped().expect("the file can be read");
    let all = computed.residuals();
    let stale: Vec<&str> = all
        .iter()
        .filter(|one| {
            let same = stored.residuals.iter().find(|stored| stored.id == one.id);
            same.is_none_or(|stored| differs(stored, one))
        })
        .map(|one| one.id.as_str())
        .collect();
    if !stale.is_empty() || stored.residuals.len() != all.len() {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("residuals.toml");
        std::fs::write(&new, computed.file()).expect("the target directory can be written");
        panic!(
            "papers/validation/residuals.toml is older than the profiles or curves ({}): write it \
             again with 'verbena reproduce --residuals papers/validation/residuals.toml', or copy \
             {}",
            stale.join(", "),
            new.display()
        );
    }
}

#[test]
fn one_latency_and_one_rate_halve_the_error_of_validation_curves() {
    let stored = shipped().expect("the file can be read");
    let methods = Table::of(&stored.residuals);
    let [blind, anchored] = [Method::Blind, Method::Anchored].map(|method| methods.mean(method));
    assert!(anchored < 0.6 * blind, "{blind} {anchored}");
}

#[test]
fn intervals_hold_70_to_90_per_cent_of_left_out_points() {
    let intervals = Intervals::shipped().expect("the file can be read");
    println!("{}", coverage(&intervals));
    for basis in Basis::ALL {
        let all = &intervals.coverage(basis)[0];
        let word = basis.word();
        assert!(all.points > 300, "{word}: {all:?}");
        assert!(
            TARGET.0 <= all.held && all.held <= TARGET.1,
            "{word}: {all:?}"
        );
    }
}
