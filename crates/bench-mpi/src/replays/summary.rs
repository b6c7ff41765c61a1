//! Summary of replays: the parts of the time of one replay, or a comparison of several models.

use super::interval::Judged;
use std::fmt::Write as _;
use verbena_calibrate::interval::Verdict;
use verbena_measure::unit;
use verbena_report::html::Spent;
use verbena_terminal::bars::bar;
use verbena_terminal::style::{Style, styled};

/// A replay on a model.
#[derive(Debug)]
pub struct OnModel<'a> {
    /// The system.
    pub system: &'a str,
    /// The time of the replay in nanoseconds.
    pub took: f64,
    /// Its parts, averaged over the ranks, if they are known.
    pub spent: Option<Spent>,
}

/// Returns a bar for each part of the time of a replay, then sentences.
pub fn one(spent: &Spent, sentences: &[(&str, String)], in_blocks: bool) -> String {
    let all: f64 = spent.parts().iter().map(|(_, part)| part).sum();
    let mut out = "\nWhere a rank spends the time, on average\n".to_owned();
    for (name, part) in spent.parts() {
        let share = if all > 0.0 { part / all } else { 0.0 };
        let drawn = bar((part > 0.0).then_some(share), in_blocks);
        let _ = writeln!(
            out,
            "  {name:<10} {:>10}  {:>3.0} %  {}",
            unit::time(part),
            100.0 * share,
            styled(Style::Faint, &drawn)
        );
    }
    out + &told(sentences)
}

/// Returns a bar for each model's time, and the part that contributes most to the difference
/// between the slowest and the fastest; `judge` returns the verdict on the second of two models by
/// number. Models are only called fastest and slowest if these two can be distinguished.
pub fn several(
    models: &[OnModel<'_>],
    judge: impl Fn(usize, usize) -> Option<Judged>,
    in_blocks: bool,
) -> String {
    let by_time = |a: &usize, b: &usize| models[*a].took.total_cmp(&models[*b].took);
    let numbers = || 0..models.len();
    let (Some(first), Some(last)) = (numbers().min_by(by_time), numbers().max_by(by_time)) else {
        return String::new();
    };
    let (fastest, slowest) = (&models[first], &models[last]);
    let mut out = "\n".to_owned();
    let width = models.iter().map(|one| one.system.len()).max().unwrap_or(0);
    for one in models {
        let drawn = bar(Some(one.took / slowest.took), in_blocks);
        let time = unit::time(one.took);
        let _ = writeln!(out, "  {:<width$}  {time:>10}  {drawn}", one.system);
    }
    let alike = |one: usize, other: usize| {
        let judged = judge(one, other).filter(|_| one != other);
        judged.filter(|judged| judged.verdict == Verdict::NotDistinguishable)
    };
    if let Some(judged) = alike(first, last).filter(|_| slowest.took > fastest.took) {
        let (slow, ratio) = (slowest.system, slowest.took / fastest.took);
        let range = judged.range(fastest.system);
        let sentence =
            format!("not distinguishable: {slow} takes {ratio:.3} times as long; {range}");
        return out + &told(&[("Order", sentence)]);
    }
    // The models that may be the fastest or slowest as well.
    let ties = |of: usize| {
        let others = numbers().filter(|other| alike(of, *other).is_some());
        let others: Vec<&str> = others.map(|other| models[other].system).collect();
        match others.is_empty() {
            true => String::new(),
            false => format!("; not distinguishable from {}", others.join(", ")),
        }
    };
    let time = unit::time(fastest.took);
    let sentences = [
        (
            "Fastest",
            format!("{}: {time}{}", fastest.system, ties(first)),
        ),
        ("Slowest", difference(fastest, slowest) + &ties(last)),
    ];
    out + &told(&sentences)
}

fn told(sentences: &[(&str, String)]) -> String {
    let filled = sentences.iter().filter(|(_, text)| !text.is_empty());
    let lines = filled.map(|(word, sentence)| format!("  {word:<10} {sentence}\n"));
    format!("\n{}", lines.collect::<String>())
}

/// Returns how much slower one model is than another, and the part with the largest difference.
fn difference(fastest: &OnModel<'_>, slowest: &OnModel<'_>) -> String {
    let ratio = slowest.took / fastest.took;
    let name = slowest.system;
    if slowest.took <= fastest.took {
        return "none: all models take the same time".to_owned();
    }
    let (Some(slow), Some(fast)) = (slowest.spent, fastest.spent) else {
        return format!("{name}: {ratio:.2} times as long");
    };
    let more = slow.parts().into_iter().zip(fast.parts());
    let more = more.map(|((part, slow), (_, fast))| (part, slow - fast));
    let most = more.max_by(|a, b| a.1.total_cmp(&b.1));
    let (part, more) = most.unwrap_or(("", 0.0));
    format!(
        "{name}: {ratio:.2} times as long, most of the difference in {part}: {} more a rank",
        unit::time(more)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(system: &str, computing: f64, wire: f64) -> OnModel<'_> {
        let spent = Spent {
            computing,
            overhead: 0.0,
            wire,
            waiting: 0.0,
            done: 0.0,
        };
        OnModel {
            system,
            took: computing + wire,
            spent: Some(spent),
        }
    }

    #[test]
    fn the_largest_difference_is_named() {
        let text = difference(&on("new", 1e6, 1e6), &on("old", 1e6, 3e6));
        assert_eq!(
            text,
            "old: 2.00 times as long, most of the difference in wire: 2 ms more a rank"
        );
        let unknown = OnModel {
            spent: None,
            ..on("old", 1e6, 3e6)
        };
        let text = difference(&on("new", 1e6, 1e6), &unknown);
        assert_eq!(text, "old: 2.00 times as long");
        let text = difference(&on("new", 1e6, 1e6), &on("same", 1e6, 1e6));
        assert_eq!(text, "none: all models take the same time");
    }

    #[test]
    fn models_that_cannot_be_distinguished_have_no_fastest() {
        let models = [on("a", 1e6, 1e6), on("b", 1e6, 1.1e6), on("c", 1e6, 9e6)];
        // Ratios of less than two are within the errors.
        let judge = |first: usize, other: usize| {
            let ratio = models[other].took / models[first].took;
            Some(Judged {
                verdict: match () {
                    () if ratio > 2.0 => Verdict::Slower,
                    () if ratio < 0.5 => Verdict::Faster,
                    () => Verdict::NotDistinguishable,
                },
                range: (ratio / 2.0, ratio * 2.0),
                level: 0.8,
                rule: String::new(),
            })
        };
        let text = several(&models[..2], judge, false);
        let order = "Order      not distinguishable: b takes 1.050 times as long; \
                     0.525 to 2.100 times the time of a (80 %)\n";
        assert!(text.contains(order), "{text}");
        assert!(!text.contains("est "), "{text}");
        let text = several(&models, judge, false);
        assert!(
            text.contains("Fastest    a: 2 ms; not distinguishable from b\n"),
            "{text}"
        );
        assert!(text.contains("Slowest    c: 5.00 times as long"), "{text}");
    }
}
