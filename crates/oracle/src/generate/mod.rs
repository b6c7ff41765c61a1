//! Random programs. The generator runs the reference along, so that it knows all objects and their
//! states, and most calls have an effect.

mod calls;
mod class;
mod objects;
mod random;
mod replace;
mod rules;
mod short;
mod together;
mod transfer;

pub use class::Class;
pub use random::Random;

use crate::program::rule::{Effect, Rule};
use crate::program::{
    Access, Action, Call, CqId, MrId, PdId, ProcessId, Program, QpId, Service, SrqId, Step, Waits,
};
use crate::reference::explore;
use crate::reference::object::{State, World};

/// Parameters of programs.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Maximum number of processes.
    pub processes: u16,
    /// Permitted behaviour besides sending, receiving and writing over reliable connections.
    pub classes: Vec<Class>,
    /// Maximum number of steps after setup.
    pub steps: u32,
    /// Percentage of programs with rules.
    pub rules: u32,
    /// Whether rules may lose messages. Over packets the number of messages is unknown.
    pub losses: bool,
}

/// Size of an arena in bytes: sources, then receive buffers, then targets of peers' writes.
pub const ARENA: u32 = 16384;
/// Offset of the receive buffers.
const RECEIVES: u32 = 4096;
/// Offset of remote targets.
const TARGETS: u32 = 8192;
/// Bytes at an arena's end that are registered only occasionally.
const LOOSE: u32 = 8192;
/// Large enough that a completion queue is never full.
const CQ_DEPTH: u32 = 1024;
const MOST_OUTSTANDING: usize = 24;

/// All rights.
pub const EVERYTHING: Access = Access(15);

/// Two queue pairs that are connected to each other, or will be again.
#[derive(Clone, Copy, Debug)]
struct Pair {
    first: QpId,
    second: QpId,
    service: Service,
}

/// Initial objects of a process.
#[derive(Clone, Debug)]
struct Basics {
    pd: PdId,
    mr: MrId,
    cqs: Vec<CqId>,
}

/// The generator of one program.
pub struct Generator {
    random: Random,
    wishes: Wishes,
    world: World,
    program: Program,
    next: u16,
    next_wr: u64,
    pairs: Vec<Pair>,
    basics: Vec<Basics>,
    /// The reference could not follow; the program ends here.
    lost: bool,
}

/// Returns the program of a seed.
pub fn program(seed: u64, wishes: &Wishes) -> Program {
    let mut random = Random::new(seed);
    let processes = 1 + random.below(wishes.processes.into()) as u16;
    let share = if wishes.classes == [Class::Races] {
        100
    } else {
        10
    };
    let races = wishes.classes.contains(&Class::Races) && random.percent(share);
    let program = Program {
        comment: format!("seed {seed}"),
        processes,
        arena: LOOSE
            + if races {
                ARENA + together::LARGE
            } else {
                ARENA
            },
        waits: if random.percent(30) {
            Waits::Events
        } else {
            Waits::Polling
        },
        rules: rules::of(seed, processes, wishes),
        steps: Vec::new(),
    };
    let mut generator = Generator {
        world: World::new(&program),
        random,
        wishes: wishes.clone(),
        program,
        next: 0,
        next_wr: 1,
        pairs: Vec::new(),
        basics: Vec::new(),
        lost: false,
    };
    generator.begin();
    if races {
        generator.races();
    } else {
        let steps = 1 + generator.random.below(wishes.steps);
        for _ in 0..steps {
            generator.any_step();
        }
    }
    if generator.allows(Class::Destroy) && generator.random.percent(30) {
        generator.end();
    }
    generator.program
}

impl Generator {
    fn allows(&self, class: Class) -> bool {
        self.wishes.classes.contains(&class)
    }

    fn number(&mut self) -> u16 {
        self.next += 1;
        self.next - 1
    }

    fn request(&mut self) -> u64 {
        self.next_wr += 1;
        self.next_wr - 1
    }

    fn write(&mut self, by: ProcessId, action: Action) {
        self.write_step(Step {
            calls: vec![Call { by, action }],
        });
    }

    /// Adds a step and runs it on the reference. Of several possible outcomes one is chosen, and
    /// all observations are taken as made.
    fn write_step(&mut self, step: Step) {
        if self.lost {
            return;
        }
        match explore::after(std::slice::from_ref(&self.world), &step) {
            Ok(mut worlds) => {
                self.prefer_working(&mut worlds);
                let chosen = self.random.below(worlds.len() as u32) as usize;
                self.world = worlds.swap_remove(chosen);
                self.world.outbox = Default::default();
                self.program.steps.push(step);
            }
            Err(_) => self.lost = true,
        }
    }

    /// Of the possible outcomes with losses, mostly keeps those in which the fewest queue pairs
    /// have failed, as rules lose few messages.
    fn prefer_working(&mut self, worlds: &mut Vec<World>) {
        let any_loses = |world: &World| (0..world.alive.len()).any(|by| loses(world, by));
        if !any_loses(&self.world) || self.random.percent(15) {
            return;
        }
        let failed = |world: &World| {
            let states = world.qps.values().map(|qp| qp.state);
            states.filter(|state| *state == State::Err).count()
        };
        let fewest = worlds.iter().map(failed).min();
        worlds.retain(|world| Some(failed(world)) == fewest);
    }

    fn loses(&self, by: ProcessId) -> bool {
        loses(&self.world, by.0.into())
    }

    fn living(&self) -> Vec<ProcessId> {
        let alive = |process: &u16| self.world.alive[usize::from(*process)];
        (0..self.program.processes)
            .filter(alive)
            .map(ProcessId)
            .collect()
    }

    fn process(&mut self) -> Option<ProcessId> {
        let living = self.living();
        self.random.among(&living)
    }

    fn qps_in(&self, states: &[State]) -> Vec<QpId> {
        let fits = |id: &&QpId| states.contains(&self.world.qps[*id].state);
        self.world.qps.keys().filter(fits).copied().collect()
    }

    fn srqs(&self) -> Vec<SrqId> {
        self.world.srqs.keys().copied().collect()
    }

    fn owner(&self, qp: QpId) -> ProcessId {
        self.world.qps[&qp].owner
    }
}

/// Returns whether rules lose messages of a process.
fn loses(world: &World, by: usize) -> bool {
    let of = |rule: &Rule| usize::from(rule.by.0) == by && matches!(rule.effect, Effect::Loses(_));
    world.rules.iter().any(of)
}
