//! Random programs. The generator lets the reference run along, so that it knows what exists and in
//! which state, and most of what it writes does something.

mod calls;
mod class;
mod objects;
mod random;
mod replace;
mod together;
mod transfer;

pub use class::Class;
pub use random::Random;

use crate::program::{
    Access, Action, Call, CqId, MrId, PdId, ProcessId, Program, QpId, Service, SrqId, Step, Waits,
};
use crate::reference::explore;
use crate::reference::object::{State, World};

/// What programs to make.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// The most processes.
    pub processes: u16,
    /// What they may do beside sending, receiving and writing over reliable connections.
    pub classes: Vec<Class>,
    /// The most steps after everything is connected.
    pub steps: u32,
}

/// Bytes of an arena: sources, then receive buffers, then what peers write.
pub const ARENA: u32 = 16384;
/// Where receive buffers begin.
const RECEIVES: u32 = 4096;
/// Where remote targets begin.
const TARGETS: u32 = 8192;
/// Bytes at an arena's end that are registered only now and then.
const LOOSE: u32 = 8192;
/// A completion queue is never full.
const CQ_DEPTH: u32 = 1024;
/// Requests that may be outstanding in one queue.
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

/// What a process has from the beginning.
#[derive(Clone, Debug)]
struct Basics {
    pd: PdId,
    mr: MrId,
    cqs: Vec<CqId>,
}

/// A program being written.
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

/// The program of a seed.
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

    /// Writes a step of one call.
    fn write(&mut self, by: ProcessId, action: Action) {
        self.write_step(Step {
            calls: vec![Call { by, action }],
        });
    }

    /// Writes a step and lets the reference take it. What it leaves open is taken to have gone one
    /// way, and everything to have been observed.
    fn write_step(&mut self, step: Step) {
        if self.lost {
            return;
        }
        match explore::after(std::slice::from_ref(&self.world), &step) {
            Ok(mut worlds) => {
                let chosen = self.random.below(worlds.len() as u32) as usize;
                self.world = worlds.swap_remove(chosen);
                self.world.outbox = Default::default();
                self.program.steps.push(step);
            }
            Err(_) => self.lost = true,
        }
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

    /// Queue pairs in one of these states.
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
