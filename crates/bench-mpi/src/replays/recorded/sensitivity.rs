//! The assumed values that would change a verdict: each is halved and doubled, one at a time, and
//! the program is replayed again.

use super::super::input;
use super::table::judged;
use super::{Replayed, Settings, replay_on};
use crate::Failure;
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
    let used = used.map_err(input)?;
    let assumed = used.into_iter().filter(|value| value.tag == Tag::Assumed);
    Ok(assumed.collect())
}

/// Result of a search for assumed values.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The number of changed values that were examined.
    examined: usize,
    /// The changes that change a verdict, a sentence each.
    changing: Vec<String>,
    /// The changes that the models refuse, with reasons.
    unknown: Vec<String>,
}

impl Found {
    /// Returns the results of several searches as one.
    pub fn of(searches: impl IntoIterator<Item = Found>) -> Found {
        searches
            .into_iter()
            .fold(Found::default(), |all, one| Found {
                examined: all.examined + one.examined,
                changing: [all.changing, one.changing].concat(),
                unknown: [all.unknown, one.unknown].concat(),
            })
    }

    /// Returns the result in lines.
    pub fn lines(&self) -> Vec<String> {
        let indented = |one: &String| format!("  {one}");
        let mut lines = match &self.changing[..] {
            [] => vec![format!(
                "assumed values that change a verdict: none ({} halved or doubled values; values \
                 of earlier generations stay)",
                self.examined
            )],
            changing => {
                let heading = "assumed values that change a verdict:".to_owned();
                let changing = changing.iter().map(indented);
                std::iter::once(heading).chain(changing).collect()
            }
        };
        if !self.unknown.is_empty() {
            lines.push("not examined:".to_owned());
            lines.extend(self.unknown.iter().map(indented));
        }
        lines
    }

    /// Returns the sentences about all values.
    pub fn all(&self) -> Vec<String> {
        [&self.changing[..], &self.unknown[..]].concat()
    }
}

/// The replays whose verdicts are examined.
pub struct Examined<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The models; the first is the one that the others are compared with.
    pub models: &'a [ModelTarget],
    /// How it is replayed.
    pub settings: &'a Settings,
    /// The profiles.
    pub profiles: &'a Profiles,
}

/// An assumed value and the models that use it.
struct Used {
    value: Recorded,
    models: Vec<usize>,
}

/// Returns every assumed value of the models' systems once.
fn values(models: &[ModelTarget], profiles: &Profiles) -> Result<Vec<Used>, Failure> {
    let library = profiles.library()?;
    let mut values: BTreeMap<String, Used> = BTreeMap::new();
    for (number, model) in models.iter().enumerate() {
        for value in assumed(&library, model)? {
            let used = values.entry(value.path.clone()).or_insert_with(|| Used {
                value,
                models: Vec::new(),
            });
            used.models.push(number);
        }
    }
    Ok(values.into_values().collect())
}

/// Returns the number of changed values that a search replays.
///
/// # Errors
///
/// Fails if a profile cannot be read.
pub fn changes(models: &[ModelTarget], profiles: &Profiles) -> Result<usize, Failure> {
    Ok(values(models, profiles)?.len() * FACTORS.len())
}

