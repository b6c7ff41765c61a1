//! Runs a benchmark on a modelled system: all processes in this thread, in virtual time. The same
//! task gives identical records, to the bit.

use crate::context::{Budget, Context, Options, Record};
use crate::registry::{Benchmark, Processes, run};
use crate::waiting_budget::WaitingBudget;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use verbena_fabric::model::{Fidelity, Job, Machine, ModelProcess, Traced, run_audited, run_job};
use verbena_fabric::{Error, Fabric, Result};
use verbena_measure::bound::Bound;
use verbena_measure::result::{HotPort, Metric, Parameters, Point};
use verbena_model::audit::Audit;
use verbena_model::kernel::Time;
use verbena_model::traffic::{self, Traffic};

/// Default number of processes of a pattern.
const PATTERN: usize = 4;

/// A benchmark to run on a machine.
#[derive(Debug, Clone)]
pub struct Modelled {
    /// The machine.
    pub machine: Machine,
    /// The level of detail of messages.
    pub fidelity: Fidelity,
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// The user's options.
    pub options: Options,
    /// The time budget, in virtual time.
    pub budget: Budget,
    /// Processes of a pattern.
    pub processes: Option<usize>,
    /// Set when the user wants to stop.
    pub stop: Arc<AtomicBool>,
}

/// The results of a benchmark on a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Records of process 0.
    pub records: Vec<Record>,
    /// Elapsed virtual time.
    pub span: Duration,
}

impl Modelled {
    /// Returns a benchmark with default options, at packet fidelity.
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

    /// Returns its processes and their nodes: two benchmark processes on two nodes, pairs across
    /// two nodes with a core for each, patterns with a node for each process; all on one host if
    /// there is only one.
    pub fn job(&self) -> Job {
        let (size, nodes) = match self.benchmark.processes {
            Processes::One => (1, 1),
            Processes::Two => (2, 2),
            Processes::Pairs => {
                let asked = self.options.pairs.as_ref();
                let most = asked.and_then(|pairs| pairs.iter().copied().max());
                (2 * most.unwrap_or(self.pairs()).max(1), 2)
            }
            Processes::AtLeast(_) => {
                let size = self.processes.unwrap_or(PATTERN);
                (size, size)
            }
        };
        // A system may have fewer nodes in its published set-up than its network can connect.
        let most = match self.benchmark.processes {
            Processes::AtLeast(_) => self.machine.joins(),
            _ => self.machine.nodes(),
        };
        Job {
            stop: self.stop.clone(),
            ..Job::new(self.machine.clone(), size, nodes.min(most)).fidelity(self.fidelity)
        }
    }

    /// Returns the job if the machine's model supports it. The software adapter's model does not
    /// cover processes that share a processor. On a system every process of a pattern has a node:
    /// traffic inside a node would count as traffic of the network.
    fn known_job(&self) -> Result<Job> {
        let (job, cores) = (self.job(), self.machine.cores());
        if let (Some(system), Processes::AtLeast(_)) =
            (self.machine.system(), self.benchmark.processes)
            && job.nodes.len() as u64 > system.joins()
        {
            let what = format!(
                "{} processes, each on a node of its own (the system connects {} nodes),",
                job.nodes.len(),
                system.joins()
            );
            return Err(Error::unsupported(
                what,
                format!("the model {}", self.machine.name()),
            ));
        }
        if self.machine.system().is_none() && job.nodes.len() > cores {
            let what = format!("{} processes on {cores} processors", job.nodes.len());
            return Err(Error::unsupported(
                what,
                format!("the model {}", self.machine.name()),
            ));
        }
        Ok(job)
    }

    /// Returns the time budget. Congestion control changes rates over long times, so that the
    /// figures of blocks depend on their length.
    fn budget(&self) -> Budget {
        let mut budget = self.budget;
        let system = self.machine.system();
        budget.rates.extrapolates &= system.is_none_or(|system| system.congestion.is_none());
        budget
    }

    /// Returns the number of pairs with a core for each process.
    fn pairs(&self) -> usize {
        match self.machine.nodes() {
            1 => self.machine.cores() / 2,
            _ => self.machine.cores(),
        }
    }

