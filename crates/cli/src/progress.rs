//! Progress on standard error: one line, drawn over in place, with what runs, how many steps of how
//! many are done and how long the rest takes. Only a terminal that can move its cursor gets it; a
//! pipe and TERM=dumb get nothing.

use crate::terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the line is drawn anew.
const TICK: Duration = Duration::from_millis(500);
/// Columns from which on there is room for a bar beside the words.
const ROOM_FOR_A_BAR: usize = 60;

/// Whether progress is shown.
pub fn is_shown() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stderr().is_terminal() && !is_dumb
}

/// The lines that are drawn.
static DRAWN: Mutex<Vec<WeakProgressBar>> = Mutex::new(Vec::new());

/// Takes all lines of progress away for good, also those of computations that are left behind.
pub fn clear() {
    let drawn = DRAWN.lock().expect("nothing panics under this lock");
    for bar in drawn.iter().filter_map(WeakProgressBar::upgrade) {
        bar.finish_and_clear();
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
}

/// A line of progress, which goes away when it is dropped.
pub struct Bar {
    bar: ProgressBar,
    what: &'static str,
    begun: Instant,
    done: Mutex<usize>,
    steps: usize,
}

impl Bar {
    /// For so many steps of one kind, each of which takes about as long as the others.
    pub fn new(steps: usize, what: &'static str) -> Bar {
        // Without steps there is nothing to do: of a job's processes only the first has some.
        Bar::drawn(Some(steps), what, steps > 0)
    }

    /// For what has no steps: shows how long it has taken.
    pub fn of_unknown_length(what: &'static str) -> Bar {
        Bar::drawn(None, what, true)
    }

    fn drawn(steps: Option<usize>, what: &'static str, is_wanted: bool) -> Bar {
        let target = match is_wanted && is_shown() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(steps.map(|steps| steps as u64), target);
        let columns = terminal::columns_of_errors();
        let is_narrow = columns.is_some_and(|columns| columns < ROOM_FOR_A_BAR);
        let template = match (steps, is_narrow) {
            (None, _) => "{spinner} {elapsed} {wide_msg}",
            (_, false) => "{bar:24} {pos}/{len} {elapsed} {wide_msg}",
            (_, true) => "{pos}/{len} {wide_msg}",
        };
        // A mistake in the template would be found by the first who sees it.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
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
        }
    }

    /// Says what runs.
    pub fn say(&self, words: impl Into<String>) {
        self.bar.set_message(words.into());
    }

    /// A step ended.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// A step ended; estimates the time left from what the steps took until now.
    pub fn step(&self) {
        let mut done = self.done.lock().expect("nothing panics under this lock");
        *done += 1;
        self.bar.inc(1);
        let each = self.begun.elapsed().as_secs_f64() / *done as f64;
        let left = each * self.steps.saturating_sub(*done) as f64;
        self.say(format!("{}, {}", self.what, time_left(left)));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The time left in words.
pub fn time_left(seconds: f64) -> String {
    let left = indicatif::HumanDuration(Duration::from_secs_f64(seconds.max(0.0).round()));
    format!("about {left:#} left")
}
