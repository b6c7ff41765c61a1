//! The rules one by one, on figures that motivated them.

use super::*;
use crate::headline::{Headline, Subject};
use verbena_measure::stats::interval::Interval;
use verbena_measure::warning::Warning;

/// Returns a headline of launches, with messages of the size at which its subject is rated.
fn headline(subject: Subject, launches: &[f64]) -> Headline {
    let mut sorted = launches.to_vec();
    sorted.sort_by(f64::total_cmp);
    let size = match subject {
        Subject::Bandwidth => 1_048_576.0,
        _ => 8.0,
    };
    Headline {
        subject,
        of: String::new(),
        metric: String::new(),
        size: Some(size),
        value: sorted[sorted.len() / 2],
        interval: Some(Interval {
            low: sorted[0],
            high: sorted[sorted.len() - 1],
        }),
        launches: launches.to_vec(),
        busy_launches: 0,
        tail: [None, None],
        bound: None,
        warnings: vec![],
        curve: None,
    }
}

fn bounded(subject: Subject, value: f64, bound: f64, reason: &str) -> Headline {
    Headline {
        bound: Some((bound, reason.to_owned())),
        ..headline(subject, &[value])
    }
}

fn word(headline: &Headline, kind: MeasuredAt) -> Word {
    rate(headline, kind).word
}

const LINE: &str = "a cache line from one core to another on this host";
const LINK: &str = "link at 200.0 Gbit/s, 98.7 % of it payload in packets of 4096 bytes";

#[test]
fn noise_in_the_bound_does_not_raise_a_rating() {
    // The cache line was measured at 243 ns on a busy day, at 42 ns on a quiet one.
    let busy = bounded(Subject::Latency, 344.0, 243.0, LINE);
    let quiet = bounded(Subject::Latency, 141.0, 42.0, LINE);
    assert_eq!(word(&busy, MeasuredAt::Host), Word::Fair);
    assert_eq!(word(&quiet, MeasuredAt::Host), Word::Strong);
}

#[test]
fn a_figure_above_the_link_rate_is_unsure_with_a_reason() {
    let rated = rate(
        &bounded(Subject::Bandwidth, 27.5e9, 19.9e9, LINK),
        MeasuredAt::Wire,
    );
    assert_eq!(rated.word, Word::Unsure);
    assert!(
        rated.reason.starts_with("138 % of its bound, 19.9 GB/s"),
        "{}",
        rated.reason
    );
    assert!(rated.reason.ends_with("is wrong"), "{}", rated.reason);
    let near = bounded(Subject::Bandwidth, 20.1e9, 19.9e9, LINK);
    assert_eq!(word(&near, MeasuredAt::Wire), Word::Strong);
}

#[test]
fn a_bound_below_the_figure_is_wrong_and_rates_nothing() {
    let reason = "memory copies over buffers in turn by one core of this host";
    let headline = bounded(Subject::Bandwidth, 27.5e9, 19.9e9, reason);
    let tile = tile::tile(&headline, MeasuredAt::Host, &[], &[]);
    let bound = tile.measured_bound.unwrap();
    assert!(
        bound.is_wrong && bound.text.contains("138 %"),
        "{}",
        bound.text
    );
    assert_eq!(tile.share, None);
    let lower = bounded(Subject::Bandwidth, 27.5e9, 60e9, reason);
    assert_eq!(
        rate(&headline, MeasuredAt::Host),
        rate(&lower, MeasuredAt::Host)
    );
}

#[test]
fn two_levels_are_reported_separately() {
    let launches = [137.0, 347.0, 138.0, 347.0, 136.0];
    let tile = tile::tile(
        &headline(Subject::Latency, &launches),
        MeasuredAt::Host,
        &[],
        &[],
    );
    assert_eq!(tile.spread(), "137 ns in 3 launches, 347 ns in 2");
    assert_eq!(tile.word(), Word::Unsure);
    assert_eq!(
        tile.rating.reason,
        "launches give 136 ns (strong) to 347 ns (fair)"
    );
    // Both levels are good enough.
    let near = headline(Subject::Latency, &[137.0, 200.0, 138.0, 201.0, 136.0]);
    let tile = tile::tile(&near, MeasuredAt::Host, &[], &[]);
    assert_eq!((tile.word(), tile.levels.len()), (Word::Strong, 2));
}

