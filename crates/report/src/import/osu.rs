//! OSU micro-benchmarks' text. Its MB is 10^6 bytes; its latency is one way between pairs, averaged over them, and the mean
//! over processes of collectives. With `-f` the mean comes first too.

use super::row::numbers;
use super::{Parsed, cached_rate, messages, parameters, point, time};
use verbena_measure::result::{Point, Value};

/// What a file's head says.
struct Test {
    benchmark: String,
    /// The metric of times.
    metric: &'static str,
    bandwidth: bool,
    /// Whether rows begin with a size; a barrier has none.
    sized: bool,
    /// Whether the third column is messages a second.
    rates: bool,
    pairs: Option<f64>,
}

/// Points of an OSU output, which may hold several tests.
pub fn parse(text: &str) -> Parsed {
    let mut test: Option<Test> = None;
    let mut title = None;
    let mut pairs = None;
    let mut points = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("# OSU") {
            (title, test, pairs) = (Some(line), None, None);
        } else if let Some(rest) = line.strip_prefix("# [ pairs:") {
            pairs = rest.split_whitespace().next().and_then(|n| n.parse().ok());
        } else if line.starts_with('#') && (line.contains("(us)") || line.contains("MB/s")) {
            test = title.map(|title| Test::headed(title, line, pairs));
        } else if let Some(test) = &test {
            match test.of_row(line, index + 1) {
                Some(Ok(point)) => points.push(point),
                Some(Err(reason)) => return Some(Err(reason)),
                None => {}
            }
        }
    }
    title?;
    Some(match points.is_empty() {
        false => Ok(points),
        true => Err("an OSU output without a result; was it cut short?".to_owned()),
    })
}

impl Test {
    fn headed(title: &str, columns: &str, pairs: Option<f64>) -> Test {
        let bandwidth = columns.contains("MB/s");
        let (name, metric) = name(title, bandwidth);
        Test {
            benchmark: format!("mpi.{name}"),
            metric,
            bandwidth,
            sized: columns.contains("Size"),
            rates: columns.contains("Messages/s"),
            pairs,
        }
    }

    fn of_row(&self, line: &str, number: usize) -> Option<Result<Point, String>> {
        let row = match numbers(line, number, 1 + usize::from(self.sized))? {
            Ok(row) => row,
            Err(reason) => return Some(Err(reason)),
        };
        if line.ends_with("Fail") {
            return Some(Err(format!(
                "line {number}: its data failed the validation"
            )));
        }
        let mut named = parameters([("transport", Value::from("mpi"))]);
        let figures = match self.sized {
            true => {
                named.insert("size".to_owned(), row[0].into());
                &row[1..]
            }
            false => &row[..],
        };
        if let Some(pairs) = self.pairs {
            named.insert("pairs".to_owned(), pairs.into());
        }
        let mut metrics = vec![match self.bandwidth {
            true => cached_rate(figures[0] * 1e6),
            false => time(self.metric, figures[0] * 1000.0),
        }];
        if let (true, Some(a_second)) = (self.rates, figures.get(1)) {
            metrics.push(messages(*a_second));
        }
        Some(Ok(point(&self.benchmark, named, metrics)))
    }
}

/// The benchmark and its metric for a title such as "# OSU MPI_Put Latency Test v5.9".
fn name(title: &str, bandwidth: bool) -> (String, &'static str) {
    let lower = title.to_lowercase();
    let subject = lower.trim_start_matches("# osu mpi");
    let end = ["latency", "bandwidth"]
        .iter()
        .filter_map(|word| subject.find(word))
        .min();
    let letters = |c: char| if c.is_alphanumeric() { c } else { ' ' };
    let subject: String = subject[..end.unwrap_or(subject.len())]
        .chars()
        .map(letters)
        .collect();
    let subject = subject.split_whitespace().collect::<Vec<_>>().join("-");
    let quantity = if bandwidth { "bandwidth" } else { "latency" };
    match subject.as_str() {
        "" => (quantity.to_owned(), "one-way-latency"),
        "multi" | "multiple" | "multi-pair" => {
            (format!("multi-pair-{quantity}"), "one-way-latency")
        }
        "bi-directional" => ("bandwidth-both".to_owned(), ""),
        "put" | "get" => (format!("{subject}-{quantity}"), "completion-latency"),
        _ => (format!("{subject}-{quantity}"), "average-time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(text: &str) -> Vec<Point> {
        parse(text).expect("OSU's").expect("points")
    }

    fn refused(text: &str) -> String {
        parse(text).expect("OSU's").unwrap_err()
    }

    #[test]
    fn latency_and_bandwidth() {
        let latency =
            "# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n0   1.12\n1   1.20\n";
        let found = points(latency);
        assert_eq!((found.len(), found[1].metrics[0].value), (2, 1200.0));
        assert_eq!(found[1].benchmark, "mpi.latency");
        let bandwidth =
            "# OSU MPI Bandwidth Test v5.9\r\n# Size      Bandwidth (MB/s)\r\n1024  900.5\r\n";
        assert_eq!(points(bandwidth)[0].metrics[0].value, 900.5e6);
        assert_eq!(parse("# something"), None);
    }

    #[test]
    fn other_tests_have_names_of_their_own() {
        let name = |title: &str, columns: &str| {
            let text = format!(
                "# OSU MPI{title} Test v7.3\n# Datatype: MPI_CHAR.\n# {columns}\n8 2.5 1 3\n"
            );
            let point = points(&text).remove(0);
            (point.benchmark, point.metrics[0].name.clone())
        };
        let full = "Size  Avg Latency(us)  Min Latency(us)  Max Latency(us)";
        let of = |benchmark: &str, metric: &str| (benchmark.to_owned(), metric.to_owned());
        assert_eq!(name(" Latency", full), of("mpi.latency", "one-way-latency"));
        assert_eq!(
            name(" Allreduce Latency", full),
            of("mpi.allreduce-latency", "average-time")
        );
        assert_eq!(
            name("_Put Latency", full),
            of("mpi.put-latency", "completion-latency")
        );
        let rate = "Size  Bandwidth (MB/s)";
        assert_eq!(
            name(" Bi-Directional Bandwidth", rate),
            of("mpi.bandwidth-both", "cached-bandwidth")
        );
    }

    #[test]
    fn message_rates_keep_their_pairs_and_a_barrier_has_no_size() {
        let text = "# OSU MPI Multiple Bandwidth / Message Rate Test v5.9\n# [ pairs: 2 ] [ window size: 64 ]\n\
            # Size                  MB/s        Messages/s\n1   14.33   14330523.01\n";
        let found = &points(text)[0];
        assert_eq!(found.benchmark, "mpi.multi-pair-bandwidth");
        assert_eq!(found.parameters["pairs"], Value::Number(2.0));
        assert_eq!(found.metrics[1].value, 14_330_523.01);
        let barrier = "# OSU MPI Barrier Latency Test v5.9\n# Avg Latency(us)\n      1.84\n";
        assert_eq!(points(barrier)[0].metrics[0].value, 1840.0);
        assert!(!points(barrier)[0].parameters.contains_key("size"));
    }

    #[test]
    fn wrong_rows_say_where() {
        let head = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n";
        assert!(refused(&format!("{head}1 1,20\n")).contains("line 3"));
        assert!(refused(&format!("{head}1 1.20\n2")).contains("line 4"));
        assert!(refused(&format!("{head}1 1.20 Fail\n")).contains("validation"));
        assert!(refused(head).contains("without a result"));
    }
}
