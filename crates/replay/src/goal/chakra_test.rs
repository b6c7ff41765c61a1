use super::{Action, Converted, Schedule, convert, run};
use proptest::prelude::*;
use std::fmt::Write;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Library, Overrides};
use verbena_mpi_trace::chakra::{Collective, Reader};

/// Converts files in JSON, one a rank, of which only the nodes are given.
fn converted(ranks: &[&str]) -> Result<Converted, String> {
    let mut reader = Reader::default();
    for (rank, nodes) in ranks.iter().enumerate() {
        let json = format!("{{\"workload_graph\": [{nodes}]}}");
        let name = format!("test.{rank}.json");
        let read = reader.read(&name, json.as_bytes());
        read.map_err(|error| error.to_string())?;
    }
    let trace = reader.finish().map_err(|error| error.to_string())?;
    convert(&trace, None).map_err(|error| error.to_string())
}

/// Returns a node's JSON.
fn node(id: u64, kind: u64, rest: &str) -> String {
    format!("{{\"Id\": {id}, \"Name\": \"n{id}\", \"NodeType\": {kind}, {rest}}}")
}

fn collective(id: u64, kind: u64, bytes: u64) -> String {
    let rest = format!("\"comm_type\": {kind}, \"comm_size\": {bytes}, \"data_deps\": []");
    node(id, 7, &rest)
}

fn last_end(schedule: &Schedule) -> f64 {
    let library = Library::shipped(&Overrides::none()).unwrap();
    let system = library.system("connectx-qdr").unwrap();
    let ends = run(&system, schedule, schedule.ranks, Fidelity::Packet).unwrap();
    ends.last().nanos()
}

#[test]
fn collectives_have_the_messages_of_their_algorithms() {
    // Kind, bytes of a member, messages of all four members, bytes of all messages.
    for (kind, bytes, messages, sum) in [
        (0, 1000, 4 * 6, 6 * 1000),
        (1, 1000, 3, 3 * 1000),
        (2, 1000, 4 * 3, 12 * 1000),
        (3, 1000, 3, 4 * 1000),
        (4, 1000, 3, 1000),
        (5, 1000, 3, 3 * 1000),
        (6, 1000, 4 * 3, 12 * 250),
        (7, 1000, 4 * 3, 3 * 1000),
        (8, 1000, 4 * 3, 3 * 1000),
        (9, 1000, 4 * 2, 0),
    ] {
        let nodes = collective(1, kind, bytes);
        let done = converted(&[&nodes, &nodes, &nodes, &nodes]).unwrap();
        assert_eq!(done.schedule.sent(), (sum, messages), "kind {kind}");
        // A send and a receive for each message, and the end of each node.
        assert_eq!(done.schedule.size() as u64, 2 * messages + 4);
        assert_eq!(done.collectives.len(), 1);
        assert!(last_end(&done.schedule) > 0.0);
    }
}

#[test]
fn an_all_to_all_may_have_a_length_per_rank() {
    let (one, other) = (collective(1, 6, 4096), collective(1, 6, 1024));
    let done = converted(&[&one, &other]).unwrap();
    assert_eq!(done.schedule.sent(), (2048 + 512, 2));
    let total = done.collectives[&Collective::AllToAll];
    assert_eq!(total, (1, 4096 + 1024));
    last_end(&done.schedule);
}

#[test]
fn nodes_begin_after_those_they_depend_on() {
    let compute = |id: u64, deps: &str| {
        let rest = format!("\"runtime\": 10, \"data_deps\": [{deps}], \"is_cpu_op\": false");
        node(id, 4, &rest)
    };
    let chain = [compute(3, "9"), compute(9, ""), compute(4, "9, 3")].join(",");
    let done = converted(&[&chain]).unwrap();
    assert!((last_end(&done.schedule) - 30_000.0).abs() < 1.0);
    // Host and accelerator compute beside each other.
    let host = node(5, 4, "\"runtime\": 10, \"is_cpu_op\": true");
    let beside = [compute(3, ""), host].join(",");
    let done = converted(&[&beside]).unwrap();
    assert!((last_end(&done.schedule) - 10_000.0).abs() < 1.0);
}

