//! Parses qperf's text: a line with the test's name, and its figures below. It prints the size only
//! with `-v`.

use super::lines::Line;
use super::points::{messages, parameters, point, rate, time};
use super::section::{Begun, Context, Section, Seen};
use super::table::Figure;
use verbena_measure::result::Point;

/// Prefixes of its tests' names.
const TRANSPORTS: [&str; 9] = ["rc", "uc", "ud", "xrc", "tcp", "udp", "sctp", "sdp", "rds"];

/// Prefixes of figures of one side.
const SIDES: [&str; 4] = ["send_", "recv_", "loc_", "rem_"];

/// Begins a test at its name.
pub fn begin(line: &Line<'_>, _: &Context<'_>) -> Begun {
    let name = line.text.strip_suffix(':')?;
    let (transport, _) = name.split_once('_')?;
    let is_name = name
        .chars()
        .all(|letter| letter.is_ascii_lowercase() || letter == '_');
    if !is_name || !TRANSPORTS.contains(&transport) {
        return None;
    }
    let (name, transport) = (name.replace('_', "-"), transport.to_owned());
    Some(Ok(Box::new(Test {
        name,
        transport,
        size: None,
        metrics: Vec::new(),
    })))
}

struct Test {
    name: String,
    transport: String,
    size: Option<f64>,
    metrics: Vec<verbena_measure::result::Metric>,
}

impl Section for Test {
    fn line(&mut self, line: &Line<'_>) -> Result<Seen, String> {
        let Some((name, value)) = line.text.split_once('=') else {
            return Ok(Seen::Unknown);
        };
        let mut words = value.split_whitespace();
        let (number, unit) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let figure = || Figure::read(number);
        match name.trim() {
            "latency" => self
                .metrics
                .push(time("one-way-latency", figure()?.value * times(unit)?)),
            // A bandwidth may have separate figures for sent and received data: received data
            // count.
            "bw" | "recv_bw" => {
                let figure = figure()?.value * bytes(unit)?;
                self.metrics.insert(0, rate(figure));
            }
            "msg_rate" => self
                .metrics
                .push(messages(figure()?.value * prefix(unit, "/sec")?)),
            "msg_size" => {
                let unit = if unit == "bytes" { 1.0 } else { binary(unit)? };
                self.size = Some(figure()?.value * unit);
            }
            "time" | "mtu_size" | "poll_mode" | "timeout" | "cq_size" | "id" => {}
            // CPU time, bytes and messages of one side, with `-vc` and `-vs`.
            name if SIDES.iter().any(|side| name.starts_with(side)) => {}
            _ => return Ok(Seen::Unknown),
        }
        Ok(Seen::Known)
    }

    fn end(self: Box<Self>) -> Result<Vec<Point>, String> {
        let mut named = parameters([("transport", self.transport.as_str().into())]);
        named.extend(self.size.map(|size| ("size".to_owned(), size.into())));
        Ok(match self.metrics.is_empty() {
            true => Vec::new(),
            false => vec![point(&format!("qperf.{}", self.name), named, self.metrics)],
        })
    }
}

fn times(unit: &str) -> Result<f64, String> {
    Ok(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "sec" => 1e9,
        _ => return Err(format!("{unit:?} is not a unit of time")),
    })
}

/// Returns the bytes a second of a unit; qperf prints bits with `-ub`.
fn bytes(unit: &str) -> Result<f64, String> {
    match unit
        .strip_suffix("bytes/sec")
        .or(unit.strip_suffix("B/sec"))
    {
        Some(_) if unit == "bytes/sec" => Ok(1.0),
        Some(_) => prefix(unit, "B/sec"),
        None if unit.ends_with("bits/sec") => Ok(0.125),
        None => Ok(prefix(unit, "b/sec")? / 8.0),
    }
}

/// Returns the factor of K, M and G before a unit.
fn prefix(unit: &str, end: &str) -> Result<f64, String> {
    Ok(match unit.strip_suffix(end) {
        Some("") => 1.0,
        Some("K") => 1e3,
        Some("M") => 1e6,
        Some("G") => 1e9,
        Some("T") => 1e12,
        _ => return Err(format!("{unit:?} is not a unit of {end}")),
    })
}

/// Returns the bytes of a unit of sizes, which are binary.
fn binary(unit: &str) -> Result<f64, String> {
    Ok(match unit {
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(format!("{unit:?} is not a unit of size")),
    })
}

#[cfg(test)]
mod tests {
    use crate::import::tests::{points, refused};

    /// Output of qperf 0.4.11, recorded here.
    const TEXT: &str = "\
tcp_lat:
    latency   =       22301 ns
    msg_size  =        4096 bytes
    time      =  1000000000 ns
tcp_bw:
    bw              =  1.14 GB/sec
    msg_rate        =  17.4 K/sec
    time            =     1 sec
    send_cost       =  1.76 sec/GB
    recv_cpus_used  =   201 % cpus
    send_real_time  =     1 sec
    recv_max_cqe    = 1,024
";

    #[test]
    fn figures_keep_their_units() {
        let found = points(TEXT);
        let key = crate::gather::key(&found[0].benchmark, &found[0].parameters);
        assert_eq!(key, "qperf.tcp-lat size=4096 transport=tcp");
        assert_eq!(found[0].metrics[0].value, 22301.0);
        let values: Vec<f64> = found[1].metrics.iter().map(|metric| metric.value).collect();
        assert!((values[0] - 1.14e9).abs() < 1.0 && (values[1] - 17400.0).abs() < 1e-6);
        let wrong = refused(&TEXT.replace("22301 ns", "-1 ns"));
        assert!(
            wrong.contains("line 2") && wrong.contains("negative"),
            "{wrong}"
        );
    }
}
