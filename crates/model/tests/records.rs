//! Records and tasks (`Cluster::of_tasks`) give the same results to the picosecond: random traffic
//! on random systems has the same events, in the same order, at the same times.

#[expect(dead_code, reason = "traffic of other tests")]
mod joined;
mod shipped;

use joined::shape;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::cell::RefCell;
use std::rc::Rc;
use verbena_model::adapter::{
    Counters, Fidelity, Kind, MemoryLocation, Placement, Request, Transport,
};
use verbena_model::audit::Audit;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::mpi::World;
use verbena_model::profile::System;

/// A system by name; one without is connected by a dragonfly with adaptive routing.
type Named = Option<&'static str>;

fn system(name: Named, settings: &[(&str, f64)]) -> System {
    let Some(name) = name else {
        let values = [("groups", 5), ("switches", 4), ("nodes", 2), ("global", 1)];
        let dragonfly = shape("dragonfly", &values, "adaptive");
        return joined::system(&dragonfly, 40, 3.0).expect("sound");
    };
    shipped::system(name, settings)
}

/// A process's messages to another node, some posted together, over one queue pair.
#[derive(Debug, Clone)]
struct Stream {
    from: usize,
    to: usize,
    transport: Transport,
    port: usize,
    lane: u64,
    /// Lists of requests: kind, bytes, and whether they are inline.
    lists: Vec<Vec<(Kind, u64, bool)>>,
    /// Nanoseconds until receive requests are posted.
    late: u16,
}

fn streams(nodes: usize) -> impl Strategy<Value = Vec<Stream>> {
    let kind = select(vec![
        Kind::Write,
        Kind::Write,
        Kind::WriteNotify,
        Kind::Send,
        Kind::Read,
        Kind::Atomic,
    ]);
    let bytes = select(vec![0u64, 1, 64, 600, 2048, 2049, 5000, 30_000, 200_000]);
    let request = (kind, bytes, any::<bool>());
    let list = prop::collection::vec(request, 1..3);
    let lists = prop::collection::vec(list, 1..5);
    let transport = select(vec![
        Transport::Reliable,
        Transport::Reliable,
        Transport::Unreliable,
        Transport::Datagram,
    ]);
    let ends = (any::<Index>(), any::<Index>(), 0usize..2, 0u64..3);
    let one = (ends, transport, lists, 0u16..20_000).prop_map(
        move |((from, to, port, lane), transport, lists, late)| Stream {
            from: from.index(nodes),
            // Few targets, so that they are congested.
            to: to.index(nodes.min(3)),
            transport,
            port,
            lane,
            lists,
            late,
        },
    );
    prop::collection::vec(one, 1..24)
}

/// The events of a run.
#[derive(Debug, PartialEq)]
struct History {
    /// Stream, number in it, event, time; in order.
    events: Vec<(usize, usize, &'static str, Time)>,
    audit: Audit,
    counters: Vec<Counters>,
}

fn history(cluster: &Rc<Cluster>, streams: &[Stream]) -> History {
    let events = Rc::new(RefCell::new(Vec::new()));
    let ports = cluster.system().ports as usize;
    for (number, stream) in streams.iter().enumerate() {
        let ends = (stream.from, stream.to);
        let (one, other) = cluster.connected(ends, stream.port % ports, stream.transport);
        one.use_lane(stream.lane);
        other.use_lane(stream.lane);
        let (sim, receives) = (cluster.sim().clone(), other.receives().clone());
        let late = Time::from_nanos(f64::from(stream.late));
        cluster.sim().start(async move {
            sim.sleep(late).await;
            receives.post(100);
        });
        let (process, stream) = (cluster.process(stream.from), stream.clone());
        let (sim, events) = (cluster.sim().clone(), events.clone());
        cluster.sim().start(async move {
            let mut place = 0;
            for list in stream.lists {
                let requests = list.iter().map(|&(kind, bytes, inline)| {
                    let is_datagram = stream.transport == Transport::Datagram;
                    let kind = match stream.transport {
                        Transport::Reliable => kind,
                        Transport::Unreliable if kind == Kind::Write => kind,
                        _ => Kind::Send,
                    };
                    let bytes = match kind {
                        Kind::Atomic => 8,
                        _ if is_datagram => bytes.min(1024),
                        _ => bytes,
                    };
                    let is_inline = inline && bytes <= 64 && kind != Kind::Read;
                    let placement = match is_inline {
                        true => Placement::Inline,
                        false => Placement::Reference,
                    };
                    let mut request = Request::new(kind, bytes, placement);
                    request.remote = MemoryLocation {
                        region: number as u64,
                        address: 4096 * place as u64,
                        ..MemoryLocation::default()
                    };
                    request.to = is_datagram.then(|| other.clone());
                    let told = |event| {
                        let (events, sim) = (events.clone(), sim.clone());
                        move || events.borrow_mut().push((number, place, event, sim.now()))
                    };
                    request.placed = Some(Box::new(told("placed")));
                    request.completed = (place % 3 > 0).then(|| {
                        let told: Box<dyn FnOnce()> = Box::new(told("completed"));
                        told
                    });
                    place += 1;
                    request
                });
                let requests: Vec<_> = requests.collect();
                process.post(&one, requests).await;
            }
        });
    }
    cluster.sim().run();
    let history = History {
        events: events.take(),
        audit: cluster.audit(),
        counters: (0..cluster.size())
            .map(|node| cluster.node(node).adapter().counters())
            .collect(),
    };
    cluster.finish();
    history
}

/// Rounds of an exchange: shift to the receiver, bytes, whether all messages are begun first.
type Rounds = Vec<(usize, u64, bool)>;

/// Runs ranks that exchange messages; returns the end of each, and the audit.
fn exchange(cluster: &Rc<Cluster>, ranks: usize, rounds: &Rounds) -> (Vec<(usize, Time)>, Audit) {
    let nodes = cluster.size();
    let world = World::new(cluster, (0..ranks).map(|rank| rank % nodes).collect());
    let ends = Rc::new(RefCell::new(Vec::new()));
    for number in 0..ranks {
        let (rank, rounds, ends) = (world.rank(number), rounds.clone(), ends.clone());
        let node = world.node(number);
        cluster.sim().start_in(node, async move {
            for (shift, bytes, begun) in rounds {
                let to = (rank.number + shift) % ranks;
                let from = (rank.number + ranks - shift % ranks) % ranks;
                match begun {
                    true => {
                        let back = rank.begin_receive(to);
                        let receive = rank.begin_receive(from);
                        let send = rank.begin_send(to, bytes);
                        rank.send(from, bytes / 2).await;
                        receive.await;
                        back.await;
                        send.await;
                    }
                    false => rank.exchange(to, bytes, from).await,
                }
            }
            ends.borrow_mut().push((rank.number, rank.process().now()));
        });
    }
    cluster.sim().run();
    let audit = cluster.audit();
    cluster.finish();
    assert_eq!(ends.borrow().len(), ranks, "a rank waits forever");
    (ends.take(), audit)
}

/// Returns a configuration with this number of cases, or that of `PROPTEST_CASES`.
fn cases(few: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(few),
    }
}

