//! Communication of a recorded run: share of the processes' time, number of messages, and the
//! dominant calls.

use std::cmp::Reverse;
use verbena_measure::result::{Finding, Parameters};
use verbena_measure::unit;
use verbena_mpi_trace::{Calls, Summary};

/// Number of calls to name.
const NAMED: usize = 4;

/// MPI_Finalize is not communication by the program itself.
const LEAVING: &str = "MPI_Finalize";

/// Returns the findings of a recorded run. All time from `MPI_Init` to `MPI_Finalize` that is not
/// computation counts as communication, including waiting for other processes.
pub fn findings(
    benchmark: &str,
    launch: u32,
    parameters: &Parameters,
    summary: &Summary,
) -> [Finding; 2] {
    let found = |name: &str, value: f64, unit: &str, text: String| Finding {
        benchmark: benchmark.to_owned(),
        launch,
        name: name.to_owned(),
        parameters: parameters.clone(),
        value: Some(value),
        unit: unit.to_owned(),
        range: None,
        text,
    };
    let all = &summary.all;
    let leaving = summary.by_name.get(LEAVING).map_or(0, |calls| calls.within);
    let within = all.within.saturating_sub(leaving);
    let taken = within.saturating_add(summary.computing).max(1);
    let share = within as f64 / taken as f64 * 100.0;
    let in_time = most(summary, |calls| calls.within).filter(|(name, _)| *name != LEAVING);
    let in_time = in_time.map(|(name, calls)| {
        let of_all = calls.within as f64 / taken as f64 * 100.0;
        format!("{name} {of_all:.1} %")
    });
    let in_bytes = most(summary, |calls| {
        calls.bytes.saturating_add(calls.collective_bytes)
    });
    let in_bytes = in_bytes.map(|(name, calls)| {
        let bytes = calls.bytes.saturating_add(calls.collective_bytes) as f64;
        format!("{name} {} in {} calls", unit::size(bytes), calls.calls)
    });
    [
        found(
            "communication-share",
            share,
            "%",
            format!(
                "{share:.1} % of the processes' time is spent in MPI: {}",
                in_time.collect::<Vec<_>>().join(", ")
            ),
        ),
        found(
            "communication-bytes",
            all.bytes.saturating_add(all.collective_bytes) as f64,
            "bytes",
            format!(
                "{} messages of {}, and {} given to collective operations: {}",
                all.messages,
                unit::size(all.bytes as f64),
                unit::size(all.collective_bytes as f64),
                in_bytes.collect::<Vec<_>>().join(", ")
            ),
        ),
    ]
}

/// Returns the calls with the largest nonzero values of `of`.
fn most(summary: &Summary, of: impl Fn(&Calls) -> u64) -> impl Iterator<Item = (&str, &Calls)> {
    let mut all: Vec<(&str, &Calls)> = summary
        .by_name
        .iter()
        .map(|(name, calls)| (name.as_str(), calls))
        .filter(|(_, calls)| of(calls) > 0)
        .collect();
    all.sort_by_key(|(name, calls)| (Reverse(of(calls)), *name));
    all.into_iter().take(NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_bytes_are_reported_by_call() {
        let mut summary = Summary {
            ranks: 2,
            computing: 600,
            ..Summary::default()
        };
        let calls = |calls, bytes, collective_bytes, within| Calls {
            calls,
            bytes,
            collective_bytes,
            within,
            messages: calls,
            ..Calls::default()
        };
        summary
            .by_name
            .insert("MPI_Send".to_owned(), calls(3, 2048, 0, 100));
        summary
            .by_name
            .insert("MPI_Allreduce".to_owned(), calls(5, 0, 40, 300));
        summary
            .by_name
            .insert("MPI_Init".to_owned(), calls(2, 0, 0, 0));
        summary.all = calls(10, 2048, 40, 400);
        let [share, bytes] = findings("app.x", 1, &Parameters::new(), &summary);
        assert_eq!((share.value, bytes.value), (Some(40.0), Some(2088.0)));
        assert!(
            share
                .text
                .ends_with("in MPI: MPI_Allreduce 30.0 %, MPI_Send 10.0 %"),
            "{}",
            share.text
        );
        assert!(
            bytes
                .text
                .contains("MPI_Send 2 KiB in 3 calls, MPI_Allreduce"),
            "{}",
            bytes.text
        );
        assert!(!bytes.text.contains("MPI_Init"));
    }

    #[test]
    fn an_empty_trace_has_shares_of_zero() {
        let [share, bytes] = findings("app.x", 1, &Parameters::new(), &Summary::default());
        assert_eq!((share.value, bytes.value), (Some(0.0), Some(0.0)));
    }
}
