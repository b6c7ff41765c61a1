//! Runs programs on a model: each rank executes its steps, and operations that it has begun run
//! beside it on the same core.

use super::build::MOST_NANOS;
use super::timeline::{Span, Timeline};
use super::waiting::{Chain, Waited};
use crate::job::{Job, check, nodes_of};
use crate::player::{Endless, Parts, Player, last, play};
use crate::program::{Act, Program, Step};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Mutex;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::PAGE;
use verbena_model::kernel::{JoinHandle, Time};
use verbena_model::mpi::Rank;
use verbena_model::profile::{Rate, System};
use verbena_model::traffic::{Bottleneck, HotPort};

/// Settings of a replay.
#[derive(Debug, Clone)]
pub struct Replay<'a> {
    /// The system, with a message-passing library.
    pub system: &'a System,
    /// Level of detail of messages.
    pub fidelity: Fidelity,
    /// The node of each rank.
    pub nodes: Vec<usize>,
    /// Factor on the recorded computing time.
    pub compute_scale: f64,
    /// Memory traffic of computing per second of undisturbed computing time. If the memory cannot
    /// serve all of a node's ranks and messages at this rate, computing takes longer. `None` for
    /// computing without memory traffic.
    pub memory_traffic: Option<Rate>,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Times of each rank.
    pub ranks: Vec<Parts>,
    /// Waiting times of each rank.
    pub waited: Vec<Waited>,
    /// The critical path to the end.
    pub chain: Chain,
    /// Timeline of each rank.
    pub timelines: Vec<Vec<Span>>,
    /// The link or bus that carried most for its rate; `None` without messages between nodes.
    pub bottleneck: Option<Bottleneck>,
    /// The hottest ports of a fabric that exists; none of others.
    pub hot_ports: Vec<HotPort>,
}

impl Replayed {
    /// Returns the time when all ranks have ended.
    pub fn last(&self) -> Time {
        last(&self.ranks)
    }
}

/// Reason why programs have no time on a system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The system cannot run them.
    #[error("{0}")]
    System(String),
    /// A rank waits for an event that never comes.
    #[error(
        "{0}; the program may rely on buffering of messages that the modelled library sends only \
         when they are received"
    )]
    Endless(Endless),
}

/// Runs the program of each rank.
///
/// # Errors
///
/// Returns [`Failure::System`] if the system cannot run them, or [`Failure::Endless`] if a rank
/// never finishes.
pub fn run(replay: &Replay<'_>, programs: Vec<Program>) -> Result<Replayed, Failure> {
    check(replay.system, nodes_of(&replay.nodes)).map_err(Failure::System)?;
    refuse_placement(replay, programs.len())?;
    let seconds = computing(replay, &programs);
    refuse_time(seconds)?;
    refuse_traffic(replay, seconds)?;
    let programs: Vec<_> = programs
        .into_iter()
        .map(|one| Mutex::new(Some(one)))
        .collect();
    let placement = (nodes_of(&replay.nodes), &replay.nodes[..]);
    let parts = Job::on_threads(replay.system, replay.fidelity, placement, |job| {
        let mut ranks = Vec::new();
        for number in job.ranks() {
            let program = programs[number].lock().ok().and_then(|mut one| one.take());
            let rank = Rc::new(ModelRank::new(job.world.rank(number), replay));
            ranks.push((number, rank.clone()));
            job.start(number, async move {
                if let Some(program) = program {
                    rank.play(program).await;
                }
            });
        }
        job.run();
        let traffic = job.traffic();
        let ranks = ranks.into_iter();
        Part {
            ranks: ranks
                .map(|(number, rank)| (number, rank.outcome()))
                .collect(),
            bottleneck: job.cluster().bottleneck(&traffic),
            hot_ports: job.cluster().hot_ports(&traffic),
        }
    });
    outcome(parts)
}

/// Result of the ranks of a thread.
struct Part {
    ranks: Vec<(usize, Outcome)>,
    /// Those of the whole job.
    bottleneck: Option<Bottleneck>,
    hot_ports: Vec<HotPort>,
}

/// Result of a rank.
struct Outcome {
    /// Its times, if it has ended.
    parts: Option<Parts>,
    /// The call that it was in last.
    call: usize,
    timeline: Vec<Span>,
}

fn outcome(parts: Vec<Part>) -> Result<Replayed, Failure> {
    let (mut bottleneck, mut hot_ports, mut ranks) = (None, Vec::new(), Vec::new());
    for part in parts {
        (bottleneck, hot_ports) = (part.bottleneck, part.hot_ports);
        ranks.extend(part.ranks);
    }
    ranks.sort_unstable_by_key(|(rank, _)| *rank);
    let (mut times, mut timelines) = (Vec::new(), Vec::new());
    for (rank, outcome) in ranks {
        let Some(parts) = outcome.parts else {
            let call = outcome.call;
            return Err(Failure::Endless(Endless { rank, call }));
        };
        times.push(parts);
        timelines.push(outcome.timeline);
    }
    let waited = timelines.iter().enumerate();
    Ok(Replayed {
        ranks: times,
        waited: waited
            .map(|(rank, timeline)| Waited::of(rank, timeline))
            .collect(),
        chain: Chain::of(&timelines),
        timelines,
        bottleneck,
        hot_ports,
    })
}