impl Examined<'_> {
    /// Returns the changes that change a verdict; calls `step` after each change.
    ///
    /// # Errors
    ///
    /// Fails if a profile cannot be read.
    pub fn search(&self, as_is: &[Replayed], step: impl Fn()) -> Result<Found, Failure> {
        let before = verdicts(&as_is.iter().collect::<Vec<_>>());
        let mut found = Found::default();
        for used in values(self.models, self.profiles)? {
            for (factor, word) in FACTORS {
                let Recorded { path, unit, .. } = &used.value;
                let replayed = self.changed(&used, factor);
                step();
                let (value, replayed) = match replayed {
                    Ok(Some(replayed)) => replayed,
                    Ok(None) => continue,
                    Err(failure) => {
                        let reason = format!("{path} cannot be {word}: {failure}");
                        found.unknown.push(reason);
                        continue;
                    }
                };
                found.examined += 1;
                let mut all: Vec<&Replayed> = as_is.iter().collect();
                for (number, one) in used.models.iter().zip(&replayed) {
                    all[*number] = one;
                }
                let others = self.models.iter().skip(1);
                for (model, (before, after)) in others.zip(before.iter().zip(verdicts(&all))) {
                    if *before != after {
                        found.changing.push(format!(
                            "{path} {word} ({value} {unit}){}: {} is {}, not {}",
                            self.place(),
                            model.machine.name(),
                            text(after),
                            text(*before)
                        ));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Replays with a value multiplied by a factor, and returns the new value, too. Half of an odd
    /// number that must be whole is rounded up; `None` if that does not change it.
    fn changed(&self, used: &Used, factor: f64) -> Result<Option<(f64, Vec<Replayed>)>, Failure> {
        let value = used.value.value * factor;
        let refusal = match self.with(used, value) {
            Ok(replayed) => return Ok(Some((value, replayed))),
            Err(refusal) => refusal,
        };
        let is_half_of_whole = value.fract() != 0.0 && used.value.value.fract() == 0.0;
        match value.ceil() {
            _ if !is_half_of_whole => Err(refusal),
            whole if whole == used.value.value => Ok(None),
            whole => Ok(Some((whole, self.with(used, whole)?))),
        }
    }

    /// Returns the number of nodes in words, if it was given.
    fn place(&self) -> String {
        self.settings
            .nodes
            .map_or(String::new(), |nodes| format!(", {nodes} nodes"))
    }

    /// Replays on the models that use a value, with another value.
    fn with(&self, used: &Used, value: f64) -> Result<Vec<Replayed>, Failure> {
        let mut profiles = self.profiles.clone();
        profiles.set.push(format!("{}={value}", used.value.path));
        let library = profiles.library()?;
        let replays = used.models.iter().map(|number| {
            let model = &self.models[*number];
            let machine = Machine::of(&library, model.machine.name());
            let mut machine = machine.map_err(input)?;
            // An anchored model keeps its corrections.
            if let (Machine::Adapters(changed), Some(system)) =
                (&mut machine, model.machine.system())
            {
                changed.corrections = system.corrections;
            }
            let model = ModelTarget {
                machine,
                ..model.clone()
            };
            replay_on(&model, self.trace, self.settings, &profiles)
        });
        replays.collect()
    }
}

fn verdicts(replayed: &[&Replayed]) -> Vec<Option<Verdict>> {
    let others = replayed.iter().skip(1);
    others
        .map(|other| judged(replayed[0], other).map(|judged| judged.verdict))
        .collect()
}

fn text(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or("without a verdict", Verdict::text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use verbena_bench::anchors::find;
    use verbena_fabric::model::Fidelity;
    use verbena_replay::source::Source;

    fn model(name: &str) -> ModelTarget {
        let library = Profiles::default().library().expect("is shipped");
        find(&library, name, Fidelity::Packet, &[]).expect("is shipped")
    }

    #[test]
    fn assumed_values_are_listed_with_their_reasons() {
        let all = assumptions(&[model("connectx6-hdr")], &Profiles::default()).unwrap();
        let [assumptions] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(assumptions.system, "connectx6-hdr");
        assert!(assumptions.values.len() > 5, "{assumptions:?}");
        let is_whole = |value: &String| value.contains(" = ") && value.contains(": ");
        assert!(assumptions.values.iter().all(is_whole), "{assumptions:?}");
    }

    #[test]
    fn values_of_one_system_leave_the_other_as_it_is() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../papers/traces/lammps-rhodo-2.trace"
        );
        let trace = Source::open(Path::new(path)).unwrap().trace().unwrap();
        let models = ["connectx6-hdr", "infinihost3-ddr"].map(model);
        let settings = Settings {
            compute_scale: 0.01,
            ..Settings::default()
        };
        let examined = Examined {
            trace: &trace,
            models: &models,
            settings: &settings,
            profiles: &Profiles::default(),
        };
        let replay = |model| replay_on(model, &trace, &settings, &Profiles::default());
        let as_is: Vec<Replayed> = models.iter().map(|one| replay(one).unwrap()).collect();
        let steps = std::cell::Cell::new(0);
        let found = examined.search(&as_is, || steps.set(steps.get() + 1));
        let found = found.unwrap();
        assert_eq!(steps.get(), changes(&models, &Profiles::default()).unwrap());
        // Each sentence names a value and its change; whole numbers stay whole, so none is refused.
        let is_known = |one: &String| one.contains("ed (");
        assert!(found.changing.iter().all(is_known), "{found:?}");
        assert_eq!(found.unknown, Vec::<String>::new());
        assert!(found.lines()[0].starts_with("assumed values that change a verdict:"));
        let values = values(&models, &Profiles::default()).unwrap();
        assert!(values.iter().any(|used| used.models == [0]));
    }

    #[test]
    fn a_search_without_result_says_none() {
        let none = Found {
            examined: 8,
            ..Found::default()
        };
        let refused = Found {
            unknown: vec!["x.y cannot be halved: no".to_owned()],
            ..Found::default()
        };
        let lines = Found::of([none, refused]).lines();
        assert_eq!(
            lines,
            [
                "assumed values that change a verdict: none (8 halved or doubled values; values of \
                 earlier generations stay)",
                "not examined:",
                "  x.y cannot be halved: no"
            ]
        );
    }
}
