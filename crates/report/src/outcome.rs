//! The outcome of a comparison in a word, for people (text), for pull requests (Markdown) and for
//! CI (JUnit XML).

mod text;

use crate::chart::escape;
use crate::comparison::Compared;
use std::fmt::Write as _;
use verbena_measure::compare::{Change, LEAST_LAUNCHES, Verdict};

/// Outcome of a comparison. A change takes precedence over an undecided figure, and that over an
/// unchanged one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A figure got worse.
    Worse,
    /// A figure got better, and none worse.
    Better,
    /// A figure is undecided with these launches.
    Undecided,
    /// No figure changed.
    Unchanged,
}

/// Returns the word for a verdict.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "same",
        Verdict::Improved => "better",
        Verdict::Regressed => "worse",
        Verdict::Undecided => "undecided",
    }
}

/// Returns whether a verdict is a change.
pub fn is_change(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Regressed | Verdict::Improved)
}

impl Compared {
    /// Returns the outcome of all curves and points.
    pub fn outcome(&self) -> Outcome {
        let has = |verdict| {
            let mut all = self.curves.iter().chain(&self.changes);
            all.any(|change| change.verdict == verdict)
        };
        match () {
            () if has(Verdict::Regressed) => Outcome::Worse,
            () if !self.missing.is_empty() => Outcome::Undecided,
            () if has(Verdict::Improved) => Outcome::Better,
            () if self.count(Verdict::Undecided) > 0 => Outcome::Undecided,
            () => Outcome::Unchanged,
        }
    }

