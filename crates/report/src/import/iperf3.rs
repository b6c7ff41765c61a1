//! iperf3's `--json`.

use super::{point, rate};
use serde_json::Value;
use verbena_measure::result::Point;

/// The point of an iperf3 output; `None` when it is not one.
pub fn parse(text: &str) -> Option<Vec<Point>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let start = value.get("start")?.get("test_start")?;
    let end = value.get("end")?;
    let sum = end.get("sum_received").or_else(|| end.get("sum"))?;
    let bits = sum.get("bits_per_second")?.as_f64()?;
    let size = start.get("blksize").and_then(Value::as_f64).unwrap_or(0.0);
    let protocol = start
        .get("protocol")
        .and_then(Value::as_str)
        .unwrap_or("tcp")
        .to_lowercase();
    Some(vec![point(
        "tcp.stream",
        size,
        &protocol,
        vec![rate(bits / 8.0)],
    )])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_received_sum() {
        let text = r#"{"start":{"test_start":{"protocol":"TCP","blksize":131072}},
            "end":{"sum_received":{"bits_per_second":8e9}}}"#;
        let points = parse(text).unwrap();
        assert_eq!(points[0].metrics[0].value, 1e9);
        assert_eq!(parse("{\"end\":{}}"), None);
    }
}
