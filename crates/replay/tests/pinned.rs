//! Results of schedules, recordings and host runs, to the picosecond: `pinned.txt` holds a digest
//! of each. They change with the models and profiles alone. If such a change is intended, write
//! the file again: `VERBENA_PIN=1 cargo test -p verbena-replay --test pinned`.

use std::fmt::{Debug, Write};
use std::path::{Path, PathBuf};
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::mpi::Member;
use verbena_model::profile::{Library, Overrides, Rate, System};
use verbena_mpi_trace::{Summary, Trace};
use verbena_replay::goal::{Failure, Schedule, run as run_schedule};
use verbena_replay::host::{Costs, Machine, TimeCurve, run as run_on_host};
use verbena_replay::recorded::{Replay, goal, programs, run, timeline};
use verbena_replay::{Act, Program, Step};

const TRACES: [&str; 7] = [
    "hpl-2",
    "lammps-rhodo-2",
    "lattice-qcd-8",
    "nas-is-4",
    "nas-is-8",
    "nas-lu-2",
    "nas-mg-4",
];
const SYSTEMS: [&str; 4] = [
    "connectx-qdr",
    "connectx-ddr",
    "infinihost3-ddr",
    "infinihost-xeon",
];
const FIDELITIES: [Fidelity; 2] = [Fidelity::Packet, Fidelity::Message];

#[test]
fn results_are_those_of_the_file() {
    let mut found = String::new();
    pin_recordings(&mut found);
    pin_schedules(&mut found);
    pin_random_programs(&mut found);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pinned.txt");
    if std::env::var_os("VERBENA_PIN").is_some() {
        std::fs::write(&file, &found).expect("the file can be written");
    }
    let known = std::fs::read_to_string(&file).expect("the file exists");
    assert_eq!(found.lines().count(), known.lines().count());
    for (found, known) in found.lines().zip(known.lines()) {
        assert_eq!(found, known);
    }
}

/// Adds a line: name of the case, end in picoseconds, FNV-1a digest of everything.
fn pin(to: &mut String, name: &str, last: Option<Time>, all: &str) {
    let digest = all.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let last = last.map_or("-".to_owned(), |last| last.0.to_string());
    writeln!(to, "{name} {last} {digest:016x}").expect("a string takes it");
}

/// Returns a value's figures, without the names of its types and fields.
fn figures(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.chars().filter(|one| !one.is_alphabetic()).collect()
}

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

fn trace(name: &str) -> Trace {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../papers/traces"));
    let file = folder.join(format!("{name}.trace"));
    let bytes = std::fs::read(&file).expect("a shipped trace");
    Trace::of_bundle(&file, &bytes).expect("it is sound")
}

fn pin_replay(to: &mut String, name: &str, replay: &Replay<'_>, programs: Vec<Program>) {
    match run(replay, programs) {
        Ok(outcome) => {
            let mut drawn = Vec::new();
            timeline(&outcome, &mut drawn).expect("memory takes it");
            let drawn = String::from_utf8(drawn).expect("it is text");
            // The bottleneck follows from the same events.
            let parts = [
                figures(&outcome.ranks),
                figures(&outcome.waited),
                figures(&outcome.chain),
                figures(&outcome.timelines),
            ];
            let all = format!(" {{ : {} }}", parts.join(", : ")) + &drawn;
            pin(to, name, Some(outcome.last()), &all);
        }
        Err(failure) => pin(to, name, None, &failure.to_string()),
    }
}

fn pin_recordings(to: &mut String) {
    for name in TRACES {
        let trace = trace(name);
        // Some thousands of pages in all, each of which is simulated.
        let traffic = 4e7 * 1e9 / Summary::of(&trace).computing as f64;
        for (number, system_name) in SYSTEMS.iter().enumerate() {
            let system = system(system_name);
            let library = system.mpi.as_ref().expect("it has a library");
            let programs = programs(&trace, library).expect("the trace makes sense");
            let mut text = String::new();
            goal(&programs, 0.5, &mut text).expect("a string takes it");
            pin(to, &format!("goal {name} {system_name}"), None, &text);
            // One rank per node, two nodes, one node.
            let ranks = programs.len();
            let fidelity = FIDELITIES[number % 2];
            for nodes in [ranks, 2, 1] {
                let replay = Replay {
                    system: &system,
                    fidelity,
                    nodes: (0..ranks).map(|rank| rank % nodes).collect(),
                    compute_scale: 0.25 * (number + 1) as f64,
                    memory_traffic: (nodes == 2).then_some(Rate(traffic)),
                };
                let case = format!("replay {name} {system_name} {nodes}");
                pin_replay(to, &case, &replay, programs.clone());
            }
            if number == 0 {
                let case = format!("exported {name}");
                let schedule = Schedule::read(&text).expect("the export is sound");
                pin_schedule(to, &case, &system, &schedule, 2, Fidelity::Message);
                for processors in [1, 2, 3, ranks] {
                    let case = format!("host {name} {processors}");
                    pin_host(to, &case, processors, 0.5, programs.clone());
                }
            }
        }
    }
}

