//! The five figures that sum up an adapter, taken from a run's rows: how long, how fast, how often, how many at once, and
//! at what cost in memory.

use crate::gather::{Figure, Row, findings};
use crate::meaning::CACHED_BANDWIDTH;
use crate::run_directory::Loaded;
use verbena_measure::compare::Better;
use verbena_measure::result::Value;
use verbena_measure::sample::Sample;
use verbena_measure::stats::interval::Interval;
use verbena_measure::stats::launches;
use verbena_measure::unit;
use verbena_measure::warning::Warning;

/// What a headline is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A short write, until its receiver sees it.
    Latency,
    /// Long writes, one way.
    Bandwidth,
    /// Short messages a second.
    Rate,
    /// The latency of many pairs over that of one.
    Scaling,
    /// Host memory that a connection takes.
    Memory,
}

impl Subject {
    /// All, in the order of a report.
    pub const ALL: [Subject; 5] = [
        Subject::Latency,
        Subject::Bandwidth,
        Subject::Rate,
        Subject::Scaling,
        Subject::Memory,
    ];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Subject::Latency => "Latency",
            Subject::Bandwidth => "Bandwidth",
            Subject::Rate => "Message rate",
            Subject::Scaling => "Many pairs",
            Subject::Memory => "Memory",
        }
    }

    /// Which way it gets better.
    pub fn better(self) -> Better {
        match self {
            Subject::Latency | Subject::Scaling | Subject::Memory => Better::Lower,
            Subject::Bandwidth | Subject::Rate => Better::Higher,
        }
    }

    /// Its unit as files name it.
    pub fn unit(self) -> &'static str {
        match self {
            Subject::Latency => "ns",
            Subject::Bandwidth => "bytes/s",
            Subject::Rate => "1/s",
            Subject::Scaling => "×",
            Subject::Memory => "bytes",
        }
    }

    /// A value of it.
    pub fn display(self, value: f64) -> String {
        unit::display(value, self.unit())
    }

    /// Shares of the bound from which on it is strong, and below which it is weak. Latency that grows by a quarter is what
    /// connectx_multicore calls flat.
    fn shares(self) -> (f64, f64) {
        match self {
            Subject::Scaling => (0.8, 0.4),
            _ => (0.7, 0.3),
        }
    }
}

/// A figure of the first screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// What it is about.
    pub subject: Subject,
    /// Of what exactly.
    pub of: String,
    /// The name of the metric: figures of another are not beside it.
    pub metric: String,
    /// Bytes of a message, where it is of one size: figures of another are not beside it.
    pub size: Option<f64>,
    /// The figure.
    pub value: f64,
    /// From where to where, over launches.
    pub interval: Option<Interval>,
    /// Launches behind it.
    pub launches: usize,
    /// The slow ones: 99th and 99.9th percentile, where enough samples support them.
    pub tail: [Option<f64>; 2],
    /// What limits it, and why.
    pub bound: Option<(f64, String)>,
    /// What to hold against it.
    pub warnings: Vec<Warning>,
}

/// A headline in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Near its bound, or ahead of all beside it.
    Strong,
    /// Neither.
    Fair,
    /// Far from its bound, or behind all beside it.
    Weak,
    /// Known too badly for any of these.
    Unsure,
}

impl Word {
    /// The word.
    pub fn text(self) -> &'static str {
        match self {
            Word::Strong => "strong",
            Word::Fair => "fair",
            Word::Weak => "weak",
            Word::Unsure => "unsure",
        }
    }
}

/// Half of an interval over its value; wider ones say too little.
const WIDEST: f64 = 0.15;
/// Published latencies are of writes and sends of up to so many bytes.
const SHORT: f64 = 16.0;
/// Published bandwidths are of messages of at least so many bytes.
const LONG: f64 = 1_048_576.0;

