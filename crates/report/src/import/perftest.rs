//! perftest's text tables and its `--out_json`. Its MB is 2^20 bytes, its Gb (`--report_gbits`) 10^9 bits; its "typical" is
//! the median. A text may hold the tables of several tests.

use super::perftest_json::{self, Fields};
use super::row::{finite, numbers};
use super::{Parsed, cached_rate, messages, parameters, point, time};
use verbena_measure::result::{Parameters, Point};

const MEBIBYTE: f64 = 1_048_576.0;
/// Bytes a second of one Gb/s.
const GIGABIT: f64 = 1e9 / 8.0;

/// Points of a perftest output.
pub fn parse(text: &str) -> Parsed {
    parse_json(text).or_else(|| parse_text(text))
}

/// What a test measures.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Half a round trip, or a whole one of reads and atomics.
    Time(&'static str),
    /// One way or both.
    Bandwidth(&'static str),
}

/// A test as our benchmarks name it.
#[derive(Debug, Clone)]
struct Test {
    benchmark: &'static str,
    kind: Kind,
    transport: String,
    queue_pairs: f64,
    shared: bool,
}

impl Test {
    /// For a title such as "RDMA_Write Latency Test".
    fn titled(title: &str) -> Option<Test> {
        let title = title.replace('_', " ").to_lowercase();
        let has = |word: &str| title.contains(word);
        let (one_way, completion) = (
            Kind::Time("one-way-latency"),
            Kind::Time("completion-latency"),
        );
        let ways = Kind::Bandwidth(if has("bidirectional") { "both" } else { "one" });
        let (benchmark, kind) = match (has("latency"), has(" bw")) {
            (true, _) if has("write") && has("imm") => ("latency.write-immediate", one_way),
            (true, _) if has("write") => ("latency.write", one_way),
            (true, _) if has("read") => ("latency.read", completion),
            (true, _) if has("send") => ("latency.send", one_way),
            (true, _) if has("fetch") => ("latency.fetch-add", completion),
            (true, _) if has("atomic") => ("latency.compare-swap", completion),
            (_, true) if has("write") && has("bidirectional") => ("bandwidth.write-both", ways),
            (_, true) if has("write") => ("bandwidth.write", ways),
            (_, true) if has("read") => ("bandwidth.read", ways),
            (_, true) if has("send") => ("bandwidth.send", ways),
            (_, true) if has("atomic") => ("bandwidth.atomic", ways),
            _ => return None,
        };
        Some(Test {
            benchmark,
            kind,
            transport: "rc".to_owned(),
            queue_pairs: 1.0,
            shared: false,
        })
    }

    /// Takes what a line or a field says of the test.
    fn learn(&mut self, name: &str, value: &str) {
        let value = value.split_whitespace().next().unwrap_or_default();
        match name.trim().replace('_', " ").to_lowercase().as_str() {
            "connection type" => self.transport = value.to_lowercase(),
            "number of qps" => self.queue_pairs = finite(value).unwrap_or(1.0),
            "using srq" => self.shared = value == "ON",
            _ => {}
        }
    }

    /// The parameters of our benchmark; a number of queue pairs only where it is not ours.
    fn parameters(&self, size: f64) -> Parameters {
        let mut all = parameters([
            ("size", size.into()),
            ("transport", self.transport.as_str().into()),
        ]);
        match (self.kind, self.benchmark) {
            (Kind::Bandwidth(ways), _) => {
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
        all
    }

    fn time(&self, name: &str, size: f64, microseconds: f64) -> Point {
        let metrics = vec![time(name, microseconds * 1000.0)];
        point(self.benchmark, self.parameters(size), metrics)
    }

    /// `mega_messages` a second, where the file has them.
    fn bandwidth(&self, size: f64, bytes_per_second: f64, mega_messages: Option<f64>) -> Point {
        let mut metrics = vec![cached_rate(bytes_per_second)];
        metrics.extend(mega_messages.map(|mega| messages(mega * 1e6)));
        point(self.benchmark, self.parameters(size), metrics)
    }
}

fn parse_text(text: &str) -> Parsed {
    let mut test: Option<Test> = None;
    let mut heads = "";
    let mut points = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let (trimmed, number) = (line.trim(), index + 1);
        if trimmed.ends_with(" Test") && !trimmed.starts_with('#') {
            (test, heads) = (Test::titled(trimmed), "");
        }
        let Some(test) = test.as_mut() else { continue };
        if trimmed.starts_with("#bytes") {
            heads = trimmed;
        } else if heads.is_empty() {
            // Two columns a line: "Number of qps   : 1\t\tTransport type : IB".
            for (name, value) in trimmed
                .split("\t\t")
                .filter_map(|part| part.split_once(':'))
            {
                test.learn(name, value);
            }
        } else if let Some(row) = numbers(line, number, least(heads)) {
            match row.and_then(|row| of_row(test, heads, &row)) {
                Ok(point) => points.push(point),
                Err(reason) => return Some(Err(reason)),
            }
        }
    }
    match (points.is_empty(), test) {
        (false, _) => Some(Ok(points)),
        (true, Some(_)) => Some(Err(
            "a perftest output without a result; of reads and atomics the client alone prints one"
                .to_owned(),
        )),
        (true, None) => None,
    }
}

/// The columns that a row has at least.
fn least(heads: &str) -> usize {
    if heads.contains("t_typical") { 5 } else { 4 }
}

/// Latency: bytes, iterations, min, max, typical...; with a duration: bytes, iterations, average, transactions a second;
/// bandwidth: bytes, iterations, peak, average, rate.
fn of_row(test: &Test, heads: &str, row: &[f64]) -> Result<Point, String> {
    match test.kind {
        Kind::Bandwidth(_) => {
            let unit = if heads.contains("[Gb/sec]") {
                GIGABIT
            } else {
                MEBIBYTE
            };
            Ok(test.bandwidth(row[0], row[3] * unit, row.get(4).copied()))
        }
        Kind::Time(_) if heads.contains("cycles]") => {
            Err("times in processor cycles; run perftest without -C".to_owned())
        }
        Kind::Time(name) if heads.contains("t_typical") => Ok(test.time(name, row[0], row[4])),
        Kind::Time(name) => Ok(test.time(name, row[0], row[2])),
    }
}

fn parse_json(text: &str) -> Parsed {
    let read = perftest_json::read(text)?;
    let mut test = Test::titled(read.info.get("test")?)?;
    for (name, value) in &read.info {
        test.learn(name, value);
    }
    if read.results.is_empty() {
        return Some(Err(
            "perftest's JSON without a result; was it cut short?".to_owned()
        ));
    }
    Some(
        read.results
            .iter()
            .map(|result| of_fields(&test, result))
            .collect(),
    )
}

fn of_fields(test: &Test, result: &Fields) -> Result<Point, String> {
    let number = |name: &str| {
        let word = result
            .get(name)
            .ok_or(format!("a result has no {name}; was the file cut short?"))?;
        finite(word).ok_or(format!("{name} is {word}, which is not a number"))
    };
    let size = number("MsgSize")?;
    match test.kind {
        Kind::Time(name) if result.contains_key("t_typical") => {
            Ok(test.time(name, size, number("t_typical")?))
        }
        Kind::Time(name) => Ok(test.time(name, size, number("t_avg")?)),
        Kind::Bandwidth(_) => {
            let average = number("BW_average")?;
            let mega = result.get("MsgRate").and_then(|word| finite(word));
            let unit = unit_of(average, size * mega.unwrap_or(0.0) * 1e6);
            Ok(test.bandwidth(size, average * unit, mega))
        }
    }
}

/// The unit of a bandwidth in JSON, which does not say whether `--report_gbits` was given: the one that agrees better with
/// the bytes that the message rate means. The two differ by a factor of 119.
fn unit_of(average: f64, bytes_per_second: f64) -> f64 {
    let off = |unit: f64| (average * unit / bytes_per_second).ln().abs();
    match bytes_per_second > 0.0 && off(GIGABIT) < off(MEBIBYTE) {
        true => GIGABIT,
        false => MEBIBYTE,
    }
}

#[cfg(test)]
#[path = "perftest_test.rs"]
mod tests;
