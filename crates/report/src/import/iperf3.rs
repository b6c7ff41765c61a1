//! iperf3's text and its `--json`. A stream of TCP is what our baseline measures, and gets its name.

use super::{Parsed, parameters, point, rate};
use serde_json::Value;
use verbena_measure::result::{Parameters, Point};

/// The point of an iperf3 output.
pub fn parse(text: &str) -> Parsed {
    parse_json(text).or_else(|| parse_text(text))
}

fn parse_json(text: &str) -> Parsed {
    let value: Value = serde_json::from_str(text).ok()?;
    let (start, end) = (value.get("start")?, value.get("end")?);
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        return Some(Err(format!("iperf3 failed: {error}")));
    }
    let test = start.get("test_start")?;
    let bits = ["sum_received", "sum"]
        .iter()
        .find_map(|sum| end.get(sum)?.get("bits_per_second")?.as_f64());
    let Some(bits) = bits else {
        return Some(Err(
            "iperf3's JSON has no sum of what was received; was the test cut short?".to_owned(),
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

/// The line that ends in "receiver": of the sum where there are several streams.
fn parse_text(text: &str) -> Parsed {
    let iperf3 = |line: &str| {
        line.contains("Interval") && line.contains("Transfer") && line.contains("Bitrate")
    };
    if !text.lines().any(iperf3) {
        return None;
    }
    let received: Vec<&str> = text
        .lines()
        .filter(|line| line.trim_end().ends_with("receiver"))
        .collect();
    let sum = received.iter().find(|line| line.contains("[SUM]"));
    let Some(line) = sum.or(received.first()) else {
        return Some(Err(
            "iperf3's output without the receiver's line; was it cut short?".to_owned(),
        ));
    };
    let Some(bits) = bits(line) else {
        return Some(Err(format!("no bitrate in {:?}", line.trim())));
    };
    let protocol = if text.contains("Lost/Total") {
        "UDP"
    } else {
        "TCP"
    };
    let streams = received.len() - usize::from(sum.is_some());
    Some(Ok(vec![stream(protocol, None, Some(streams as f64), bits)]))
}

/// "9.42 Gbits/sec", or in bytes, as `-f` has it.
fn bits(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.ends_with("/sec"))?;
    let number: f64 = words.get(at.checked_sub(1)?)?.parse().ok()?;
    let unit = words[at].trim_end_matches("/sec");
    // Of bits its prefixes are powers of 1000, of bytes powers of 1024.
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

/// One stream of TCP is the baseline's; several, and other protocols, are something else.
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

    const TEXT: &str = "\
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-2.00   sec  2.19 GBytes  9.42 Gbits/sec    0             sender
[  5]   0.00-2.04   sec  2.19 GBytes  9.22 Gbits/sec                  receiver
";

    #[test]
    fn a_received_sum() {
        let text = r#"{"start":{"test_start":{"protocol":"TCP","num_streams":1,"blksize":131072}},
            "end":{"sum_received":{"bits_per_second":8e9}}}"#;
        let found = parse(text).unwrap().unwrap().remove(0);
        assert_eq!(found.metrics[0].value, 1e9);
        let key = crate::gather::key(&found.benchmark, &found.parameters);
        assert_eq!(key, "baseline.tcp flow=stream size=131072");
        assert_eq!(parse("{\"end\":{}}"), None);
    }

    #[test]
    fn text_gives_what_was_received() {
        let value = |text: &str| parse(text).unwrap().unwrap()[0].metrics[0].value;
        assert!((value(TEXT) - 9.22e9 / 8.0).abs() < 1.0);
        let sum =
            format!("{TEXT}[SUM]   0.00-2.04   sec  2.19 GBytes  3.00 MBytes/sec    receiver\n");
        assert_eq!(value(&sum), 3.0 * 1_048_576.0);
    }

    #[test]
    fn failures_are_repeated() {
        let error = r#"{"start":{},"intervals":[],"end":{},"error":"unable to connect to server"}"#;
        assert!(
            parse(error)
                .unwrap()
                .unwrap_err()
                .contains("unable to connect")
        );
        let cut = &TEXT[..TEXT.find("[  5]   0.00-2.04").unwrap()];
        assert!(parse(cut).unwrap().unwrap_err().contains("receiver"));
    }
}
