//! Progress on standard error: one line, redrawn in place, with the current step, the number of
//! completed steps and the time left. Shown only on a terminal that can move its cursor. On a pipe
//! or with TERM=dumb, a long computation prints lines instead.

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

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
        Bar::drawn(Some(steps), what, steps > 0)
    }

    /// Like [`Bar::new`]; without a terminal it prints the expected time after the first step, then
    /// a line every ten seconds.
    pub fn with_lines(steps: usize, what: &'static str) -> Bar {
        let mut bar = Bar::new(steps, what);
        bar.printed = (!is_shown()).then(|| Mutex::new(Instant::now()));
        bar
    }

    /// Returns a line without steps, which shows the elapsed time.
    pub fn of_unknown_length(what: &'static str) -> Bar {
        Bar::drawn(None, what, true)
    }

    fn drawn(steps: Option<usize>, what: &'static str, is_wanted: bool) -> Bar {
        let target = match is_wanted && is_shown() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(steps.map(|steps| steps as u64), target);
        let columns = columns();
        let is_narrow = columns.is_some_and(|columns| columns < ROOM_FOR_A_BAR);
        let template = match (steps, is_narrow) {
            (None, _) => "{spinner} {elapsed} {wide_msg}",
            (_, false) => "{bar:24} {pos}/{len} {elapsed} {wide_msg}",
            (_, true) => "{pos}/{len} {wide_msg}",
        };
        // A malformed template leaves the default style, which is noticed on first use.
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
