//! The figures of the paper `connectx_multicore` by programs that run with the times of its
//! adapters, beside the published and the modelled ones: the measurements that a machine can make,
//! and the tables. MPI's are not published for few processes; they are beside the modelled ones.

use crate::claims::{Claim, Computed, Evaluated, Setup, live, of_setups};
use crate::table;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use verbena_model::profile::Library;

pub use crate::claims::Quantity;

/// The paper.
pub const PAPER: &str = "connectx_multicore";

/// Its systems.
const SYSTEMS: [&str; 2] = ["infinihost3-ddr", "connectx-ddr"];

/// Its numbers of pairs.
const PAIRS: [usize; 4] = [1, 2, 4, 8];

/// Measurements of Figure 2 that are shown for each number of pairs.
const CURVES: [(Quantity, u64); 4] = [
    (Quantity::WriteLatency, 128),
    (Quantity::ReadLatency, 1),
    (Quantity::WriteBandwidth, 256),
    (Quantity::WriteBandwidth, 65536),
];

/// Measurements by MPI, with the pairs of their processes. Each node has one process, as MPI
/// libraries send by shared memory within a node.
const MPI: [(Quantity, u64, usize); 4] = [
    (Quantity::MpiLatency, 1, 1),
    (Quantity::MpiLatency, 65536, 1),
    (Quantity::MpiBandwidth, 65536, 1),
    (Quantity::MpiHalo, 8, 2),
];

/// A measurement with the times of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Emulated {
    /// The figure, in the unit of its quantity.
    pub figure: f64,
    /// How well the run kept to the times.
    pub verdict: String,
}

/// A statement of the paper that this machine cannot show, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omitted {
    /// Its name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// The measurements that a machine can make.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The measurements.
    pub setups: Vec<Setup>,
    /// The claims that follow from them.
    pub claims: Vec<Claim>,
    /// The others.
    pub omitted: Vec<Omitted>,
}

impl Plan {
    /// Returns the measurements of the paper's claims that `processors` processors can make: each
    /// process polls and needs one. `no_mpi` is the reason why those by MPI cannot be made.
    pub fn of(claims: &[Claim], processors: usize, no_mpi: Option<&str>) -> Plan {
        let mut setups = BTreeSet::new();
        let mut plan = Plan {
            setups: Vec::new(),
            claims: Vec::new(),
            omitted: Vec::new(),
        };
        let lacking = |pairs: usize| {
            let needed = 2 * pairs;
            format!(
                "{needed} polling processes need {needed} processors, this machine has {processors}"
            )
        };
        for claim in claims.iter().filter(|claim| claim.paper() == PAPER) {
            let needed = needed(claim);
            let pairs = needed.iter().map(|setup| setup.pairs).max();
            let reason = match pairs {
                None => "neither perftest nor an MPI benchmark measures it".to_owned(),
                Some(pairs) if 2 * pairs > processors => lacking(pairs),
                Some(_) => {
                    setups.extend(needed);
                    plan.claims.push(claim.clone());
                    continue;
                }
            };
            let name = claim.id.clone();
            plan.omitted.push(Omitted { name, reason });
        }
        for (quantity, bytes) in CURVES {
            for pairs in PAIRS {
                let of_both = SYSTEMS.map(|system| Setup {
                    system,
                    quantity,
                    bytes,
                    pairs,
                });
                if 2 * pairs <= processors {
                    setups.extend(of_both);
                    continue;
                }
                for setup in of_both {
                    let (name, reason) = (setup.name(), lacking(pairs));
                    plan.omitted.push(Omitted { name, reason });
                }
            }
        }
        for (quantity, bytes, pairs) in MPI {
            let reason = match no_mpi {
                Some(reason) => Some(reason.to_owned()),
                None => (2 * pairs > processors).then(|| lacking(pairs)),
            };
            for system in SYSTEMS {
                let setup = Setup {
                    system,
                    quantity,
                    bytes,
                    pairs,
                };
                match &reason {
                    None => drop(setups.insert(setup)),
                    Some(reason) => plan.omitted.push(Omitted {
                        name: setup.name(),
                        reason: reason.clone(),
                    }),
                }
            }
        }
        plan.setups = setups.into_iter().collect();
        plan
    }
}

