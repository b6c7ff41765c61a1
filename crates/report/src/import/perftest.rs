//! perftest's text tables and its `--out_json`. Its MB is 2^20 bytes; its "typical" is the median.

use super::{point, rate, time};
use serde_json::Value;
use verbena_measure::result::Point;

const MEBIBYTE: f64 = 1_048_576.0;

/// Points of a perftest output; `None` when it is not one.
pub fn parse(text: &str) -> Option<Vec<Point>> {
    parse_json(text).or_else(|| parse_text(text))
}

/// Our benchmark and metric for a title such as "RDMA_Write Latency Test".
fn benchmark(title: &str) -> Option<(&'static str, &'static str)> {
    let title = title.replace('_', " ").to_lowercase();
    let latency = title.contains("latency");
    Some(match (latency, title) {
        (true, t) if t.contains("rdma write") => ("latency.write", "one-way-latency"),
        (true, t) if t.contains("rdma read") => ("latency.read", "completion-latency"),
        (true, t) if t.contains("send") => ("latency.send", "one-way-latency"),
        (true, t) if t.contains("fetch") => ("latency.fetch-add", "completion-latency"),
        (true, t) if t.contains("compare") || t.contains("atomic") => {
            ("latency.compare-swap", "completion-latency")
        }
        (false, t) if t.contains("write") && t.contains("bw") => ("bandwidth.write", "bandwidth"),
        (false, t) if t.contains("read") && t.contains("bw") => ("bandwidth.read", "bandwidth"),
        (false, t) if t.contains("send") && t.contains("bw") => ("bandwidth.send", "bandwidth"),
        _ => return None,
    })
}

fn parse_text(text: &str) -> Option<Vec<Point>> {
    let (name, metric) = text
        .lines()
        .map(str::trim)
        .filter(|line| line.ends_with("Test"))
        .find_map(benchmark)?;
    let word = |line: &str| line.split(':').nth(1).map(|w| w.trim().to_lowercase());
    let transport = text
        .lines()
        .find(|line| line.contains("Connection type"))
        .and_then(word)
        .and_then(|rest| rest.split_whitespace().next().map(str::to_owned))
        .unwrap_or_else(|| "rc".to_owned());
    let heads = text
        .lines()
        .find(|line| line.trim_start().starts_with("#bytes"))?;
    let mut points = Vec::new();
    for line in text.lines().skip_while(|line| *line != heads).skip(1) {
        let numbers: Option<Vec<f64>> = line
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() >= 4) else {
            continue;
        };
        // Latency: bytes, iterations, min, max, typical...; bandwidth: bytes, iterations, peak, average, rate.
        let figure = match metric {
            "bandwidth" => rate(numbers[3] * MEBIBYTE),
            // A duration run prints no minimum: bytes, iterations, average, transactions a second.
            _ if heads.contains("t_typical") => time(metric, *numbers.get(4)? * 1000.0),
            _ => time(metric, numbers[2] * 1000.0),
        };
        points.push(point(name, numbers[0], &transport, vec![figure]));
    }
    Some(points)
}

fn parse_json(text: &str) -> Option<Vec<Point>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let info = value.get("test_info")?;
    let (name, metric) = benchmark(info.get("test")?.as_str()?)?;
    let transport = info
        .get("Connection_type")
        .and_then(Value::as_str)
        .unwrap_or("rc");
    let results = value.get("results")?;
    let one = [results.clone()];
    let list: &[Value] = results.as_array().map_or(&one, Vec::as_slice);
    let points = list.iter().filter_map(|result| {
        let number = |key: &str| result.get(key).and_then(Value::as_f64);
        let figure = match metric {
            "bandwidth" => rate(number("BW_average")? * MEBIBYTE),
            _ => time(
                metric,
                number("t_typical").or_else(|| number("t_avg"))? * 1000.0,
            ),
        };
        Some(point(
            name,
            number("MsgSize")?,
            &transport.to_lowercase(),
            vec![figure],
        ))
    });
    Some(points.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "\
---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          0.85           3.26         0.89     \t       0.90        \t0.05   \t\t1.02    \t\t3.26
 4       1000          0.85           2.51         0.90     \t       0.90        \t0.04   \t\t1.00    \t\t2.51
---------------------------------------------------------------------------------------
";
    const BANDWIDTH: &str = "\
                    RDMA_Write BW Test
 Connection type : UC
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             11500.10            11400.00\t\t   0.182400
";

    #[test]
    fn text_tables() {
        let points = parse(LATENCY).unwrap();
        assert_eq!(points.len(), 2);
        assert_eq!(
            (points[0].benchmark.as_str(), points[0].metrics[0].value),
            ("latency.write", 890.0)
        );
        let points = parse(BANDWIDTH).unwrap();
        assert_eq!(points[0].metrics[0].value, 11400.0 * MEBIBYTE);
        assert_eq!(points[0].parameters["transport"].to_string(), "uc");
    }

    #[test]
    fn json() {
        let text = r#"{"test_info":{"test":"Send_Latency_Test","Connection_type":"RC"},
            "results":{"MsgSize":2,"n_iterations":1000,"t_min":1.0,"t_typical":1.25}}"#;
        let points = parse(text).unwrap();
        assert_eq!(
            (points[0].benchmark.as_str(), points[0].metrics[0].value),
            ("latency.send", 1250.0)
        );
    }

    #[test]
    fn something_else_is_not_perftest() {
        assert_eq!(parse("hello"), None);
        assert_eq!(parse("{}"), None);
    }
}
