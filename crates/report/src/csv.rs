//! Points as comma-separated values: one row for each metric of each point, times in ns, rates in
//! bytes/s (rule 15).

use crate::error::{Error, Result};
use crate::export::cell;
use std::fmt::Write as _;
use std::path::Path;
use verbena_measure::result::Point;

const HEAD: &str = "benchmark,launch,parameters,metric,unit,value,n,min,p50,p90,p99,p999,max,bound,\
                    validated,warnings\n";

/// Returns the table as text.
pub fn text(points: &[Point]) -> String {
    let mut out = HEAD.to_owned();
    for point in points {
        for metric in &point.metrics {
            let parameters: Vec<String> = point
                .parameters
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let summary = metric.summary.as_ref();
            let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
            let warnings: Vec<String> = point.warnings.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                cell(&point.benchmark),
                point.launch,
                cell(&parameters.join(";")),
                cell(&metric.name),
                cell(&metric.unit),
                metric.value,
                summary.map_or(String::new(), |s| s.n.to_string()),
                number(summary.map(|s| s.min)),
                number(summary.map(|s| s.p50)),
                number(summary.and_then(|s| s.p90)),
                number(summary.and_then(|s| s.p99)),
                number(summary.and_then(|s| s.p999)),
                number(summary.map(|s| s.max)),
                number(metric.bound.as_ref().map(|b| b.value)),
                point.conduct.validated,
                cell(&warnings.join("; ")),
            );
        }
    }
    out
}

/// Writes the table.
///
/// # Errors
///
/// Returns an error if the file cannot be written.
pub fn write(path: &Path, points: &[Point]) -> Result<()> {
    crate::file::replace(path, &text(points)).map_err(|e| Error::io(path, e))
}