fn pin_schedule(
    to: &mut String,
    name: &str,
    system: &System,
    schedule: &Schedule,
    nodes: usize,
    fidelity: Fidelity,
) {
    match run_schedule(system, schedule, nodes, fidelity) {
        Ok(outcome) => {
            let ends = format!(" {{ : {} }}", figures(&outcome.ends));
            pin(to, name, Some(outcome.last()), &ends);
        }
        Err(Failure::System(reason)) => pin(to, name, None, &reason),
        Err(Failure::Schedule(fault)) => pin(to, name, None, &fault.to_string()),
    }
}

fn pin_host(to: &mut String, name: &str, processors: usize, scale: f64, programs: Vec<Program>) {
    let curve = |first: f64, last: f64| {
        TimeCurve::of(vec![(0, first), (4096, 2.0 * first), (1 << 20, last)])
            .expect("they are times")
    };
    let costs = Costs {
        one_way: curve(611.0, 150_003.0),
        after_computing: curve(1907.0, 230_001.0),
        shortly_after: curve(1013.0, 190_007.0),
        in_a_row: curve(311.0, 120_011.0),
        eager: 8192,
    };
    let machine = Machine {
        processors,
        turn: Time::from_nanos(3e6),
        look: Time::from_nanos(17_003.0),
        give_way: Time::from_nanos(1_511.0),
    };
    let fitted = machine.giving_way_as_in_barriers(&costs, 4, 60_000.0);
    for (which, machine) in [("", machine), (" fitted", fitted)] {
        let ran = run_on_host(&machine, &costs, programs.clone(), scale);
        let last = ran.as_ref().ok().map(|outcome| outcome.last());
        let all = figures(&(machine, &ran));
        pin(to, &format!("{name}{which}"), last, &all);
    }
}

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % most
    }

    fn bytes(&mut self) -> u64 {
        [0, 1, 64, 2048, 9000, 70_000, 300_000][self.below(7)]
    }
}

const RANKS: usize = 6;

/// Operations with random requirements. With oddities, some wait for any rank or any tag, and some
/// never end.
fn random_schedule(random: &mut Random, oddities: bool) -> String {
    let mut operations: Vec<Vec<String>> = vec![Vec::new(); RANKS];
    for _ in 0..60 {
        let (one, other, tag) = (random.below(RANKS), random.below(RANKS), random.below(3));
        let cpu = random.below(8) / 6;
        if one == other {
            let nanos = random.below(5000);
            operations[one].push(format!("calc {nanos} cpu {cpu}"));
            continue;
        }
        let bytes = random.bytes();
        operations[one].push(format!("send {bytes}b to {other} tag {tag} cpu {cpu}"));
        let from = match random.below(8) {
            0 if oddities => "-1".to_owned(),
            _ => one.to_string(),
        };
        let tag = match random.below(8) {
            0 if oddities => "-1".to_owned(),
            _ => tag.to_string(),
        };
        let most = match random.below(150) {
            0 if oddities => 0,
            _ => 300_000,
        };
        if !oddities || random.below(100) > 0 {
            operations[other].push(format!("recv {most}b from {from} tag {tag} cpu {cpu}"));
        }
    }
    let mut text = format!("num_ranks {RANKS}\n");
    for (rank, operations) in operations.iter().enumerate() {
        let _ = writeln!(text, "rank {rank} {{");
        for (number, line) in operations.iter().enumerate() {
            let _ = writeln!(text, "n{number}: {line}");
            if number > 0 {
                let _ = match random.below(6) {
                    0 => Ok(()),
                    1 | 2 => writeln!(text, "n{number} irequires n{}", random.below(number)),
                    _ => writeln!(text, "n{number} requires n{}", random.below(number)),
                };
            }
        }
        text += "}\n";
    }
    text
}