    /// Returns the number of points with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let points = self.changes.iter();
        points.filter(|point| point.verdict == verdict).count()
    }

    /// Returns the outcome in a sentence: the changes, or the limit within which nothing changed,
    /// or the number of launches that would decide; and the points that a stopped run lacks.
    pub fn sentence(&self) -> String {
        let Some(one) = self.missing.first() else {
            return self.sentence_of_both();
        };
        let both = match self.outcome() {
            Outcome::Worse => self.sentence_of_both(),
            _ => format!(
                "undecided: {} better, {} unchanged, {} undecided",
                points(self.count(Verdict::Improved)),
                self.count(Verdict::Same),
                self.count(Verdict::Undecided)
            ),
        };
        let lacking = points(self.missing.len());
        format!(
            "{both}; {lacking} missing, as the {} run was stopped: {}",
            one.run, one.reason
        )
    }

    /// As [`Compared::sentence`], about the points of both.
    fn sentence_of_both(&self) -> String {
        let [worse, better, undecided, same] = [
            Verdict::Regressed,
            Verdict::Improved,
            Verdict::Undecided,
            Verdict::Same,
        ]
        .map(|verdict| self.count(verdict));
        let curves = self.curves.iter().filter(|curve| is_change(curve.verdict));
        let curves = match curves.count() {
            0 => String::new(),
            1 => ", 1 whole curve".to_owned(),
            several => format!(", {several} whole curves"),
        };
        match self.outcome() {
            Outcome::Worse | Outcome::Better => {
                let doubt = match undecided {
                    0 => String::new(),
                    count => format!("; {count} undecided"),
                };
                format!(
                    "changed: {} worse, {better} better{curves}{doubt}",
                    points(worse)
                )
            }
            Outcome::Undecided => format!(
                "undecided: {undecided} of {}; {}",
                points(undecided + same),
                self.advice()
            ),
            Outcome::Unchanged => format!("unchanged: {}, within {}", points(same), self.within()),
        }
    }

    /// Returns the limit within which nothing changed, from the ends of the intervals.
    fn within(&self) -> String {
        let reach = |change: &Change| {
            let ends = change
                .interval
                .map_or([change.ratio; 2], |i| [i.low, i.high]);
            ends.map(|end| (end - 1.0).abs())
                .into_iter()
                .fold(0.0, f64::max)
        };
        let same = self
            .changes
            .iter()
            .filter(|change| change.verdict == Verdict::Same);
        let most = same.map(reach).fold(0.0, f64::max);
        format!("{:.1} %", 100.0 * most)
    }

    /// Returns the number of launches that would decide the undecided figures, or why none would.
    fn advice(&self) -> String {
        if let Some(doubt) = self.doubt {
            return doubt.to_owned();
        }
        let open = self.changes.iter().zip(&self.launches);
        let needed = open
            .filter(|(change, _)| change.verdict == Verdict::Undecided)
            .filter_map(|(change, launches)| needed(change, *launches))
            .fold(0.0, f64::max);
        match needed as usize {
            0 => format!(
                "at least {LEAST_LAUNCHES} launches of each run are needed, \
                 5 are usual (--launches)"
            ),
            // More than is practical.
            1000.. => "the launches differ too much: more of them would not decide".to_owned(),
            needed => {
                format!("about {needed} launches of each run would decide (--launches {needed})")
            }
        }
    }

    /// Returns the comparison for a pull request.
    pub fn markdown(&self, shown: &[&Change]) -> String {
        let mut out = format!("**{}**\n", self.sentence());
        if !shown.is_empty() {
            out.push_str("\n| | ratio | interval | what |\n|---|---|---|---|\n");
        }
        for change in shown {
            let interval = interval(change);
            let key = change.key.replace('\\', "\\\\").replace('|', "\\|");
            let _ = writeln!(
                out,
                "| {} | {:.3} | {interval} | {key} |",
                word(change.verdict),
                change.ratio
            );
        }
        out
    }

    /// Returns the comparison as JUnit XML: regressions are failures, undecided figures are
    /// skipped.
    pub fn junit(&self) -> String {
        let all: Vec<&Change> = self.curves.iter().chain(&self.changes).collect();
        let count = |verdict| {
            all.iter()
                .filter(|change| change.verdict == verdict)
                .count()
        };
        let mut out = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"verbena compare\" \
             tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
            all.len() + self.missing.len(),
            count(Verdict::Regressed),
            count(Verdict::Undecided) + self.missing.len()
        );
        for change in all {
            let text = format!("{:.3} times {}", change.ratio, interval(change));
            let text = escape(text.trim());
            let inner = match change.verdict {
                Verdict::Regressed => format!("<failure message=\"worse: {text}\"/>"),
                Verdict::Undecided => format!("<skipped message=\"undecided: {text}\"/>"),
                _ => format!("<system-out>{}: {text}</system-out>", word(change.verdict)),
            };
            let (class, name) = change.key.split_once(' ').unwrap_or((&change.key, ""));
            let _ = writeln!(
                out,
                "<testcase classname=\"{}\" name=\"{}\">{inner}</testcase>",
                escape(class),
                escape(name)
            );
        }
        for one in &self.missing {
            let (class, name) = one.key.split_once(' ').unwrap_or((&one.key, ""));
            let _ = writeln!(
                out,
                "<testcase classname=\"{}\" name=\"{}\"><skipped message=\"{} run: {}\"/>\
                 </testcase>",
                escape(class),
                escape(name),
                one.run,
                escape(&one.reason)
            );
        }
        out + "</testsuite>\n"
    }
}

fn points(count: usize) -> String {
    match count {
        1 => "1 point".to_owned(),
        _ => format!("{count} points"),
    }
}

/// Formats an interval for tables.
fn interval(change: &Change) -> String {
    change
        .interval
        .map_or(String::new(), |i| format!("[{:.3}, {:.3}]", i.low, i.high))
}

