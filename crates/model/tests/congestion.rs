//! DCQCN on an Ethernet switch: senders to one receiver converge to fair shares, the queue before
//! its port stays near the marking threshold, and a flow to another receiver gets the remaining
//! bandwidth, which it does not with pauses alone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Pair, Placement, Request, Transport};
use verbena_model::cluster::{Cluster, Process};
use verbena_model::kernel::Time;
use verbena_model::profile::{Library, Overrides, System};

/// ConnectX-5 on 40 gigabit Ethernet, the link of the paper's testbed, with packets of 4 KiB.
fn system(name: &str) -> System {
    let overrides = Overrides::none()
        .with("100gbe.rate", 5000.0)
        .with("25gbe.mtu", 4096.0);
    let library = Library::shipped(&overrides).expect("shipped profiles are sound");
    library.system(name).expect("a shipped system")
}

const MESSAGE: u64 = 128 << 10;

/// Writes messages until `end`, always several in flight; counts the bytes placed between `begin`
/// and `end`.
fn stream(process: &Process, pair: Rc<Pair>, (begin, end): (Time, Time)) -> Rc<Cell<u64>> {
    let placed = Rc::new(Cell::new(0));
    for _ in 0..16 {
        next(process.clone(), pair.clone(), (begin, end), placed.clone());
    }
    placed
}

fn next(process: Process, pair: Rc<Pair>, (begin, end): (Time, Time), placed: Rc<Cell<u64>>) {
    let sim = process.sim().clone();
    sim.clone().start(async move {
        if sim.now() > end {
            return;
        }
        let mut request = Request::new(Kind::Write, MESSAGE, Placement::Reference);
        let (poster, again) = (process.clone(), pair.clone());
        request.placed = Some(Box::new(move || {
            if (begin..end).contains(&sim.now()) {
                placed.set(placed.get() + MESSAGE);
            }
            next(process, pair, (begin, end), placed);
        }));
        poster.post(&again, vec![request]).await;
    });
}

/// Rate of each flow in bytes per second, and the queue before node 0's port, sampled every 5 us.
#[derive(Debug, PartialEq)]
struct Outcome {
    rates: Vec<f64>,
    queues: Vec<u64>,
    notified: u64,
    breaches: Vec<String>,
}

impl Outcome {
    /// Jain's index: 1 if all rates are equal, 1/n if one flow has everything.
    fn fairness(&self) -> f64 {
        let sum: f64 = self.rates.iter().sum();
        let squares: f64 = self.rates.iter().map(|rate| rate * rate).sum();
        sum * sum / (squares * self.rates.len() as f64)
    }

    /// Returns the quantile `share` of the sampled queue lengths.
    fn queue(&self, share: f64) -> u64 {
        let mut queues = self.queues.clone();
        queues.sort_unstable();
        queues[(share * (queues.len() - 1) as f64) as usize]
    }
}

/// Runs flows between nodes from the start of the simulation, and returns their outcome within
/// `window`, in milliseconds.
fn run(
    system: &System,
    flows: &[(usize, usize)],
    window: (u64, u64),
    fidelity: Fidelity,
) -> Outcome {
    let nodes = flows
        .iter()
        .map(|(from, to)| from.max(to) + 1)
        .max()
        .unwrap_or(0);
    let cluster = Cluster::new(system, nodes, fidelity);
    let millis = |millis: u64| Time::from_nanos(millis as f64 * 1e6);
    let window = (millis(window.0), millis(window.1));
    let placed: Vec<_> = flows
        .iter()
        .map(|&(from, to)| {
            let (pair, _) = cluster.connected((from, to), 0, Transport::Reliable);
            stream(&cluster.process(from), pair, window)
        })
        .collect();
    let queues = Rc::new(RefCell::new(Vec::new()));
    let (looked, seen, sim) = (cluster.clone(), queues.clone(), cluster.sim().clone());
    cluster.sim().start(async move {
        while sim.now() < window.1 {
            sim.sleep(Time::from_nanos(5_000.0)).await;
            if sim.now() >= window.0 {
                seen.borrow_mut().push(looked.queued_before(0));
            }
        }
    });
    cluster.sim().run();
    let seconds = (window.1 - window.0).seconds();
    let notified = (0..nodes).map(|node| cluster.node(node).adapter().counters().notified);
    let outcome = Outcome {
        rates: placed
            .iter()
            .map(|bytes| bytes.get() as f64 / seconds)
            .collect(),
        queues: queues.take(),
        notified: notified.sum(),
        breaches: cluster.audit().breaches(),
    };
    cluster.finish();
    outcome
}

/// Queue length above which the switch marks every packet, as in the shipped profile.
const KMAX: u64 = 200_000;

