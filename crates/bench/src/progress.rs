//! Progress over the launches of benchmarks, with an estimate of the time left.

use crate::forecast;
use crate::progress_line::{self, Bar, time_left};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use verbena_model::kernel::events_so_far;

/// Interval between changes of the line, while a model computes.
const IN_PLACE: Duration = Duration::from_secs(1);
/// Interval between lines without a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// The progress of a session.
pub struct Progress {
    bar: Bar,
    rest: Rest,
    /// The target's label.
    label: String,
    /// The running benchmark.
    running: String,
    /// Time left of all steps, in words.
    left: String,
    /// Points of the running benchmark.
    points: usize,
    /// Number of points that it has, if known, otherwise 0.
    expected: usize,
    /// When the last line of a long step was shown, and the events of models until then.
    shown: (Instant, u64),
    /// End of the previous step, the only available time stamp if steps run on several threads.
    since: Instant,
}

impl Progress {
    /// Returns the progress for benchmarks by name, `launches` steps each. The label of the target
    /// is empty if the names include it.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        launches: u32,
        label: &str,
    ) -> Progress {
        let rest = Rest::new(names, launches);
        Progress {
            bar: Bar::new(rest.steps() as usize, ""),
            rest,
            label: label.to_owned(),
            running: String::new(),
            left: String::new(),
            points: 0,
            expected: 0,
            shown: (Instant::now(), events_so_far()),
            since: Instant::now(),
        }
    }

    /// Begins a step.
    pub fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.running);
        let left = self
            .rest
            .left()
            .map(|left| format!(", {}", time_left(left)));
        self.left = left.unwrap_or_default();
        self.points = 0;
        self.expected = 0;
        self.shown = (Instant::now(), events_so_far());
        self.bar.say(format!("{}{}", self.step(), self.left));
    }

    /// Sets the number of points of the running benchmark.
    pub fn expect(&mut self, points: usize) {
        self.expected = points;
    }

    /// Returns the running benchmark and the target.
    fn step(&self) -> String {
        match self.label.as_str() {
            "" => self.running.clone(),
            label => format!("{} on {label}", self.running),
        }
    }

    /// Counts a point of the running benchmark.
    pub fn point(&mut self) {
        self.points += 1;
    }

    /// Shows the points and the events of a model that takes long: in the line, or without a
    /// terminal as a new line, less often.
    pub fn look(&mut self) {
        let (since, before) = self.shown;
        let is_shown = progress_line::is_shown();
        let interval = if is_shown { IN_PLACE } else { BETWEEN_LINES };
        if since.elapsed() < interval {
            return;
        }
        let events = events_so_far();
        self.shown = (Instant::now(), events);
        let rate = (events - before) as f64 / since.elapsed().as_secs_f64();
        let of = match self.expected {
            0 => String::new(),
            expected => format!(" of {expected}"),
        };
        let point = forecast::left().map_or(String::new(), |left| {
            format!(", this point {}", time_left(left.as_secs_f64()))
        });
        let text = format!(
            "{}: {}{of} points, {:.1} million events a second{point}",
            self.step(),
            self.points,
            rate / 1e6
        );
        match is_shown {
            true => self.bar.say(format!("{text}{}", self.left)),
            false => eprintln!("verbena: {text}"),
        }
    }

    /// Ends the step.
    pub fn end(&mut self) {
        self.rest
            .done(&self.running, self.since.elapsed().as_secs_f64());
        self.since = Instant::now();
        self.bar.advance();
    }
}

/// A stable estimate of the time left: each launch is assumed to take the mean of the benchmark's
/// previous launches, or, before its first one, the mean of the other benchmarks.
struct Rest {
    /// By name: launches left, launches done, and their time in seconds.
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

    /// Returns the seconds left; `None` before the first step has ended.
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
    fn the_estimate_ignores_one_long_benchmark() {
        let mut rest = Rest::new(["long", "short"], 5);
        assert_eq!((rest.steps(), rest.left()), (10, None));
        rest.done("long", 60.0);
        assert_eq!(rest.left(), Some(4.0 * 60.0 + 5.0 * 60.0));
        rest.done("short", 2.0);
        // From here the estimate is stable: the second round takes as long as the first.
        assert_eq!(rest.left(), Some(4.0 * 60.0 + 4.0 * 2.0));
        rest.done("short", 2.0);
        assert_eq!(rest.left(), Some(4.0 * 60.0 + 3.0 * 2.0));
    }
}
