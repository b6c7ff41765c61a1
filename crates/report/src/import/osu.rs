//! Parses text of the OSU micro-benchmarks, versions 2 to 7. Their MB is 10^6 bytes; their latency
//! is one way between pairs, averaged over them, and the mean over processes for collectives. A
//! title begins a test, and each head names the columns of its table.

use super::lines::Line;
use super::points::{cached_rate, messages, parameters, point, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::{Columns, Figure};
use verbena_measure::result::{Metric, Point, Value};

/// Columns whose names do not end in a unit in brackets.
const SINGLE: [&str; 10] = [
    "size",
    "iterations",
    "validation",
    "mb/s",
    "mb/sec",
    "messages/s",
    "messages/sec",
    "million ops/s",
    "operation",
    "transfer size",
];
/// Columns with words.
const WORDS: [&str; 2] = ["validation", "operation"];

/// Returns a test's title for its name in `--as`, which is its program's name: `bw`, `allreduce`,
/// `osu_put_latency`.
pub fn title(name: &str) -> Option<String> {
    let name = name.strip_prefix("osu_").unwrap_or(name);
    let known = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if name.is_empty() || !known {
        return None;
    }
    let subject = match name {
        "latency" | "latency_mt" | "latency_mp" => "Latency".to_owned(),
        "bw" => "Bandwidth".to_owned(),
        "bibw" => "Bi-Directional Bandwidth".to_owned(),
        "multi_lat" => "Multi Latency".to_owned(),
        "mbw_mr" => "Multiple Bandwidth / Message Rate".to_owned(),
        _ => match (name.rsplit_once('_'), name.strip_prefix('i')) {
            (Some((subject, "latency")), _) => format!("{subject} Latency"),
            (Some((subject, "bw")), _) => format!("{subject} Bandwidth"),
            (_, Some(subject)) => format!("Non-blocking {subject} Latency"),
            _ => format!("{name} Latency"),
        },
    };
    Some(format!("# OSU MPI {subject} Test"))
}

/// Begins a test at its title.
pub fn begin(line: &Line<'_>, context: &Context<'_>) -> Begun {
    let subject = line.text.strip_prefix("# OSU ")?;
    let test = Test::titled(subject, context.hints.processes);
    test.map(|test| -> Result<Box<dyn Section>, String> { Ok(Box::new(test)) })
}

/// Returns whether a line is the head of one of its tables.
pub fn is_head(line: &Line<'_>) -> bool {
    let text = line.text.trim_start_matches('#').trim_start();
    line.text.starts_with('#')
        && (text.starts_with("Size ") || text.starts_with("Size\t"))
        && ["(us)", "MB/s"].iter().any(|unit| text.contains(unit))
}

struct Test {
    /// Its name without the words that its columns determine: "allreduce", "".
    subject: String,
    /// Library of the operations: "mpi", "mpi-cuda", "openshmem".
    library: String,
    nonblocking: bool,
    processes: Option<u32>,
    pairs: Option<f64>,
    /// Location of buffers, for tests of accelerators.
    buffers: Option<String>,
    columns: Option<Columns>,
    points: Vec<Point>,
}

impl Test {
    /// Parses the title after "# OSU ": "MPI_Put Latency Test v5.9".
    fn titled(subject: &str, processes: Option<u32>) -> Option<Test> {
        let lower = subject.to_lowercase();
        let end = lower.rfind(" test")?;
        let (library, subject) = lower[..end].split_once([' ', '_'])?;
        let subject = subject.replace("non-blocking", "nonblocking");
        let nonblocking = subject.contains("nonblocking");
        let mut words: Vec<&str> = subject
            .split(|letter: char| !letter.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let noise = [
            "nonblocking",
            "mpi",
            "one",
            "sided",
            "personalized",
            "exchange",
        ];
        words.retain(|word| !noise.contains(word));
        let quantity = ["latency", "bandwidth", "bw"];
        if let Some(at) = words.iter().position(|word| quantity.contains(word)) {
            words.truncate(at);
        }
        let subject = match words.join("-").as_str() {
            "bcast" => "broadcast".to_owned(),
            "all-to-all" => "alltoall".to_owned(),
            "multi" | "multiple" | "multi-pair" => "multi-pair".to_owned(),
            other => other.to_owned(),
        };
        Some(Test {
            subject,
            library: library.to_owned(),
            nonblocking,
            processes,
            pairs: None,
            buffers: None,
            columns: None,
            points: Vec::new(),
        })
    }

    fn is_collective(&self) -> bool {
        let two = [
            "",
            "bi-directional",
            "multi-pair",
            "put",
            "get",
            "accumulate",
        ];
        let atomics = [
            "fetch-and-op",
            "compare-and-swap",
            "cas",
            "get-accumulate",
            "acc",
            "fop",
        ];
        !two.contains(&self.subject.as_str())
            && !atomics.contains(&self.subject.as_str())
            && !self.subject.contains("directional")
            && !["multi-threaded", "multi-process", "latency"]
                .iter()
                .any(|word| self.subject.starts_with(word))
    }

    /// Returns the benchmark's name and the metric of its times.
    fn name(&self, bandwidth: bool) -> (String, &'static str) {
        let quantity = if bandwidth { "bandwidth" } else { "latency" };
        let subject = self.subject.as_str();
        let (name, metric) = match subject {
            "" => (quantity.to_owned(), "one-way-latency"),
            "bi-directional" => ("bandwidth-both".to_owned(), "one-way-latency"),
            "multi-pair" => (format!("multi-pair-{quantity}"), "one-way-latency"),
            "put" | "get" => (format!("{subject}-{quantity}"), "completion-latency"),
            _ => (format!("{subject}-{quantity}"), "average-time"),
        };
        let nonblocking = if self.nonblocking { "nonblocking-" } else { "" };
        (format!("{}.{nonblocking}{name}", self.library), metric)
    }

    fn point(&self, columns: &Columns, row: &super::table::Row<'_>) -> Result<Point, String> {
        if row
            .word("validation")
            .is_some_and(|word| word.eq_ignore_ascii_case("fail"))
        {
            return Err("its data failed the validation".to_owned());
        }
        let rate = ["bandwidth", "mb/s", "mb/sec"]
            .iter()
            .find_map(|name| Some((*name, row.get(name)?)));
        let size = row.get("size").or(row.get("transfer size"));
        let (benchmark, metric) = self.name(rate.is_some());
        let mut named = parameters([("transport", Value::from("mpi"))]);
        let mut put = |name: &str, value: Value| named.insert(name.to_owned(), value);
        if self.library != "mpi" {
            put("transport", self.library.as_str().into());
        }
        size.map(|size| put("size", size.value.into()));
        let pairs = match self.subject.as_str() {
            "multi-pair" => self.pairs.or(self.processes.map(|all| f64::from(all / 2))),
            _ => self.pairs,
        };
        pairs.map(|pairs| put("pairs", pairs.into()));
        if self.is_collective() {
            self.processes.map(|all| put("processes", all.into()));
        }
        if let Some(buffers) = &self.buffers {
            put("buffers", buffers.as_str().into());
        }
        let metrics = match rate {
            Some((column, told)) => {
                let unit = columns.unit(column).unwrap_or_default();
                if !["", "MB/s", "MB/sec"].contains(&unit) {
                    return Err(format!("{column} has the unit {unit:?}, not MB/s"));
                }
                let told = told.times(1e6);
                let a_second = row.get("messages/s").or(row.get("messages/sec"));
                if let (Some(size), Some(a_second)) = (size, a_second) {
                    let what = "the bandwidth is not the messages a second times the size";
                    row.agree(told, a_second.times(size.value), what)?;
                }
                let mut metrics = vec![cached_rate(told.value)];
                metrics.extend(a_second.map(|rate| messages(rate.value)));
                metrics
            }
            None => self.times(metric, columns, row)?,
        };
        Ok(point(&benchmark, named, metrics))
    }

    /// Returns the metrics of times. For a nonblocking operation, the time is that of pure
    /// communication, because "overall" includes the overlapping computation.
    fn times(
        &self,
        metric: &str,
        columns: &Columns,
        row: &super::table::Row<'_>,
    ) -> Result<Vec<Metric>, String> {
        row.rising(&["min latency", "avg latency", "max latency"])?;
        row.rising(&["min comm.", "pure comm.", "max comm."])?;
        let found = ["pure comm.", "avg latency", "latency", "avg lat"]
            .iter()
            .find_map(|name| Some((*name, row.get(name)?)));
        let (name, told) = found.ok_or("the table has no column with the operation's own time")?;
        match columns.unit(name) {
            Some("us") => {}
            unit => return Err(format!("{name} has the unit {unit:?}, not us")),
        }
        let nanos = |figure: Figure| figure.value * 1000.0;
        let mut metrics = vec![time(metric, nanos(told))];
        metrics.extend(
            row.get("overall")
                .map(|all| time("overall-time", nanos(all))),
        );
        Ok(metrics)
    }
}

impl Section for Test {
    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        let text = line.text;
        if let Some(comment) = text.strip_prefix('#') {
            let comment = comment.trim();
            if let Some(rest) = comment.strip_prefix("[ pairs:") {
                self.pairs = rest.split_whitespace().next().and_then(|n| n.parse().ok());
            } else if comment.starts_with("Send Buffer on") {
                let places = comment.split(['(', ')']).skip(1).step_by(2);
                self.buffers = Some(places.collect::<Vec<_>>().join("-"));
            } else if comment.starts_with("Operation") {
                return Err("rates of atomic operations are not read".to_owned());
            } else if ["(us)", "MB/s"].iter().any(|unit| comment.contains(unit)) {
                self.columns = Some(Columns::of_head(comment, &SINGLE)?);
            }
            return Ok(Seen::Known);
        }
        let Some(columns) = &self.columns else {
            return match super::table::begins_with_number(text) {
                true => Err("a row without the line of columns above it (# Size ...)".to_owned()),
                false => Ok(Seen::Unknown),
            };
        };
        let Some(row) = columns.row(text, &WORDS) else {
            return Ok(Seen::Unknown);
        };
        let point = self.point(columns, &row?)?;
        self.points.push(point);
        Ok(Seen::Known)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        Ok(self.points)
    }
}

#[cfg(test)]
#[path = "osu_test.rs"]
mod tests;