#[test]
fn senders_to_one_receiver_reach_fair_shares() {
    let (paused, controlled) = (system("connectx5-100gbe"), system("connectx5-100gbe-dcqcn"));
    for senders in [2, 4, 8] {
        let flows: Vec<_> = (1..=senders).map(|from| (from, 0)).collect();
        for fidelity in [Fidelity::Packet, Fidelity::Message] {
            let outcome = run(&controlled, &flows, (10, 30), fidelity);
            assert_eq!(outcome.breaches, Vec::<String>::new());
            let (fairness, all) = (outcome.fairness(), outcome.rates.iter().sum::<f64>());
            assert!(fairness > 0.98, "{senders}: {fairness}");
            assert!((0.85 * 5e9..5e9).contains(&all), "{senders}: {all}");
            let (middle, high) = (outcome.queue(0.5), outcome.queue(0.95));
            assert!(middle < KMAX / 2, "{senders}: {middle} B wait");
            assert!(high < KMAX + KMAX / 10, "{senders}: {high} B wait");
            assert!(outcome.notified > 0);
        }
        // Without congestion control the switch's buffers are always full: 512 KiB per sender.
        let outcome = run(&paused, &flows, (10, 12), Fidelity::Packet);
        let low = outcome.queue(0.05);
        assert!(low > senders as u64 * (400 << 10), "{senders}: {low} B");
        assert_eq!((outcome.notified, outcome.breaches), (0, Vec::new()));
    }
}

/// Returns the rate in bytes per second of a flow whose source also sends, with three other nodes,
/// to a congested node.
fn victim(name: &str) -> f64 {
    let flows = [(1, 0), (2, 0), (3, 0), (4, 0), (1, 5)];
    let outcome = run(&system(name), &flows, (5, 15), Fidelity::Packet);
    assert_eq!(outcome.breaches, Vec::<String>::new());
    outcome.rates[4]
}

#[test]
fn congestion_control_leaves_uncongested_flows_the_rest() {
    let (paused, controlled) = (victim("connectx5-100gbe"), victim("connectx5-100gbe-dcqcn"));
    // With pauses, a quarter of the congested port, as its packets wait behind the congested
    // flow's; otherwise the rest of the link.
    assert!((1.1e9..1.4e9).contains(&paused), "{paused}");
    assert!(controlled > 3.5e9, "{controlled}");
}

#[test]
fn results_are_deterministic_across_threads() {
    let outcome = || {
        let flows = [(1, 0), (2, 0), (3, 0), (2, 3)];
        run(
            &system("connectx5-100gbe-dcqcn"),
            &flows,
            (0, 3),
            Fidelity::Packet,
        )
    };
    let alone = outcome();
    for threads in [1, 2, 4] {
        let running: Vec<_> = (0..threads).map(|_| std::thread::spawn(outcome)).collect();
        for thread in running {
            assert_eq!(thread.join().expect("ends"), alone);
        }
    }
}

/// Eight nodes write to one, each a partition of the simulation; returns when each has completed,
/// and the number of notifications.
fn places() -> (Vec<Time>, u64) {
    let cluster = Cluster::of_places(&system("connectx5-100gbe-dcqcn"), 9);
    let done = Rc::new(RefCell::new(vec![Time::ZERO; 9]));
    for node in 1..9 {
        let (pair, _) = cluster.connected((node, 0), 0, Transport::Reliable);
        let (process, done) = (cluster.process(node), done.clone());
        cluster.sim().start_in(node, async move {
            for _ in 0..20 {
                let mut request = Request::new(Kind::Write, MESSAGE, Placement::Reference);
                let (sim, done) = (process.sim().clone(), done.clone());
                request.completed = Some(Box::new(move || done.borrow_mut()[node] = sim.now()));
                process.post(&pair, vec![request]).await;
            }
        });
    }
    cluster.sim().run();
    let told = (0..9).map(|node| cluster.node(node).adapter().counters().notified);
    let outcome = (done.take(), told.sum());
    assert_eq!(cluster.audit().left, 0);
    cluster.finish();
    outcome
}

#[test]
fn congestion_notifications_cross_partitions() {
    let (done, told) = places();
    assert!(done[1..].iter().all(|done| *done > Time::ZERO) && told > 0);
    assert_eq!((done, told), places());
}

#[test]
fn errors_name_file_line_and_key() {
    let told = |section: &str, key: &str, value: &str, reason: &str| {
        let quantity =
            format!("{key} = {{ value = {value}, tag = \"assumed\", source = \"a test\" }}");
        let text = format!(
            "kind = \"congestion\"\nbase = \"dcqcn\"\nabout = \"a test's\"\n[{section}]\n\
             {quantity}\n"
        );
        let library = Library::shipped(&Overrides::none()).expect("sound");
        let error = library
            .and([("mine.toml", text.as_str())])
            .expect_err("the profile is wrong");
        assert!(error.reason.contains(reason), "{error}");
        let key = format!("{section}.{key}");
        assert_eq!(
            (error.file.as_str(), error.line, error.key.as_str()),
            ("mine.toml", 5, key.as_str())
        );
    };
    told(
        "marking",
        "kmax",
        "10, unit = \"B\"",
        "at least kmin, 5000 B",
    );
    told("marking", "pmax", "2, unit = \"1\"", "at most 1");
    told("rate", "g", "1, unit = \"1\"", "below 1");
    told("rate", "rate_timer", "0, unit = \"us\"", "above zero");
    let system = "kind = \"system\"\nbase = \"connectx5-100gbe\"\ncongestion = \"none\"\n\
                  about = \"a test's\"\n";
    let library = Library::shipped(&Overrides::none()).expect("sound");
    let library = library.and([("mine.toml", system)]).expect("sound");
    let error = library
        .system("mine")
        .expect_err("there is no such profile");
    assert_eq!(error.key, "congestion");
}
