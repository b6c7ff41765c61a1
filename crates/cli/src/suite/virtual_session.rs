//! A session on a timing model: benchmarks in virtual time, in this process, several at once on threads. Records are in
//! the benchmarks' order and nothing in them depends on the machine, the hour or the number of threads, so the same
//! command gives the same bytes.

use super::books::Books;
use super::options::MeasureOptions;
use super::process::line;
use super::progress::Progress;
use crate::failure::Failure;
use crate::service;
use crate::service::catalogue::{self, Subject};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use verbena_fabric::model::{Fidelity, Machine};
use verbena_fabric::{Error, Result as SeamResult};
use verbena_measure::result::{Failure as PointFailure, Parameters};
use verbena_model::profile::System;
use verbena_predict::messages;
use verbena_report::csv;
use verbena_report::run_directory::{Loaded, POINTS};
use verbena_report::schema::{End, Line, Run, VERSION};
use verbena_workloads::modelled::{Modelled, Ran};
use verbena_workloads::{Benchmark, Budget, Record, Sweep, find};

/// A modelled machine to run on.
#[derive(Debug, Clone)]
pub struct ModelTarget {
    /// The machine.
    pub machine: Machine,
    /// How finely messages are followed.
    pub fidelity: Fidelity,
}

impl ModelTarget {
    /// For legends.
    pub fn label(&self) -> String {
        match self.fidelity {
            Fidelity::Packet => format!("{} (model)", self.machine.name()),
            Fidelity::Message => format!("{} (model, by messages)", self.machine.name()),
        }
    }

    /// For directories.
    pub fn directory(&self) -> String {
        match self.fidelity {
            Fidelity::Packet => format!("model-{}", self.machine.name()),
            Fidelity::Message => format!("model-{}-message", self.machine.name()),
        }
    }

