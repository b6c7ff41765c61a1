//! A session on a timing model: runs benchmarks in virtual time, in this process, several at once
//! on threads. Records are in the order of the benchmarks and do not depend on the machine, the
//! time of day or the number of threads, so the same command gives the same bytes.

use super::model_runner::{News, Runner};
use super::options::MeasureOptions;
use super::predicted::{Predicting, small_packets};
use super::process::line;
use super::progress::Progress;
use super::result_sink::ResultSink;
use crate::Failure;
use crate::host::Host;
use crate::interrupt;
use crate::model_target::ModelTarget;
use crate::progress_line;
use crate::time_budget;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use verbena_fabric::Error;
use verbena_measure::result::{Failure as PointFailure, NOT_COMPUTED, Parameters};
use verbena_measure::warning::Warning;
use verbena_report::csv;
use verbena_report::run_directory::{Loaded, POINTS};
use verbena_report::schema::{End, Line, Run, VERSION};
use verbena_workloads::{Benchmark, Record};

/// Benchmarks on one model.
pub struct ModelSession<'a> {
    pub benchmarks: Vec<&'static Benchmark>,
    pub target: &'a ModelTarget,
    pub options: &'a MeasureOptions,
    /// The run directory, if requested.
    pub directory: Option<&'a Path>,
    /// The command line, for the record.
    pub command: String,
    pub host: &'static dyn Host,
}

impl ModelSession<'_> {
    /// Runs all benchmarks.
    ///
    /// # Errors
    ///
    /// Fails if results cannot be written.
    pub fn run(self) -> Result<Loaded, Failure> {
        let run = Run {
            schema: VERSION,
            label: self.options.label_of(self.target.label()),
            fabric: "model".to_owned(),
            device: self.target.machine.name().to_owned(),
            command: self.command.clone(),
            // No time of day, so that the same command gives the same bytes.
            started: 0,
            seed: self.options.seed,
            effort: self.options.effort().to_owned(),
            launcher: "local".to_owned(),
            launches: 1,
            clock: BTreeMap::from([
                ("clock".to_owned(), "virtual".to_owned()),
                ("clock tick (ns)".to_owned(), "0.001".to_owned()),
            ]),
            environment: self.target.environment(),
            warnings: self.warnings()?,
        };
        let predicting = Predicting::of(self.target, &self.options.profiles)?;
        let mut sink = ResultSink::open(self.directory, run)?;
        interrupt::watch(self.host)?;
        let mut span = Duration::ZERO;
        let mut progress = Progress::new(
            self.benchmarks.iter().map(|one| one.name),
            1,
            &self.target.label(),
        );
        let mut trouble = None;
        let runner = Runner::new(self.target, self.options);
        let begin = |progress: &mut Progress, benchmark: &'static Benchmark| {
            progress.begin(benchmark.name);
            if progress_line::is_shown() {
                progress.expect(runner.points(benchmark).len());
            }
        };
        if let Some(first) = self.benchmarks.first() {
            begin(&mut progress, first);
        }
        let mut complete = BTreeSet::new();
        runner.in_order(&self.benchmarks, |news| {
            let (number, taken) = match news {
                News::None => return progress.look(),
                News::Record(_, mut record) => {
                    if let (Record::Point(point), Some(predicting)) = (&mut record, &predicting) {
                        predicting.mark(point);
                    }
                    progress.point();
                    if let Err(failure) = sink.take(line(record)) {
                        trouble.get_or_insert(failure);
                    }
                    return;
                }
                News::Ended(number, ended) => (number, ended),
            };
            let failed = match taken {
                Ok(ran) => {
                    span += ran;
                    None
                }
                Err(Error::Interrupted) => return,
                Err(error) => {
                    let unsupported = matches!(error, Error::Unsupported { .. });
                    let benchmark = self.benchmarks[number];
                    Some(failure(benchmark, error.to_string(), unsupported))
                }
            };
            complete.insert(number);
            if let Some(failure) = failed.and_then(|failed| sink.take(failed).err()) {
                trouble.get_or_insert(failure);
            }
            progress.end();
            if let Some(next) = self.benchmarks.get(number + 1) {
                begin(&mut progress, next);
            }
        });
        if let Some(failure) = trouble {
            return Err(failure);
        }
        let all = self.benchmarks.iter().enumerate();
        let left_out = all.filter(|(number, _)| !complete.contains(number));
        let left_out: Vec<_> = left_out.map(|(_, benchmark)| *benchmark).collect();
        let (outcome, reason) = match interrupt::is_wanted() {
            _ if left_out.is_empty() => ("complete", None),
            true => ("interrupted", None),
            false => ("stopped", Some(time_budget::reason())),
        };
        for benchmark in left_out {
            let reason = reason.as_deref().unwrap_or("the run was interrupted");
            for missing in missing(&runner, benchmark, reason, &sink.loaded) {
                sink.take(Line::Failure(missing))?;
            }
        }
        sink.take(Line::End(End {
            outcome: outcome.to_owned(),
            seconds: span.as_secs_f64(),
            reason,
        }))?;
        if let Some(directory) = self.directory {
            csv::write(&directory.join(POINTS), &sink.loaded.points)?;
        }
        Ok(sink.loaded)
    }

    /// Returns the warnings about the model: the size of packets, if a rate rests on it.
    fn warnings(&self) -> Result<Vec<Warning>, Failure> {
        let is_rate = |benchmark: &Benchmark| {
            ["bandwidth", "rate"]
                .iter()
                .any(|word| benchmark.name.contains(word))
        };
        match self.benchmarks.iter().any(|benchmark| is_rate(benchmark)) {
            true => {
                let warning = small_packets(self.target, &self.options.profiles)?;
                Ok(warning.into_iter().collect())
            }
            false => Ok(Vec::new()),
        }
    }
}

