//! Runs programs on a model: each rank executes its steps, and operations that it has begun run
//! beside it on the same core.

use super::build::MOST_NANOS;
use super::program::{Act, Program, Step};
use super::timeline::{Span, Timeline};
use super::waiting::{Chain, Waited};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::{Cluster, PAGE};
use verbena_model::kernel::{JoinHandle, Time};
use verbena_model::mpi::{Rank, World};
use verbena_model::profile::{Rate, System};

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

/// Times of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// The program's own computing.
    pub computing: Time,
    /// Processor time for messages.
    pub overhead: Time,
    /// Idle time of its processor.
    pub waiting: Time,
    /// Time of its end.
    pub end: Time,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Times of each rank.
    pub ranks: Vec<Parts>,
    /// Waiting times of each rank.
    pub waited: Vec<Waited>,
    /// The critical path to the end.
    pub chain: Chain,
    /// Timeline of each rank.
    pub timelines: Vec<Vec<Span>>,
}

impl Outcome {
    /// Returns the time when all ranks have ended.
    pub fn last(&self) -> Time {
        let ends = self.ranks.iter().map(|rank| rank.end);
        ends.max().unwrap_or_default()
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
        "rank {rank} never returns from its call {call} (from 0); the program may rely on \
         buffering of messages that the modelled library sends only when they are received"
    )]
    Endless {
        /// The rank.
        rank: usize,
        /// Index of the call in the trace.
        call: usize,
    },
}

/// Runs the program of each rank.
///
/// # Errors
///
/// Returns [`Failure::System`] if the system cannot run them, or [`Failure::Endless`] if a rank
/// never finishes.
pub fn run(replay: &Replay<'_>, programs: Vec<Program>) -> Result<Outcome, Failure> {
    refuse_system(replay, programs.len())?;
    let seconds = computing(replay, &programs);
    refuse_time(seconds)?;
    refuse_traffic(replay, seconds)?;
    let size = replay.nodes.iter().max().map_or(1, |node| node + 1).max(2);
    let cluster = match replay.fidelity {
        Fidelity::Packet => Cluster::new(replay.system, size, replay.fidelity),
        Fidelity::Message => Cluster::of_places(replay.system, size),
    };
    let world = World::new(&cluster, replay.nodes.clone());
    let mut players = Vec::new();
    for (number, program) in programs.into_iter().enumerate() {
        let player = Rc::new(Player {
            rank: world.rank(number),
            scale: replay.compute_scale,
            traffic: replay.memory_traffic,
            owed: Cell::default(),
            under_way: RefCell::default(),
            computing: Cell::default(),
            waits_in: Cell::default(),
            parts: Cell::default(),
            timeline: Rc::default(),
            did: RefCell::default(),
        });
        player.watch();
        players.push(player.clone());
        cluster.sim().start_in(
            world.node(number),
            async move { player.play(program).await },
        );
    }
    cluster.sim().run();
    let endless = players
        .iter()
        .position(|player| player.parts.get().is_none());
    let ranks = players
        .iter()
        .filter_map(|player| player.parts.get())
        .collect();
    let call = endless.map(|rank| players[rank].waits_in.get());
    cluster.finish();
    match endless.zip(call) {
        Some((rank, call)) => Err(Failure::Endless { rank, call }),
        None => Ok(outcome(ranks, &players)),
    }
}

fn outcome(ranks: Vec<Parts>, players: &[Rc<Player>]) -> Outcome {
    let timelines: Vec<Vec<Span>> = players.iter().map(|player| player.did.take()).collect();
    let waited = timelines.iter().enumerate();
    Outcome {
        ranks,
        waited: waited
            .map(|(rank, timeline)| Waited::of(rank, timeline))
            .collect(),
        chain: Chain::of(&timelines),
        timelines,
    }
}

fn refuse_system(replay: &Replay<'_>, ranks: usize) -> Result<(), Failure> {
    let name = &replay.system.name;
    let refused = |reason| Err(Failure::System(reason));
    if replay.system.mpi.is_none() {
        return refused(format!(
            "{name} has no message-passing library; name one as `mpi` in its profile of kind system"
        ));
    }
    if replay.nodes.len() != ranks {
        return refused(format!(
            "{ranks} ranks are placed as {}",
            replay.nodes.len()
        ));
    }
    let nodes = replay.nodes.iter().max().map_or(0, |node| node + 1);
    let most = replay.system.joins();
    match nodes as u64 <= most {
        true => Ok(()),
        false => refused(format!("{name} joins at most {most} nodes, not {nodes}")),
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
struct Player {
    rank: Rank,
    scale: f64,
    traffic: Option<Rate>,
    /// Fraction of a byte that has not been requested from memory yet.
    owed: Cell<f64>,
    under_way: RefCell<HashMap<usize, Vec<JoinHandle<()>>>>,
    computing: Cell<Time>,
    /// The call that it is in or returned from last.
    waits_in: Cell<usize>,
    /// Its times, once it has ended.
    parts: Cell<Option<Parts>>,
    timeline: Rc<Timeline>,
    did: RefCell<Vec<Span>>,
}

impl Player {
    fn watch(&self) {
        let timeline = self.timeline.clone();
        self.rank
            .watch(move |turn, woken| timeline.turn(turn, woken));
    }

    async fn play(self: Rc<Player>, program: Program) {
        for step in program.steps {
            match step {
                Step::Compute(nanos) => {
                    // Begun operations get the processor first, as a call begins them before it
                    // returns.
                    self.rank.process().sim().spawn(async {}).await;
                    self.compute(Time::from_nanos(nanos as f64 * self.scale))
                        .await;
                }
                Step::Begin { slot, act } => self.begin(slot, act),
                Step::Wait { slot, call } => {
                    self.waits_in.set(call);
                    let all = self.under_way.borrow_mut().remove(&slot);
                    for one in all.into_iter().flatten() {
                        one.await;
                    }
                }
                Step::Forget { slot } => {
                    self.under_way.borrow_mut().remove(&slot);
                }
            }
        }
        let end = self.rank.process().now();
        let busy = self.rank.process().busy();
        let computing = self.computing.get();
        self.did.replace(self.timeline.end(end, self.rank.woken()));
        self.parts.set(Some(Parts {
            computing,
            overhead: busy.since(computing),
            waiting: end.since(busy),
            end,
        }));
    }

    async fn compute(&self, span: Time) {
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

    /// Operations start in the order of beginning, also before ones that are waited for at once.
    fn begin(&self, slot: usize, act: Act) {
        let rank = self.rank.clone();
        let handle = self.rank.process().sim().spawn(perform(rank, act));
        self.under_way
            .borrow_mut()
            .entry(slot)
            .or_default()
            .push(handle);
    }
}

async fn perform(rank: Rank, act: Act) {
    match act {
        Act::Send { to, bytes, mark } => rank.send_marked(to, bytes, mark).await,
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