    /// The system, where only adapters will do.
    pub fn system(&self) -> Result<&System, Failure> {
        let name = self.machine.name();
        self.machine.system().ok_or_else(|| {
            Failure::Input(format!(
                "{name} is the software adapter on one host; a profile of kind system is needed"
            ))
        })
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::from([
            ("model".to_owned(), self.machine.about().to_owned()),
            ("fidelity".to_owned(), word(self.fidelity).to_owned()),
            ("verbena".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        let Some(system) = self.machine.system() else {
            return out;
        };
        let parts = [
            ("host", Some(&system.host.about)),
            ("adapter", Some(&system.adapter.about)),
            ("link", Some(&system.link.about)),
            ("cable", Some(&system.cable.about)),
            ("switch", system.switch.as_ref().map(|switch| &switch.about)),
            (
                "topology",
                system.topology.as_ref().map(|joined| &joined.about),
            ),
            (
                "congestion control",
                system.congestion.as_ref().map(|control| &control.about),
            ),
        ];
        for (part, about) in parts {
            let about = about.map(|about| (format!("modelled {part}"), about.clone()));
            out.extend(about);
        }
        out
    }
}

fn word(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Packet => "every packet",
        Fidelity::Message => "whole messages",
    }
}

/// What to run on a model.
pub struct VirtualSession<'a> {
    /// The benchmarks, in order.
    pub benchmarks: Vec<&'static Benchmark>,
    /// On what.
    pub target: &'a ModelTarget,
    /// How.
    pub options: &'a MeasureOptions,
    /// Where records go.
    pub directory: Option<&'a Path>,
    /// The command, for the record.
    pub command: String,
}

impl VirtualSession<'_> {
    /// Runs everything.
    pub fn run(self) -> Result<Loaded, Failure> {
        let run = Run {
            schema: VERSION,
            label: self.options.label_of(self.target.label()),
            fabric: "model".to_owned(),
            device: self.target.machine.name().to_owned(),
            command: self.command.clone(),
            // A model has no hour: the same command gives the same bytes.
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
            warnings: Vec::new(),
        };
        let mut books = Books::open(self.directory, run)?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|source| {
                Failure::System {
                    doing: "catch signals",
                    source,
                }
            })?;
        }
        let mut span = Duration::ZERO;
        let mut outcome = "complete";
        let mut progress = Progress::new(self.benchmarks.iter().map(|one| one.name), 1);
        let mut trouble = None;
        self.in_order(&stop, |benchmark, ended| {
            progress.begin(benchmark.name);
            match ended {
                Ok(ran) => {
                    span += ran.span;
                    for record in ran.records {
                        if let Err(failure) = books.take(line(record)) {
                            trouble.get_or_insert(failure);
                        }
                    }
                }
                Err(Error::Interrupted) => outcome = "interrupted",
                Err(error) => {
                    let failure = Line::Failure(PointFailure {
                        benchmark: benchmark.name.to_owned(),
                        launch: 0,
                        parameters: Parameters::new(),
                        reason: error.to_string(),
                        unsupported: matches!(error, Error::Unsupported { .. }),
                    });
                    if let Err(failure) = books.take(failure) {
                        trouble.get_or_insert(failure);
                    }
                }
            }
            progress.end();
        });
        if let Some(failure) = trouble {
            return Err(failure);
        }
        books.take(Line::End(End {
            outcome: outcome.to_owned(),
            seconds: span.as_secs_f64(),
            reason: None,
        }))?;
        if let Some(directory) = self.directory {
            csv::write(&directory.join(POINTS), &books.loaded.points)?;
        }
        Ok(books.loaded)
    }

    /// Runs all benchmarks, each on one thread, and hands on what each gave, in their order.
    fn in_order(
        &self,
        stop: &Arc<AtomicBool>,
        mut take: impl FnMut(&'static Benchmark, SeamResult<Ran>),
    ) {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for _ in 0..self.options.threads.max(1) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(benchmark) = self.benchmarks.get(place) else {
                            return;
                        };
                        let ended = match stop.load(Ordering::Relaxed) {
                            true => Err(Error::Interrupted),
                            false => self.one(benchmark, stop),
                        };
                        if sender.send((place, ended)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut early = BTreeMap::new();
            let mut due = 0;
            for (place, ended) in receiver {
                early.insert(place, ended);
                while let Some(ended) = early.remove(&due) {
                    take(self.benchmarks[due], ended);
                    due += 1;
                }
            }
        });
    }

    /// Runs a benchmark of the seam; others need real processes and files.
    fn one(&self, benchmark: &'static Benchmark, stop: &Arc<AtomicBool>) -> SeamResult<Ran> {
        if let Some(entry) = messages::find(benchmark.name) {
            return self.message_passing(entry);
        }
        match (find(benchmark.name), catalogue::subject(benchmark)) {
            (Some(_), _) => self.modelled(benchmark, stop).run(),
            (None, Some(Subject::Readers)) => self.file_service(),
            _ => Err(Error::unsupported(
                benchmark.name,
                format!("the model {}", self.target.machine.name()),
            )),
        }
    }

    /// Message passing is modelled with its library, if the system names one.
    fn message_passing(&self, entry: &messages::Entry) -> SeamResult<Ran> {
        let system = self.target.machine.system();
        let Some(system) = system.filter(|system| system.mpi.is_some()) else {
            return Err(Error::unsupported(
                format!(
                    "{}, which needs a message-passing library,",
                    entry.benchmark.name
                ),
                format!("the model {}", self.target.machine.name()),
            ));
        };
        let asked = self.options.sizes.as_ref();
        let sizes = asked.map(|sizes| sizes.iter().map(|&size| size as u64).collect());
        let sizes = sizes.unwrap_or_else(|| messages::sizes(entry, self.options.quick));
        let crews = messages::crews(entry, self.options.processes, self.options.pairs.as_deref());
        let points = messages::points(entry, system, &sizes, &crews);
        Ok(Ran {
            records: points
                .into_iter()
                .map(|point| Record::Point(Box::new(point)))
                .collect(),
            span: Duration::ZERO,
        })
    }

    /// The readers of the file service have a model of their own.
    fn file_service(&self) -> SeamResult<Ran> {
        let invalid = |failure: Failure| Error::invalid("bench", failure.to_string());
        let library = self.options.profiles.library().map_err(invalid)?;
        let system = self.target.system().map_err(invalid)?;
        let readers = catalogue::readers(self.options.quick);
        let readers = self.options.pairs.as_deref().unwrap_or(readers);
        let points = service::points(&library, system, readers).map_err(invalid)?;
        let record = |point| Record::Point(Box::new(point));
        Ok(Ran {
            records: points.into_iter().map(record).collect(),
            span: Duration::ZERO,
        })
    }

    fn modelled(&self, benchmark: &'static Benchmark, stop: &Arc<AtomicBool>) -> Modelled {
        let sweep = match self.options.quick {
            true => Sweep::Coarse,
            false => Sweep::Fine,
        };
        Modelled {
            fidelity: self.target.fidelity,
            options: self.options.for_benchmarks(),
            budget: Budget {
                sweep,
                ..Budget::virtual_time()
            },
            processes: self.options.processes,
            stop: Arc::clone(stop),
            ..Modelled::new(self.target.machine.clone(), benchmark)
        }
    }
}
