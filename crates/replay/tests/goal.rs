//! Schedules of messages take the time computed by hand, and their errors are reported.

use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::profile::{Library, Overrides, System};
use verbena_replay::goal::{Action, Failure, Schedule, run};
use verbena_replay::run_on_ranks;

/// Processor time of a message at either end, and latency of the cable, in nanoseconds.
const OVERHEAD: u64 = 700;
const LATENCY: u64 = 1900;

/// A LogP system: a message takes `OVERHEAD`, `LATENCY` and `OVERHEAD` again, and all else is free.
fn logp() -> System {
    let mut overrides = Overrides::none();
    for nothing in [
        "mvapich-0.9.9.intranode",
        "bensley.cpu.post",
        "bensley.cpu.doorbell",
        "bensley.cpu.miss",
        "bensley.pcie.propagation",
        "bensley.pcie.read_latency",
        "bensley.pcie.read_occupancy",
        "bensley.pcie.write_latency",
        "connectx.engines.packet",
        "connectx.engines.pipeline",
        "connectx.receive.request",
        "infiniscale3.latency",
        "4x-sdr.control",
    ] {
        overrides = overrides.with(nothing, 0.0);
    }
    for endless in [
        "bensley.cpu.copy",
        "bensley.memory.bandwidth",
        "bensley.pcie.lane_rate",
        "4x-ddr.rate",
    ] {
        overrides = overrides.with(endless, 1e11);
    }
    // Two cables, one on either side of the switch.
    let cable = LATENCY as f64 / 2.0 / 5.0;
    let overrides = overrides
        .with("copper.per_metre", cable)
        .with("mvapich-0.9.9.overhead", OVERHEAD as f64);
    system("connectx-ddr", &overrides)
}

