//! Foreign results turned into runs, so that what people already have can be laid beside. What a foreign format does not
//! say stays unknown: no percentile is made up, `n` and launches are what the file has.

pub mod iperf3;
pub mod osu;
pub mod perftest;

use crate::error::{Error, Result};
use crate::run_directory::Loaded;
use crate::schema::{Run, VERSION};
use std::path::Path;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};

/// Reads a foreign file, telling the format by its content.
pub fn import(path: &Path) -> Result<Loaded> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    let points = perftest::parse(&text)
        .or_else(|| osu::parse(&text))
        .or_else(|| iperf3::parse(&text));
    let points = points
        .filter(|points| !points.is_empty())
        .ok_or_else(|| Error::Import {
            path: path.to_owned(),
            reason: "neither perftest's text or JSON, nor OSU's text, nor iperf3's JSON".to_owned(),
        })?;
    let label = path
        .file_stem()
        .map_or_else(|| "import".into(), |stem| stem.to_string_lossy());
    Ok(Loaded {
        run: Run {
            schema: VERSION,
            label: label.into_owned(),
            fabric: "import".to_owned(),
            launches: 1,
            command: format!("imported from {}", path.display()),
            ..Run::default()
        },
        points,
        ..Loaded::default()
    })
}

/// A point with what a foreign row tells.
fn point(benchmark: &str, size: f64, transport: &str, metrics: Vec<Metric>) -> Point {
    let mut parameters = Parameters::new();
    parameters.insert("size".to_owned(), Value::Number(size));
    parameters.insert("transport".to_owned(), Value::Word(transport.to_owned()));
    Point {
        benchmark: benchmark.to_owned(),
        launch: 0,
        parameters,
        metrics,
        pairs: Vec::new(),
        conduct: Conduct::default(),
        warnings: Vec::new(),
    }
}

fn time(name: &str, nanos: f64) -> Metric {
    Metric::figure(name, "ns", Better::Lower, nanos)
}

fn rate(bytes_per_second: f64) -> Metric {
    Metric::figure("bandwidth", "bytes/s", Better::Higher, bytes_per_second)
}
