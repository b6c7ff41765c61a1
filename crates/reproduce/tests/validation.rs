//! Validation data stay separate: no value comes from them, and all of them can be computed.

use std::collections::BTreeSet;
use verbena_model::profile::{Library, Overrides};
use verbena_reproduce::claims;
use verbena_reproduce::validation::{Curve, shipped, validate};

fn library() -> Library {
    Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
}

fn curves() -> Vec<Curve> {
    let sources = shipped().expect("the data are sound");
    sources.into_iter().flat_map(|s| s.curves).collect()
}

/// Returns the names of the sources, as ids and in words: the first parts of their curves' ids.
fn names() -> Vec<String> {
    let first = |curve: Curve| curve.id.split('.').next().map(str::to_owned);
    let mut names: Vec<_> = curves().into_iter().filter_map(first).collect();
    names.dedup();
    let spoken: Vec<_> = names.iter().map(|name| name.replace('_', " ")).collect();
    names.into_iter().chain(spoken).collect()
}

#[test]
fn no_value_comes_from_validation_data() {
    let files = ["papers/validation", "adonis", "perftest 包"].map(str::to_owned);
    let names: Vec<_> = names().into_iter().chain(files).collect();
    for value in library().recorded() {
        let source = value.source.to_lowercase();
        for name in &names {
            assert!(
                !source.contains(&name.to_lowercase()),
                "{}: its source is validation data: {}",
                value.path,
                value.source
            );
        }
    }
}

#[test]
fn no_claim_is_also_validation_data() {
    let claims = claims::shipped().expect("the claims are sound");
    for curve in curves() {
        let source = curve.id.split('.').next().expect("a first part");
        assert!(claims.iter().all(|claim| claim.paper() != source));
    }
}

#[test]
fn validation_covers_several_adapters() {
    let sources = shipped().expect("the data are sound");
    let adapters: BTreeSet<_> = sources.iter().map(|source| &source.adapter).collect();
    let systems: BTreeSet<_> = curves().into_iter().map(|curve| curve.system).collect();
    assert!(curves().len() >= 20, "{} curves", curves().len());
    assert!(adapters.len() >= 5, "{adapters:?}");
    for source in &sources {
        assert!(!source.author.is_empty() && !source.source.is_empty());
    }
    for name in systems {
        library().system(&name).expect("a shipped system");
    }
}

#[test]
fn every_curve_can_be_computed() {
    // The two ends of each curve, to limit the run time.
    let ends = |curve: Curve| {
        let points = [curve.points[0], curve.points[curve.points.len() - 1]];
        Curve {
            points: points.to_vec(),
            ..curve
        }
    };
    let curves: Vec<_> = curves().into_iter().map(ends).collect();
    let validated = validate(&library(), &curves, 2).expect("systems and values are there");
    for result in &validated {
        assert!(
            result.model.iter().all(|figure| *figure > 0.0),
            "{result:?}"
        );
        // Units and operations are the published ones: large messages are nowhere off by a factor
        // of two, and small ones, of which a measurement's first are the slowest, not by a factor
        // of three. A stand-in's errors are those of the substitution.
        if result.curve.stand_in {
            continue;
        }
        let errors = result.errors();
        assert!(errors[errors.len() - 1].abs() < 1.0, "{result:?}");
        assert!(errors[0].abs() < 2.5, "{result:?}");
    }
    // Any number of threads gives the same result; checked on some curves, to limit the run time.
    let some = curves.len() / 6;
    let alone = validate(&library(), &curves[..some], 1).expect("the same");
    assert_eq!(validated[..some], alone);
}

#[test]
fn datagram_curves_are_computed_with_datagrams() {
    let (datagrams, others): (Vec<_>, Vec<_>) =
        curves().into_iter().partition(Curve::is_of_datagrams);
    assert!(!datagrams.is_empty());
    // The suite's streams use connections only, so no other curve may request another service.
    for curve in others {
        let of_a_stream = curve.benchmark.starts_with("bandwidth.");
        assert!(!of_a_stream || curve.transport.is_none(), "{}", curve.id);
    }
    // Datagrams are not acknowledged: a slow return path costs them nothing, but limits a
    // connection's stream by its window.
    let curve = |transport: Option<&str>| {
        let published = &datagrams[0];
        let mut profile = published.profile.clone();
        profile.insert("copper.per_metre".to_owned(), 5e3);
        Curve {
            transport: transport.map(str::to_owned),
            points: published.points[..1].to_vec(),
            profile,
            ..published.clone()
        }
    };
    let far = [curve(Some("ud")), curve(None)];
    let near = validate(&library(), &datagrams[..1], 2).expect("can be computed");
    let far = validate(&library(), &far, 2).expect("can be computed");
    assert!(far[0].model[0] > 0.9 * near[0].model[0], "{far:?}");
    assert!(far[1].model[0] < 0.3 * near[0].model[0], "{far:?}");
}