fn system(name: &str, overrides: &Overrides) -> System {
    Library::shipped(overrides)
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

fn schedule(text: &str) -> Schedule {
    Schedule::read(text).expect("the schedule is sound")
}

/// Returns each rank's end in nanoseconds, with one rank per node.
fn ends(system: &System, text: &str) -> Vec<u64> {
    let schedule = schedule(text);
    let by_packets = run(system, &schedule, schedule.ranks, Fidelity::Packet).expect("runs");
    let nanos = |end: &Time| {
        assert_eq!(end.0 % 1000, 0, "{end} is no whole number of nanoseconds");
        end.0 / 1000
    };
    by_packets.ends.iter().map(nanos).collect()
}

/// Returns the calculations on the critical path in nanoseconds, by packets and by messages.
fn computing(system: &System, text: &str) -> [u64; 2] {
    [Fidelity::Packet, Fidelity::Message].map(|fidelity| {
        let schedule = schedule(text);
        let outcome = run(system, &schedule, schedule.ranks, fidelity).expect("runs");
        assert_eq!(outcome.computing.0 % 1000, 0);
        outcome.computing.0 / 1000
    })
}

#[test]
fn calculations_on_the_critical_path_are_those_before_the_last_end() {
    let system = logp();
    // Rank 1 waits for rank 0, which is late: its own calculation beside is not on the path.
    let late = "num_ranks 2\nrank 0 {\nl1: calc 1000\nl2: send 8b to 1\nl2 requires l1\n}\n\
                rank 1 {\nl1: calc 300\nl2: recv 8b from 0\nl2 requires l1\nl3: calc 5000\n\
                l3 requires l2\n}\n";
    assert_eq!(computing(&system, late), [6000; 2]);
    // The same with a message by rendezvous.
    let long = late.replace("8b", "1048576b");
    assert_eq!(computing(&system, &long), [6000; 2]);
    // With a late receiver, the sender has waited for it.
    let receiver = long.replace("calc 300", "calc 900000");
    assert_eq!(computing(&system, &receiver), [905_000; 2]);
    // A calculation on another core, and one that waits for its core.
    let beside = late.replace("calc 300\n", "calc 300\nl4: calc 70000 cpu 1\n");
    assert_eq!(computing(&system, &beside), [70_000; 2]);
    let core = late.replace("calc 300\n", "calc 300\nl4: calc 70000\n");
    assert_eq!(computing(&system, &core), [75_300; 2]);
    let none = "num_ranks 2\nrank 0 {\nl1: send 8b to 1\n}\nrank 1 {\nl1: recv 8b from -1\n}\n";
    assert_eq!(computing(&system, none), [0; 2]);
    let any = late.replace("from 0", "from -1");
    assert_eq!(computing(&system, &any), [6000; 2]);
}

#[test]
fn a_schedule_takes_the_time_computed_by_hand() {
    let (system, o, l) = (logp(), OVERHEAD, LATENCY);
    let text = "num_ranks 2\nrank 0 {\nl1: calc 1000\nl2: send 8b to 1\nl3: recv 8b from 1\n\
                l2 requires l1\nl3 requires l2\n}\n\
                rank 1 {\nl1: recv 8b from 0\nl2: calc 50\nl3: send 8b to 0\nl2 requires l1\n\
                l3 requires l2\n}\n";
    let there = 1000 + 2 * o + l;
    let back = there + 50 + 2 * o + l;
    assert_eq!(ends(&system, text), [back, there + 50 + o]);
    // A calculation on another core takes nothing from the first.
    let beside = text.replace("calc 1000", "calc 1000 cpu 1");
    assert_eq!(ends(&system, &beside), ends(&system, text));
    let at_once = "num_ranks 1\nrank 0 {\ncalc 500\ncalc 300 cpu 1\ncalc 200\n}\n";
    assert_eq!(ends(&system, at_once), [700]);
    // A begin dependency does not wait for the end.
    let begun = "num_ranks 1\nrank 0 {\nl1: calc 500\nl2: calc 300 cpu 1\nl2 irequires l1\n}\n";
    assert_eq!(ends(&system, begun), [500]);
    let ended = begun.replace("irequires", "requires");
    assert_eq!(ends(&system, &ended), [800]);
}

/// Culler and others, LogP (1993): each rank with the message sends it on, one overhead after
/// another.
#[test]
fn a_binomial_tree_takes_the_logp_time() {
    const RANKS: usize = 16;
    let mut arrivals = [0; RANKS];
    let mut text = format!("num_ranks {RANKS}\n");
    for rank in 0..RANKS {
        let parent_bit = if rank == 0 {
            RANKS
        } else {
            1 << rank.trailing_zeros()
        };
        let mut lines = Vec::new();
        if rank > 0 {
            lines.push(format!("m0: recv 8b from {}", rank - parent_bit));
        }
        let mut sent = arrivals[rank];
        let mut bit = parent_bit / 2;
        while bit > 0 {
            let number = lines.len();
            lines.push(format!("m{number}: send 8b to {}", rank + bit));
            sent += OVERHEAD;
            arrivals[rank + bit] = sent + LATENCY + OVERHEAD;
            bit /= 2;
        }
        let in_turn = (1..lines.len()).map(|n| format!("m{n} requires m{}", n - 1));
        let in_turn: Vec<_> = in_turn.collect();
        text += &format!(
            "rank {rank} {{\n{}\n{}\n}}\n",
            lines.join("\n"),
            in_turn.join("\n")
        );
    }
    let ends = ends(&logp(), &text);
    // Ranks with odd numbers send nothing: they end when they have the message.
    for rank in (1..RANKS).step_by(2) {
        assert_eq!(ends[rank], arrivals[rank], "rank {rank}");
    }
    assert_eq!(ends.iter().max(), arrivals.iter().max());
}

/// Ranks with random sequences of operations: a message arrives `LATENCY` after its sender has sent
/// it.
#[test]
fn random_schedules_match_a_reference_implementation() {
    const RANKS: usize = 6;
    let system = logp();
    let mut seed = 7u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for _ in 0..25 {
        let mut programs: Vec<Vec<String>> = vec![Vec::new(); RANKS];
        let mut now = [0u64; RANKS];
        for _ in 0..40 {
            let (one, other, tag) = (next(RANKS), next(RANKS), next(3));
            if one == other {
                let nanos = next(5000) as u64;
                programs[one].push(format!("calc {nanos}"));
                now[one] += nanos;
            } else {
                // Sent and received at the same step of the list, so no rank deadlocks.
                programs[one].push(format!("send 4b to {other} tag {tag}"));
                programs[other].push(format!("recv 4b from {one} tag {tag}"));
                now[one] += OVERHEAD;
                now[other] = now[other].max(now[one] + LATENCY) + OVERHEAD;
            }
        }
        let mut text = format!("num_ranks {RANKS}\n");
        for (rank, program) in programs.iter().enumerate() {
            text += &format!("rank {rank} {{\n");
            for (number, line) in program.iter().enumerate() {
                text += &format!("n{number}: {line}\n");
                if number > 0 {
                    text += &format!("n{number} requires n{}\n", number - 1);
                }
            }
            text += "}\n";
        }
        assert_eq!(ends(&system, &text), now, "{text}");
    }
}

fn ping_pong(rounds: usize, bytes: u64) -> String {
    let mut text = "num_ranks 2\n".to_owned();
    for (rank, first, second) in [(0, "send", "recv"), (1, "recv", "send")] {
        text += &format!("rank {rank} {{\n");
        for number in 0..2 * rounds {
            let kind = if number % 2 == 0 { first } else { second };
            let way = if kind == "send" { "to" } else { "from" };
            text += &format!("n{number}: {kind} {bytes}b {way} {}\n", 1 - rank);
            if number > 0 {
                text += &format!("n{number} requires n{}\n", number - 1);
            }
        }
        text += "}\n";
    }
    text
}

/// Returns the end of two ranks that exchange messages, without a schedule.
fn exchanges(system: &System, rounds: usize, bytes: u64) -> Time {
    run_on_ranks(system, vec![0, 1], Fidelity::Packet, |rank| async move {
        for _ in 0..rounds {
            match rank.number {
                0 => {
                    rank.send(1, bytes).await;
                    rank.receive(1).await;
                }
                _ => {
                    rank.receive(0).await;
                    rank.send(0, bytes).await;
                }
            }
        }
    })
    .end
}

#[test]
fn a_message_takes_the_time_of_the_modelled_library() {
    let system = system("connectx-qdr", &Overrides::none());
    for bytes in [8u64, 4096, 100_000] {
        let end = |rounds| {
            let schedule = schedule(&ping_pong(rounds, bytes));
            let outcome = run(&system, &schedule, 2, Fidelity::Packet).expect("runs");
            outcome.last()
        };
        for rounds in [1, 12] {
            assert_eq!(end(rounds), exchanges(&system, rounds, bytes), "{bytes} B");
        }
    }
}

#[test]
fn ranks_may_share_nodes_and_messages_may_be_followed_as_trains() {
    let system = system("connectx-ddr", &Overrides::none());
    let mut text = "num_ranks 8\n".to_owned();
    for rank in 0..8 {
        let (to, from) = ((rank + 1) % 8, (rank + 7) % 8);
        text += &format!("rank {rank} {{\nsend 200000b to {to}\nrecv 200000b from {from}\n}}\n");
    }
    let schedule = schedule(&text);
    let last = |nodes, fidelity| {
        let outcome = run(&system, &schedule, nodes, fidelity).expect("runs");
        assert_eq!(
            outcome,
            run(&system, &schedule, nodes, fidelity).expect("the same")
        );
        outcome.last().micros()
    };
    let (packets, trains) = (last(8, Fidelity::Packet), last(8, Fidelity::Message));
    assert!(
        (trains / packets - 1.0).abs() < 0.05,
        "{packets} and {trains} us"
    );
    assert!(
        last(2, Fidelity::Packet) > packets,
        "two nodes have a cable each way"
    );
    assert!(last(1, Fidelity::Packet) > 0.0);
}

#[test]
fn parse_errors_name_the_line() {
    let two = "num_ranks 2\nrank 0 {\n";
    for (text, line, words) in [
        ("", 1, "no num_ranks"),
        ("rank 0 {\n}\n", 1, "num_ranks must come first"),
        ("num_ranks 0\n", 1, "expected 1 to"),
        ("num_ranks 4000000000\n", 1, "expected 1 to"),
        ("num_ranks 2\nnum_ranks 2\n", 2, "already given"),
        ("num_ranks 2\n\nrank 2 {\n}\n", 3, "there is no rank 2"),
        (
            "num_ranks 2\nrank 0 {\n}\nrank 0 {\n}\n",
            4,
            "already given",
        ),
        ("num_ranks 2\nrank 1 {\nl1: calc 5\n", 2, "has no end"),
        ("num_ranks 2 /* and\nmore", 1, "has no end"),
        ("num_ranks 99999999999999999999\n", 1, "is more than"),
        ("num_ranks 2 ;\n", 1, "';' is not part of a schedule"),
        (
            &format!("{two}l1: jump 5\n}}"),
            3,
            "expected send, recv or calc, found \"jump\"",
        ),
        (
            &format!("{two}l1: send 8 to 1\n}}"),
            3,
            "expected b, found \"to\"",
        ),
        (
            &format!("{two}l1: send 8b from 1\n}}"),
            3,
            "expected to, found \"from\"",
        ),
        (
            &format!("{two}l1: send 8b to 5\n}}"),
            3,
            "there is no rank 5",
        ),
        (
            &format!("{two}l1: send 8b to 1 tag -1\n}}"),
            3,
            "only receives accept",
        ),
        (
            &format!("{two}l1: send 8b to 1 tag 4294967296\n}}"),
            3,
            "expected a tag of at most",
        ),
        (
            &format!("{two}l1: send 8b to 1 nic 1\n}}"),
            3,
            "one adapter",
        ),
        (&format!("{two}l1: calc 5 cpu 256\n}}"), 3, "from 0 to 255"),
        (
            &format!("{two}l1: calc 5 tag 1\n}}"),
            3,
            "expected cpu or the end of the line",
        ),
        (
            &format!("{two}l1: calc 5 cpu 1 cpu 1\n}}"),
            3,
            "already given",
        ),
        (
            &format!("{two}l1: calc 5 l2: calc 5\n}}"),
            3,
            "found \"l2\"",
        ),
        (
            &format!("{two}l1: calc\n}}"),
            3,
            "found the end of the line",
        ),
        (
            &format!("{two}l1: calc 5\nl1: calc 5\n}}"),
            4,
            "already has a \"l1\"",
        ),
        (
            &format!("{two}l1: calc 5\nl1 requires l9\n}}"),
            4,
            "no operation \"l9\"",
        ),
        (
            &format!("{two}l1: calc 5\nl1 requires l1\n}}"),
            3,
            "waits for itself",
        ),
        (
            &format!(
                "{two}a: calc 5\nb: calc 5\nc: calc 5\na requires c\nb irequires a\nc requires b\n\
                 }}"
            ),
            3,
            "waits for itself, by way of line 5, 4",
        ),
        (
            &format!("{two}calc 999999999999999\ncalc 2\n}}"),
            4,
            "more than 1000000000000000 ns",
        ),
        (
            &format!("{two}send 99999999999999b to 1\n}}"),
            3,
            "bytes of messages",
        ),
    ] {
        let fault = Schedule::read(text).expect_err(text);
        assert_eq!(fault.line, line, "{text:?}: {fault}");
        assert!(fault.reason.contains(words), "{text:?}: {fault}");
    }
}

#[test]
fn deadlocks_name_the_line() {
    let system = system("connectx-ddr", &Overrides::none());
    for (text, line, words) in [
        (
            "rank 1 {\nrecv 8b from 0 tag 3\n}",
            3,
            "rank 1 waits for a message from rank 0 with tag 3",
        ),
        (
            "rank 1 {\nrecv 8b from -1 tag -1\n}",
            3,
            "from any rank with any tag",
        ),
        (
            "rank 0 {\nsend 100000b to 1\n}",
            3,
            "rank 0 waits for rank 1 to receive",
        ),
        ("rank 0 {\nsend 8b to 1\n}", 3, "rank 1 has no receive"),
        (
            "rank 0 {\nsend 9b to 1\n}\nrank 1 {\nrecv 8b from 0\n}",
            6,
            "9 bytes arrived, and 8",
        ),
        (
            "rank 0 {\nsend 8b to 1 tag 1\n}\nrank 1 {\nrecv 8b from 0 tag 2\n}",
            6,
            "with tag 2",
        ),
    ] {
        let schedule = schedule(&format!("num_ranks 2\n{text}\n"));
        let failure = run(&system, &schedule, 2, Fidelity::Packet).expect_err(text);
        let Failure::Schedule(fault) = failure else {
            panic!("{text:?}: {failure}");
        };
        assert_eq!(fault.line, line, "{text:?}: {fault}");
        assert!(fault.reason.contains(words), "{text:?}: {fault}");
    }
}

#[test]
fn missing_and_too_few_nodes_are_refused() {
    let text = "num_ranks 3\n";
    let refused = |name, nodes| {
        let system = system(name, &Overrides::none());
        let failure = run(&system, &schedule(text), nodes, Fidelity::Packet);
        failure.expect_err("cannot run").to_string()
    };
    let told = refused("connectx-qdr-back-to-back", 3);
    assert!(told.contains("joins at most 2 nodes"), "{told}");
    let told = refused("connectx-ddr", 0);
    assert!(told.contains("at least one node"), "{told}");
}

#[test]
fn schedule_syntax_is_parsed() {
    let text = "// first\nnum_ranks 3\nrank 2 {\nx: recv 12b from -1 cpu 2 /* any\n\
                of them */ tag 7\ny: calc 9 }\n";
    let read = schedule(text);
    assert_eq!((read.ranks, read.size(), read.sent()), (3, 2, (0, 0)));
    let operations = &read.operations[&2];
    let wanted = Action::Receive {
        from: None,
        bytes: 12,
        tag: Some(7),
    };
    assert_eq!((operations[0].action, operations[0].cpu), (wanted, 2));
    assert_eq!(
        (operations[1].action, operations[1].line),
        (Action::Calculate { nanos: 9 }, 6)
    );
}
