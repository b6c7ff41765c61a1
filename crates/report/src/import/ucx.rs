//! Parses ucx_perftest's tables, and its rows of comma-separated figures (`-v`). Its MB is 2^20
//! bytes. Test and size are in a box that some versions print only at the server.

use super::lines::Line;
use super::points::{messages, parameters, point, rate, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::Figure;
use verbena_measure::result::Point;
use verbena_measure::unit;

const MEBIBYTE: f64 = 1_048_576.0;
/// Title made from a test's name and size in `--as`.
const TITLE: &str = "ucx_perftest: ";

/// Returns a test's title for `--as`: `tag_lat:8`, `tag_bw:1M`.
pub fn title(name: &str) -> Option<String> {
    let (name, size) = name.split_once(':')?;
    let size = unit::read_size(size).ok()?;
    Some(format!("{TITLE}{name} {size}"))
}

/// Begins a test at its box, or at its table if there is no box.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    let mut test = Test::default();
    if let Some(title) = line.text.strip_prefix(TITLE) {
        let (name, size) = title.split_once(' ')?;
        (test.name, test.size) = (Some(name.to_owned()), size.parse().ok());
        return Some(Ok(Box::new(test)));
    }
    let begins = field(line.text, "API").is_some()
        || field(line.text, "Test").is_some()
        || is_head(line.text)
        || is_comma_head(line.text);
    let own = |line: &Line<'_>| -> Result<Box<dyn Section>, String> {
        test.line(line)?;
        Ok(Box::new(test))
    };
    begins.then(|| own(line))
}

/// Returns whether the server prints the line before its box.
pub fn is_around(line: &Line<'_>) -> bool {
    ["Waiting for connection", "Accepted connection"]
        .iter()
        .any(|start| line.text.starts_with(start))
}

/// Returns whether the line is the upper row of a table's head.
fn is_head(text: &str) -> bool {
    text.starts_with('|') && text.contains("(usec)") && text.contains("bandwidth (MB/s)")
}

/// Returns whether the line is the head of the rows printed with `-v`.
fn is_comma_head(text: &str) -> bool {
    text.starts_with("iterations,") && text.contains("_percentile_lat,avg_lat,overall_lat,")
}

/// Returns a field of the box: `| Message size: 8   |`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.strip_prefix('|')?.trim_start().strip_prefix(name)?;
    Some(rest.strip_prefix(':')?.trim_end_matches('|').trim())
}

#[derive(Default)]
struct Test {
    name: Option<String>,
    size: Option<f64>,
    memory: Option<String>,
    is_latency: bool,
    is_table: bool,
    points: Vec<Point>,
}

impl Test {
    /// Converts a row: percentile, average and overall of a time, average and overall of two rates.
    fn point(&self, figures: &[Figure]) -> Result<Point, String> {
        let [_, percentile, _, all, _, bandwidth, _, a_second] = figures else {
            return Err(format!(
                "{} figures where a row of ucx_perftest has 8; was it cut short?",
                figures.len()
            ));
        };
        let (Some(name), Some(size)) = (&self.name, self.size) else {
            return Err(
                "the text does not name test and size (the server prints them); \
                        --as ucx:tag_lat:8, for example, does"
                    .to_owned(),
            );
        };
        let bandwidth = bandwidth.times(MEBIBYTE);
        if !bandwidth.agrees(a_second.times(size)) {
            return Err(
                "inconsistent: the bandwidth is not the message rate times the size".to_owned(),
            );
        }
        let metrics = match self.is_latency {
            true => vec![
                time("one-way-latency", percentile.value * 1000.0),
                time("average-time", all.value * 1000.0),
            ],
            false => vec![rate(bandwidth.value), messages(a_second.value)],
        };
        let mut named = parameters([("size", size.into())]);
        let memory = self.memory.as_deref().filter(|memory| *memory != "host");
        named.extend(memory.map(|memory| ("memory".to_owned(), memory.into())));
        let name = name
            .to_lowercase()
            .replace([' ', '_'], "-")
            .replace(['(', ')', '/'], "");
        Ok(point(&format!("ucx.{name}"), named, metrics))
    }
}

