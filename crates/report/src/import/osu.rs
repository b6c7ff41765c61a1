//! OSU micro-benchmarks' text. Its MB is 10^6 bytes, its latency one way, averaged over pairs.

use super::{point, rate, time};
use verbena_measure::result::Point;

/// Points of an OSU output; `None` when it is not one.
pub fn parse(text: &str) -> Option<Vec<Point>> {
    let head = text.lines().find(|line| line.starts_with("# OSU"))?;
    let columns = text.lines().find(|line| line.starts_with("# Size"))?;
    let bandwidth = columns.contains("Bandwidth") || columns.contains("MB/s");
    let multiple = head.contains("Multi");
    let rows = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let numbers: Option<Vec<f64>> = line
                .split_whitespace()
                .map(|word| word.parse().ok())
                .collect();
            let numbers = numbers.filter(|numbers| numbers.len() >= 2)?;
            let (name, figure) = match (bandwidth, multiple) {
                (true, false) => ("mpi.bandwidth", rate(numbers[1] * 1e6)),
                (true, true) => ("mpi.multi-pair-bandwidth", rate(numbers[1] * 1e6)),
                (false, false) => ("mpi.latency", time("one-way-latency", numbers[1] * 1000.0)),
                (false, true) => (
                    "mpi.multi-pair-latency",
                    time("one-way-latency", numbers[1] * 1000.0),
                ),
            };
            Some(point(name, numbers[0], "mpi", vec![figure]))
        });
    Some(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_and_bandwidth() {
        let latency =
            "# OSU MPI Latency Test v5.9\n# Size          Latency (us)\n0   1.12\n1   1.20\n";
        let points = parse(latency).unwrap();
        assert_eq!((points.len(), points[1].metrics[0].value), (2, 1200.0));
        let bandwidth =
            "# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n1024  900.5\n";
        assert_eq!(parse(bandwidth).unwrap()[0].metrics[0].value, 900.5e6);
        assert_eq!(parse("# something"), None);
    }
}
