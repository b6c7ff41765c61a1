//! Parses perftest's text tables and its `--out_json`. Its MB is 2^20 bytes, its Gb
//! (`--report_gbits`) 10^9 bits; its "typical" is the median. A title begins a test, and each head
//! names the columns of the table below it.

use super::lines::Line;
use super::perftest_json::{self, Fields};
use super::points::{Parsed, cached_rate, messages, parameters, point, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::{Columns, Figure, Row};
use std::collections::BTreeMap;
use verbena_measure::result::{Metric, Parameters, Point, Summary};
use verbena_measure::sample::Sample;

const MEBIBYTE: f64 = 1_048_576.0;
/// Bytes a second per Gb/s.
const GIGABIT: f64 = 1e9 / 8.0;
/// Columns whose names have no unit.
const SINGLE: [&str; 4] = ["#bytes", "#iterations", "#sl", "tps average"];
/// Error for a bandwidth that contradicts its message rate.
const RATE: &str = "the average bandwidth is not the message rate times the size";
/// Beginnings of lines that perftest prints around its tables, in addition to lines such as `Mtu :
/// 4096[B]`.
const AROUND: [&str; 27] = [
    "ibv_wr* API",
    "rdma_cm QPs",
    "CPU Utilization works",
    "local address:",
    "remote address:",
    "GID:",
    "MGID",
    "Local results",
    "Remote results",
    "WARNING",
    "Warning:",
    "Conflicting CPU frequency",
    "Requested mtu",
    "Requested QP size might be too big",
    "Device not recognized to implement inline feature",
    "* Waiting for client",
    "Test with events",
    "initializing CUDA",
    "Listing all CUDA devices",
    "CUDA device",
    "Picking device No.",
    "[pid =",
    "creating CUDA Ctx",
    "making it the current CUDA Ctx",
    "cuMemAlloc()",
    "allocated GPU buffer",
    "destroying current CUDA Ctx",
];

/// Returns a test's title for its name in `--as`.
pub fn title(name: &str) -> Option<String> {
    let (operation, kind) = name.rsplit_once('-')?;
    let operation = match operation {
        "write" => "RDMA_Write",
        "write-imm" => "RDMA_Write_with_Imm",
        "read" => "RDMA_Read",
        "send" => "Send",
        "atomic" => "Atomic FETCH_AND_ADD",
        _ => return None,
    };
    let kind = match kind {
        "lat" => "Latency",
        "bw" => "BW",
        "bibw" => "Bidirectional BW",
        _ => return None,
    };
    Some(format!("{operation} {kind} Test"))
}

/// Begins a test at its title.
pub fn begin(line: &Line<'_>, context: &Context<'_>) -> Begun {
    let title = line.text;
    let first = title.split([' ', '_']).next().unwrap_or_default();
    let ours = ["Send", "RDMA", "Atomic"].contains(&first) && title.ends_with(" Test");
    if !ours {
        return None;
    }
    let Some(mut test) = Test::titled(title) else {
        return Some(Err(format!("perftest's {title:?} is not known here")));
    };
    let is_gpu =
        |line: &Line<'_>| line.text.contains("GPU buffer") || line.text.contains("hipMalloc");
    if context.before.iter().any(is_gpu) {
        test.further.push(("memory", "gpu"));
    }
    Some(Ok(Box::new(Table {
        test,
        columns: None,
        side: None,
        rows: Vec::new(),
    })))
}

/// Returns whether a line is the head of one of its tables.
pub fn is_head(line: &Line<'_>) -> bool {
    line.text.starts_with("#bytes")
        && ["BW average[", "t_avg[", "t_typical["]
            .iter()
            .any(|column| line.text.contains(column))
}

/// Returns whether perftest prints the line before a title.
pub fn is_around(line: &Line<'_>) -> bool {
    AROUND.iter().any(|start| line.text.starts_with(start))
}

/// Quantity that a test measures.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TestedQuantity {
    /// Half a round trip, or a whole one of reads and atomics.
    Time(&'static str),
    /// In one direction or both.
    Bandwidth(&'static str),
}

/// A test in terms of our benchmarks.
#[derive(Debug, Clone)]
struct Test {
    benchmark: &'static str,
    kind: TestedQuantity,
    transport: String,
    queue_pairs: f64,
    shared: bool,
    /// Parameters that distinguish it from our measurement.
    further: Vec<(&'static str, &'static str)>,
}

impl Test {
    /// Parses a title such as "RDMA_Write Latency Test".
    fn titled(title: &str) -> Option<Test> {
        let title = title.replace('_', " ").to_lowercase();
        let has = |word: &str| title.contains(word);
        let (one_way, completion) = (
            TestedQuantity::Time("one-way-latency"),
            TestedQuantity::Time("completion-latency"),
        );
        let ways = TestedQuantity::Bandwidth(if has("bidirectional") { "both" } else { "one" });
        let (benchmark, kind) = match (has("latency"), has(" bw")) {
            (true, _) if has("write") && has("imm") => ("latency.write-immediate", one_way),
            (true, _) if has("write") => ("latency.write", one_way),
            (true, _) if has("read") => ("latency.read", completion),
            (true, _) if has("send") => ("latency.send", one_way),
            (true, _) if has("fetch") => ("latency.fetch-add", completion),
            (true, _) if has("atomic") => ("latency.compare-swap", completion),
            (_, true) if has("write") && has("imm") => ("bandwidth.write-immediate", ways),
            (_, true) if has("write") && has("bidirectional") => ("bandwidth.write-both", ways),
            (_, true) if has("write") => ("bandwidth.write", ways),
            (_, true) if has("read") => ("bandwidth.read", ways),
            (_, true) if has("send") => ("bandwidth.send", ways),
            (_, true) if has("atomic") => ("bandwidth.atomic", ways),
            _ => return None,
        };
        let mut further = Vec::new();
        for (word, name, value) in [
            ("multicast", "group", "multicast"),
            ("burst", "mode", "burst"),
        ] {
            if has(word) {
                further.push((name, value));
            }
        }
        Some(Test {
            benchmark,
            kind,
            transport: "rc".to_owned(),
            queue_pairs: 1.0,
            shared: false,
            further,
        })
    }

    /// Applies a setting from a line or a field.
    fn learn(&mut self, name: &str, value: &str) -> Result<(), String> {
        let value = value.split_whitespace().next().unwrap_or_default();
        match name.trim().replace(['_', '-'], " ").to_lowercase().as_str() {
            "connection type" => self.transport = value.to_lowercase(),
            "number of qps" => self.queue_pairs = Figure::read(value)?.value,
            "using srq" => self.shared = value == "ON",
            "dual port" if value == "ON" => self.further.push(("ports", "both")),
            _ => {}
        }
        Ok(())
    }

    /// Applies the settings of a line, which may contain two side by side, separated by tabs or
    /// blanks.
    fn learn_line(&mut self, line: &str) -> Result<(), String> {
        for name in ["Connection type", "Number of qps", "Using SRQ", "Dual-port"] {
            let value = line
                .find(name)
                .and_then(|at| line[at + name.len()..].trim_start().strip_prefix(':'));
            if let Some(value) = value {
                self.learn(name, value)?;
            }
        }
        Ok(())
    }

    /// Returns the parameters of our benchmark; the number of queue pairs only if it differs from
    /// ours.
    fn parameters(&self, size: f64) -> Parameters {
        let mut all = parameters([
            ("size", size.into()),
            ("transport", self.transport.as_str().into()),
        ]);
        match (self.kind, self.benchmark) {
            (TestedQuantity::Bandwidth(ways), _) => {
                all.insert("ways".to_owned(), ways.into());
            }
            (_, "latency.write" | "latency.send" | "latency.write-immediate") => {
                let queue = if self.shared { "shared" } else { "own" };
                all.insert("receive-queue".to_owned(), queue.into());
            }
            _ => {}
        }
        if self.queue_pairs > 1.0 {
            all.insert("queue-pairs".to_owned(), self.queue_pairs.into());
        }
        let further = self.further.iter();
        all.extend(further.map(|(name, value)| ((*name).to_owned(), (*value).into())));
        all
    }

    fn time(&self, name: &str, size: f64, microseconds: f64) -> Point {
        let metrics = vec![time(name, microseconds * 1000.0)];
        point(self.benchmark, self.parameters(size), metrics)
    }

    fn bandwidth(&self, size: f64, bytes_per_second: f64, a_second: Option<f64>) -> Point {
        let mut metrics = vec![cached_rate(bytes_per_second)];
        metrics.extend(a_second.map(messages));
        point(self.benchmark, self.parameters(size), metrics)
    }
}

/// A test's text output.
struct Table {
    test: Test,
    columns: Option<Columns>,
    /// With `--report-both`, the side of a bidirectional test that the table is for; the first
    /// table is their sum.
    side: Option<&'static str>,
    rows: Vec<Reading>,
}

struct Reading {
    /// Parameters in addition to the test and the size.
    further: Vec<(&'static str, verbena_measure::result::Value)>,
    size: f64,
    iterations: f64,
    /// Microseconds or bytes a second.
    value: f64,
    /// Messages a second.
    rate: Option<f64>,
}

impl Section for Table {
    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        let text = line.text;
        if text.starts_with("#flows") {
            return Err("rates of flow steering are not read; they move no data".to_owned());
        }
        if text.starts_with("#bytes") {
            self.columns = Some(Columns::of_head(text, &SINGLE)?);
            return Ok(Seen::Known);
        }
        for (words, side) in [("Local results", "local"), ("Remote results", "remote")] {
            if text.starts_with(words) {
                self.side = Some(side);
            }
        }
        if let Some(columns) = &self.columns {
            if let Some(row) = columns.row(text, &[]) {
                let rows = of_row(&self.test, self.side, columns, &row?)?;
                self.rows.extend(rows);
                return Ok(Seen::Known);
            }
        } else if super::table::begins_with_number(text) {
            return Err("a row without the line of columns above it (#bytes ...)".to_owned());
        } else {
            self.test.learn_line(text)?;
        }
        // Lines such as " Mtu             : 4096[B]" and " PCIe relax order: ON".
        let is_setting = |name: &str| name.len() < 20 && !name.starts_with(char::is_lowercase);
        let setting = text
            .split_once(": ")
            .is_some_and(|(name, _)| is_setting(name));
        Ok(match setting || is_around(line) {
            true => Seen::Known,
            false => Seen::Unknown,
        })
    }

    /// `--run_infinitely` prints a row per interval: these are parts of one measurement.
    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        let mut order: Vec<String> = Vec::new();
        let mut groups: BTreeMap<String, Vec<&Reading>> = BTreeMap::new();
        for row in &self.rows {
            let key = format!("{} {:?}", row.size, row.further);
            if !groups.contains_key(&key) {
                order.push(key.clone());
            }
            groups.entry(key).or_default().push(row);
        }
        Ok(order
            .iter()
            .map(|key| of_intervals(&self.test, &groups[key]))
            .collect())
    }

    fn without_result(&self) -> &'static str {
        "of reads and atomics the client alone prints one"
    }
}

