//! The published claims: every figure of the papers, computed from the profiles and held against what was published.
//!
//! A claim is data (`papers/claims.toml`); how it is measured is in a file per paper, which runs benchmarks on modelled
//! systems and knows no published value: those of the suite where it has the benchmark ([`crate::suite`]), others for
//! what it has not ([`crate::bench`]): several ports, sends both ways, datagram streams, message passing, IP, files.

mod connectx_multicore;
mod load;
mod memfree;
mod pci_express;
mod qdr_evaluation;
mod rfio_infiniband;
mod verdict;

pub use load::{Claim, ClaimError, ClaimKind, shipped};
pub use verdict::{Evaluated, Verdict};

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use verbena_model::profile::{
    Applications, Ethernet, FileService, Library, Link, Profile, Stack, System,
};

/// What the model says to a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// One figure, in the claim's unit.
    Figure(f64),
    /// Several, by name.
    Figures(BTreeMap<String, f64>),
    /// Whether a curve has the shape, and what was seen.
    Shape {
        /// It has.
        holds: bool,
        /// The figures behind it.
        seen: String,
    },
}

/// Profiles at hand for the measurements.
pub(crate) struct Bench<'a> {
    library: &'a Library,
}

impl Bench<'_> {
    fn system(&self, name: &str) -> System {
        self.library
            .system(name)
            .unwrap_or_else(|e| panic!("a claim's system is shipped: {e}"))
    }

    fn stack(&self) -> Stack {
        match self.library.profile("ipoib") {
            Some(Profile::Stack(stack)) => stack.clone(),
            _ => panic!("the stack profile is shipped"),
        }
    }

    fn ethernet(&self) -> Ethernet {
        match self.library.profile("ethernet") {
            Some(Profile::Ethernet(ethernet)) => ethernet.clone(),
            _ => panic!("the ethernet profile is shipped"),
        }
    }

    fn service(&self) -> FileService {
        match self.library.profile("rfio") {
            Some(Profile::FileService(service)) => service.clone(),
            _ => panic!("the file service profile is shipped"),
        }
    }

    fn applications(&self) -> Applications {
        match self.library.profile("skeletons") {
            Some(Profile::Applications(applications)) => applications.clone(),
            _ => panic!("the applications profile is shipped"),
        }
    }

    fn link(&self, name: &str) -> Link {
        match self.library.profile(name) {
            Some(Profile::Link(link)) => link.clone(),
            _ => panic!("the link profile is shipped"),
        }
    }
}

fn measure(bench: &Bench<'_>, id: &str) -> Option<Outcome> {
    let (paper, what) = id.split_once('.')?;
    match paper {
        "connectx_multicore" => connectx_multicore::measure(bench, what),
        "qdr_evaluation" => qdr_evaluation::measure(bench, what),
        "pci_express" => pci_express::measure(bench, what),
        "memfree" => memfree::measure(bench, what),
        "rfio_infiniband" => rfio_infiniband::measure(bench, what),
        _ => None,
    }
}

/// Evaluates claims on `threads` threads; the result does not depend on their number.
pub fn evaluate(library: &Library, claims: &[Claim], threads: usize) -> Vec<Evaluated> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Evaluated>>> = claims.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let bench = Bench { library };
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(claim) = claims.get(place) else {
                        return;
                    };
                    let outcome = measure(&bench, &claim.id);
                    let evaluated = Evaluated::new(claim.clone(), outcome);
                    *results[place].lock().expect("no evaluation panicked") = Some(evaluated);
                }
            });
        }
    });
    results
        .into_iter()
        .map(|cell| {
            cell.into_inner()
                .expect("no evaluation panicked")
                .expect("every claim was taken")
        })
        .collect()
}

/// The geometric mean.
fn mean_ratio(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.into_iter().fold((0.0, 0.0), |(sum, count), ratio| {
        (sum + ratio.ln(), count + 1.0)
    });
    f64::exp(sum / count)
}
