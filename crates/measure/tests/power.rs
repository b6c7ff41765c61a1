//! Statistical power of comparing two full evaluations, by simulation: as many benchmarks, points
//! and launches as `verbena evaluate` has, with the measured noise between launches. `cargo test
//! --release -p verbena-measure --test power -- --nocapture` prints the table of
//! `docs/methods-judging.md`.

use verbena_measure::compare::{Better, Comparison, Paired, Verdict, compare};
use verbena_measure::random::Random;

/// Points of each curve: sizes, pairs, windows. 817 in all, from 41 benchmarks of one to four
/// curves each.
const BENCHMARKS: &[(usize, &[usize])] = &[
    (1, &[1]),
    (4, &[23, 23, 23, 11]),
    (1, &[22, 22]),
    (3, &[23, 23]),
    (6, &[23]),
    (8, &[7]),
    (8, &[5]),
    (10, &[4, 4]),
];
const LAUNCHES: usize = 5;

/// The noise between launches.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Standard deviation of a figure over launches.
    deviation: f64,
    /// Share of its variance common to all points of a curve.
    common: f64,
    /// Variation of the deviation between curves: standard deviation of its logarithm.
    unlike: f64,
    /// Share of a point's launches in which the figure is up to eight times as large.
    wild: f64,
}

const EVEN: Noise = Noise {
    deviation: 0.02,
    common: 0.0,
    unlike: 0.0,
    wild: 0.0,
};