impl Headline {
    /// Per cent of the bound; of what is better lower, the bound's share of it.
    pub fn percent_of_bound(&self) -> Option<f64> {
        let (bound, _) = self.bound.as_ref()?;
        Some(100.0 * self.advantage(*bound).recip())
    }

    /// Whether it is of messages as long as those of another run.
    pub fn is_of_the_size_of(&self, other: &Headline) -> bool {
        self.size == other.size
    }

    /// Whether it is of messages as long as those of which figures were published.
    pub fn is_of_a_published_size(&self) -> bool {
        match (self.subject, self.size) {
            (Subject::Latency, Some(size)) => size <= SHORT,
            (Subject::Bandwidth, Some(size)) => size >= LONG,
            _ => true,
        }
    }

    /// How many times as good the bound, or another's figure, is.
    fn advantage(&self, other: f64) -> f64 {
        match self.subject.better() {
            Better::Higher => other / self.value,
            Better::Lower => self.value / other,
        }
    }

    /// Whether another's figure is worse than this one.
    pub fn is_ahead_of(&self, other: f64) -> bool {
        self.advantage(other) < 1.0
    }

    /// What makes the figure one to distrust.
    pub fn doubt(&self) -> Option<String> {
        let wide = self.interval.filter(|interval| {
            interval.high - interval.low > 2.0 * WIDEST * self.value && self.launches > 1
        });
        if let Some(interval) = wide {
            let [low, high] = [interval.low, interval.high].map(|end| self.subject.display(end));
            return Some(format!("launches gave {low} to {high}"));
        }
        let grave = |warning: &&Warning| {
            matches!(
                warning,
                Warning::OversubscribedCores { .. }
                    | Warning::TwoLevels(_)
                    | Warning::LowOverlap { .. }
            )
        };
        self.warnings.iter().find(grave).map(ToString::to_string)
    }

    /// The word for it beside the figures of others.
    pub fn word(&self, others: &[f64]) -> Word {
        if self.doubt().is_some() {
            return Word::Unsure;
        }
        let share = self.percent_of_bound().map(|percent| percent / 100.0);
        let (near, far) = self.subject.shares();
        let compared = !others.is_empty();
        let ahead = others.iter().filter(|other| self.is_ahead_of(**other));
        let ahead = ahead.count();
        let strong = share.is_some_and(|s| s >= near) || compared && ahead == others.len();
        let weak = share.is_some_and(|s| s < far) || compared && ahead == 0;
        match (strong, weak) {
            (true, false) => Word::Strong,
            (false, true) => Word::Weak,
            _ => Word::Fair,
        }
    }
}

/// The headlines of a run, as far as it measured them.
pub fn headlines(run: &Loaded, rows: &[Row]) -> Vec<Headline> {
    let all = [
        latency(rows),
        bandwidth(rows),
        rate(rows),
        scaling(rows),
        memory(run),
    ];
    all.into_iter().flatten().collect()
}

fn of_figure(subject: Subject, row: &Row, figure: &Figure, of: String) -> Headline {
    let summary = figure.summary.as_ref();
    Headline {
        subject,
        of,
        metric: figure.name.clone(),
        size: row.number("size"),
        value: figure.value,
        interval: figure.interval,
        launches: figure.launches.len(),
        tail: [summary.and_then(|s| s.p99), summary.and_then(|s| s.p999)],
        bound: figure.bound.clone(),
        warnings: row.warnings.clone(),
    }
}

fn is(row: &Row, parameter: &str, word: &str) -> bool {
    matches!(row.parameters.get(parameter), Some(Value::Word(found)) if found == word)
}

/// Rows of a benchmark over the reliable connection, or over whatever it ran.
fn reliable<'a>(rows: &'a [Row], benchmark: &str) -> Vec<&'a Row> {
    let mine = || rows.iter().filter(|row| row.benchmark == benchmark);
    let reliable: Vec<&Row> = mine().filter(|row| is(row, "transport", "rc")).collect();
    match reliable.is_empty() {
        true => mine().collect(),
        false => reliable,
    }
}

