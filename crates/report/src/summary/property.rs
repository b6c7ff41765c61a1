//! Properties of the rules over random figures: sentences agree with tiles, a faster figure never
//! gets a worse rating, and a busy machine is always reported.

use super::*;
use crate::headline::{Headline, Subject};
use proptest::prelude::*;
use verbena_measure::bound::Bound;
use verbena_measure::compare::Better;
use verbena_measure::result::{Metric, Point, Value};
use verbena_measure::sample::Sample;
use verbena_measure::stats::launches;
use verbena_measure::warning::Warning;

const REASONS: [&str; 3] = [
    "a cache line from one core to another on this host",
    "memory copies over buffers in turn by one core of this host",
    "link at 200.0 Gbit/s, 98.7 % of it payload in packets of 4096 bytes",
];
const KINDS: [MeasuredAt; 5] = [
    MeasuredAt::Host,
    MeasuredAt::Loopback,
    MeasuredAt::Wire,
    MeasuredAt::Imported,
    MeasuredAt::Model,
];

/// Returns a typical value of a subject, so that random factors of it reach all thresholds.
fn typical(subject: Subject) -> f64 {
    match subject {
        Subject::Latency => 600.0,
        Subject::Bandwidth => 5e9,
        Subject::Rate => 2e6,
        Subject::Scaling => 1.6,
        Subject::Memory => 40e3,
    }
}

/// A factor between an eighth and eight.
fn factor() -> impl Strategy<Value = f64> {
    (-3.0..3.0).prop_map(f64::exp2)
}

/// Properties of a headline without the values of its launches.
#[derive(Debug, Clone)]
struct Case {
    subject: Subject,
    kind: MeasuredAt,
    long: bool,
    cached: bool,
    bound: Option<(f64, String)>,
    busy: usize,
    oversubscribed: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let bound = prop::option::of((factor(), prop::sample::select(REASONS.to_vec())));
    let subject = prop::sample::select(Subject::ALL.to_vec());
    let kind = prop::sample::select(KINDS.to_vec());
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
    (subject, kind, bound, 0..4_usize, flags).prop_map(|(subject, kind, bound, busy, flags)| Case {
        subject,
        kind,
        long: flags.0,
        cached: flags.1,
        bound: bound.map(|(factor, why)| (factor * typical(subject), why.to_owned())),
        busy,
        oversubscribed: flags.2,
    })
}

fn headline(case: &Case, launches: &[f64]) -> Headline {
    let sample = Sample::new(launches.to_vec()).unwrap();
    let size = if case.long { 1_048_576.0 } else { 8.0 };
    let metric = if case.cached {
        "cached-bandwidth"
    } else {
        "bandwidth"
    };
    let turns = case.oversubscribed.then_some(Warning::OversubscribedCores {
        processes: 4,
        cores: 2,
    });
    Headline {
        subject: case.subject,
        of: String::new(),
        metric: metric.to_owned(),
        size: Some(size),
        value: sample.median(),
        interval: launches::interval(&sample),
        launches: launches.to_vec(),
        busy_launches: case.busy.min(launches.len()),
        tail: [None, None],
        bound: case.bound.clone(),
        warnings: turns.into_iter().collect(),
        curve: None,
    }
}

/// Returns strong, fair and weak as numbers; unsure is not on the scale.
fn place(word: Word) -> Option<u8> {
    match word {
        Word::Strong => Some(2),
        Word::Fair => Some(1),
        Word::Weak => Some(0),
        Word::Unsure => None,
    }
}

fn point(benchmark: &str, launch: u32, number: (&str, f64), metric: Metric, busy: bool) -> Point {
    let (name, value) = number;
    let word = |text: &str| Value::Word(text.to_owned());
    let size = if benchmark == "bandwidth.write" {
        1_048_576.0
    } else {
        8.0
    };
    let mut point = Point {
        benchmark: benchmark.to_owned(),
        launch,
        metrics: vec![metric],
        ..Point::default()
    };
    point.parameters.insert("transport".to_owned(), word("rc"));
    point.parameters.insert("size".to_owned(), size.into());
    point.parameters.insert(name.to_owned(), value.into());
    point.conduct.disturbed = Some(if busy { 0.9 } else { 0.0 });
    if busy {
        point.warnings.push(Warning::Disturbed { share: 0.9 });
    }
    point
}

