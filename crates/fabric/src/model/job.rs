//! Runs a job on a modelled system.

use super::machine::{Machine, Running};
use super::process::ModelProcess;
use super::world::World;
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use verbena_model::audit::Audit;
use verbena_model::cluster::Cluster;
use verbena_model::software::SoftwareHost;

pub use verbena_model::adapter::Fidelity;

/// Parameters of a job.
#[derive(Debug, Clone)]
pub struct Job {
    /// The machine that it runs on.
    pub machine: Machine,
    /// Granularity of the simulation.
    pub fidelity: Fidelity,
    /// The node of each process.
    pub nodes: Vec<usize>,
    /// Stop request, which processes check between points.
    pub stop: Arc<AtomicBool>,
}

impl Job {
    /// Creates a job of `size` processes, assigned to `nodes` nodes in turn, at packet fidelity.
    pub fn new(machine: impl Into<Machine>, size: usize, nodes: usize) -> Job {
        Job {
            machine: machine.into(),
            fidelity: Fidelity::Packet,
            nodes: (0..size).map(|rank| rank % nodes.max(1)).collect(),
            stop: Arc::default(),
        }
    }

    /// Sets the fidelity.
    pub fn fidelity(self, fidelity: Fidelity) -> Job {
        Job { fidelity, ..self }
    }
}

/// Runs `program` in every process and returns the results in the order of ranks. The same job and
/// program give the same results, to the bit.
///
/// # Errors
///
/// Returns [`Error::Stalled`] if some process waits forever and does not return when its wait is
/// ended with an error, and [`Error::Unsupported`] if the system has no verbs.
pub fn run_job<T, F>(job: &Job, program: F) -> Result<Vec<T>>
where
    T: 'static,
    F: AsyncFn(ModelProcess) -> T + 'static,
{
    run_audited(job, program).map(|(results, _)| results)
}

/// Like [`run_job`], and also returns an audit of the system, taken at rest.
///
/// # Errors
///
/// As [`run_job`].
pub fn run_audited<T, F>(job: &Job, program: F) -> Result<(Vec<T>, Audit)>
where
    T: 'static,
    F: AsyncFn(ModelProcess) -> T + 'static,
{
    if job
        .machine
        .system()
        .is_some_and(|system| !system.has_verbs())
    {
        let model = format!("the model {}, which has sockets only", job.machine.name());
        return Err(Error::unsupported("access by verbs", model));
    }
    let nodes = job.nodes.iter().max().map_or(1, |last| last + 1);
    let running = match &job.machine {
        Machine::Adapters(system) => Running::Adapters(Cluster::new(system, nodes, job.fidelity)),
        Machine::Software { profile, .. } => Running::Software(SoftwareHost::new(profile)),
    };
    let world = World::new(running, job.nodes.clone(), job.stop.clone());
    let machine = Rc::new(job.machine.clone());
    let program = Rc::new(program);
    let results: Rc<RefCell<Vec<Option<T>>>> =
        Rc::new(RefCell::new(job.nodes.iter().map(|_| None).collect()));
    let sim = world.running.sim();
    for rank in 0..job.nodes.len() {
        let process = ModelProcess::new(&world, &machine, rank);
        let (program, results) = (program.clone(), results.clone());
        sim.start(async move {
            let result = program(process).await;
            results.borrow_mut()[rank] = Some(result);
        });
    }
    let finished = || results.borrow().iter().all(Option::is_some);
    loop {
        sim.run();
        if finished() || !world.waits.stalled() {
            break;
        }
    }
    let waited = Duration::from_nanos(sim.now().0 / 1000);
    let audit = world.running.audit();
    world.running.finish();
    let results = std::mem::take(&mut *results.borrow_mut());
    results
        .into_iter()
        .collect::<Option<Vec<T>>>()
        .map(|results| (results, audit))
        .ok_or(Error::stalled("the end of the job", waited))
}