/// Returns the figure of the test, and of each port if the row has them.
fn of_row(
    test: &Test,
    side: Option<&'static str>,
    columns: &Columns,
    row: &Row<'_>,
) -> Result<Vec<Reading>, String> {
    let size = row.need("#bytes")?.value;
    let iterations = row.get("#iterations").map_or(0.0, |figure| figure.value);
    let mut further = Vec::new();
    further.extend(
        row.get("#sl")
            .map(|level| ("service-level", level.value.into())),
    );
    further.extend(side.map(|side| ("side", side.into())));
    if let TestedQuantity::Time(_) = test.kind {
        let name = match columns.has("t_typical") {
            true => "t_typical",
            false => "t_avg",
        };
        match columns.unit(name) {
            Some("usec") => {}
            Some("cycles") => {
                return Err("times in processor cycles; run perftest without -C".to_owned());
            }
            unit => return Err(format!("{name} has the unit {unit:?}, not usec")),
        }
        row.rising(&["t_min", "t_typical", "t_max"])?;
        let value = row.need(name)?.value;
        return Ok(vec![Reading {
            further,
            size,
            iterations,
            value,
            rate: None,
        }]);
    }
    let unit = |name: &str| match columns.unit(name) {
        Some("MB/sec" | "MiB/sec") => Ok(MEBIBYTE),
        Some("Gb/sec") => Ok(GIGABIT),
        unit => Err(format!(
            "{name} has the unit {unit:?}, not MB/sec or Gb/sec"
        )),
    };
    let mut readings = Vec::new();
    for (bandwidth, rate, port) in [
        ("bw average", "msgrate", None),
        ("bw port1", "msgrate port1", Some(1.0)),
        ("bw port2", "msgrate port2", Some(2.0)),
    ] {
        if port.is_some() && !columns.has(bandwidth) {
            continue;
        }
        let average = row.need(bandwidth)?.times(unit(bandwidth)?);
        let rate = row.get(rate).map(|rate| rate.times(1e6));
        if let Some(rate) = rate {
            row.agree(average, rate.times(size), RATE)?;
        }
        let mut further = further.clone();
        further.extend(port.map(|port: f64| ("port", port.into())));
        readings.push(Reading {
            further,
            size,
            iterations,
            value: average.value,
            rate: rate.map(|rate| rate.value),
        });
    }
    Ok(readings)
}