/// A run with random figures of all subjects that are points.
fn run() -> impl Strategy<Value = Loaded> {
    let values = prop::collection::vec(prop::collection::vec(factor(), 4), 1..7);
    let bound = (factor(), prop::sample::select(REASONS.to_vec()));
    let fabric = prop::sample::select(vec!["software", "hardware", "model", "import"]);
    let busy = prop::collection::vec(prop::bool::weighted(0.2), 4);
    (values, bound, fabric, busy).prop_map(|(values, (factor, why), fabric, busy)| {
        let mut run = Loaded::default();
        run.run.fabric = fabric.to_owned();
        run.run.launcher = "local".to_owned();
        for (launch, of) in (0..).zip(&values) {
            let time = |of: f64, subject| {
                let bound = Bound {
                    value: factor * typical(subject),
                    reason: why.to_owned(),
                };
                let value = of * typical(subject);
                Metric::figure("time", "ns", Better::Lower, value).bounded(Some(bound))
            };
            let rate = |name: &str, unit: &str, of: f64, subject| Metric {
                name: String::from(name),
                unit: String::from(unit),
                better: Better::Higher,
                ..time(of, subject)
            };
            let latency = time(of[0], Subject::Latency);
            let bandwidth = rate("bandwidth", "bytes/s", of[1], Subject::Bandwidth);
            let messages = rate("message-rate", "1/s", of[2], Subject::Rate);
            let many = time(of[0] * of[3], Subject::Latency);
            let (pairs, window) = ("pairs", ("window", 8.0));
            run.points.extend([
                point(
                    "latency.write",
                    launch,
                    ("ranks", 2.0),
                    latency.clone(),
                    busy[0],
                ),
                point(
                    "bandwidth.write",
                    launch,
                    ("ranks", 2.0),
                    bandwidth,
                    busy[1],
                ),
                point("rate.window", launch, window, messages, busy[2]),
                point(
                    "multi-pair.write-latency",
                    launch,
                    (pairs, 1.0),
                    latency,
                    false,
                ),
                point(
                    "multi-pair.write-latency",
                    launch,
                    (pairs, 4.0),
                    many,
                    busy[3],
                ),
            ]);
        }
        run
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Strong and weak name exactly the tiles with that word; "no result" appears only without any.
    #[test]
    fn summary_sentences_agree_with_tiles(run in run()) {
        let summary = of(&run, &[], &[]);
        prop_assert_eq!(summary.tiles.len(), 4);
        let sentences = summary.sentences();
        for (at, word) in [(0, Word::Strong), (1, Word::Weak)] {
            let text = &sentences[at].1;
            for tile in &summary.tiles {
                let clause = format!("{} {} (", tile.name.to_lowercase(), tile.value);
                prop_assert_eq!(text.contains(&clause), tile.word() == word, "{}", text);
            }
            let some = summary.tiles.iter().any(|tile| tile.word() == word);
            prop_assert_eq!(text.starts_with("no "), !some, "{}", text);
        }
        for tile in summary.tiles.iter().filter(|tile| tile.word() == Word::Unsure) {
            let doubt = format!("{} is unsure: ", tile.name.to_lowercase());
            prop_assert!(sentences[2].1.contains(&doubt), "{}", sentences[2].1);
        }
    }

    /// The bar agrees with the word if a single median decides.
    #[test]
    fn the_bar_agrees_with_the_rating(case in case(), value in factor()) {
        let case = Case { busy: 0, ..case };
        let headline = headline(&case, &[value * typical(case.subject)]);
        let tile = tile::tile(&headline, case.kind, &[], &[]);
        if let (Some(bar), Some(place)) = (tile.bar, place(tile.word())) {
            let third = (3.0 * bar + 1e-9).floor().min(2.0) as u8;
            prop_assert_eq!(third, place, "{:?}", tile);
        }
    }

    /// With each launch as fast or faster and all else equal, both ends of the rating stay or rise.
    #[test]
    fn a_faster_figure_never_gets_a_worse_rating(
        case in case(),
        both in prop::collection::vec((factor(), 0.0..2.0), 1..12),
    ) {
        let better = |value: f64, by: f64| match case.subject.better() {
            Better::Lower => value / f64::exp2(by),
            Better::Higher => value * f64::exp2(by),
        };
        let typical = typical(case.subject);
        let slow: Vec<f64> = both.iter().map(|(of, _)| of * typical).collect();
        let fast: Vec<f64> = both.iter().map(|(of, by)| better(of * typical, *by)).collect();
        let slow = rate(&headline(&case, &slow), case.kind);
        let fast = rate(&headline(&case, &fast), case.kind);
        prop_assert!(fast.lowest >= slow.lowest, "{slow:?} {fast:?}");
        prop_assert!(fast.highest >= slow.highest, "{slow:?} {fast:?}");
        if let (Some(slow), Some(fast)) = (place(slow.word), place(fast.word)) {
            prop_assert!(fast >= slow);
        }
        // Only a wrong bound leads away from strong.
        if slow.word == Word::Strong && fast.word != Word::Strong {
            prop_assert!(fast.highest == Some(Grade::Impossible), "{slow:?} {fast:?}");
        }
    }

    /// A bound measured during the run changes no word.
    #[test]
    fn a_measured_bound_changes_no_rating(case in case(), value in factor(), other in factor()) {
        let kind = MeasuredAt::Host;
        let of = |bound: f64| {
            let bound = Some((bound * typical(case.subject), REASONS[1].to_owned()));
            let case = Case { bound, ..case.clone() };
            rate(&headline(&case, &[value * typical(case.subject)]), kind)
        };
        prop_assert_eq!(of(1.0), of(other));
    }

    /// Disturbed points are counted in the distrust sentence, before all else.
    #[test]
    fn a_busy_machine_is_the_first_reason(run in run()) {
        let summary = of(&run, &[], &[]);
        let of_first = run.points.iter().filter(|point| point.launch == 0);
        let busy = of_first.filter(|point| !point.warnings.is_empty()).count();
        prop_assert_eq!(summary.busy_points, busy);
        let said = format!("machine busy at {busy} of 5 points: ");
        let first = summary.distrust.first();
        let is_said = first.is_some_and(|first| first.starts_with(&said));
        prop_assert_eq!(is_said, busy > 0, "{:?}", summary.distrust);
    }
}
