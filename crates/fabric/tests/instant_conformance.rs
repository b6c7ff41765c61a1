//! The in-process fabric keeps the contract of the fabric interface.

use verbena_fabric::conformance::{CHECKS, Outcome, check};
use verbena_fabric::instant::{NoTime, run_job};
use verbena_fabric::simulated_limits::SimulatedLimits;

#[test]
fn the_instant_fabric_conforms() {
    for name in CHECKS {
        let outcomes = run_job(2, NoTime, async |process| check(&process, name).await);
        assert_eq!(outcomes, [Ok(Outcome::Holds), Ok(Outcome::Holds)], "{name}");
    }
}

#[test]
fn the_planted_fabric_conforms() {
    for name in CHECKS {
        let outcomes =
            SimulatedLimits::default().run_job(2, async |process| check(&process, name).await);
        assert_eq!(outcomes, [Ok(Outcome::Holds), Ok(Outcome::Holds)], "{name}");
    }
}

#[test]
fn a_deadlocked_wait_ends_with_an_error() {
    use verbena_fabric::{Access, Error, Fabric, Region};
    let results = run_job(1, NoTime, async |process| {
        let region = process.region(64, Access::ALL).await.expect("memory");
        region.until_byte(0, 1).await
    });
    assert!(
        matches!(results[0], Err(Error::Stalled { .. })),
        "{results:?}"
    );
}