/// Returns the measurements that a claim needs; none for a claim about something else than verbs.
fn needed(claim: &Claim) -> BTreeSet<Setup> {
    let mut needed = BTreeSet::new();
    let what = claim.id.split_once('.').map_or("", |(_, what)| what);
    of_setups(what, &mut |setup| {
        needed.insert(setup);
        1.0
    });
    needed
}

/// The figures of a plan.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Figures of the models, measured as in the paper.
    pub modelled: BTreeMap<Setup, f64>,
    /// Figures of the models, measured as the programs do.
    pub as_run: BTreeMap<Setup, f64>,
    /// Figures of programs, or the reason why there is none.
    pub emulated: BTreeMap<Setup, Result<Emulated, String>>,
}

impl Figures {
    /// Computes the figures of the models.
    pub fn modelled(library: &Library, plan: &Plan) -> Figures {
        let mut figures = Figures::default();
        for setup in &plan.setups {
            if let Ok(system) = library.system(setup.system) {
                figures.modelled.insert(*setup, setup.modelled(&system));
                figures.as_run.insert(*setup, live(*setup, &system));
            }
        }
        figures
    }

    /// Returns the tables: measurements, claims, and the statements that are not shown.
    pub fn text(&self, plan: &Plan) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{:<55} {:>9} {:>8} {:>8} {:>8} {:>8}  timing",
            "measurement", "published", "modelled", "as run", "emulated", "off"
        );
        for setup in &plan.setups {
            let published = plan.claims.iter().find(|claim| is_only(claim, *setup));
            let published = published.and_then(|claim| claim.value);
            let modelled = self.modelled.get(setup).copied();
            let as_run = self.as_run.get(setup).copied();
            let (emulated, verdict) = match self.emulated.get(setup) {
                Some(Ok(emulated)) => (Some(emulated.figure), emulated.verdict.as_str()),
                Some(Err(reason)) => (None, reason.as_str()),
                None => (None, "not measured"),
            };
            let off = emulated.zip(as_run).map(|(one, other)| one / other - 1.0);
            let _ = writeln!(
                out,
                "{:<55} {:>9} {:>8} {:>8} {:>8} {:>8}  {verdict}",
                setup.name(),
                shown(published),
                shown(modelled),
                shown(as_run),
                shown(emulated),
                off.map_or("-".to_owned(), |off| format!("{:+.1} %", 100.0 * off)),
            );
        }
        let _ = writeln!(
            out,
            "as run: the model, measured as perftest does it: latencies on ConnectX inline, pairs \
             not in step; by MPI with the library of the paper, not the installed one"
        );
        let _ = writeln!(
            out,
            "\n{:<50} {:>16}  {:>26}  {:>26}",
            "claim", "published", "modelled", "emulated"
        );
        for claim in &plan.claims {
            let modelled = |setup: Setup| self.modelled.get(&setup).copied();
            let emulated = |setup: Setup| Some(self.emulated.get(&setup)?.as_ref().ok()?.figure);
            let [modelled, emulated] = [evaluated(claim, modelled), evaluated(claim, emulated)];
            let _ = writeln!(
                out,
                "{:<50} {:>16}  {:>26}  {:>26}",
                claim.id,
                table::published(&modelled),
                table::model(&modelled),
                table::model(&emulated),
            );
        }
        if !plan.omitted.is_empty() {
            let _ = writeln!(out, "\nnot shown:");
        }
        for Omitted { name, reason } in &plan.omitted {
            let _ = writeln!(out, "{name}: {reason}");
        }
        out
    }
}

fn shown(figure: Option<f64>) -> String {
    figure.map_or("-".to_owned(), |figure| match figure < 100.0 {
        true => format!("{figure:.2}"),
        false => format!("{figure:.0}"),
    })
}

/// Returns whether a claim is about this measurement alone.
fn is_only(claim: &Claim, setup: Setup) -> bool {
    needed(claim).into_iter().eq([setup])
}

