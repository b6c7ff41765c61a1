//! Running a benchmark on a modelled system: all processes in this thread, in virtual time. The same task gives the same
//! records, to the bit.

use crate::context::{Budget, Context, Options, Record};
use crate::disturbance::Rest;
use crate::registry::{Benchmark, Processes, run};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use verbena_fabric::model::{Fidelity, Job, Machine, Traced, run_audited, run_job};
use verbena_fabric::{Error, Fabric, Result};
use verbena_measure::result::Point;
use verbena_model::audit::Audit;

/// Processes of a pattern, unless asked otherwise.
const PATTERN: usize = 4;

/// A benchmark to run on a machine.
#[derive(Debug, Clone)]
pub struct Modelled {
    /// The machine.
    pub machine: Machine,
    /// How finely messages are followed.
    pub fidelity: Fidelity,
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// What the user asked for.
    pub options: Options,
    /// How long a point may take, in virtual time.
    pub budget: Budget,
    /// Processes of a pattern.
    pub processes: Option<usize>,
    /// The user's wish to stop.
    pub stop: Arc<AtomicBool>,
}

/// What a benchmark on a model gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// What process 0 emitted.
    pub records: Vec<Record>,
    /// How much virtual time went by.
    pub span: Duration,
}

impl Modelled {
    /// A benchmark as it comes, at packet fidelity.
    pub fn new(machine: impl Into<Machine>, benchmark: &'static Benchmark) -> Modelled {
        Modelled {
            machine: machine.into(),
            fidelity: Fidelity::Packet,
            benchmark,
            options: Options::default(),
            budget: Budget::virtual_time(),
            processes: None,
            stop: Arc::default(),
        }
    }

    /// Its processes and where they are: two benchmark processes on two nodes, pairs across two nodes with a core for
    /// each, patterns dealt out over the machine's nodes in turn; all on one host where there is but one.
    pub fn job(&self) -> Job {
        let (size, nodes) = match self.benchmark.processes {
            Processes::One => (1, 1),
            Processes::Two => (2, 2),
            Processes::Pairs => {
                let asked = self.options.pairs.as_ref();
                let most = asked.and_then(|pairs| pairs.iter().copied().max());
                (2 * most.unwrap_or(self.pairs()).max(1), 2)
            }
            Processes::AtLeast(least) => {
                let size = self.processes.unwrap_or(PATTERN).max(least);
                (size, size.min(self.machine.nodes()))
            }
        };
        Job {
            stop: self.stop.clone(),
            ..Job::new(self.machine.clone(), size, nodes.min(self.machine.nodes()))
                .fidelity(self.fidelity)
        }
    }

    /// The same, if it is one that the machine's model knows: of the software adapter's there is nothing about processes that take
    /// turns on a processor.
    fn known_job(&self) -> Result<Job> {
        let (job, cores) = (self.job(), self.machine.cores());
        if self.machine.system().is_none() && job.nodes.len() > cores {
            let what = format!("{} processes on {cores} processors", job.nodes.len());
            return Err(Error::unsupported(
                what,
                format!("the model {}", self.machine.name()),
            ));
        }
        Ok(job)
    }

    /// Pairs that have a core for each of their processes.
    fn pairs(&self) -> usize {
        match self.machine.nodes() {
            1 => self.machine.cores() / 2,
            _ => self.machine.cores(),
        }
    }

    /// Runs it and gives for each point what happened during the operation timed last.
    pub fn trace(&self) -> Result<Vec<(Point, Traced)>> {
        let traced = Rc::new(RefCell::new(Vec::new()));
        let (sink, options) = (traced.clone(), self.options.clone());
        let (benchmark, budget) = (self.benchmark.name, self.budget);
        let ended = run_job(&self.known_job()?, async move |process| {
            process.record();
            let emit = |record| {
                if let Record::Point(point) = record {
                    sink.borrow_mut().push((*point, process.traced()));
                }
            };
            let context = Context {
                fabric: &process,
                benchmark,
                launch: 0,
                options: &options,
                budget,
                rest: &Rest::default(),
                sink: &emit,
            };
            run(&context).await
        })?;
        ended.into_iter().collect::<Result<Vec<()>>>()?;
        Ok(traced.take())
    }

    /// Runs it.
    pub fn run(&self) -> Result<Ran> {
        self.audited().map(|(ran, _)| ran)
    }

    /// Runs it and gives an account of what the system carried.
    pub fn audited(&self) -> Result<(Ran, Audit)> {
        let records = Rc::new(RefCell::new(Vec::new()));
        let (sink, options) = (records.clone(), self.options.clone());
        let (benchmark, budget) = (self.benchmark.name, self.budget);
        let (ended, audit) = run_audited(&self.known_job()?, async move |process| {
            let emit = |record| sink.borrow_mut().push(record);
            let context = Context {
                fabric: &process,
                benchmark,
                launch: 0,
                options: &options,
                budget,
                rest: &Rest::default(),
                sink: &emit,
            };
            run(&context).await.map(|()| process.now().0)
        })?;
        let ended = ended.into_iter().collect::<Result<Vec<u64>>>()?;
        let picoseconds = ended.into_iter().max().unwrap_or(0);
        let ran = Ran {
            records: records.take(),
            span: Duration::from_nanos(picoseconds / 1000),
        };
        Ok((ran, audit))
    }
}