/// Combines the rows of one key to a point: a single row, or the intervals of one run.
fn of_intervals(test: &Test, rows: &[&Reading]) -> Point {
    let weight: f64 = rows.iter().map(|row| row.iterations).sum();
    let counted = rows.len() > 1
        && rows
            .iter()
            .all(|row| row.iterations > 0.0 && row.value > 0.0);
    // Bytes of all intervals over their time, or times weighted by their number of iterations.
    let together = |of: fn(&Reading) -> f64| -> f64 {
        match (counted, test.kind) {
            (false, _) => rows.iter().map(|row| of(row)).sum::<f64>() / rows.len() as f64,
            (true, TestedQuantity::Time(_)) => {
                rows.iter().map(|row| row.iterations * of(row)).sum::<f64>() / weight
            }
            (true, TestedQuantity::Bandwidth(_)) => {
                weight / rows.iter().map(|row| row.iterations / of(row)).sum::<f64>()
            }
        }
    };
    let first = rows[0];
    let value = together(|row| row.value);
    let mut point = match test.kind {
        TestedQuantity::Time(name) => test.time(name, first.size, value),
        TestedQuantity::Bandwidth(_) => {
            let rate = first.rate.map(|_| together(|row| row.rate.unwrap_or(0.0)));
            test.bandwidth(first.size, value, rate)
        }
    };
    let further = first.further.iter().cloned();
    point
        .parameters
        .extend(further.map(|(name, value)| (name.to_owned(), value)));
    if rows.len() > 1 {
        let scale = point.metrics[0].value / value;
        let sample = Sample::new(rows.iter().map(|row| row.value * scale).collect());
        if let (Some(sample), Some(first)) = (sample, point.metrics.first_mut()) {
            *first = Metric {
                summary: Some(Summary::of(&sample)),
                ..first.clone()
            };
        }
    }
    point
}