fn size(row: &Row) -> f64 {
    row.number("size").unwrap_or(f64::MAX)
}

/// A write of 8 bytes, or of what is nearest to it.
fn latency(rows: &[Row]) -> Option<Headline> {
    let distance = |row: &&Row| (size(row) - 8.0).abs();
    let found = reliable(rows, "latency.write");
    let row = found
        .into_iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let of = format!("a write of {} is seen", unit::size(size(row)));
    Some(of_figure(Subject::Latency, row, row.figures.first()?, of))
}

/// The largest messages: they do not fit a cache. Of several rows of that size the slowest, for the others have help.
fn bandwidth(rows: &[Row]) -> Option<Headline> {
    let found = reliable(rows, "bandwidth.write");
    let largest = found.iter().map(|row| size(row)).fold(0.0, f64::max);
    let value = |row: &&Row| row.figures.first().map_or(f64::MAX, |f| f.value);
    let of_it = found.into_iter().filter(|row| size(row) == largest);
    let row = of_it.min_by(|a, b| value(a).total_cmp(&value(b)))?;
    let mut of = format!("writes of {}, one way", unit::size(largest));
    let figure = row.figures.first()?;
    if figure.name == CACHED_BANDWIDTH {
        of += ", out of one cached buffer";
    }
    Some(of_figure(Subject::Bandwidth, row, figure, of))
}

/// Short messages between two: as many in flight as are best.
fn rate(rows: &[Row]) -> Option<Headline> {
    let per_second = |row: &&Row| row.figures.iter().find(|f| f.unit == "1/s").cloned();
    let found = reliable(rows, "rate.window").into_iter();
    let (row, figure) = found
        .filter_map(|row| Some((row, per_second(&row)?)))
        .max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    let mut of = format!("writes of {}", unit::size(size(row)));
    if let Some(window) = row.number("window") {
        of += &format!(", {window} in flight");
    }
    let mut headline = of_figure(Subject::Rate, row, &figure, of);
    // Messages are bounded as their bytes are.
    let bytes = row.figures.iter().find(|f| f.unit == "bytes/s");
    let bound = bytes.and_then(|f| f.bound.clone());
    headline.bound = bound.map(|(bound, reason)| (bound / size(row), reason));
    Some(headline)
}

/// What becomes of latency when as many pairs as were tried communicate.
fn scaling(rows: &[Row]) -> Option<Headline> {
    let mut found = reliable(rows, "multi-pair.write-latency");
    let mode = found.first()?.parameters.get("mode").cloned();
    found.retain(|row| row.parameters.get("mode") == mode.as_ref());
    let smallest = found.iter().map(|row| size(row)).fold(f64::MAX, f64::min);
    found.retain(|row| size(row) == smallest);
    let pairs = |row: &&&Row| row.number("pairs").unwrap_or(0.0) as u64;
    let one = found.iter().find(|row| pairs(row) == 1)?;
    let most = found
        .iter()
        .max_by_key(pairs)
        .filter(|row| pairs(row) > 1)?;
    let [one_figure, most_figure] = [one.figures.first()?, most.figures.first()?];
    // Launches are of both, and so each has a ratio of its own.
    let both = one_figure.launches.iter().zip(&most_figure.launches);
    let ratios = Sample::new(both.map(|(one, most)| most / one).collect());
    let of = format!("latency of {} pairs over that of one", pairs(&most));
    Some(Headline {
        subject: Subject::Scaling,
        of,
        metric: most_figure.name.clone(),
        size: Some(smallest),
        value: most_figure.value / one_figure.value,
        interval: ratios.as_ref().and_then(launches::interval),
        launches: most_figure.launches.len(),
        tail: [None, None],
        bound: Some((1.0, "pairs that do not disturb each other".to_owned())),
        warnings: most.warnings.clone(),
    })
}

