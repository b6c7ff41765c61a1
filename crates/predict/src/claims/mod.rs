//! The published claims: every figure of the papers, computed from the profiles and held against what was published.
//!
//! A claim is data (`papers/claims.toml`); how it is measured is in a file per paper, which runs benchmarks on modelled
//! systems and knows no published value: those of the suite where it has the benchmark ([`crate::suite`]), others for
//! what it has not ([`crate::bench`]): several ports, sends both ways, datagram streams, message passing, IP, files.

pub(crate) mod connectx_multicore;
mod load;
pub(crate) mod memfree;
pub(crate) mod pci_express;
pub(crate) mod qdr_evaluation;
pub(crate) mod rfio_infiniband;
mod verdict;

pub use load::{Claim, ClaimError, ClaimKind, shipped};
pub use verdict::{Evaluated, Verdict};

use crate::workers::in_order;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use verbena_model::profile::{
    Applications, Ethernet, FileService, Library, Link, Profile, ProfileKind, Stack, System,
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
        /// What was seen, in words.
        seen: String,
        /// The figures behind it.
        figures: Vec<f64>,
    },
}

impl Outcome {
    /// Its figures, in an order that is always the same.
    pub fn figures(&self) -> Vec<f64> {
        match self {
            Outcome::Figure(figure) => vec![*figure],
            Outcome::Figures(figures) => figures.values().copied().collect(),
            Outcome::Shape { figures, .. } => figures.clone(),
        }
    }
}

/// Profiles at hand for the measurements; it remembers which were asked for.
pub(crate) struct Bench<'a> {
    library: &'a Library,
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
            asked: Mutex::default(),
        }
    }

    /// Kinds and names of the systems and other profiles that were asked for.
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
        self.library
            .system(name)
            .unwrap_or_else(|e| panic!("a claim's system is shipped: {e}"))
    }

    /// A system with another message-passing library.
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

/// What the models say to a claim; `None` if nothing measures it.
pub(crate) fn measure(bench: &Bench<'_>, id: &str) -> Option<Outcome> {
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

/// Evaluates claims on `threads` threads; the result does not depend on their number. `told` gets
/// each claim's place and value as soon as it is computed.
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

/// The geometric mean.
fn mean_ratio(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.into_iter().fold((0.0, 0.0), |(sum, count), ratio| {
        (sum + ratio.ln(), count + 1.0)
    });
    f64::exp(sum / count)
}