    /// Runs it and returns, for each point, the trace of the operation timed last.
    ///
    /// # Errors
    ///
    /// The model does not support the job, or the run ends early.
    pub fn trace(&self) -> Result<Vec<(Point, Traced)>> {
        let traced = Rc::new(RefCell::new(Vec::new()));
        let (sink, options) = (traced.clone(), self.options.clone());
        let (benchmark, budget) = (self.benchmark.name, self.budget());
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
                waiting_budget: &WaitingBudget::default(),
                interfaces: None,
                sink: &emit,
            };
            run(&context).await
        })?;
        ended.into_iter().collect::<Result<Vec<()>>>()?;
        Ok(traced.take())
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// The model does not support the job, or the run ends early.
    pub fn run(&self) -> Result<Ran> {
        self.audited().map(|(ran, _)| ran)
    }

    /// Runs it and returns the records with an audit of the system's traffic.
    ///
    /// # Errors
    ///
    /// The model does not support the job, or the run ends early.
    pub fn audited(&self) -> Result<(Ran, Audit)> {
        let records = Rc::new(RefCell::new(Vec::new()));
        let sink = records.clone();
        let (span, audit) =
            self.passed_on(Rc::new(move |record| sink.borrow_mut().push(record)))?;
        let ran = Ran {
            records: records.take(),
            span,
        };
        Ok((ran, audit))
    }

    /// Returns the parameters of the points that it would compute, in order, as far as they do not
    /// depend on results of others.
    ///
    /// # Errors
    ///
    /// The model does not support the job.
    pub fn points(&self) -> Result<Vec<Parameters>> {
        let listing = Modelled {
            options: Options {
                lists_points: true,
                ..self.options.clone()
            },
            stop: Arc::default(),
            ..self.clone()
        };
        let records = listing.run()?.records.into_iter();
        Ok(records
            .filter_map(|record| match record {
                Record::Failure(one) if one.reason.is_empty() => Some(one.parameters),
                _ => None,
            })
            .collect())
    }

    /// Runs it, passes each record to `pass_on` at once, and returns the virtual time and an audit
    /// of the system's traffic.
    ///
    /// # Errors
    ///
    /// The model does not support the job, or the run ends early.
    pub fn passed_on(&self, pass_on: Rc<dyn Fn(Record)>) -> Result<(Duration, Audit)> {
        let options = self.options.clone();
        let (benchmark, budget) = (self.benchmark.name, self.budget());
        let is_pattern = matches!(self.benchmark.processes, Processes::AtLeast(_));
        let (ended, audit) = run_audited(&self.known_job()?, async move |process| {
            let earlier = RefCell::new(process.traffic());
            let emit = |mut record| {
                let now = process.traffic();
                let before = earlier.replace(now.clone());
                if let (true, Record::Point(point)) = (is_pattern, &mut record)
                    && let Some((now, before)) = now.zip(before)
                {
                    let traffic = now.since(&before);
                    bound(point, &process, &traffic);
                    point.hot_ports = hot_ports(&process.hot_ports(&traffic));
                }
                pass_on(record);
            };
            let context = Context {
                fabric: &process,
                benchmark,
                launch: 0,
                options: &options,
                budget,
                waiting_budget: &WaitingBudget::default(),
                interfaces: None,
                sink: &emit,
            };
            run(&context).await.map(|()| process.now().0)
        })?;
        let ended = ended.into_iter().collect::<Result<Vec<u64>>>()?;
        let picoseconds = ended.into_iter().max().unwrap_or(0);
        Ok((Duration::from_nanos(picoseconds / 1000), audit))
    }
}

/// Returns ports of a modelled fabric with shares of the time.
pub fn hot_ports(ports: &[traffic::HotPort]) -> Vec<HotPort> {
    let ports = ports.iter().map(|one| {
        let share = |time: Time| time.nanos() / one.span.nanos().max(f64::MIN_POSITIVE);
        HotPort {
            port: one.port.clone(),
            to: one.to.clone(),
            sending: share(one.carried),
            waiting: share(one.stalled),
            xmit_wait: one.stalled.nanos(),
        }
    });
    ports.collect()
}

/// Bounds the bandwidth of all processes together by the link or bus that needed most time for a
/// point's traffic: no system with the same links and routes carries more.
fn bound(point: &mut Point, process: &ModelProcess, traffic: &Traffic) {
    let Some(bottleneck) = process.bottleneck(traffic) else {
        return;
    };
    let together = |metric: &&mut Metric| metric.name == "bandwidth";
    if let Some(metric) = point.metrics.iter_mut().find(together) {
        metric.bound = Some(Bound {
            value: traffic.bytes() as f64 / bottleneck.time.seconds(),
            reason: bottleneck.what,
        });
    }
}