/// The slope of host memory over connections.
fn memory(run: &Loaded) -> Option<Headline> {
    let voted = findings(run);
    let slope = voted.iter().find(|voted| {
        let finding = voted.finding;
        let words = finding.parameters.get("transport");
        finding.name == "memory-per-connection" && words == Some(&Value::from("rc"))
    })?;
    Some(Headline {
        subject: Subject::Memory,
        of: "of the host, a reliable connection".to_owned(),
        metric: slope.finding.name.clone(),
        size: None,
        value: slope.finding.value?,
        interval: slope.range,
        launches: slope.by,
        tail: [None, None],
        bound: None,
        warnings: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headline(subject: Subject, value: f64, bound: Option<f64>) -> Headline {
        Headline {
            subject,
            of: String::new(),
            metric: String::new(),
            size: None,
            value,
            interval: Some(Interval {
                low: value * 0.99,
                high: value * 1.01,
            }),
            launches: 5,
            tail: [None, None],
            bound: bound.map(|bound| (bound, String::new())),
            warnings: vec![],
        }
    }

    #[test]
    fn a_word_weighs_bound_and_standing() {
        let of = |value, bound, others: &[f64]| {
            headline(Subject::Latency, value, Some(bound)).word(others)
        };
        assert_eq!(of(250.0, 200.0, &[]), Word::Strong);
        assert_eq!(of(250.0, 50.0, &[]), Word::Weak);
        assert_eq!(of(250.0, 120.0, &[900.0, 2000.0]), Word::Strong);
        // Ahead of all, and far from what would be possible.
        assert_eq!(of(250.0, 50.0, &[900.0, 2000.0]), Word::Fair);
        let rate = headline(Subject::Rate, 1e6, None);
        assert_eq!(rate.word(&[2e6, 3e6]), Word::Weak);
        assert_eq!(rate.word(&[5e5, 3e6]), Word::Fair);
        assert_eq!(rate.word(&[]), Word::Fair);
    }

    #[test]
    fn less_time_and_memory_and_more_bytes_and_messages_are_ahead() {
        for subject in Subject::ALL {
            let more_is_ahead = matches!(subject, Subject::Bandwidth | Subject::Rate);
            let word = |value, other| headline(subject, value, None).word(&[other]);
            let words = [word(2e3, 1e3), word(1e3, 2e3)];
            let expected = match more_is_ahead {
                true => [Word::Strong, Word::Weak],
                false => [Word::Weak, Word::Strong],
            };
            assert_eq!(words, expected, "{subject:?}");
        }
    }

    #[test]
    fn launches_that_disagree_leave_no_word() {
        let mut wide = headline(Subject::Rate, 1e6, Some(1.1e6));
        assert_eq!(wide.word(&[]), Word::Strong);
        wide.interval = Some(Interval {
            low: 0.7e6,
            high: 1.2e6,
        });
        assert_eq!(wide.word(&[]), Word::Unsure);
        assert!(wide.doubt().unwrap().contains("700 k/s to 1.2 M/s"));
    }

    #[test]
    fn taking_turns_is_a_doubt() {
        let mut one = headline(Subject::Scaling, 9.0, Some(1.0));
        one.warnings = vec![Warning::OversubscribedCores {
            processes: 4,
            cores: 2,
        }];
        assert_eq!(one.word(&[]), Word::Unsure);
    }

    #[test]
    fn short_messages_do_not_stand_beside_long_ones() {
        let of = |subject, size| Headline {
            size: Some(size),
            ..headline(subject, 6e7, None)
        };
        assert!(!of(Subject::Bandwidth, 8.0).is_of_a_published_size());
        assert!(of(Subject::Bandwidth, 1_048_576.0).is_of_a_published_size());
        assert!(!of(Subject::Latency, 4096.0).is_of_a_published_size());
        let short = of(Subject::Bandwidth, 8.0);
        assert!(!short.is_of_the_size_of(&of(Subject::Bandwidth, 65536.0)));
    }
}
