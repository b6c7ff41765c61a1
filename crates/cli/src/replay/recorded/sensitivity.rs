//! The assumed values that would change a verdict: each is halved and doubled, one at a time, and
//! the program is replayed again.

use super::table::judged;
use super::{Options, Replayed, replay_on};
use crate::failure::Failure;
use std::collections::BTreeMap;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_calibrate::interval::Verdict;
use verbena_fabric::model::Machine;
use verbena_model::profile::{Library, Recorded, Tag};
use verbena_mpi_trace::Trace;
use verbena_report::html::Assumptions;

/// Factors by which values are changed.
const FACTORS: [(f64, &str); 2] = [(0.5, "halved"), (2.0, "doubled")];

/// Returns the assumed values of the models' systems.
///
/// # Errors
///
/// Fails if a profile cannot be read.
pub fn assumptions(
    models: &[ModelTarget],
    profiles: &Profiles,
) -> Result<Vec<Assumptions>, Failure> {
    let library = profiles.library()?;
    let of_model = |model: &ModelTarget| {
        let values = assumed(&library, model)?.into_iter().map(|value| {
            let Recorded {
                path,
                value,
                unit,
                source,
                ..
            } = value;
            format!("{path} = {value} {unit}: {source}")
        });
        Ok(Assumptions {
            system: model.machine.name().to_owned(),
            values: values.collect(),
        })
    };
    models.iter().map(of_model).collect()
}

fn assumed(library: &Library, model: &ModelTarget) -> Result<Vec<Recorded>, Failure> {
    let used = library.used_by(model.machine.name());
    let used = used.map_err(|error| Failure::Input(error.to_string()))?;
    let assumed = used.into_iter().filter(|value| value.tag == Tag::Assumed);
    Ok(assumed.collect())
}

/// The replays whose verdicts are examined.
pub struct Examined<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The models; the first is the one that the others are compared with.
    pub models: &'a [ModelTarget],
    /// The number of nodes, if it was given.
    pub nodes: Option<usize>,
    /// Options of the replays.
    pub options: &'a Options,
    /// The profiles.
    pub profiles: &'a Profiles,
}

impl Examined<'_> {
    /// Returns every assumed value of the models' systems once.
    fn values(&self) -> Result<Vec<Recorded>, Failure> {
        let library = self.profiles.library()?;
        let mut values = BTreeMap::new();
        for model in self.models {
            for value in assumed(&library, model)? {
                values.insert(value.path.clone(), value);
            }
        }
        Ok(values.into_values().collect())
    }

    /// Returns the changes that change a verdict, each in a sentence.
    ///
    /// # Errors
    ///
    /// Fails if the trace cannot be replayed with the unchanged profiles.
    pub fn changing(&self, as_is: &[Replayed]) -> Result<Vec<String>, Failure> {
        let before = verdicts(as_is);
        let mut found = Vec::new();
        for value in self.values()? {
            for (factor, word) in FACTORS {
                let path = &value.path;
                let after = match self.with(path, value.value * factor) {
                    Ok(replayed) => verdicts(&replayed),
                    Err(failure) => {
                        found.push(format!("{path} cannot be {word}: {failure}"));
                        continue;
                    }
                };
                let others = self.models.iter().skip(1).zip(before.iter().zip(&after));
                for (model, (before, after)) in others {
                    if before != after {
                        found.push(format!(
                            "{path} {word} ({} {}){}: {} is {}, not {}",
                            value.value * factor,
                            value.unit,
                            self.place(),
                            model.machine.name(),
                            text(*after),
                            text(*before)
                        ));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns the number of nodes in words, if it was given.
    fn place(&self) -> String {
        self.nodes
            .map_or(String::new(), |nodes| format!(", {nodes} nodes"))
    }

    /// Replays on all models with a changed value.
    fn with(&self, path: &str, value: f64) -> Result<Vec<Replayed>, Failure> {
        let mut profiles = self.profiles.clone();
        profiles.set.push(format!("{path}={value}"));
        let library = profiles.library()?;
        let replays = self.models.iter().map(|model| {
            let machine = Machine::of(&library, model.machine.name());
            let model = ModelTarget {
                machine: machine.map_err(|error| Failure::Input(error.to_string()))?,
                fidelity: model.fidelity,
            };
            replay_on(&model, self.trace, self.nodes, self.options, &profiles)
        });
        replays.collect()
    }
}

fn verdicts(replayed: &[Replayed]) -> Vec<Option<Verdict>> {
    let others = replayed.iter().skip(1);
    others
        .map(|other| judged(&replayed[0], other).map(|(verdict, _)| verdict))
        .collect()
}

fn text(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or("without a verdict", Verdict::text)
}