/// Returns the points of a benchmark that were not computed; if they are not known, or all known
/// ones were, a record of the benchmark.
fn missing(
    runner: &Runner,
    benchmark: &'static Benchmark,
    reason: &str,
    loaded: &Loaded,
) -> Vec<PointFailure> {
    let reason = format!("{NOT_COMPUTED}{reason}");
    let record = |parameters| PointFailure {
        benchmark: benchmark.name.to_owned(),
        launch: 0,
        parameters,
        reason: reason.clone(),
        unsupported: false,
    };
    let points = loaded.points.iter();
    let points = points.map(|point| (&point.benchmark, &point.parameters));
    let failures = loaded.failures.iter();
    let failures = failures.map(|failure| (&failure.benchmark, &failure.parameters));
    let known: Vec<&Parameters> = points
        .chain(failures)
        .filter(|(name, _)| *name == benchmark.name)
        .map(|(_, parameters)| parameters)
        .collect();
    let missing = without(runner.points(benchmark), &known);
    match missing.is_empty() {
        true => vec![record(Parameters::new())],
        false => missing.into_iter().map(record).collect(),
    }
}

/// Returns the parameters of points that are not among those of records, which may have more.
fn without(points: Vec<Parameters>, records: &[&Parameters]) -> Vec<Parameters> {
    let is_in = |point: &Parameters, record: &Parameters| {
        point
            .iter()
            .all(|(name, value)| record.get(name) == Some(value))
    };
    let is_missing = |point: &Parameters| !records.iter().any(|record| is_in(point, record));
    points.into_iter().filter(is_missing).collect()
}

/// Returns the record of a benchmark that was not computed.
fn failure(benchmark: &Benchmark, reason: String, unsupported: bool) -> Line {
    Line::Failure(PointFailure {
        benchmark: benchmark.name.to_owned(),
        launch: 0,
        parameters: Parameters::new(),
        reason,
        unsupported,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::result::Value;

    #[test]
    fn points_are_missing_unless_a_record_has_all_their_parameters() {
        let point = |size: usize, more: Option<&str>| {
            let size = ("size".to_owned(), Value::from(size));
            let more = more.map(|word| ("mode".to_owned(), Value::from(word)));
            Parameters::from_iter([size].into_iter().chain(more))
        };
        let records = [point(8, Some("free")), point(64, None)];
        let records: Vec<&Parameters> = records.iter().collect();
        let points = [8, 64, 512].map(|size| point(size, None));
        assert_eq!(without(points.to_vec(), &records), [point(512, None)]);
        let other = point(8, Some("lockstep"));
        assert_eq!(without(vec![other.clone()], &records), [other]);
    }
}
