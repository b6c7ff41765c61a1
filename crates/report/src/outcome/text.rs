//! A comparison as text: the outcome, the changes, then the number of points that are worse,
//! better, unchanged or undecided, with the largest changes.

use super::word;
use crate::comparison::Compared;
use std::fmt::Write as _;
use verbena_measure::compare::{Change, Verdict};
use verbena_terminal::bars::bar;
use verbena_terminal::style::{Style, styled};

/// Number of changes to name.
const NAMED: usize = 3;

impl Compared {
    /// Returns the comparison for a terminal; `in_blocks` draws bars in block characters.
    pub fn text(&self, shown: &[&Change], in_blocks: bool) -> String {
        let mut out = styled(Style::Bold, &self.sentence()) + "\n";
        for change in shown {
            let style = match change.verdict {
                Verdict::Improved => Style::Good,
                Verdict::Regressed => Style::Bad,
                _ => Style::Faint,
            };
            let interval = change
                .interval
                .map_or(String::new(), |i| format!(" [{:.3}, {:.3}]", i.low, i.high));
            let _ = writeln!(
                out,
                "{} {:.3}{interval}  {}{}",
                styled(style, &format!("{:>10}", word(change.verdict))),
                change.ratio,
                change.key,
                extent(change)
            );
        }
        out + &self.counts(in_blocks)
    }

    fn counts(&self, in_blocks: bool) -> String {
        let all = self.changes.len();
        let points = match all {
            1 => "1 point in both".to_owned(),
            _ => format!("{all} points in both"),
        };
        let mut out = format!(
            "\n{points}; {} only in the first, {} only in the second\n",
            self.only_first, self.only_second
        );
        let verdicts = [
            (Verdict::Regressed, Style::Bad),
            (Verdict::Improved, Style::Good),
            (Verdict::Undecided, Style::Doubt),
            (Verdict::Same, Style::Faint),
        ];
        for (verdict, style) in verdicts {
            let count = self.count(verdict);
            let share = (count > 0).then(|| count as f64 / all as f64);
            let line = format!(
                "  {:<9} {count:>5}  {}  {}",
                word(verdict),
                styled(style, &bar(share, in_blocks)),
                most(&self.changes, verdict)
            );
            out = out + line.trim_end() + "\n";
        }
        out
    }
}

/// Returns the number of points of a curve as text; empty for a single point.
fn extent(change: &Change) -> String {
    match change.points {
        1 => String::new(),
        points => format!(" (all {points} points together)"),
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
