//! Summary of `verbena compare`: the number of points that are worse, better, unchanged or
//! undecided, and the largest changes.

use super::bar;
use crate::output::outln;
use crate::style::{Style, styled};
use crate::terminal;
use verbena_measure::compare::{Change, Verdict};
use verbena_report::comparison::Compared;
use verbena_report::outcome::word;

/// Number of changes to name.
const NAMED: usize = 3;

pub fn print(compared: &Compared) {
    let all = compared.changes.len();
    let points = match all {
        1 => "1 point in both".to_owned(),
        _ => format!("{all} points in both"),
    };
    outln!(
        "\n{points}; {} only in the first, {} only in the second",
        compared.only_first,
        compared.only_second
    );
    let in_blocks = terminal::shows_blocks();
    let verdicts = [
        (Verdict::Regressed, Style::Bad),
        (Verdict::Improved, Style::Good),
        (Verdict::Undecided, Style::Doubt),
        (Verdict::Same, Style::Faint),
    ];
    for (verdict, style) in verdicts {
        let count = compared.count(verdict);
        let share = (count > 0).then(|| count as f64 / all as f64);
        let line = format!(
            "  {:<9} {count:>5}  {}  {}",
            word(verdict),
            styled(style, &bar(share, in_blocks)),
            most(&compared.changes, verdict)
        );
        outln!("{}", line.trim_end());
    }
}

/// Lists the points with the largest changes and their ratios; empty for unchanged points.
fn most(changes: &[Change], verdict: Verdict) -> String {
    if verdict == Verdict::Same {
        return String::new();
    }
    let of_verdict = changes.iter().filter(|change| change.verdict == verdict);
    let mut of_verdict: Vec<&Change> = of_verdict.collect();
    let size = |change: &Change| change.ratio.ln().abs();
    of_verdict.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let named = of_verdict.iter().take(NAMED);
    let named = named.map(|change| format!("{:.2}x {}", change.ratio, change.key));
    let mut named: Vec<String> = named.collect();
    if of_verdict.len() > NAMED {
        named.push("...".to_owned());
    }
    named.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, ratio: f64, verdict: Verdict) -> Change {
        Change {
            key: key.to_owned(),
            points: 1,
            a: 1.0,
            b: ratio,
            ratio,
            interval: None,
            p: None,
            threshold: 0.05,
            verdict,
        }
    }

    #[test]
    fn the_largest_changes_come_first() {
        let changes: Vec<Change> = [("a", 1.2), ("b", 0.3), ("c", 1.5), ("d", 1.1)]
            .map(|(key, ratio)| change(key, ratio, Verdict::Regressed))
            .into();
        let text = most(&changes, Verdict::Regressed);
        assert_eq!(text, "0.30x b; 1.50x c; 1.20x a; ...");
        assert_eq!(most(&changes, Verdict::Improved), "");
    }
}
