//! Computation with memory traffic: all its bytes are transferred, no faster than the memory's
//! rate, and no other task gets the core meanwhile.

use std::cell::RefCell;
use std::rc::Rc;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::mpi::World;
use verbena_model::profile::{Library, Overrides, System};

fn system() -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system("infinihost-xeon"))
        .expect("shipped profiles are sound")
}

/// Returns the bytes that are the share `share` of the memory's capacity in `span`.
fn load(system: &System, span: Time, share: f64) -> u64 {
    (span.seconds() * system.host.memory.bandwidth.0 * share) as u64
}

#[test]
fn all_bytes_are_carried_within_the_memory_rate() {
    let (system, span) = (system(), Time::from_nanos(300_123.0));
    for processes in 1..=4 {
        for share in [0.0, 1e-6, 0.3, 0.96, 1.7] {
            let cluster = Cluster::new(&system, 2, Fidelity::Packet);
            let bytes = load(&system, span, share);
            for _ in 0..processes {
                let process = cluster.process(0);
                cluster.sim().start(async move {
                    let taken = process.compute_over_memory(span, bytes).await;
                    assert_eq!(process.busy(), taken);
                });
            }
            cluster.sim().run();
            assert_eq!(cluster.node(0).memory().carried(), processes * bytes);
            let taken = cluster.sim().now().nanos();
            let needed = (share * processes as f64).max(1.0) * span.nanos();
            // Tolerance: the last page, and the rounding of each.
            assert!(
                (needed * 0.99999..needed * 1.001 + 4.0 * 1707.0).contains(&taken),
                "{processes} at {share}: {taken} and {needed}"
            );
            if share < 1.0 && processes == 1 {
                assert_eq!(cluster.sim().now(), span);
            }
            assert_eq!(cluster.audit().breaches(), Vec::<String>::new());
            cluster.finish();
        }
    }
}

#[test]
fn work_arriving_meanwhile_gets_the_core_in_order() {
    let (system, span) = (system(), Time::from_nanos(50_000.0));
    let cluster = Cluster::new(&system, 2, Fidelity::Packet);
    let process = cluster.process(0);
    let log = Rc::new(RefCell::new(Vec::new()));
    let bytes = load(&system, span, 2.0);
    let own = process.clone();
    let ended = Rc::new(RefCell::new(Time::ZERO));
    let told = ended.clone();
    cluster.sim().start(async move {
        own.compute(Time::from_nanos(100.0)).await;
        own.compute_over_memory(span, bytes).await;
        told.replace(own.now());
    });
    for number in 1..=3u64 {
        let (process, log) = (process.clone(), log.clone());
        cluster.sim().start(async move {
            process
                .sim()
                .sleep(Time::from_nanos(1000.0 * number as f64))
                .await;
            process.compute(Time::from_nanos(10.0)).await;
            log.borrow_mut().push((number, process.now()));
        });
    }
    cluster.sim().run();
    let ended = *ended.borrow();
    assert!(ended > Time::from_nanos(100_000.0), "{ended}");
    let expected: Vec<_> = (1..=3)
        .map(|number| (number, ended + Time::from_nanos(10.0) * number))
        .collect();
    assert_eq!(*log.borrow(), expected);
    cluster.finish();
}

#[test]
fn messages_satisfy_the_machine_invariants() {
    let (system, span) = (system(), Time::from_nanos(200_000.0));
    let cluster = Cluster::new(&system, 2, Fidelity::Packet);
    let world = World::new(&cluster, vec![0, 0, 1, 1]);
    let bytes = load(&system, span, 0.9);
    for number in 0..4 {
        let rank = world.rank(number);
        cluster.sim().start(async move {
            let (peer, beside) = ((number + 2) % 4, number ^ 1);
            for size in [64, 4096, 100_000, 1_000_000] {
                let received = rank.begin_receive(peer);
                let sent = rank.begin_send(peer, size);
                rank.process().compute_over_memory(span, bytes).await;
                sent.await;
                received.await;
                rank.exchange(beside, size, beside).await;
            }
        });
    }
    cluster.sim().run();
    let node = cluster.node(0);
    let memory = node.memory();
    assert!(memory.carried() > 2 * 4 * bytes);
    let most = cluster.sim().now().seconds() * system.host.memory.bandwidth.0;
    assert!(memory.carried() as f64 <= most);
    assert_eq!(cluster.audit().breaches(), Vec::<String>::new());
    cluster.finish();
}