#[test]
fn messages_are_those_of_the_nodes() {
    let send = node(
        0,
        5,
        "\"comm_dst\": 1, \"comm_size\": 4096, \"comm_tag\": 7",
    );
    let receive = node(
        0,
        6,
        "\"comm_src\": 0, \"comm_size\": 4096, \"comm_tag\": 7",
    );
    let after = node(1, 4, "\"runtime\": 5, \"data_deps\": [0]");
    let second = [receive, after].join(",");
    let done = converted(&[&send, &second]).unwrap();
    assert_eq!(done.messages, (1, 4096));
    assert_eq!(done.nodes, 3);
    assert!(last_end(&done.schedule) > 5000.0);
}

#[test]
fn refusals_name_file_and_node() {
    let all_reduce = collective(1, 0, 64);
    for (ranks, reason) in [
        (
            vec![node(3, 4, "\"data_deps\": [8]")],
            "test.0.json, node 3 (n3): it depends on node 8, which the file lacks",
        ),
        (
            vec![node(3, 4, "\"data_deps\": [3]")],
            "test.0.json, node 3 (n3): it depends on itself, by way of other nodes",
        ),
        (
            vec![node(3, 5, "\"comm_dst\": 4, \"comm_size\": 1")],
            "test.0.json, node 3 (n3): there is no file of rank 4, its peer",
        ),
        (
            vec![node(3, 5, "\"comm_dst\": 0")],
            "test.0.json, node 3 (n3): it has no comm_size",
        ),
        (
            vec![node(3, 11, "\"comm_dst\": 0")],
            "test.0.json, node 3 (n3): its type 11 is unknown",
        ),
        (
            vec![all_reduce.clone(), String::new()],
            "test.0.json, node 1 (n1): rank 1 of its process group takes no part in this \
             all-reduce",
        ),
        (
            vec![all_reduce.clone(), collective(2, 5, 64)],
            "test.1.json, node 2 (n2): its operation is broadcast, and the one with the same \
             place in the order of its process group is all-reduce in test.0.json, node 1",
        ),
        (
            vec![all_reduce, collective(2, 0, 65)],
            "test.0.json, node 1 (n1): its all-reduce has 64 bytes on rank 0 and 65 on rank 1",
        ),
        (
            vec![[node(3, 4, "\"runtime\": 1"), node(3, 4, "\"runtime\": 1")].join(",")],
            "test.0.json, node 3 (n3): another node has this number",
        ),
    ] {
        let ranks: Vec<_> = ranks.iter().map(String::as_str).collect();
        assert_eq!(converted(&ranks).unwrap_err(), reason);
    }
}

#[test]
fn a_large_collective_is_refused_before_memory_is_used() {
    let mut nodes = String::new();
    for id in 0..4000 {
        let _ = write!(nodes, "{},", collective(id, 0, 64));
    }
    let nodes = nodes.trim_end_matches(',');
    let ranks = vec![nodes; 64];
    let reason = converted(&ranks).unwrap_err();
    assert!(
        reason.contains("are 64768000 operations of a schedule"),
        "{reason}"
    );
}

proptest! {
    #[test]
    fn a_written_schedule_is_read_back(
        sends in proptest::collection::vec((0_usize..3, 0_u64..5000, 0_u32..9, 0_u8..4), 0..20),
    ) {
        let mut schedule = Schedule { ranks: 3, ..Schedule::default() };
        let operation = |action, cpu, requires| super::Operation {
            line: 0, action, cpu, requires, requires_begun: Vec::new(),
        };
        for (number, (to, bytes, tag, cpu)) in sends.into_iter().enumerate() {
            let from = number % 3;
            let of = schedule.operations.entry(from).or_default();
            let before = of.len().checked_sub(1).into_iter().collect();
            of.push(operation(Action::Send { to, bytes, tag }, cpu, before));
            let of = schedule.operations.entry(to).or_default();
            let (from, tag) = (Some(from), Some(tag));
            of.push(operation(Action::Receive { from, bytes, tag }, 0, Vec::new()));
        }
        let mut text = Vec::new();
        schedule.write(&mut text).unwrap();
        let mut read = Schedule::read(std::str::from_utf8(&text).unwrap()).unwrap();
        for operation in read.operations.values_mut().flatten() {
            operation.line = 0;
        }
        prop_assert_eq!(read, schedule);
    }
}
