//! The fabric over the timing models keeps the contract of the fabric interface, at both
//! fidelities, on every kind of adapter.

use verbena_fabric::conformance::{CHECKS, Outcome, check};
use verbena_fabric::model::{Fidelity, Job, Machine, run_audited, run_job};
use verbena_fabric::{Access, Error, Fabric, Region};
use verbena_model::profile::{Library, Overrides, System};

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

#[test]
fn models_conform() {
    for name in ["connectx-ddr", "infinihost3-ddr", "infinihost-pcix"] {
        for fidelity in [Fidelity::Packet, Fidelity::Message] {
            for nodes in [1, 2] {
                let job = Job::new(&system(name), 2, nodes).fidelity(fidelity);
                for rule in CHECKS {
                    let outcomes = run_job(&job, async move |process| check(&process, rule).await)
                        .expect("the job ends");
                    let expected = match rule {
                        "gather-scatter" => Outcome::NotOffered,
                        _ => Outcome::Holds,
                    };
                    for outcome in outcomes {
                        assert_eq!(
                            outcome,
                            Ok(expected.clone()),
                            "{name}, {nodes} nodes, {rule}"
                        );
                    }
                }
            }
        }
    }
}

fn software() -> Machine {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let profile = library.software("software").expect("is shipped");
    Machine::Software {
        name: "software".to_owned(),
        profile: profile.clone(),
    }
}

#[test]
fn the_software_adapter_model_conforms() {
    for rule in CHECKS {
        let job = Job::new(software(), 2, 1);
        let (outcomes, audit) = run_audited(&job, async move |process| check(&process, rule).await)
            .unwrap_or_else(|error| panic!("{rule}: {error}"));
        let expected = match rule {
            "gather-scatter" => Outcome::NotOffered,
            _ => Outcome::Holds,
        };
        for outcome in outcomes {
            assert_eq!(outcome, Ok(expected.clone()), "{rule}");
        }
        let busy = audit.usage.iter().all(|usage| usage.busy <= audit.now);
        assert!(busy, "{rule}: {:?}", audit.usage);
    }
}

#[test]
fn a_deadlocked_wait_ends_before_the_exchange_of_the_others() {
    let job = Job::new(&system("connectx-ddr"), 2, 2);
    let ended = run_job(&job, async |process| {
        use verbena_fabric::Group;
        let region = process.region(64, Access::ALL).await?;
        if process.group().rank() == 0 {
            // The other process waits in the exchange meanwhile; its wait must not fail.
            let waited = region.until_byte(0, 1).await;
            assert!(matches!(waited, Err(Error::Stalled { .. })), "{waited:?}");
        }
        process.group().all_gather(&[]).await.map(|all| all.len())
    })
    .expect("the job ends");
    assert_eq!(ended, [Ok(2), Ok(2)]);
}

#[test]
fn more_processes_than_cores_share_the_cores() {
    let mut system = system("connectx-ddr");
    system.host.cpu.cores.0 = 2;
    let end = |size| {
        let job = Job::new(&system, size, 1);
        run_job(&job, async |process| {
            process.compute(std::time::Duration::from_micros(3)).await;
            process.now().0
        })
        .expect("the job ends")
        .into_iter()
        .max()
    };
    assert_eq!(end(2), Some(3_000_000));
    assert_eq!(end(4), Some(6_000_000));
}

/// Returns the rate in bytes per second of writes over two queue pairs of a process.
fn over_two_pairs(system: &str) -> f64 {
    use verbena_fabric::*;
    const SIZE: usize = 65_536;
    const EACH: u64 = 40;
    let job = Job::new(&self::system(system), 2, 2);
    let seconds = run_job(&job, async |process| -> Result<f64> {
        let group = process.group();
        let region = process.region(SIZE, Access::ALL).await?;
        let wait = Wait::Poll;
        let queue = process
            .completions(QueueRequest { depth: 256, wait })
            .await?;
        let pairs = [
            process.pair(PairRequest::rc(&queue)).await?,
            process.pair(PairRequest::rc(&queue)).await?,
        ];
        let mut mine = region.remote().to_bytes().to_vec();
        for pair in &pairs {
            mine.extend(pair.endpoint().to_bytes());
        }
        let all = group.all_gather(&mine).await?;
        let told = &all[1 - group.rank()];
        let to = RemoteRegion::from_bytes(&told[..RemoteRegion::BYTES])?.at(0);
        for (pair, told) in pairs
            .iter()
            .zip(told[RemoteRegion::BYTES..].chunks(Endpoint::BYTES))
        {
            pair.connect(&Endpoint::from_bytes(told)?).await?;
        }
        let start = group.align(&[0, 1]).await?;
        if group.rank() == 0 {
            let local = [Slice::new(&region, 0, SIZE)];
            for id in 0..EACH {
                for pair in &pairs {
                    pair.post_send(&[WorkRequest::new(id, Operation::Write { to }, &local)])
                        .await?;
                }
            }
            for _ in 0..2 * EACH {
                queue.one(wait).await?;
            }
        }
        let nanos = process.clock().nanos(process.now().since(start));
        // The peer's memory must stay registered until the last byte has arrived.
        group.all_gather(&[]).await?;
        Ok(nanos / 1e9)
    })
    .expect("the job ends");
    let seconds = seconds[0].clone().expect("writes complete");
    2.0 * EACH as f64 * SIZE as f64 / seconds
}

#[test]
fn queue_pairs_share_all_ports_of_an_adapter() {
    let (one, both) = (
        over_two_pairs("infinihost3-mem-sdr"),
        over_two_pairs("infinihost3-mem-sdr-2port"),
    );
    assert!(both > 1.3 * one, "{one} over one port, {both} over two");
}
