//! Progress on standard error: one bar with what runs and how long the rest will take. Only a terminal gets it; what reads a
//! pipe wants lines that mean something, and there are none until there is a result.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often the time that is left is counted down.
const TICK: Duration = Duration::from_millis(500);

/// Progress over steps, each of which runs a benchmark.
pub struct Progress {
    bar: ProgressBar,
    rest: Rest,
    /// What runs.
    running: String,
    /// When the step before it ended: on several threads that is all that there is to time it by.
    since: Instant,
}

impl Progress {
    /// For benchmarks by name, each as often as it is to be launched.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, launches: u32) -> Progress {
        let rest = Rest::new(names, launches);
        // Of a job's processes only the first has steps to show.
        let target = match rest.steps() > 0 && std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(rest.steps() as u64), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {wide_msg}");
        // A mistake in the template would be found by the first who sees it.
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Progress {
            bar,
            rest,
            running: String::new(),
            since: Instant::now(),
        }
    }

    /// A benchmark begins.
    pub fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.running);
        let left = self.rest.left().map(|left| {
            let left = indicatif::HumanDuration(Duration::from_secs_f64(left.round()));
            format!(", about {left:#} left")
        });
        self.bar
            .set_message(format!("{name}{}", left.unwrap_or_default()));
    }

    /// It ended.
    pub fn end(&mut self) {
        self.rest
            .done(&self.running, self.since.elapsed().as_secs_f64());
        self.since = Instant::now();
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// An estimate of what is left that does not jump: each benchmark is thought to take what its launches took before, and one
/// that has not run yet what the others took on average.
struct Rest {
    /// By name: launches to go, launches done, and what these took in seconds.
    benchmarks: BTreeMap<String, (u32, u32, f64)>,
}

impl Rest {
    fn new<'a>(names: impl IntoIterator<Item = &'a str>, launches: u32) -> Rest {
        let each = |name: &str| (name.to_owned(), (launches, 0, 0.0));
        Rest {
            benchmarks: names.into_iter().map(each).collect(),
        }
    }

    fn steps(&self) -> u32 {
        self.benchmarks.values().map(|(to_go, ..)| to_go).sum()
    }

    fn done(&mut self, name: &str, seconds: f64) {
        if let Some((to_go, done, took)) = self.benchmarks.get_mut(name) {
            *to_go = to_go.saturating_sub(1);
            *done += 1;
            *took += seconds;
        }
    }

    /// Seconds; nothing is known before anything was done.
    fn left(&self) -> Option<f64> {
        let known = || {
            let all = self.benchmarks.values();
            all.filter(|(_, done, _)| *done > 0)
                .map(|(_, done, took)| took / f64::from(*done))
        };
        let average = known().sum::<f64>() / (known().count() as f64);
        let of = |(to_go, done, took): &(u32, u32, f64)| {
            let each = match done {
                0 => average,
                done => took / f64::from(*done),
            };
            f64::from(*to_go) * each
        };
        known().next()?;
        Some(self.benchmarks.values().map(of).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_benchmark_is_not_thought_to_be_typical() {
        let mut rest = Rest::new(["long", "short"], 5);
        assert_eq!((rest.steps(), rest.left()), (10, None));
        rest.done("long", 60.0);
        assert_eq!(rest.left(), Some(4.0 * 60.0 + 5.0 * 60.0));
        rest.done("short", 2.0);
        // From here on nothing jumps: the second round takes what the first took.
        assert_eq!(rest.left(), Some(4.0 * 60.0 + 4.0 * 2.0));
        rest.done("short", 2.0);
        assert_eq!(rest.left(), Some(4.0 * 60.0 + 3.0 * 2.0));
    }
}