fn bell(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

struct Key {
    benchmark: usize,
    curve: usize,
    deviation: f64,
    level: f64,
}

fn keys(noise: Noise, random: &mut Random) -> Vec<Key> {
    let mut keys = Vec::new();
    let shapes = BENCHMARKS
        .iter()
        .flat_map(|&(number, curves)| vec![curves; number]);
    let mut curve = 0;
    for (benchmark, curves) in shapes.enumerate() {
        for &points in curves {
            let deviation = noise.deviation * (noise.unlike * bell(random)).exp();
            keys.extend((0..points).map(|point| Key {
                benchmark,
                curve,
                deviation,
                level: 300.0 * (1.0 + point as f64),
            }));
            curve += 1;
        }
    }
    keys
}

/// Simulates one figure per launch for each key; those of benchmark `slow` are a tenth slower.
fn run(keys: &[Key], noise: Noise, slow: Option<usize>, random: &mut Random) -> Vec<Vec<f64>> {
    let curves = keys.last().map_or(0, |key| key.curve + 1);
    let common: Vec<Vec<f64>> = (0..curves)
        .map(|_| (0..LAUNCHES).map(|_| bell(random)).collect())
        .collect();
    keys.iter()
        .map(|key| {
            let factor = if slow == Some(key.benchmark) {
                1.1
            } else {
                1.0
            };
            (0..LAUNCHES)
                .map(|launch| {
                    let own = (1.0 - noise.common).sqrt() * bell(random);
                    let shared = noise.common.sqrt() * common[key.curve][launch];
                    let wild = match random.unit() < noise.wild {
                        true => 1.0 + 7.0 * random.unit(),
                        false => 1.0,
                    };
                    key.level * factor * wild * (key.deviation * (own + shared)).exp()
                })
                .collect()
        })
        .collect()
}

fn compared(keys: &[Key], a: Vec<Vec<f64>>, b: Vec<Vec<f64>>) -> Comparison {
    let pairs: Vec<Paired> = keys
        .iter()
        .zip(a.into_iter().zip(b))
        .enumerate()
        .map(|(at, (key, (a, b)))| Paired {
            key: at.to_string(),
            curve: format!("{} {}", key.benchmark, key.curve),
            better: Better::Lower,
            best_a: a.clone(),
            best_b: b.clone(),
            a,
            b,
            threshold: 0.05,
        })
        .collect();
    compare(&pairs)
}

/// Counts of repetitions in which equal runs were reported as different, the slowed benchmark was
/// reported as worse, and another one was reported as different; and the share of the slowed points
/// that were reported as worse.
#[derive(Debug, Default)]
struct Power {
    repetitions: usize,
    false_alarms: usize,
    found: usize,
    others: usize,
    points: f64,
}

fn power(noise: Noise, repetitions: usize, seed: u64) -> Power {
    let mut random = Random::new(seed);
    let mut power = Power {
        repetitions,
        ..Power::default()
    };
    let called = |verdict: Verdict| verdict != Verdict::Same;
    for _ in 0..repetitions {
        let keys = keys(noise, &mut random);
        let benchmarks = keys.last().map_or(0, |key| key.benchmark + 1);
        let before = run(&keys, noise, None, &mut random);
        let equal = compared(&keys, before.clone(), run(&keys, noise, None, &mut random));
        let all = equal.curves.iter().chain(&equal.points);
        power.false_alarms += usize::from(all.clone().any(|change| called(change.verdict)));
        let slow = random.below(benchmarks);
        let planted = compared(&keys, before, run(&keys, noise, Some(slow), &mut random));
        let of_it = |change: &&verbena_measure::compare::Change| match change.points {
            1 => keys[change.key.parse::<usize>().unwrap()].benchmark == slow,
            _ => change.key.split_once(' ').unwrap().0 == slow.to_string(),
        };
        let all = || planted.curves.iter().chain(&planted.points);
        // All of its curves, or its point if it has but one.
        let alone = keys.iter().filter(|key| key.benchmark == slow).count() == 1;
        let mut curves = planted
            .curves
            .iter()
            .chain(planted.points.iter().filter(|_| alone));
        let whole = curves
            .by_ref()
            .filter(of_it)
            .all(|c| c.verdict == Verdict::Regressed);
        power.found += usize::from(whole);
        power.others += usize::from(all().filter(|c| !of_it(c)).any(|c| called(c.verdict)));
        let own: Vec<_> = planted.points.iter().filter(of_it).collect();
        let worse = own.iter().filter(|c| c.verdict == Verdict::Regressed);
        power.points += worse.count() as f64 / own.len() as f64 / repetitions as f64;
    }
    power
}

#[test]
fn a_slowdown_of_a_tenth_is_found_and_equal_runs_show_no_change() {
    let mut random = Random::new(0);
    assert_eq!(keys(EVEN, &mut random).len(), 817);
    let alike = |deviation, common| Noise {
        deviation,
        common,
        ..EVEN
    };
    let scenes = [
        ("1.15 %, each point by itself", alike(0.0115, 0.0), 19),
        ("2 %, each point by itself", alike(0.02, 0.0), 19),
        ("3 %, each point by itself", alike(0.03, 0.0), 19),
        (
            "1.15 %, half of it common to a curve",
            alike(0.0115, 0.5),
            19,
        ),
        ("2 %, half of it common to a curve", alike(0.02, 0.5), 19),
        ("3 %, half of it common to a curve", alike(0.03, 0.5), 19),
        ("2 %, all of it common to a curve", alike(0.02, 1.0), 19),
        (
            "2 %, half common, unlike between curves, one launch of a point in fifty wild",
            Noise {
                unlike: 0.5,
                wild: 0.02,
                ..alike(0.02, 0.5)
            },
            18,
        ),
        (
            "2 %, half common, three launches of a point in ten wild",
            Noise {
                wild: 0.3,
                ..alike(0.02, 0.5)
            },
            16,
        ),
    ];
    for (seed, (name, noise, least)) in (1..).zip(scenes) {
        let power = power(noise, 40, seed);
        let per = |number: usize| 20.0 * number as f64 / power.repetitions as f64;
        println!(
            "| {name} | {:.1} of 20 | {:.0} % | {:.1} of 20 | {:.1} of 20 |",
            per(power.found),
            100.0 * power.points,
            per(power.false_alarms),
            per(power.others)
        );
        assert!(per(power.found) >= f64::from(least), "{name}: {power:?}");
        assert!(per(power.false_alarms) <= 1.0, "{name}: {power:?}");
        assert!(per(power.others) <= 2.0, "{name}: {power:?}");
    }
}