/// Returns the result for a claim; none of its figures may be missing.
fn evaluated(claim: &Claim, figure: impl Fn(Setup) -> Option<f64>) -> Evaluated {
    let what = claim.id.split_once('.').map_or("", |(_, what)| what);
    let mut is_complete = true;
    let computed = of_setups(what, &mut |setup| {
        figure(setup).unwrap_or_else(|| {
            is_complete = false;
            f64::NAN
        })
    });
    let computed: Option<Computed> = computed.filter(|_| is_complete);
    Evaluated::new(claim.clone(), computed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::shipped;
    use verbena_model::profile::Overrides;

    #[test]
    fn each_claim_of_the_paper_is_shown_or_omitted_with_a_reason() {
        let claims = shipped().unwrap();
        let of_paper = claims.iter().filter(|claim| claim.paper() == PAPER).count();
        for processors in [1, 2, 4, 15, 16, 1024] {
            let plan = Plan::of(&claims, processors, None);
            let is_claim = |one: &&Omitted| one.name.starts_with(PAPER);
            let omitted = plan.omitted.iter().filter(is_claim).count();
            assert_eq!(plan.claims.len() + omitted, of_paper);
            assert!(plan.setups.iter().all(|one| 2 * one.pairs <= processors));
            assert!(plan.claims.iter().all(|claim| {
                let mut needed = needed(claim).into_iter();
                needed.all(|setup| plan.setups.contains(&setup))
            }));
        }
        assert!(Plan::of(&claims, 1, None).setups.is_empty());
        assert_eq!(Plan::of(&claims, 2, None).claims.len(), 6);
        let all = Plan::of(&claims, 16, None);
        assert!(
            all.omitted
                .iter()
                .all(|one| one.reason.starts_with("neither perftest"))
        );
    }

    #[test]
    fn mpi_is_measured_on_both_adapters_or_omitted_with_a_reason() {
        let claims = shipped().unwrap();
        let by_mpi = |plan: &Plan| {
            let of_setups = plan.setups.iter();
            of_setups.filter(|one| one.quantity.mpi().is_some()).count()
        };
        let omitted = |plan: &Plan, why: &str| {
            let is_meant = |one: &&Omitted| one.name.contains("MPI") && one.reason.contains(why);
            plan.omitted.iter().filter(is_meant).count()
        };
        let two = Plan::of(&claims, 2, None);
        assert_eq!((by_mpi(&two), omitted(&two, "4 processors")), (6, 2));
        let four = Plan::of(&claims, 4, None);
        assert_eq!((by_mpi(&four), omitted(&four, "")), (8, 0));
        let none = Plan::of(&claims, 4, Some("no mpicc"));
        assert_eq!((by_mpi(&none), omitted(&none, "no mpicc")), (0, 8));
        let library = Library::shipped(&Overrides::default()).unwrap();
        let figures = Figures::modelled(&library, &two);
        let is_there = |one: &&Setup| one.quantity.mpi().is_some();
        for setup in two.setups.iter().filter(is_there) {
            let modelled = figures.modelled[setup];
            assert!(
                modelled > 0.0 && figures.as_run[setup] == modelled,
                "{}",
                setup.name()
            );
        }
    }

    #[test]
    fn figures_are_shown_side_by_side_and_missing_ones_as_missing() {
        let claims = shipped().unwrap();
        let plan = Plan::of(&claims, 2, None);
        let mut figures = Figures::default();
        for setup in &plan.setups {
            figures.modelled.insert(*setup, 1.9);
            figures.as_run.insert(*setup, 2.0);
            let emulated = Emulated {
                figure: 2.1,
                verdict: "good".to_owned(),
            };
            figures.emulated.insert(*setup, Ok(emulated));
        }
        let text = figures.text(&plan);
        assert!(
            text.contains("1.90     2.00     2.10   +5.0 %  good"),
            "{text}"
        );
        let read = plan
            .setups
            .iter()
            .find(|one| one.quantity == Quantity::ReadLatency);
        figures
            .emulated
            .insert(*read.unwrap(), Err("it failed".to_owned()));
        let text = figures.text(&plan);
        assert!(text.contains("it failed"), "{text}");
        assert!(
            text.contains("needs") || text.contains("need 4 processors"),
            "{text}"
        );
    }
}