#[test]
fn launches_close_to_a_mark_count_as_their_median() {
    let near = headline(Subject::Latency, &[240.0, 245.0, 255.0]);
    assert_eq!(word(&near, MeasuredAt::Host), Word::Strong);
}

#[test]
fn a_busy_machine_is_not_rated_weak() {
    let mut slow = headline(Subject::Latency, &[1200.0]);
    assert_eq!(word(&slow, MeasuredAt::Host), Word::Weak);
    slow.busy_launches = 1;
    let rated = rate(&slow, MeasuredAt::Host);
    assert_eq!(rated.word, Word::Unsure);
    assert_eq!(rated.reason, "machine busy: an idle one may do better");
}

#[test]
fn oversubscribed_processes_are_not_rated() {
    let mut many = headline(Subject::Scaling, &[9.0]);
    many.warnings = vec![Warning::OversubscribedCores {
        processes: 4,
        cores: 2,
    }];
    assert_eq!(word(&many, MeasuredAt::Wire), Word::Unsure);
}

#[test]
fn message_rates_are_rated_per_core() {
    // 6.9 M/s were 0.4 % of the rate that copies of 64 bytes would have allowed.
    let copies = "memory copies of this size by one core of this host";
    for (rate, expected) in [(6.9e6, Word::Strong), (2e6, Word::Fair), (5e5, Word::Weak)] {
        let headline = bounded(Subject::Rate, rate, 2.57e9, copies);
        assert_eq!(word(&headline, MeasuredAt::Host), expected);
    }
    let beyond = bounded(Subject::Rate, 60e6, 44e6, LINK);
    assert_eq!(word(&beyond, MeasuredAt::Wire), Word::Unsure);
}

#[test]
fn sizes_without_marks_are_not_rated() {
    for (subject, size) in [
        (Subject::Latency, 4096.0),
        (Subject::Bandwidth, 8.0),
        (Subject::Rate, 4096.0),
    ] {
        let headline = Headline {
            size: Some(size),
            ..bounded(subject, 6e7, 1e12, LINK)
        };
        let rated = rate(&headline, MeasuredAt::Wire);
        assert_eq!(
            (rated.word, rated.marks),
            (Word::Unsure, None),
            "{subject:?}"
        );
    }
    let unknown = headline(Subject::Bandwidth, &[4e9]);
    assert!(
        rate(&unknown, MeasuredAt::Imported)
            .reason
            .contains("link is not known")
    );
}

#[test]
fn only_figures_of_one_kind_are_ranked() {
    let published = [Published {
        subject: Subject::Latency,
        adapter: "ConnectX".to_owned(),
        value: 990.0,
        extent: Extent::Exactly,
    }];
    let headline = headline(Subject::Latency, &[141.0]);
    let host = tile::tile(&headline, MeasuredAt::Host, &[], &published);
    assert_eq!(host.place, None);
    let text = host.not_ranked().unwrap();
    assert_eq!(text, "1 not comparable");
    let wire = tile::tile(&headline, MeasuredAt::Wire, &[], &published)
        .place
        .unwrap();
    assert_eq!(wire.text, "best of 2 over a wire");
    assert_eq!(wire.next, "ahead of ConnectX, published");
    let same = Headline {
        value: 990.0,
        ..headline.clone()
    };
    let place = tile::tile(&same, MeasuredAt::Wire, &[], &published)
        .place
        .unwrap();
    assert_eq!(
        (place.rank, &*place.next),
        (1, "level with ConnectX, published")
    );
}
