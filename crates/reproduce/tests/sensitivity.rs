//! Every fitted value explains several claims, except those listed in
//! docs/models-profiles.md. This takes minutes, so `make nightly` runs it.

use verbena_model::profile::{Library, Overrides};
use verbena_reproduce::claims::shipped;
use verbena_reproduce::sensitivity::sensitivity;

/// Values that affect fewer than two claims, as documented in docs/models-profiles.md.
const ALONE: [&str; 5] = [
    "mvapich-0.9.2.intranode_buffer",
    "mvapich-0.9.4.intranode",
    "xeon-e7501.cpu.copy",
    "xeon-e7501.memory.bandwidth",
    "xeon-e7501.pcix.bridge",
];

#[test]
#[ignore = "takes minutes"]
fn only_the_listed_fitted_values_serve_a_single_claim() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let claims = shipped().expect("the claims are sound");
    let results = sensitivity(&library, &claims, 2, |_| ());
    let mut alone: Vec<&str> = results
        .iter()
        .filter(|result| result.moves.len() < 2)
        .map(|result| result.path.as_str())
        .collect();
    alone.sort_unstable();
    assert_eq!(alone, ALONE);
}
