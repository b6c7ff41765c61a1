//! The time that computations on models may take together, from `--budget`.
//!
//! The budget belongs to the whole command, as the user's interrupt does ([`crate::interrupt`]):
//! when it has passed, computations stop in the same way.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longest accepted budget: a week.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A limit of time, and its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBudget {
    limit: Duration,
    begun: Instant,
}

impl TimeBudget {
    /// Returns a budget that begins at an instant.
    pub fn new(limit: Duration, begun: Instant) -> TimeBudget {
        TimeBudget { limit, begun }
    }

    /// Returns the time left at an instant; zero if it has passed.
    pub fn left(&self, now: Instant) -> Duration {
        self.limit.saturating_sub(now.duration_since(self.begun))
    }

    /// Returns whether it has passed at an instant.
    pub fn is_over(&self, now: Instant) -> bool {
        self.left(now).is_zero()
    }
}

static BUDGET: OnceLock<TimeBudget> = OnceLock::new();

/// Begins the budget of this command; without a limit it has none.
pub fn begin(limit: Option<Duration>) {
    if let Some(limit) = limit {
        BUDGET.get_or_init(|| TimeBudget::new(limit, Instant::now()));
    }
}

/// Returns whether the command's budget has passed.
pub fn is_over() -> bool {
    BUDGET
        .get()
        .is_some_and(|budget| budget.is_over(Instant::now()))
}

/// Returns the time left of the command's budget; `None` if it has none.
pub fn left() -> Option<Duration> {
    BUDGET.get().map(|budget| budget.left(Instant::now()))
}

/// Returns why computations stopped.
pub fn reason() -> String {
    match BUDGET.get() {
        Some(budget) => format!("the time of --budget ({}) had passed", words(budget.limit)),
        None => "the time of --minutes had passed".to_owned(),
    }
}

/// Formats a time in seconds, minutes or hours.
pub fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        under if under < 60.0 => (seconds, "s"),
        under if under < 3600.0 => (seconds / 60.0, "min"),
        _ => (seconds / 3600.0, "h"),
    };
    let digits = usize::from(value < 10.0);
    let text = format!("{value:.digits$}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// Parses a budget: a number with `s`, `m` or `h`, up to a week.
///
/// # Errors
///
/// Describes the format.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a time such as 30s, 10m or 1.5h, of at most a week (168h)");
    let (number, seconds) = [("s", 1.0), ("m", 60.0), ("h", 3600.0)]
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .ok_or_else(wrong)?;
    let is_plain = |letter: char| letter.is_ascii_digit() || letter == '.';
    let number: f64 = match number.chars().all(is_plain) {
        true => number.parse().map_err(|_| wrong())?,
        false => return Err(wrong()),
    };
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
    match time <= LONGEST {
        true => Ok(time),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_over_when_its_time_has_passed() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs_f64(seconds);
        let budget = TimeBudget::new(Duration::from_secs(10), begun);
        assert_eq!(budget.left(after(4.0)), Duration::from_secs(6));
        assert!(!budget.is_over(after(9.9)) && budget.is_over(after(10.0)));
        assert_eq!(budget.left(after(20.0)), Duration::ZERO);
        assert!(TimeBudget::new(Duration::ZERO, begun).is_over(begun));
    }

    #[test]
    fn budgets_have_a_unit_and_an_upper_limit() {
        let read = |text| parse(text).map(|time| time.as_millis());
        assert_eq!(read("30s"), Ok(30_000));
        assert_eq!((read("0s"), read("1.5h")), (Ok(0), Ok(5_400_000)));
        assert_eq!((read("0.5m"), read("168h")), (Ok(30_000), Ok(604_800_000)));
        for wrong in [
            "", "s", "10", "-1s", "+1s", "NaNs", "infs", "1e3s", "169h", "1d", "1.2.3s", "1 s",
        ] {
            assert!(parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn times_are_formatted_in_the_largest_unit() {
        let text = |seconds| words(Duration::from_secs_f64(seconds));
        let all = [0.0, 1.5, 30.0, 90.0, 600.0, 5400.0].map(text);
        assert_eq!(all, ["0 s", "1.5 s", "30 s", "1.5 min", "10 min", "1.5 h"]);
    }
}
