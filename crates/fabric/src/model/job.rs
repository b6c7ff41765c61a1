//! Running a job on a modelled system.

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
use verbena_model::profile::System;

pub use verbena_model::adapter::Fidelity;

/// A job, before it runs.
#[derive(Debug, Clone)]
pub struct Job {
    /// The system that it runs on.
    pub system: System,
    /// How finely messages are followed.
    pub fidelity: Fidelity,
    /// The node of each process.
    pub nodes: Vec<usize>,
    /// The user's wish to stop, which processes look at between points.
    pub stop: Arc<AtomicBool>,
}

impl Job {
    /// `size` processes dealt out over `nodes` nodes in turn, at packet fidelity.
    pub fn new(system: &System, size: usize, nodes: usize) -> Job {
        Job {
            system: system.clone(),
            fidelity: Fidelity::Packet,
            nodes: (0..size).map(|rank| rank % nodes.max(1)).collect(),
            stop: Arc::default(),
        }
    }

    /// The same at another fidelity.
    pub fn fidelity(self, fidelity: Fidelity) -> Job {
        Job { fidelity, ..self }
    }
}

/// Runs `program` in every process and gives the results in the order of ranks. The same job and program give the same
/// results, to the bit. An error if some process waits for what never comes, and goes on waiting when told so.
pub fn run_job<T, F>(job: &Job, program: F) -> Result<Vec<T>>
where
    T: 'static,
    F: AsyncFn(ModelProcess) -> T + 'static,
{
    run_audited(job, program).map(|(results, _)| results)
}

/// The same, with an account of what the system carried, taken when nothing was under way any more.
pub fn run_audited<T, F>(job: &Job, program: F) -> Result<(Vec<T>, Audit)>
where
    T: 'static,
    F: AsyncFn(ModelProcess) -> T + 'static,
{
    let nodes = job.nodes.iter().max().map_or(1, |last| last + 1);
    let cluster = Cluster::new(&job.system, nodes, job.fidelity);
    let world = World::new(cluster.clone(), job);
    let system = Rc::new(job.system.clone());
    let program = Rc::new(program);
    let results: Rc<RefCell<Vec<Option<T>>>> =
        Rc::new(RefCell::new(job.nodes.iter().map(|_| None).collect()));
    let sim = cluster.sim();
    for rank in 0..job.nodes.len() {
        let process = ModelProcess::new(&world, &system, rank);
        let (program, results) = (program.clone(), results.clone());
        sim.start(async move {
            let result = program(process).await;
            results.borrow_mut()[rank] = Some(result);
        });
    }
    let finished = || results.borrow().iter().all(Option::is_some);
    loop {
        sim.run();
        if finished() || !world.stalled() {
            break;
        }
    }
    let waited = Duration::from_nanos(sim.now().0 / 1000);
    let audit = cluster.audit();
    cluster.finish();
    let results = std::mem::take(&mut *results.borrow_mut());
    results
        .into_iter()
        .collect::<Option<Vec<T>>>()
        .map(|results| (results, audit))
        .ok_or(Error::stalled("the end of the job", waited))
}