/// Returns the number of launches with which an interval of this width would exclude 1: the width
/// decreases with the square root of the number.
fn needed(change: &Change, launches: usize) -> Option<f64> {
    let interval = change.interval?;
    let half = (interval.high / interval.low).ln() / 2.0;
    let needed = launches as f64 * (half / change.ratio.ln()).powi(2);
    needed
        .is_finite()
        .then(|| needed.ceil().max(launches as f64 + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Missing;
    use verbena_measure::stats::interval::Interval;

    type Judged = (Verdict, f64, Option<(f64, f64)>);

    fn compared(points: &[Judged]) -> Compared {
        let change = |(verdict, ratio, interval): &Judged| Change {
            key: "latency.write size=8|9: <time>".to_owned(),
            points: 1,
            a: 1.0,
            b: *ratio,
            ratio: *ratio,
            interval: interval.map(|(low, high)| Interval { low, high }),
            p: None,
            threshold: 0.05,
            verdict: *verdict,
        };
        Compared {
            curves: Vec::new(),
            changes: points.iter().map(change).collect(),
            launches: vec![5; points.len()],
            only_first: 0,
            only_second: 0,
            notes: Vec::new(),
            doubt: None,
            missing: Vec::new(),
        }
    }

    #[test]
    fn outcomes_are_ordered() {
        let same = (Verdict::Same, 1.0, Some((0.98, 1.03)));
        let open = (Verdict::Undecided, 1.2, Some((0.9, 1.6)));
        let worse = (Verdict::Regressed, 1.5, Some((1.4, 1.6)));
        let better = (Verdict::Improved, 0.5, None);
        let of = |points: &[_]| (compared(points).outcome(), compared(points).sentence());
        let (outcome, text) = of(&[same]);
        assert_eq!(
            (outcome, text.as_str()),
            (Outcome::Unchanged, "unchanged: 1 point, within 3.0 %")
        );
        let (outcome, text) = of(&[same, open]);
        assert_eq!(outcome, Outcome::Undecided);
        assert_eq!(
            text,
            "undecided: 1 of 2 points; about 13 launches of each run would decide (--launches 13)"
        );
        assert_eq!(of(&[same, open, better]).0, Outcome::Better);
        let (outcome, text) = of(&[same, open, better, worse]);
        assert_eq!(outcome, Outcome::Worse);
        assert_eq!(text, "changed: 1 point worse, 1 better; 1 undecided");
        let (_, single) = of(&[(Verdict::Undecided, 0.41, None)]);
        assert!(single.contains("at least 3 launches"), "{single}");
    }

    #[test]
    fn points_that_a_stopped_run_lacks_leave_the_comparison_undecided() {
        let same = (Verdict::Same, 1.0, None);
        let better = (Verdict::Improved, 0.5, None);
        let stopped = |points: &[Judged]| Compared {
            missing: vec![Missing {
                key: "latency.write size=64".to_owned(),
                run: "second",
                reason: "not computed: <no time>".to_owned(),
            }],
            ..compared(points)
        };
        let all = stopped(&[same, better]);
        assert_eq!(all.outcome(), Outcome::Undecided);
        assert_eq!(
            all.sentence(),
            "undecided: 1 point better, 1 unchanged, 0 undecided; 1 point missing, as the second \
             run was stopped: not computed: <no time>"
        );
        let junit = all.junit();
        let counts = "tests=\"3\" failures=\"0\" skipped=\"1\"";
        assert!(junit.contains(counts), "{junit}");
        assert!(
            junit.contains("second run: not computed: &lt;no time&gt;"),
            "{junit}"
        );
        let worse = stopped(&[(Verdict::Regressed, 1.5, None)]);
        assert_eq!(worse.outcome(), Outcome::Worse);
        assert!(
            worse.sentence().contains("1 point missing"),
            "{}",
            worse.sentence()
        );
    }

    #[test]
    fn texts_are_escaped_for_other_formats() {
        let all = compared(&[
            (Verdict::Regressed, 1.5, None),
            (Verdict::Undecided, 1.2, None),
        ]);
        let shown: Vec<&Change> = all.changes.iter().collect();
        assert!(
            all.markdown(&shown).contains("size=8\\|9"),
            "{}",
            all.markdown(&shown)
        );
        let junit = all.junit();
        assert!(
            junit.contains("tests=\"2\" failures=\"1\" skipped=\"1\""),
            "{junit}"
        );
        assert!(
            junit.contains("&lt;time&gt;") && !junit.contains("<time>"),
            "{junit}"
        );
    }
}
