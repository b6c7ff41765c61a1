//! The published claims on a system that is anchored to measurements, beside the blind model.

use crate::claims::{Bench, Evaluated, measure};
use crate::table;
use crate::workers::in_order;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use verbena_model::profile::{Library, ProfileKind, System};

/// A claim, blind and anchored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimPair {
    /// On the system of the profiles.
    pub blind: Evaluated,
    /// On the anchored system.
    pub anchored: Evaluated,
}

/// The claims on an anchored system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnchoredClaims {
    /// Name of the system.
    pub system: String,
    /// Its anchors, and how well it fits them.
    pub remarks: Vec<String>,
    /// Claims with another result than on the blind system.
    pub changed: Vec<ClaimPair>,
    /// Systems on which the claims are computed.
    pub systems: BTreeSet<String>,
    /// Number of claims.
    pub all: usize,
}

impl AnchoredClaims {
    /// Computes the claims of `blind` on a system with corrections, on `threads` threads; the
    /// result does not depend on their number.
    pub fn of(
        library: &Library,
        system: &System,
        blind: &[Evaluated],
        threads: usize,
    ) -> AnchoredClaims {
        let bench = Bench::anchored(library, system);
        let pairs = in_order(threads, blind.len(), |number| {
            let blind = blind[number].clone();
            let claim = blind.claim.clone();
            let outcome = measure(&bench, &claim.id);
            let anchored = Evaluated::new(claim, outcome);
            ClaimPair { blind, anchored }
        });
        let differs = |pair: &ClaimPair| pair.blind.outcome != pair.anchored.outcome;
        let asked = bench.asked().into_iter();
        let systems = asked.filter(|(kind, _)| *kind == ProfileKind::System);
        AnchoredClaims {
            system: system.name.clone(),
            remarks: Vec::new(),
            changed: pairs.into_iter().filter(differs).collect(),
            systems: systems.map(|(_, name)| name).collect(),
            all: blind.len(),
        }
    }

    /// Returns the claims as data.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    /// Returns the changed claims as a table, and a sentence.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.changed.is_empty() {
            let _ = writeln!(
                out,
                "{:<56} {:>26}  {:>16} {:>8}  {:>16} {:>8}",
                "claim", "published", "blind", "error", "anchored", "error"
            );
        }
        for ClaimPair { blind, anchored } in &self.changed {
            let _ = writeln!(
                out,
                "{:<56} {:>26}  {:>16} {:>8}  {:>16} {:>8}",
                blind.claim.id,
                table::published(blind),
                table::model(blind),
                table::error(blind),
                table::model(anchored),
                table::error(anchored)
            );
        }
        let _ = writeln!(out, "{}", self.sentence());
        out
    }

    fn sentence(&self) -> String {
        let system = &self.system;
        if !self.systems.contains(system) {
            let systems: Vec<&str> = self.systems.iter().map(String::as_str).collect();
            return format!(
                "No claim is computed on {system}, so the anchors change none; the claims' \
                 systems are {}.",
                systems.join(", ")
            );
        }
        match self.changed.len() {
            0 => format!(
                "No claim changes on the anchored {system}: those of this system are of other \
                 operations."
            ),
            changed => format!(
                "{changed} of {} claims change on the anchored {system}. All verdicts and means \
                 are those of the blind model.",
                self.all
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{evaluate, shipped};
    use crate::figures::draw;
    use verbena_model::correction::{Correction, Offset, Operation};
    use verbena_model::profile::Overrides;

    /// Returns a system of the library whose writes take 1 us longer.
    fn slower(library: &Library, name: &str) -> System {
        let mut system = library.system(name).expect("the system is shipped");
        let correction = Correction {
            latency: Offset::from_nanos(1000.0),
            ..Correction::default()
        };
        system.corrections.set(Operation::Write, correction);
        system
    }

    fn library() -> Library {
        Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
    }

    #[test]
    fn claims_of_the_anchored_operation_change_and_no_others() {
        let (library, mut claims) = (library(), shipped().expect("the claims are sound"));
        let wanted = ["latency_qdr_switched", "latency_ddr_switched", "n_half"];
        claims.retain(|one| wanted.iter().any(|name| one.id.ends_with(name)));
        assert_eq!(claims.len(), 3);
        let blind = evaluate(&library, &claims, 2, &|_, _| ());
        let system = slower(&library, "connectx-qdr");
        let claims = AnchoredClaims::of(&library, &system, &blind, 2);
        let names = claims
            .changed
            .iter()
            .map(|pair| pair.blind.claim.id.as_str());
        let names: Vec<&str> = names.collect();
        assert_eq!(names, ["qdr_evaluation.latency_qdr_switched"]);
        let figures = |one: &Evaluated| one.outcome.as_ref().expect("a figure").figures()[0];
        let pair = &claims.changed[0];
        let added = figures(&pair.anchored) - figures(&pair.blind);
        assert!((0.9..1.1).contains(&added), "{added}");
        assert!(
            claims.text().contains("1 of 3 claims change"),
            "{}",
            claims.text()
        );
    }

    #[test]
    fn system_without_claims_is_named() {
        let (library, mut claims) = (library(), shipped().expect("the claims are sound"));
        claims.retain(|one| one.id == "qdr_evaluation.latency_qdr_switched");
        let blind = evaluate(&library, &claims, 1, &|_, _| ());
        let system = slower(&library, "connectx6-hdr");
        let text = AnchoredClaims::of(&library, &system, &blind, 1).text();
        assert!(
            text.starts_with("No claim is computed on connectx6-hdr"),
            "{text}"
        );
        assert!(text.contains("connectx-qdr-fibre"), "{text}");
    }

    #[test]
    fn figures_show_anchored_curves_beside_the_blind_ones() {
        let (library, mut claims) = (library(), shipped().expect("the claims are sound"));
        claims.retain(|one| one.paper() == "qdr_evaluation");
        let blind = draw(&library, &claims, 2, None);
        let system = slower(&library, "connectx-qdr");
        let both = draw(&library, &claims, 2, Some(&system));
        let is_anchored = |label: &str| label.ends_with(", anchored");
        let mut added = 0;
        for (blind, both) in blind.iter().zip(&both) {
            assert_eq!(blind.curves, both.curves[..blind.curves.len()]);
            let rest = &both.curves[blind.curves.len()..];
            assert!(rest.iter().all(|curve| is_anchored(&curve.label)));
            added += rest.len();
        }
        assert!(added > 0);
    }
}