fn refuse_placement(replay: &Replay<'_>, ranks: usize) -> Result<(), Failure> {
    match replay.nodes.len() {
        placed if placed == ranks => Ok(()),
        placed => Err(Failure::System(format!(
            "{ranks} ranks are placed as {placed}"
        ))),
    }
}

/// Returns the computing time of all ranks together in seconds.
fn computing(replay: &Replay<'_>, programs: &[Program]) -> f64 {
    let steps = programs.iter().flat_map(|program| &program.steps);
    let computing = steps.map(|step| match step {
        Step::Compute(nanos) => *nanos as f64 * replay.compute_scale * 1e-9,
        _ => 0.0,
    });
    computing.sum()
}

/// Refuses more computing than virtual time can represent: ranks may have to compute one after the
/// other.
fn refuse_time(seconds: f64) -> Result<(), Failure> {
    let most = MOST_NANOS as f64 * 1e-9;
    match seconds <= most {
        true => Ok(()),
        false => Err(Failure::System(format!(
            "computing takes {seconds:.3e} s on all ranks, more than the limit of {most:.0e} s"
        ))),
    }
}

/// Maximum number of pages of memory traffic: each is simulated.
const MOST_PAGES: f64 = 1e9;

fn refuse_traffic(replay: &Replay<'_>, seconds: f64) -> Result<(), Failure> {
    let Some(traffic) = replay.memory_traffic else {
        return Ok(());
    };
    let bytes = seconds * traffic.0;
    match bytes <= MOST_PAGES * PAGE as f64 {
        true => Ok(()),
        false => Err(Failure::System(format!(
            "computing moves {:.0} GB to and from memory, page by page, more than the limit of \
             {:.0} GB",
            bytes / 1e9,
            MOST_PAGES * PAGE as f64 / 1e9
        ))),
    }
}

/// A rank during the run.
struct ModelRank {
    rank: Rank,
    scale: f64,
    traffic: Option<Rate>,
    /// Fraction of a byte that has not been requested from memory yet.
    owed: Cell<f64>,
    computing: Cell<Time>,
    /// The call that it is in or returned from last.
    call: Cell<usize>,
    /// Its times, once it has ended.
    parts: Cell<Option<Parts>>,
    timeline: Rc<Timeline>,
    did: RefCell<Vec<Span>>,
}

impl ModelRank {
    fn new(rank: Rank, replay: &Replay<'_>) -> ModelRank {
        let timeline = Rc::new(Timeline::default());
        let watching = timeline.clone();
        rank.watch(move |turn, woken| watching.turn(turn, woken));
        ModelRank {
            rank,
            scale: replay.compute_scale,
            traffic: replay.memory_traffic,
            owed: Cell::default(),
            computing: Cell::default(),
            call: Cell::default(),
            parts: Cell::default(),
            timeline,
            did: RefCell::default(),
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            parts: self.parts.get(),
            call: self.call.get(),
            timeline: self.did.take(),
        }
    }

    async fn play(&self, program: Program) {
        play(self, program).await;
        let end = self.rank.process().now();
        let busy = self.rank.process().busy();
        self.did.replace(self.timeline.end(end, self.rank.woken()));
        let parts = Parts::of(self.computing.get(), busy, end);
        self.parts.set(Some(parts));
    }

    async fn occupy(&self, span: Time) {
        let process = self.rank.process();
        let taken = match self.traffic {
            None => {
                self.timeline.next_computes();
                self.rank.compute(span).await;
                span
            }
            Some(traffic) => {
                let all = span.seconds() * traffic.0 + self.owed.get();
                self.owed.set(all.fract());
                // The occupancy is reported when it is over; by then the rank may have gone on
                // after another event.
                self.timeline.idle_until(process.now(), self.rank.woken());
                self.timeline.next_computes();
                process.compute_over_memory(span, all as u64).await
            }
        };
        self.computing.set(self.computing.get() + taken);
    }
}

impl Player for ModelRank {
    type Begun = JoinHandle<()>;

    async fn compute(&self, nanos: u64) {
        // Begun operations get the processor first, as a call begins them before it returns.
        self.rank.process().sim().spawn(async {}).await;
        self.occupy(Time::from_nanos(nanos as f64 * self.scale))
            .await;
    }

    /// Operations start in the order of beginning, also before ones that are waited for at once.
    async fn begin(&self, act: Act) -> JoinHandle<()> {
        let rank = self.rank.clone();
        self.rank.process().sim().spawn(perform(rank, act))
    }

    async fn wait(&self, begun: Vec<JoinHandle<()>>, call: usize) {
        self.call.set(call);
        for one in begun {
            one.await;
        }
    }
}

async fn perform(rank: Rank, act: Act) {
    match act {
        Act::Send {
            to,
            bytes,
            mark,
            blocking,
        } => match blocking {
            true => rank.send_marked(to, bytes, mark).await,
            false => rank.send_in_background(to, bytes, mark).await,
        },
        Act::Receive { from, mark, .. } => rank.receive_marked(from, mark).await,
        Act::Rounds {
            rounds,
            members,
            mark,
        } => rank.perform(&rounds, &members, mark).await,
        Act::Access {
            peer, out, back, ..
        } => {
            if out > 0 || back == 0 {
                rank.write_to(peer, out).await;
            }
            if back > 0 {
                rank.read_from(peer, back).await;
            }
        }
    }
}
