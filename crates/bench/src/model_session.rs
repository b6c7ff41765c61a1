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
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use verbena_fabric::Error;
use verbena_measure::result::{Failure as PointFailure, Parameters};
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
        let mut outcome = "complete";
        let mut progress = Progress::new(
            self.benchmarks.iter().map(|one| one.name),
            1,
            &self.target.label(),
        );
        let mut trouble = None;
        if let Some(first) = self.benchmarks.first() {
            progress.begin(first.name);
        }
        let runner = Runner::new(self.target, self.options);
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
                progress.begin(next.name);
            }
        });
        if runner.is_late() && !interrupt::is_wanted() {
            let all = self.benchmarks.iter().enumerate();
            for (_, benchmark) in all.filter(|(number, _)| !complete.contains(number)) {
                let text = "stopped, or not begun, when the time of --minutes had passed";
                sink.take(failure(benchmark, text.to_owned(), false))?;
            }
        }
        if interrupt::is_wanted() {
            outcome = "interrupted";
        }
        if let Some(failure) = trouble {
            return Err(failure);
        }
        sink.take(Line::End(End {
            outcome: outcome.to_owned(),
            seconds: span.as_secs_f64(),
            reason: None,
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
