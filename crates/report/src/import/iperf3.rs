//! Parses iperf3's text and its `--json`. A single TCP stream is our baseline benchmark, and gets
//! its name.

use super::lines::Line;
use super::points::{Parsed, parameters, point, rate};
use super::section::{Begun, Context, Section, Seen};
use super::table::Figure;
use serde_json::Value;
use verbena_measure::result::{Parameters, Point};

/// Parses iperf3's JSON to a point.
pub fn parse_json(text: &str) -> Parsed {
    let value: Value = serde_json::from_str(text).ok()?;
    let (start, end) = (value.get("start")?, value.get("end")?);
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Some(Err(format!("iperf3 failed: {error}")));
    }
    let test = start.get("test_start")?;
    let bits = ["sum_received", "sum"]
        .iter()
        .find_map(|sum| end.get(sum)?.get("bits_per_second")?.as_f64());
    let Some(bits) = bits.filter(|bits| *bits >= 0.0) else {
        return Some(Err(
            "iperf3's JSON has no sum of received data; the test may have been cut short"
                .to_owned(),
        ));
    };
    let protocol = test
        .get("protocol")
        .and_then(Value::as_str)
        .unwrap_or("TCP");
    let number = |name: &str| test.get(name).and_then(Value::as_f64);
    let point = stream(protocol, number("blksize"), number("num_streams"), bits);
    Some(Ok(vec![point]))
}

/// Begins a test at the head of its table.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    is_head(line).then(|| -> Result<Box<dyn Section>, String> {
        Ok(Box::new(Text {
            udp: line.text.contains("Lost/Total"),
            ..Text::default()
        }))
    })
}

fn is_head(line: &Line<'_>) -> bool {
    ["Interval", "Transfer", "Bitrate"]
        .iter()
        .all(|word| line.text.contains(word))
}

/// Text output: the line that ends in "receiver" counts; with several streams, that of the sum.
#[derive(Default)]
struct Text {
    udp: bool,
    sum: Option<f64>,
    streams: Vec<f64>,
}

impl Section for Text {
    // The head is repeated above the summary.
    fn keeps(&self, _: &Line<'_>) -> bool {
        self.streams.is_empty()
    }

    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        let text = line.text;
        self.udp |= text.contains("Lost/Total");
        if text.starts_with('[') && text.ends_with("receiver") {
            let bits = bits(text).ok_or("the receiver's line has no bitrate")?;
            match text.contains("[SUM]") {
                true => self.sum = Some(bits),
                false => self.streams.push(bits),
            }
        }
        let known =
            text.starts_with('[') || text.starts_with("iperf Done") || text.starts_with("- -");
        Ok(if known { Seen::Known } else { Seen::Unknown })
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        let protocol = if self.udp { "UDP" } else { "TCP" };
        let streams = Some(self.streams.len() as f64);
        let bits = self.sum.or(self.streams.first().copied());
        Ok(bits
            .map(|bits| stream(protocol, None, streams, bits))
            .into_iter()
            .collect())
    }

    fn without_result(&self) -> &'static str {
        "the receiver's line is missing; was it cut short?"
    }
}

/// Parses "9.42 Gbits/sec", or bytes as printed with `-f`.
fn bits(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.ends_with("/sec"))?;
    let number = Figure::read(words.get(at.checked_sub(1)?)?).ok()?.value;
    let unit = words[at].trim_end_matches("/sec");
    // Prefixes are powers of 1000 for bits, powers of 1024 for bytes.
    let (step, bits) = match unit.ends_with("Bytes") {
        true => (1024.0_f64, 8.0),
        false => (1000.0, 1.0),
    };
    let power = match unit.chars().next()? {
        'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        _ => 0,
    };
    Some(number * step.powi(power) * bits)
}

/// Names the point: one TCP stream is the baseline's; several streams and other protocols get other
/// names.
fn stream(protocol: &str, size: Option<f64>, streams: Option<f64>, bits: f64) -> Point {
    let mut named: Parameters = parameters([("flow", "stream".into())]);
    named.extend(size.map(|size| ("size".to_owned(), size.into())));
    let several = streams.filter(|streams| *streams > 1.0);
    named.extend(several.map(|streams| ("streams".to_owned(), streams.into())));
    let benchmark = format!("baseline.{}", protocol.to_lowercase());
    point(&benchmark, named, vec![rate(bits / 8.0)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::tests::{points, refused};

    const TEXT: &str = "\
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec  2.19 GBytes  9.42 Gbits/sec    0             sender
[  5]   0.00-2.04   sec  2.19 GBytes  9.22 Gbits/sec                  receiver
";

    #[test]
    fn the_received_sum_is_imported() {
        let text = r#"{"start":{"test_start":{"protocol":"TCP","num_streams":1,"blksize":131072}},
            "end":{"sum_received":{"bits_per_second":8e9}}}"#;
        let found = parse_json(text).unwrap().unwrap().remove(0);
        assert_eq!(found.metrics[0].value, 1e9);
        let key = crate::gather::key(&found.benchmark, &found.parameters);
        assert_eq!(key, "baseline.tcp flow=stream size=131072");
        assert_eq!(parse_json("{\"end\":{}}"), None);
    }

    #[test]
    fn text_output_gives_the_received_rate() {
        let value = |text: &str| points(text)[0].metrics[0].value;
        assert!((value(TEXT) - 9.22e9 / 8.0).abs() < 1.0);
        let sum =
            format!("{TEXT}[SUM]   0.00-2.04   sec  2.19 GBytes  3.00 MBytes/sec    receiver\n");
        assert_eq!(value(&sum), 3.0 * 1_048_576.0);
    }

    #[test]
    fn errors_of_iperf3_are_reported() {
        let error = r#"{"start":{},"intervals":[],"end":{},"error":"unable to connect to server"}"#;
        assert!(
            parse_json(error)
                .unwrap()
                .unwrap_err()
                .contains("unable to connect")
        );
        let cut = &TEXT[..TEXT.find("[  5]   0.00-2.04").unwrap()];
        assert!(refused(cut).contains("receiver"));
    }
}