/// Parses perftest's JSON to points.
pub fn parse_json(text: &str) -> Parsed {
    let read = perftest_json::read(text)?;
    let mut test = Test::titled(read.info.get("test")?)?;
    for (name, value) in &read.info {
        if let Err(reason) = test.learn(name, value) {
            return Some(Err(format!("{name}: {reason}")));
        }
    }
    if read.results.is_empty() {
        return Some(Err(
            "perftest's JSON without a result; was it cut short?".to_owned()
        ));
    }
    let points = read.results.iter();
    Some(points.map(|result| of_fields(&test, result)).collect())
}

fn of_fields(test: &Test, result: &Fields) -> Result<Point, String> {
    let number = |name: &str| {
        let word = result
            .get(name)
            .ok_or(format!("a result has no {name}; was the file cut short?"))?;
        Figure::read(word).map_err(|reason| format!("{name} is {word}: {reason}"))
    };
    let size = number("MsgSize")?.value;
    match test.kind {
        TestedQuantity::Time(name) if result.contains_key("t_typical") => {
            Ok(test.time(name, size, number("t_typical")?.value))
        }
        TestedQuantity::Time(name) => Ok(test.time(name, size, number("t_avg")?.value)),
        TestedQuantity::Bandwidth(_) => {
            let average = number("BW_average")?;
            let rate = number("MsgRate")?.times(1e6);
            let average = in_its_unit(average, rate.times(size))?;
            Ok(test.bandwidth(size, average.value, Some(rate.value)))
        }
    }
}

/// Converts a bandwidth in JSON, which does not state whether `--report_gbits` was given: uses the
/// unit that agrees with the message rate. The two differ by a factor of 119.
fn in_its_unit(average: Figure, bytes_per_second: Figure) -> Result<Figure, String> {
    let mut fitting = vec![MEBIBYTE, GIGABIT];
    fitting.retain(|unit| average.times(*unit).agrees(bytes_per_second));
    match fitting[..] {
        [unit] => Ok(average.times(unit)),
        [] => Err(format!(
            "inconsistent: {RATE}, neither in MB/sec nor in Gb/sec"
        )),
        _ => Err(
            "BW_average may be in MB/sec or in Gb/sec, the message rate is too small to tell"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
#[path = "perftest_test.rs"]
mod tests;
