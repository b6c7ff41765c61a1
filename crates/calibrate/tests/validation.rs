//! Nothing is fitted to validation data.

use verbena_calibrate::system::{Observation, Quantity, Task, Unfit, calibrate};
use verbena_model::adapter::Kind;
use verbena_model::profile::{Library, Overrides};
use verbena_reproduce::validation::{Curve, shipped};

fn library() -> Library {
    Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
}

fn curves() -> Vec<Curve> {
    let sources = shipped().expect("the data are sound");
    sources.into_iter().flat_map(|s| s.curves).collect()
}

fn fit(observations: &[Observation]) -> Result<(), Unfit> {
    let library = library();
    calibrate(&Task {
        library: &library,
        system: "connectx-qdr",
        free: vec!["pcie2.pcie.read_latency".to_owned()],
        observations,
        noise: 0.03,
        steps: 1,
        threads: 1,
    })
    .map(|_| ())
}

#[test]
fn a_fit_to_validation_data_is_refused() {
    let all = curves();
    let curve = all
        .iter()
        .find(|curve| curve.id == "perftest_qdr.write_latency")
        .expect("is shipped");
    let observed = |(bytes, figure): &(u64, f64), factor: f64| Observation {
        quantity: Quantity::Latency(Kind::Write),
        bytes: *bytes,
        pairs: 1,
        figure: figure * factor,
    };
    let same: Vec<_> = curve.points[..6].iter().map(|p| observed(p, 1.0)).collect();
    let refused = fit(&same).expect_err("is validation data");
    assert!(
        refused.to_string().contains("perftest_qdr.write_latency"),
        "{refused}"
    );
    // Other measurements of the same system are accepted.
    let other: Vec<_> = curve.points[..6]
        .iter()
        .map(|p| observed(p, 1.04))
        .collect();
    fit(&other).expect("may be fitted to");
}
