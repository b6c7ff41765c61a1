//! Anchors as text: `latency.write:8=1.88us`.

use super::{Anchor, AnchorError, Settings, Unit, meaning};

/// Longest text in bytes.
const LONGEST: usize = 200;
/// Units of latencies, and microseconds of each.
const TIMES: [(&str, f64); 5] = [
    ("us", 1.0),
    ("\u{b5}s", 1.0),
    ("ns", 1e-3),
    ("ms", 1e3),
    ("s", 1e6),
];
/// Units of rates, and 10^6 bytes a second of each.
const RATES: [(&str, f64); 11] = [
    ("MB/s", 1.0),
    ("GB/s", 1e3),
    ("kB/s", 1e-3),
    ("MiB/s", 1.048_576),
    ("GiB/s", 1_073.741_824),
    ("Gbit/s", 125.0),
    ("Mbit/s", 0.125),
    ("Gb/s", 125.0),
    ("Gb/sec", 125.0),
    ("Mb/s", 0.125),
    ("MiB/sec", 1.048_576),
];
/// Units of message rates, and 10^6 messages a second of each.
const MESSAGES: [(&str, f64); 4] = [
    ("Mmsg/s", 1.0),
    ("kmsg/s", 1e-3),
    ("msg/s", 1e-6),
    ("Mpps", 1.0),
];
/// Units of sizes, and bytes of each.
const SIZES: [(&str, u64); 4] = [("", 1), ("B", 1), ("KiB", 1024), ("MiB", 1 << 20)];

/// Parses an anchor, such as `latency.write:8=1.88us`, `mpi.latency:8=1.2us`,
/// `bandwidth.write:64=5.2Mmsg/s`. A transport may follow the benchmark: `latency.send/ud:64=...`.
///
/// # Errors
///
/// If it is malformed, or not an anchor ([`Anchor::operation`]).
pub fn parse(text: &str) -> Result<Anchor, AnchorError> {
    let wrong = |reason: &str| AnchorError::Text {
        text: text.chars().take(LONGEST).collect(),
        reason: reason.to_owned(),
    };
    if text.len() > LONGEST {
        return Err(wrong("too long"));
    }
    let (what, figure) = text.split_once('=').ok_or_else(|| wrong("no \"=\""))?;
    let (name, size) = what.split_once(':').ok_or_else(|| wrong("no size"))?;
    let (benchmark, transport) = match name.trim().split_once('/') {
        Some((benchmark, transport)) => (benchmark, Some(transport)),
        None => (name.trim(), None),
    };
    if transport.is_some_and(|one| !["rc", "uc", "ud"].contains(&one)) {
        return Err(wrong("the transport is not rc, uc or ud"));
    }
    let (unit, _) = meaning(benchmark, transport)
        .ok_or_else(|| AnchorError::Benchmark(benchmark.to_owned()))?;
    let bytes = bytes(size.trim()).ok_or_else(|| wrong("the size is not a number of bytes"))?;
    let (number, of) = divided(figure.trim());
    let number: f64 = number
        .parse()
        .map_err(|_| wrong("the figure is not a number"))?;
    let times = |units: &[(&str, f64)]| {
        let found = units.iter().find(|(name, _)| *name == of);
        found.map(|(_, factor)| number * factor)
    };
    let figure = match unit {
        Unit::Micros => times(&TIMES),
        Unit::Megabytes => times(&RATES).or(times(&MESSAGES).map(|rate| rate * bytes as f64)),
    };
    let figure = figure.ok_or_else(|| match of {
        "MB/sec" => wrong("perftest's MB/sec are 2^20 bytes: write MiB/s"),
        _ => AnchorError::Unit {
            benchmark: benchmark.to_owned(),
            unit,
        },
    })?;
    let anchor = Anchor {
        benchmark: benchmark.to_owned(),
        bytes,
        figure,
        unit,
        settings: Settings {
            transport: transport.map(str::to_owned),
            ..Settings::default()
        },
    };
    anchor.operation()?;
    Ok(anchor)
}

/// Divides a figure into number and unit.
fn divided(figure: &str) -> (&str, &str) {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let end = figure.find(|c| !number(c)).unwrap_or(figure.len());
    (&figure[..end], figure[end..].trim())
}

fn bytes(size: &str) -> Option<u64> {
    let (number, unit) = divided(size);
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figure(text: &str) -> f64 {
        parse(text).expect("an anchor").figure
    }

    #[test]
    fn figures_are_converted() {
        assert_eq!(figure("latency.write:8=1.88us"), 1.88);
        assert_eq!(figure("mpi.latency:8 = 1200 ns"), 1.2);
        assert_eq!(figure("bandwidth.write:64=5.2MB/s"), 5.2);
        assert_eq!(figure("bandwidth.write:64=2GB/s"), 2000.0);
        assert_eq!(figure("bandwidth.write:64B=2Gbit/s"), 250.0);
        assert_eq!(figure("bandwidth.read:4KiB=1MiB/s"), 1.048_576);
        assert_eq!(figure("mpi.bandwidth:64=2Mmsg/s"), 128.0);
    }

    #[test]
    fn a_transport_may_follow() {
        let anchor = parse("latency.send/ud:8=1us").expect("an anchor");
        assert_eq!(anchor.settings.transport.as_deref(), Some("ud"));
        assert_eq!(
            anchor.operation().unwrap(),
            super::super::Operation::Datagram
        );
        assert_eq!(anchor.to_string(), "latency.send (ud) 8 B = 1 us");
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (text, part) in [
            ("latency.write", "no \"=\""),
            ("latency.write=2us", "no size"),
            ("latency.write:x=2us", "not a number of bytes"),
            ("latency.write:8=us", "not a number"),
            ("latency.write:8=-2us", "not a number"),
            ("latency.write:8=0us", "above zero"),
            ("latency.write:8=2", "a latency, such as 1.88us"),
            ("latency.write:8=2MB/s", "a latency, such as 1.88us"),
            ("bandwidth.write:64=2us", "a rate, such as"),
            ("bandwidth.write:64=2MB/sec", "2^20"),
            ("bandwidth.write:65536=2GB/s", "from 1 to 4096 B"),
            ("latency.atomic:8=2us", "use one of latency.write"),
            ("latency.send/xrc:8=2us", "not rc, uc or ud"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_anchor_or_an_error(text in ".{0,300}") {
            let _ = parse(&text);
            let _ = parse(&format!("latency.write:{text}"));
            let _ = parse(&format!("bandwidth.write:64={text}"));
        }
    }
}