/// Returns why a history breaks a rule of any adapter; empty if it breaks none. Each message is
/// placed once or dropped, each completion that is asked for is reported once, and no byte is lost.
fn breaches(history: &History, streams: &[Stream]) -> Vec<String> {
    let requests = |stream: &Stream| stream.lists.iter().map(Vec::len).sum::<usize>();
    let messages: usize = streams.iter().map(requests).sum();
    let asked = streams.iter().flat_map(|stream| 0..requests(stream));
    let asked = asked.filter(|place| place % 3 > 0).count();
    let seen = |name| {
        history
            .events
            .iter()
            .filter(|event| event.2 == name)
            .count()
    };
    let dropped: u64 = history.counters.iter().map(|node| node.dropped).sum();
    let mut all = history.audit.breaches();
    if seen("placed") + dropped as usize != messages {
        let placed = seen("placed");
        all.push(format!(
            "{placed} of {messages} messages placed, {dropped} dropped"
        ));
    }
    if seen("completed") != asked {
        all.push(format!("{} of {asked} completions", seen("completed")));
    }
    all
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn records_and_tasks_have_the_same_history(
        name in select(vec![Some("connectx-ddr"), Some("infinihost3-ddr"),
            Some("infinihost3-mem-sdr-2port"), Some("infinihost-pcix"), Some("connectx6-hdr"),
            Some("connectx5-100gbe-dcqcn"), Some("connectx5-edr-remote"), None]),
        fidelity in select(vec![Fidelity::Packet, Fidelity::Message]),
        buffer in 3u64..40,
        lanes in 1u64..3,
        (nodes, streams) in (2usize..40).prop_flat_map(|nodes| (Just(nodes), streams(nodes))),
    ) {
        let settings = [("4x-sdr.buffer", buffer as f64), ("4x-sdr.lanes", lanes as f64)];
        let system = system(name, &settings);
        let records = history(&Cluster::new(&system, nodes, fidelity), &streams);
        let tasks = history(&Cluster::of_tasks(&system, nodes, fidelity), &streams);
        prop_assert_eq!(&records, &tasks);
        prop_assert_eq!(breaches(&records, &streams), Vec::<String>::new());
    }

    #[test]
    fn ranks_on_records_and_on_tasks_end_at_the_same_times(
        name in select(vec![Some("connectx-ddr"), Some("infinihost3-ddr"), Some("connectx6-hdr"),
            Some("infinihost-pcix"), None]),
        nodes in 2usize..30,
        processes in 1usize..9,
        rounds in prop::collection::vec(
            (1usize..40, select(vec![0u64, 8, 1024, 9000, 70_000]), any::<bool>()),
            1..6,
        ),
    ) {
        let system = system(name, &[]);
        let ranks = nodes * processes;
        let records = exchange(&Cluster::of_places(&system, nodes), ranks, &rounds);
        let tasks = exchange(&Cluster::of_places_and_tasks(&system, nodes), ranks, &rounds);
        prop_assert_eq!(records, tasks);
    }
}

/// Messages whose order at one instant once depended on the numbers of ended tasks.
#[test]
fn numbers_of_ended_tasks_have_no_effect() {
    let system = system(None, &[]);
    let rounds = vec![(3, 70_000, true)];
    let records = exchange(&Cluster::of_places(&system, 9), 72, &rounds);
    let tasks = exchange(&Cluster::of_places_and_tasks(&system, 9), 72, &rounds);
    assert_eq!(records, tasks);
}
