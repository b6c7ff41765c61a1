//! Calibration finds planted values, and reports those that it cannot determine.

use verbena_calibrate::system::{
    Calibrated, Observation, Quantity, Task, calibrate, overlay, text,
};
use verbena_model::adapter::Kind;
use verbena_model::profile::{Library, Overrides};
use verbena_reproduce::bench::Direction;

const SYSTEM: &str = "connectx-ddr";

fn library(overrides: &Overrides) -> Library {
    Library::shipped(overrides).expect("shipped profiles are sound")
}

/// Relative noise of 3 %, from a fixed sequence for reproducible tests.
fn noise(number: u64) -> f64 {
    let mut state = number
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x1234_5678_9abc_def1);
    // The sum of twelve uniform numbers has the variance of one normal deviate.
    let mut sum = 0.0;
    for _ in 0..12 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += (state >> 11) as f64 / (1u64 << 53) as f64;
    }
    1.0 + 0.03 * (sum - 6.0)
}

/// Measurements of a system with planted values, several launches of each.
fn measured(planted: &Overrides, launches: u64) -> Vec<Observation> {
    let system = library(planted).system(SYSTEM).expect("a shipped system");
    let latency = |kind| Quantity::Latency(kind);
    let bandwidth = Quantity::Bandwidth(Kind::Write, Direction::One);
    let mut observations = Vec::new();
    let mut number = 0;
    for (quantity, sizes) in [
        (latency(Kind::Write), vec![1u64, 64, 512, 2048, 8192]),
        (latency(Kind::Read), vec![1, 512, 8192]),
        (latency(Kind::Send), vec![1, 64, 512, 2048]),
        (bandwidth, vec![4096, 65_536]),
    ] {
        for bytes in sizes {
            let blank = Observation {
                quantity,
                bytes,
                pairs: 1,
                figure: 1.0,
            };
            let truth = blank.predicted(&system);
            for _ in 0..launches {
                number += 1;
                observations.push(Observation {
                    figure: truth * noise(number),
                    ..blank
                });
            }
        }
    }
    observations
}

fn run(free: &[&str], observations: &[Observation]) -> Calibrated {
    let library = library(&Overrides::none());
    calibrate(&Task {
        library: &library,
        system: SYSTEM,
        free: free.iter().map(|&path| path.to_owned()).collect(),
        observations,
        noise: 0.03,
        steps: 15,
        threads: 2,
    })
    .expect("a sound task")
}

#[test]
fn planted_values_are_recovered_within_five_per_cent() {
    let planted = [
        ("bensley.pcie.read_latency", 420.0),
        ("connectx.receive.request", 310.0),
    ];
    let overrides = planted
        .iter()
        .fold(Overrides::none(), |all, (path, value)| {
            all.with(path, *value)
        });
    let found = run(&planted.map(|(path, _)| path), &measured(&overrides, 20));
    for ((path, truth), value) in planted.iter().zip(&found.fit.values) {
        assert!(
            (value / truth - 1.0).abs() < 0.05,
            "{path}: planted {truth}, found {value}"
        );
    }
    assert!(
        found.identified.inseparable.is_empty(),
        "{:?}",
        found.identified
    );
}

#[test]
fn parameters_that_only_add_up_are_inseparable() {
    // Building a request and the transfer of its bytes to the remote processor occur once per
    // message.
    let paths = ["bensley.cpu.post", "bensley.pcie.write_latency"];
    let found = run(&paths, &measured(&Overrides::none(), 2));
    let pairs: Vec<_> = found
        .identified
        .inseparable
        .iter()
        .map(|p| (p.one.as_str(), p.other.as_str()))
        .collect();
    assert_eq!(pairs, [(paths[0], paths[1])], "{:?}", found.identified);
}

#[test]
fn unmeasured_parameters_are_unseen() {
    let writes: Vec<_> = measured(&Overrides::none(), 1)
        .into_iter()
        .filter(|o| o.quantity == Quantity::Latency(Kind::Write))
        .collect();
    let found = run(&["connectx.receive.request"], &writes);
    assert_eq!(found.identified.unseen, ["connectx.receive.request"]);
}

#[test]
fn only_determined_values_are_written_as_profiles() {
    let observations: Vec<_> = measured(&Overrides::none(), 1)
        .into_iter()
        .filter(|o| o.quantity == Quantity::Latency(Kind::Write))
        .collect();
    let found = run(
        &["bensley.cpu.post", "connectx.receive.request"],
        &observations,
    );
    let library = library(&Overrides::none());
    let overlays = overlay(&library, SYSTEM, &found, "a \"run\"");
    let files = overlays
        .iter()
        .map(|profile| (format!("fitted/{}.toml", profile.name), &profile.text));
    let files: Vec<_> = files.collect();
    let library = library
        .and(
            files
                .iter()
                .map(|(file, text)| (file.as_str(), text.as_str())),
        )
        .unwrap_or_else(|error| panic!("{error}: {overlays:?}"));
    let fitted = library
        .system("connectx-ddr-calibrated")
        .expect("was written");
    let shipped = library.system(SYSTEM).expect("a shipped system");
    let value = |path: &str| library.recorded().iter().find(|r| r.path == path).cloned();
    let post = value("bensley-calibrated.cpu.post").expect("was seen");
    assert_eq!(
        (post.value, post.bounds),
        (found.fit.values[0], Some((20.0, 300.0)))
    );
    assert_eq!(
        format!("{:?}", fitted.adapter),
        format!("{:?}", shipped.adapter)
    );
    for (observation, predicted) in observations.iter().zip(&found.predicted) {
        assert_eq!(observation.predicted(&fitted), *predicted);
    }
    let told = text(&found, &observations);
    assert!(
        told.contains("not determined: connectx.receive.request"),
        "{told}"
    );
}

#[test]
fn values_foreign_to_the_system_are_refused() {
    let observations = measured(&Overrides::none(), 1);
    let library = library(&Overrides::none());
    for (path, expected) in [
        ("connectx.send.colour", "no profile has such a value"),
        (
            "infinihost3-mem.engines.request",
            "the system does not use it",
        ),
        ("bensley.pcie.read_buffer", "whole number"),
    ] {
        let error = calibrate(&Task {
            library: &library,
            system: SYSTEM,
            free: vec![path.to_owned()],
            observations: &observations,
            noise: 0.03,
            steps: 1,
            threads: 1,
        })
        .expect_err("cannot be fitted");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
