//! Anchors on shipped systems.

use verbena_calibrate::anchor::{self, Anchor, AnchorError, anchored, parse};
use verbena_model::correction::Operation;
use verbena_model::profile::{Library, Overrides};

fn library() -> Library {
    Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
}

fn anchors(texts: &[&str]) -> Vec<Anchor> {
    texts
        .iter()
        .map(|text| parse(text).expect("an anchor"))
        .collect()
}

#[test]
fn the_anchored_model_has_the_measured_figures() {
    for (system, texts) in [
        (
            "connectx6-hdr",
            vec!["latency.write:8=1.88us", "bandwidth.write:64=165.94MB/s"],
        ),
        (
            "connectx-qdr",
            vec!["latency.read:8=1.5us", "bandwidth.read:64=250MB/s"],
        ),
        (
            "connectx4-edr",
            vec!["latency.send/ud:8=1.4us", "latency.write:8=0.9us"],
        ),
        (
            "connectx6-hdr",
            vec!["mpi.latency:8=1.1us", "mpi.bandwidth:64=150MB/s"],
        ),
        ("connectx5-edr", vec!["mpi.latency:8=2.9us"]),
        ("infinihost-pcix", vec!["latency.write:8=6us"]),
    ] {
        let anchored = anchored(&library(), system, &anchors(&texts)).expect("anchored");
        assert_eq!(
            anchored.warnings,
            Vec::<String>::new(),
            "{system} {texts:?}"
        );
        for fit in &anchored.fits {
            let error = fit.reached / fit.anchor.figure - 1.0;
            assert!(error.abs() < 2e-3, "{system}: {fit:?}");
        }
    }
}

#[test]
fn a_figure_beyond_the_fixed_delays_is_clamped_with_a_warning() {
    let texts = ["latency.write:8=0.1us"];
    let anchored = anchored(&library(), "connectx6-hdr", &anchors(&texts)).expect("anchored");
    let [warning] = anchored.warnings.as_slice() else {
        panic!("one warning: {:?}", anchored.warnings);
    };
    assert!(warning.contains("were taken from doorbell"), "{warning}");
    assert!(anchored.fits[0].reached < anchored.fits[0].alone);
}

#[test]
fn operations_without_an_anchor_stay_blind() {
    let texts = ["latency.write:8=1.88us"];
    let anchored = anchored(&library(), "connectx6-hdr", &anchors(&texts)).expect("anchored");
    let blind = anchored.operations_without_anchor();
    assert!(!blind.contains(&Operation::Write) && blind.len() == 4);
    let corrections = anchored.system.corrections;
    assert_eq!(corrections.of(Operation::Send), Default::default());
}

#[test]
fn two_anchors_of_one_time_are_refused() {
    let texts = ["latency.write:8=1.88us", "latency.write:64=1.9us"];
    let error = anchored(&library(), "connectx6-hdr", &anchors(&texts));
    assert!(matches!(error, Err(AnchorError::Twice { .. })), "{error:?}");
    let none = anchored_mpi_without_library();
    assert!(none.contains("no MPI library"), "{none}");
}

fn anchored_mpi_without_library() -> String {
    let mut system = library().system("connectx6-hdr").expect("a system");
    system.mpi = None;
    let anchor = anchors(&["mpi.latency:8=1us"]);
    match anchor::anchor_system(&system, &anchor) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}