impl Section for Test {
    fn keeps(&self, line: &Line<'_>) -> bool {
        let fresh = self.points.is_empty();
        fresh
            && (is_head(line.text)
                || is_comma_head(line.text)
                || self.name.is_none()
                || field(line.text, "Test").is_none() && !self.is_table)
    }

    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        let text = line.text;
        if is_head(text) {
            (self.is_table, self.is_latency) = (true, text.contains("latency (usec)"));
            return Ok(Seen::Known);
        }
        if is_comma_head(text) {
            // The head is the same for all tests.
            let rates = ["bw", "bandwidth", "mr", "rate"];
            let name = self.name.as_deref().unwrap_or_default();
            self.is_latency = !rates.iter().any(|rate| name.ends_with(rate));
            self.is_table = true;
            return Ok(Seen::Known);
        }
        if text.starts_with(['|', '+']) {
            if let Some(name) = field(text, "Test") {
                self.name = Some(name.to_owned());
            } else if let Some(size) = field(text, "Message size") {
                self.size = Some(Figure::read(size)?.value);
            } else if let Some(memory) = field(text, "Send memory") {
                self.memory = Some(memory.to_owned());
            }
            return Ok(Seen::Known);
        }
        // Intermediate results.
        if text.starts_with("[thread") {
            return Ok(Seen::Known);
        }
        let row = text.strip_prefix("Final:").unwrap_or(text);
        let row = row.replace(',', " ");
        if !self.is_table || !super::table::begins_with_number(&row) {
            return Ok(Seen::Unknown);
        }
        let figures: Result<Vec<Figure>, String> =
            row.split_whitespace().map(Figure::read).collect();
        let point = self.point(&figures?)?;
        self.points.push(point);
        Ok(Seen::Known)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        Ok(self.points)
    }

    fn without_result(&self) -> &'static str {
        "the server prints none"
    }
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{points, refused};

    /// Output of ucx_perftest 1.13, recorded here; the box is the server's.
    const BOX: &str = "\
+----------------------------------------------------------------------------------------------------------+
| API:          protocol layer                                                                             |
| Test:         tag match latency                                                                          |
| Send memory:  host                                                                                       |
| Message size: 8                                                                                          |
+----------------------------------------------------------------------------------------------------------+
";
    const TABLE: &str = "\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |        latency (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
[thread 0]                77   6010.774  6560.137  6560.137        0.00       0.00         152         152
Final:                 20000      0.175     5.507    55.820        1.39       0.14      181592       17915
";

    #[test]
    fn only_the_final_row_is_imported() {
        let found = points(&format!("{BOX}{TABLE}"));
        let key = crate::gather::key(&found[0].benchmark, &found[0].parameters);
        assert_eq!(
            (found.len(), key.as_str()),
            (1, "ucx.tag-match-latency size=8")
        );
        assert_eq!(found[0].metrics[0].value, 175.0);
        assert_eq!(found[0].metrics[1].value, 55820.0);
    }

    /// Output of ucx_perftest 1.13 with `-v -t tag_bw -s 65536`, recorded here.
    const COMMAS: &str = "\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
1000,0.661,23.798,23.798,2626.27,2626.27,42020,42020
";

    #[test]
    fn rows_with_commas_are_read() {
        for (test, name, first) in [
            ("tag_bw:64K", "bandwidth", 2626.27 * super::MEBIBYTE),
            ("tag_lat:65536", "one-way-latency", 661.0),
        ] {
            let hints = crate::import::Hints::of(Some(&format!("ucx:{test}")), None).unwrap();
            let (found, warnings) = crate::import::parse(COMMAS, &hints).unwrap();
            assert_eq!((found.len(), warnings.len()), (1, 0), "{test}");
            assert_eq!(found[0].metrics[0].name, name);
            assert_eq!(found[0].metrics[0].value, first);
        }
        assert!(refused(COMMAS).contains("--as ucx:tag_lat:8"));
    }

    #[test]
    fn a_table_without_its_header_box_is_refused() {
        assert!(
            refused(TABLE).contains("--as ucx:tag_lat:8"),
            "{}",
            refused(TABLE)
        );
        let wrong = refused(&format!("{BOX}{}", TABLE.replace(" 17915", " 97915")));
        assert!(
            wrong.contains("line 13") && wrong.contains("inconsistent"),
            "{wrong}"
        );
    }
}
