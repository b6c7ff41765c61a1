//! A model as target.

use crate::Failure;
use std::collections::BTreeMap;
use verbena_calibrate::distinguished::{BY_MESSAGES, FIDELITY, setup_key};
use verbena_fabric::model::{Fidelity, Machine};
use verbena_model::component::check_joins;
use verbena_model::profile::{SETUP, System};
use verbena_report::points_table::{ANCHORS, BETWEEN, NODES};

/// A modelled machine.
#[derive(Debug, Clone)]
pub struct ModelTarget {
    /// The machine.
    pub machine: Machine,
    /// Whether packets or whole messages are simulated.
    pub fidelity: Fidelity,
    /// Name of the saved machine that it models, if any.
    pub saved: Option<String>,
    /// Anchors, and how well the model fits them; empty for a model without.
    pub remarks: Vec<String>,
}

impl ModelTarget {
    /// Returns a model without anchors.
    pub fn new(machine: Machine, fidelity: Fidelity) -> ModelTarget {
        ModelTarget {
            machine,
            fidelity,
            saved: None,
            remarks: Vec::new(),
        }
    }

    /// Returns the name of the saved machine, or of the profile.
    pub fn name(&self) -> &str {
        self.saved.as_deref().unwrap_or(self.machine.name())
    }

    /// Returns whether it is corrected by anchors.
    pub fn is_anchored(&self) -> bool {
        !self.remarks.is_empty()
    }

    /// Returns its name in reports.
    pub fn label(&self) -> String {
        let anchored = match self.is_anchored() {
            true => "anchored ",
            false => "",
        };
        match self.fidelity {
            Fidelity::Packet => format!("{} ({anchored}model)", self.name()),
            Fidelity::Message => format!("{} ({anchored}model, by messages)", self.name()),
        }
    }

    /// Returns the name of its directory in that of a run on several targets.
    pub fn directory(&self) -> String {
        match self.fidelity {
            Fidelity::Packet => format!("model-{}", self.name()),
            Fidelity::Message => format!("model-{}-message", self.name()),
        }
    }

    /// Returns the modelled system.
    ///
    /// # Errors
    ///
    /// Fails for the model of the software adapter, which has none.
    pub fn system(&self) -> Result<&System, Failure> {
        let name = self.machine.name();
        self.machine.system().ok_or_else(|| {
            Failure::Input(format!(
                "{name} is the software adapter on one host; a profile of kind system is needed"
            ))
        })
    }

    /// Distributes the ranks of MPI benchmarks over this number of nodes.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot connect so many.
    pub fn set_nodes(&mut self, nodes: usize) -> Result<(), Failure> {
        let mut system = self.system()?.clone();
        check_joins(&system, nodes).map_err(Failure::Input)?;
        system.nodes = nodes as u64;
        self.machine = Machine::from(&system);
        Ok(())
    }

    /// Describes the model for the record.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::from([
            ("model".to_owned(), self.machine.about().to_owned()),
            (FIDELITY.to_owned(), word(self.fidelity).to_owned()),
            ("verbena".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ]);
        if !self.remarks.is_empty() {
            out.insert(ANCHORS.to_owned(), self.remarks.join(BETWEEN));
        }
        let Some(system) = self.machine.system() else {
            return out;
        };
        let parts = [
            ("host", Some(&system.host.about)),
            ("adapter", Some(&system.adapter.about)),
            ("link", Some(&system.link.about)),
            ("cable", Some(&system.cable.about)),
            ("switch", system.switch.as_ref().map(|switch| &switch.about)),
            (
                "topology",
                system.topology.as_ref().map(|joined| &joined.about),
            ),
            (
                "congestion control",
                system.congestion.as_ref().map(|control| &control.about),
            ),
        ];
        for (part, about) in parts {
            let about = about.map(|about| (format!("modelled {part}"), about.clone()));
            out.extend(about);
        }
        out.insert(NODES.to_owned(), system.nodes.max(2).to_string());
        let setup = SETUP.iter().zip(system.setup());
        out.extend(setup.map(|(property, value)| (setup_key(property), value)));
        out
    }
}

fn word(fidelity: Fidelity) -> &'static str {
    match fidelity {
        Fidelity::Packet => "every packet",
        Fidelity::Message => BY_MESSAGES,
    }
}
