//! The fabric over the timing models keeps the seam's contract, at both fidelities, on every kind of adapter.

use verbena_fabric::conformance::{CHECKS, Outcome, check};
use verbena_fabric::model::{Fidelity, Job, run_job};
use verbena_fabric::{Access, Error, Fabric, Region};
use verbena_model::profile::{Library, Overrides, System};

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

#[test]
fn models_keep_every_rule() {
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

#[test]
fn a_wait_for_what_never_comes_ends_and_the_others_are_told_after() {
    let job = Job::new(&system("connectx-ddr"), 2, 2);
    let ended = run_job(&job, async |process| {
        use verbena_fabric::Group;
        let region = process.region(64, Access::ALL).await?;
        if process.group().rank() == 0 {
            // The other waits in the exchange meanwhile; it is not the one at fault.
            let waited = region.until_byte(0, 1).await;
            assert!(matches!(waited, Err(Error::Stalled { .. })), "{waited:?}");
        }
        process.group().all_gather(&[]).await.map(|all| all.len())
    })
    .expect("the job ends");
    assert_eq!(ended, [Ok(2), Ok(2)]);
}

#[test]
fn processes_beyond_the_cores_share_them() {
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