fn pin_schedules(to: &mut String) {
    let systems = SYSTEMS.map(system);
    let mut random = Random(11);
    for number in 0..200 {
        let text = random_schedule(&mut random, number % 8 == 7);
        let schedule = Schedule::read(&text).expect("the schedule is sound");
        let system = &systems[number % systems.len()];
        let nodes = [1, 2, 3, RANKS][random.below(4)];
        let case = format!("schedule {number}");
        pin_schedule(to, &case, system, &schedule, nodes, FIDELITIES[number % 2]);
    }
    // A ring with calculations, as in docs/predicting-a-cluster.md.
    let mut ring = "num_ranks 16\n".to_owned();
    for rank in 0..16 {
        let (to, from) = ((rank + 1) % 16, (rank + 15) % 16);
        let _ = write!(
            ring,
            "rank {rank} {{\na: calc 1000\nb: send 65536b to {to}\nc: recv 65536b from {from}\n\
             b requires a\nc irequires a\n}}\n"
        );
    }
    let ring = Schedule::read(&ring).expect("the ring is sound");
    for (number, system) in systems.iter().enumerate() {
        for nodes in [1, 4, 16, 1_000_000] {
            let case = format!("ring {number} {nodes}");
            pin_schedule(to, &case, system, &ring, nodes, Fidelity::Message);
        }
    }
}

/// Programs with messages, collective operations and accesses, in slots that are waited for later,
/// or never; some never end.
fn random_programs(random: &mut Random, accesses: bool) -> Vec<Program> {
    let mut programs = vec![Program::default(); RANKS];
    let begin = |program: &mut Program, random: &mut Random, act| {
        let slot = random.below(3);
        program.steps.push(Step::Begin { slot, act });
        let (call, steps) = (program.steps.len(), &mut program.steps);
        match random.below(6) {
            0 => (),
            1 => steps.push(Step::Forget { slot }),
            2 => steps.push(Step::Wait {
                slot: random.below(3),
                call,
            }),
            _ => steps.push(Step::Wait { slot, call }),
        }
    };
    let all: std::sync::Arc<[usize]> = (0..RANKS).collect();
    for mark in 0..50_u32 {
        let (one, other) = (random.below(RANKS), random.below(RANKS));
        let bytes = random.bytes();
        match random.below(10) {
            0 => {
                for (place, program) in programs.iter_mut().enumerate() {
                    let member = Member { place, size: RANKS };
                    let rounds = member.barrier().into();
                    let members = all.clone();
                    let mark = (1 << 30) | mark;
                    begin(
                        program,
                        random,
                        Act::Rounds {
                            rounds,
                            members,
                            mark,
                        },
                    );
                }
            }
            1 if one != other && accesses => {
                let (peer, out, back) = (other, bytes, random.bytes());
                begin(
                    &mut programs[one],
                    random,
                    Act::Access {
                        peer,
                        out,
                        back,
                        mark,
                    },
                );
            }
            _ if one == other => {
                let nanos = random.below(60_000) as u64;
                programs[one].steps.push(Step::Compute(nanos));
            }
            _ => {
                begin(
                    &mut programs[one],
                    random,
                    Act::Send {
                        to: other,
                        bytes,
                        mark,
                        blocking: true,
                    },
                );
                begin(
                    &mut programs[other],
                    random,
                    Act::Receive {
                        from: one,
                        bytes,
                        mark,
                    },
                );
            }
        }
    }
    programs
}

fn is_access(step: &Step) -> bool {
    let is_begun = |act: &Act| matches!(act, Act::Access { .. });
    matches!(step, Step::Begin { act, .. } if is_begun(act))
}

fn pin_random_programs(to: &mut String) {
    let systems = SYSTEMS.map(system);
    let mut random = Random(23);
    for number in 0..150 {
        let programs = random_programs(&mut random, number % 2 == 0);
        let nodes = [1, 2, 3, RANKS][random.below(4)];
        let replay = Replay {
            system: &systems[number % systems.len()],
            fidelity: FIDELITIES[number % 2],
            nodes: (0..RANKS).map(|rank| rank % nodes).collect(),
            compute_scale: 1.0,
            memory_traffic: (number % 3 == 0).then_some(Rate(5e8)),
        };
        pin_replay(to, &format!("program {number}"), &replay, programs.clone());
        let mut text = String::new();
        goal(&programs, 1.5, &mut text).expect("a string takes it");
        pin(to, &format!("program {number} as goal"), None, &text);
        let processors = 1 + random.below(RANKS);
        let case = format!("program {number} on a host");
        if !programs
            .iter()
            .flat_map(|program| &program.steps)
            .any(is_access)
        {
            pin_host(to, &case, processors, 1.0, programs);
        }
    }
}
