//! Progress on standard error: one line, redrawn in place, with the current step, the number of
//! completed steps and the time left. Shown only on a terminal that can move its cursor. On a pipe
//! or with TERM=dumb, a long computation prints lines instead.

use crate::forecast;
use console::Term;
use indicatif::style::ProgressTracker;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, WeakProgressBar};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use verbena_model::kernel::events_so_far;

/// Interval between redraws.
const TICK: Duration = Duration::from_millis(500);
/// Interval between lines, if there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// Terminal width in columns from which a bar is shown.
const ROOM_FOR_A_BAR: usize = 60;

/// Returns whether progress is shown.
pub fn is_shown() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stderr().is_terminal() && !is_dumb
}

/// The lines on the terminal.
static DRAWN: Mutex<Vec<WeakProgressBar>> = Mutex::new(Vec::new());

/// Removes all progress lines permanently, including those of abandoned computations.
pub fn clear() {
    let drawn = DRAWN.lock().expect("nothing panics under this lock");
    for bar in drawn.iter().filter_map(WeakProgressBar::upgrade) {
        bar.finish_and_clear();
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
}

/// Prints a line on standard error, above a progress line if there is one.
pub fn note(text: &str) {
    let print = || eprintln!("verbena: {text}");
    let drawn = DRAWN.lock().expect("nothing panics under this lock");
    match drawn
        .iter()
        .filter_map(WeakProgressBar::upgrade)
        .next_back()
    {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// A progress line, removed when dropped.
pub struct Bar {
    bar: ProgressBar,
    what: &'static str,
    begun: Instant,
    done: Mutex<usize>,
    steps: usize,
    /// When the last line was printed, if lines are printed.
    printed: Option<Mutex<Instant>>,
}

impl Bar {
    /// Returns a line for `steps` steps of similar duration.
    pub fn new(steps: usize, what: &'static str) -> Bar {
        // No steps, no line: in a job only the first process has steps.
        Bar::drawn(Some(steps), what, steps > 0, false)
    }

    /// Like [`Bar::new`], for computations on models: it also shows their events a second, and the
    /// time left of one that takes long.
    pub fn of_models(steps: usize, what: &'static str) -> Bar {
        Bar::drawn(Some(steps), what, steps > 0, true)
    }

    /// Like [`Bar::of_models`]; without a terminal it prints the expected time after the first
    /// step, then a line every ten seconds.
    pub fn with_lines(steps: usize, what: &'static str) -> Bar {
        let mut bar = Bar::of_models(steps, what);
        bar.printed = (!is_shown()).then(|| Mutex::new(Instant::now()));
        bar
    }

    /// Returns a line without steps, which shows the elapsed time.
    pub fn of_unknown_length(what: &'static str) -> Bar {
        Bar::drawn(None, what, true, false)
    }

    fn drawn(steps: Option<usize>, what: &'static str, is_wanted: bool, shows_model: bool) -> Bar {
        let target = match is_wanted && is_shown() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(steps.map(|steps| steps as u64), target);
        let columns = columns();
        let is_narrow = columns.is_some_and(|columns| columns < ROOM_FOR_A_BAR);
        let template = match (steps, is_narrow) {
            (None, _) => "{spinner} {elapsed} {wide_msg}",
            (_, false) => "{bar:24} {pos}/{len} {elapsed} {wide_msg}{model}",
            (_, true) => "{pos}/{len} {wide_msg}",
        };
        // A malformed template leaves the default style, which is noticed on first use.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("model", Simulated::new(shows_model)));
        }
        bar.set_message(what);
        DRAWN
            .lock()
            .expect("nothing panics under this lock")
            .push(bar.downgrade());
        bar.enable_steady_tick(TICK);
        Bar {
            bar,
            what,
            begun: Instant::now(),
            done: Mutex::new(0),
            steps: steps.unwrap_or(0),
            printed: None,
        }
    }

    /// Shows these words.
    pub fn say(&self, words: impl Into<String>) {
        self.bar.set_message(words.into());
    }

    /// Counts a step.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Counts a step and estimates the time left from the steps so far.
    pub fn step(&self) {
        let mut done = self.done.lock().expect("nothing panics under this lock");
        *done += 1;
        self.bar.inc(1);
        let each = self.begun.elapsed().as_secs_f64() / *done as f64;
        let left = each * self.steps.saturating_sub(*done) as f64;
        self.say(format!("{}, {}", self.what, time_left(left)));
        self.print(*done, (each, left));
    }

    /// Prints a line, if it is time; `each` and `left` are seconds.
    fn print(&self, done: usize, (each, left): (f64, f64)) {
        let Some(printed) = &self.printed else {
            return;
        };
        let mut printed = printed.lock().expect("nothing panics under this lock");
        let (steps, what) = (self.steps, self.what);
        let line = match done {
            _ if done >= steps => return,
            1 => format!("{steps} {what} of about {each:.2} s; {}", time_left(left)),
            _ if printed.elapsed() < BETWEEN_LINES => return,
            _ => format!("{done} of {steps} {what}; {}", time_left(left)),
        };
        *printed = Instant::now();
        eprintln!("verbena: {line}");
    }
}

/// The speed of the models since the line was last drawn.
#[derive(Clone)]
struct Simulated {
    is_shown: bool,
    since: Instant,
    events: u64,
    text: String,
}

impl Simulated {
    fn new(is_shown: bool) -> Simulated {
        Simulated {
            is_shown,
            since: Instant::now(),
            events: events_so_far(),
            text: String::new(),
        }
    }

    /// Updates the text, if there were events for `passed`.
    fn update(&mut self, events: u64, passed: Duration, left: Option<Duration>) {
        let rate = events.saturating_sub(self.events) as f64 / passed.as_secs_f64();
        let left = left.map(|left| format!(", this one {}", time_left(left.as_secs_f64())));
        let rate = format!(", {:.1} million events a second", rate / 1e6);
        let is_any = self.is_shown && events > self.events;
        self.text = match is_any {
            true => rate + &left.unwrap_or_default(),
            false => String::new(),
        };
        self.events = events;
    }
}

impl ProgressTracker for Simulated {
    fn clone_box(&self) -> Box<dyn ProgressTracker> {
        Box::new(self.clone())
    }

    fn tick(&mut self, _: &ProgressState, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        if passed >= TICK {
            self.update(events_so_far(), passed, forecast::left());
            self.since = now;
        }
    }

    fn reset(&mut self, _: &ProgressState, now: Instant) {
        *self = Simulated::new(self.is_shown);
        self.since = now;
    }

    fn write(&self, _: &ProgressState, to: &mut dyn std::fmt::Write) {
        let _ = to.write_str(&self.text);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Formats the time left.
pub(crate) fn time_left(seconds: f64) -> String {
    let left = indicatif::HumanDuration(Duration::from_secs_f64(seconds.max(0.0).round()));
    format!("about {left:#} left")
}

/// Returns the width of standard error; `None` if it is not a terminal.
fn columns() -> Option<usize> {
    let (_, columns) = Term::stderr().size_checked()?;
    (columns > 0).then_some(usize::from(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_models_is_shown_while_they_compute() {
        let mut speed = Simulated::new(true);
        let second = Duration::from_secs(1);
        let before = speed.events;
        speed.update(before + 2_500_000, second, Some(40 * second));
        let text = ", 2.5 million events a second, this one about 40s left";
        assert_eq!(speed.text, text);
        speed.update(before + 3_000_000, second, None);
        assert_eq!(speed.text, ", 0.5 million events a second");
        speed.update(before + 3_000_000, second, None);
        assert_eq!(speed.text, "");
    }
}
