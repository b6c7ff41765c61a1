//! Evaluates the published claims: computes every figure of the papers from the profiles and
//! compares it with the published value.
//!
//! Claims are data (`papers/claims.toml`). A file per paper measures them by benchmarks on modelled
//! systems and contains no published value. Benchmarks are the suite's where it has them
//! ([`crate::suite`]), otherwise the models' own ([`crate::bench`]): several ports, sends in both
//! directions, datagram streams, message passing, IP, files.

pub(crate) mod connectx_multicore;
mod load;
pub(crate) mod memfree;
pub(crate) mod pci_express;
pub(crate) mod qdr_evaluation;
pub(crate) mod rfio_infiniband;
mod verdict;

pub use connectx_multicore::{Quantity, Setup};
pub(crate) use connectx_multicore::{live, of_setups};
pub use load::{Claim, ClaimError, ClaimKind, shipped};
pub use verdict::{Evaluated, Verdict};

use crate::workers::in_order;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use verbena_model::profile::{
    Applications, Ethernet, FileService, Library, Link, Profile, ProfileKind, Stack, System,
};

/// The model's result for a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Computed {
    /// One figure, in the claim's unit.
    Figure(f64),
    /// Several figures, by name.
    Figures(BTreeMap<String, f64>),
    /// Whether a curve has the claimed shape.
    Shape {
        /// True if it has the shape.
        holds: bool,
        /// Description of the observed shape.
        seen: String,
        /// The figures behind it.
        figures: Vec<f64>,
    },
}

impl Computed {
    /// Returns its figures in a fixed order.
    pub fn figures(&self) -> Vec<f64> {
        match self {
            Computed::Figure(figure) => vec![*figure],
            Computed::Figures(figures) => figures.values().copied().collect(),
            Computed::Shape { figures, .. } => figures.clone(),
        }
    }
}

/// Profiles for the measurements; records which ones were used.
pub(crate) struct Bench<'a> {
    library: &'a Library,
    anchored: Option<&'a System>,
    asked: Mutex<BTreeSet<(ProfileKind, String)>>,
}

macro_rules! parts {
    ($($(#[$doc:meta])* $method:ident($name:expr): $kind:ident;)*) => {
        $(pub fn $method(&self) -> $kind {
            match self.part(ProfileKind::$kind, $name) {
                Some(Profile::$kind(part)) => part.clone(),
                _ => panic!("the profile {} is shipped", $name),
            }
        })*
    };
}

impl<'a> Bench<'a> {
    pub fn new(library: &'a Library) -> Bench<'a> {
        Bench {
            library,
            anchored: None,
            asked: Mutex::default(),
        }
    }

    /// Replaces the library's system of this name by `system`.
    pub fn anchored(library: &'a Library, system: &'a System) -> Bench<'a> {
        Bench {
            anchored: Some(system),
            ..Bench::new(library)
        }
    }

    /// Returns kinds and names of the systems and other profiles that were used.
    pub fn asked(self) -> BTreeSet<(ProfileKind, String)> {
        self.asked.into_inner().expect("no measurement panicked")
    }

    fn ask(&self, kind: ProfileKind, name: &str) {
        let mut asked = self.asked.lock().expect("no measurement panicked");
        asked.insert((kind, name.to_owned()));
    }

    fn part(&self, kind: ProfileKind, name: &str) -> Option<&Profile> {
        self.ask(kind, name);
        self.library.profile(kind, name)
    }

    pub fn system(&self, name: &str) -> System {
        self.ask(ProfileKind::System, name);
        if let Some(system) = self.anchored.filter(|system| system.name == name) {
            return system.clone();
        }
        self.library
            .system(name)
            .unwrap_or_else(|e| panic!("a claim's system is shipped: {e}"))
    }

    /// Returns a system with another message-passing library.
    pub fn system_with(&self, name: &str, mpi: &str) -> System {
        match self.part(ProfileKind::Mpi, mpi) {
            Some(Profile::Mpi(mpi)) => System {
                mpi: Some(mpi.clone()),
                ..self.system(name)
            },
            _ => panic!("the profile {mpi} is shipped"),
        }
    }

    pub fn link(&self, name: &str) -> Link {
        match self.part(ProfileKind::Link, name) {
            Some(Profile::Link(link)) => link.clone(),
            _ => panic!("the profile {name} is shipped"),
        }
    }

    parts! {
        stack("ipoib"): Stack;
        ethernet("ethernet"): Ethernet;
        service("rfio"): FileService;
        applications("programs"): Applications;
    }
}

/// Returns the model's result for a claim; `None` if no benchmark measures it.
pub(crate) fn measure(bench: &Bench<'_>, id: &str) -> Option<Computed> {
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

/// Evaluates claims on `threads` threads; the result does not depend on their number. Calls `told`
/// with each claim's index and result as soon as it is computed.
pub fn evaluate(
    library: &Library,
    claims: &[Claim],
    threads: usize,
    told: &(impl Fn(usize, &Evaluated) + Sync),
) -> Vec<Evaluated> {
    let bench = Bench::new(library);
    in_order(threads, claims.len(), |number| {
        let claim = &claims[number];
        let evaluated = Evaluated::new(claim.clone(), measure(&bench, &claim.id));
        told(number, &evaluated);
        evaluated
    })
}

fn mean_ratio(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.into_iter().fold((0.0, 0.0), |(sum, count), ratio| {
        (sum + ratio.ln(), count + 1.0)
    });
    f64::exp(sum / count)
}
