//! The available profiles: those shipped with the program, and additional ones from directories.

use super::error::Error;
use super::inheritance::{Basis, Inherited};
use super::kind::{Name, ProfileKind};
use super::overrides::Overrides;
use super::recorded::{Recorded, Tag};
use super::schema::{Link, Profile, Software, Switch, System, SystemNames, Topology};
use super::shipped::SHIPPED;
use super::sources::Sources;
use crate::correction::Corrections;
use crate::topology::{Wiring, deadlock};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Profiles by kind and name, with every value that they define. Bases are looked up among all of
/// them; the order of addition does not matter.
#[derive(Debug, Clone)]
pub struct Library {
    sources: Sources,
    /// Values that replace those of profiles.
    overrides: Overrides,
    profiles: BTreeMap<Name, Profile>,
    recorded: Vec<Recorded>,
    /// Topology that replaces that of every system.
    fabric: Option<Topology>,
    /// By profile, the values that it takes from earlier generations.
    inherited: BTreeMap<Name, Vec<Inherited>>,
    /// Faulty profiles; systems and profiles that refer to one fail with its error.
    faulty: BTreeMap<Name, Error>,
}

impl Library {
    /// Loads the shipped profiles.
    ///
    /// # Errors
    ///
    /// Returns an error if a profile is invalid or an override does not match exactly one value.
    pub fn shipped(overrides: &Overrides) -> Result<Library, Error> {
        let mut sources = Sources::default();
        for (path, text) in SHIPPED {
            sources.add(&format!("profiles/{path}.toml"), text)?;
        }
        let library = Library::of(sources, overrides.clone()).without_faults(&BTreeMap::new())?;
        library.check_overrides()?;
        Ok(library)
    }

    fn of(sources: Sources, overrides: Overrides) -> Library {
        let (mut profiles, mut faulty) = (BTreeMap::new(), BTreeMap::new());
        let mut recorded = Vec::new();
        let mut inherited = BTreeMap::new();
        for name in sources.names() {
            // Values of earlier generations that a profile does not list are a fault, too.
            let read = sources.read(name, &overrides);
            let read = read.and_then(|read| match read.unlisted.first() {
                Some(unlisted) => Err(unlisted.clone()),
                None => Ok(read),
            });
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    faulty.insert(name.clone(), error);
                    continue;
                }
            };
            profiles.insert(name.clone(), read.profile);
            recorded.extend(read.own);
            inherited.insert(name.clone(), read.inherited);
        }
        // A profile may be sound although its base is not.
        for name in profiles.keys() {
            let chain = sources.chain(name).unwrap_or_default();
            if let Some(error) = chain.iter().find_map(|base| faulty.get(base)) {
                faulty.insert(name.clone(), error.clone());
            }
        }
        tell_apart(&mut recorded);
        Library {
            sources,
            overrides,
            profiles,
            recorded,
            fabric: None,
            inherited,
            faulty,
        }
    }

    /// Replaces the topology of every system by `fabric`. Settings and directories must have been
    /// added before.
    #[must_use]
    pub fn connected_as(self, fabric: Topology) -> Library {
        Library {
            fabric: Some(fabric),
            ..self
        }
    }

    /// Checks that only profiles of `known` are faulty.
    fn without_faults(self, known: &BTreeMap<Name, Error>) -> Result<Library, Error> {
        let mut faulty = self.faulty.iter();
        match faulty.find(|(name, _)| !known.contains_key(*name)) {
            Some((_, fault)) => Err(fault.clone()),
            None => Ok(self),
        }
    }

    /// Returns the errors of profiles of directories, each once. Systems that do not
    /// refer to such a profile are not affected.
    pub fn faults(&self) -> Vec<&Error> {
        let mut faults: Vec<&Error> = self.sources.unreadable().collect();
        for fault in self.faulty.values() {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        faults
    }

    /// Returns the error of a profile, if it is faulty.
    fn fault(&self, kind: ProfileKind, name: &str) -> Option<&Error> {
        let faulty = self.faulty.get(&(kind, name.to_owned()));
        faulty.or_else(|| self.sources.fault(name))
    }

    /// Returns the number of values that profiles take from earlier generations for want of a
    /// figure, each counted once for the generation that takes it.
    pub fn taken_over(&self) -> usize {
        let all = self.inherited.values().flatten();
        let taken = all.filter(|one| one.tag == Tag::Assumed);
        let taken: BTreeSet<_> = taken.map(|one| (&one.into, &one.value.path)).collect();
        taken.len()
    }

    /// Returns the assumed values and those of earlier generations on which the system `name`
    /// rests.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such system, or a base is missing.
    pub fn basis(&self, name: &str) -> Result<Basis, Error> {
        let parts = parts(self.system_names(name)?);
        let inherited = parts.iter().filter_map(|part| self.inherited.get(part));
        Ok(Basis::new(
            name,
            self.used_by(name)?,
            inherited.flatten().cloned(),
        ))
    }

    /// Adds the files `*.toml` under `directory`. They may replace profiles of the same kind and
    /// name, and may be based on those that they replace. Only systems and profiles that refer to
    /// an invalid file fail ([`Library::faults`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be read.
    pub fn and_directory(&self, directory: &Path) -> Result<Library, Error> {
        let mut sources = self.sources.clone();
        add_directory(&mut sources, directory)?;
        Ok(Library::of(sources, self.overrides.clone()))
    }

    /// Adds files; a profile's name is the file name without directories and extension.
    ///
    /// # Errors
    ///
    /// Returns an error if a profile is invalid.
    pub fn and<'f>(
        &self,
        files: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> Result<Library, Error> {
        let mut sources = self.sources.clone();
        for (file, text) in files {
            sources.add(file, text)?;
        }
        let library = Library::of(sources, self.overrides.clone());
        library.without_faults(&self.faulty)
    }

    /// Adds overrides to those already in effect.
    ///
    /// # Errors
    ///
    /// Returns an error if an overridden value is invalid or an override does not match exactly one
    /// value.
    pub fn with(&self, overrides: &Overrides) -> Result<Library, Error> {
        let library = Library::of(self.sources.clone(), self.overrides.and(overrides));
        let library = library.without_faults(&self.faulty)?;
        library.check_overrides()?;
        Ok(library)
    }

    /// Returns the values that define the system `name`, those of its profiles' bases included.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such system, or a base is missing.
    pub fn used_by(&self, name: &str) -> Result<Vec<Recorded>, Error> {
        let names = self.system_names(name)?;
        let mut used = Vec::new();
        for part in parts(names) {
            let mut taken = BTreeSet::new();
            // A profile's own value hides that of its base; a table is replaced as a whole.
            for here in self.sources.chain(&part)? {
                let own = self.recorded.iter().filter(|r| r.is_of(&here));
                let own: Vec<_> = own.filter(|r| !taken.contains(r.said_with())).collect();
                taken.extend(own.iter().map(|r| r.said_with().to_owned()));
                used.extend(own.into_iter().cloned());
            }
        }
        Ok(used)
    }

    fn check_overrides(&self) -> Result<(), Error> {
        let fault = |path: &str, reason: String| Error {
            file: "overrides".to_owned(),
            line: 1,
            key: path.to_owned(),
            reason,
        };
        for (path, _) in self.overrides.iter() {
            let meant: Vec<_> = self
                .recorded
                .iter()
                .filter(|r| r.answers_to(path))
                .collect();
            match meant.as_slice() {
                [_] => {}
                [] => {
                    let profile = path.split('.').next().unwrap_or_default();
                    if let Some(error) = self.fault_named(profile) {
                        return Err(error.clone());
                    }
                    let reason = match self.owner_of(path) {
                        Some((owner, own)) => format!("is set in profile {owner}; use {own}"),
                        None => "no profile has such a value".to_owned(),
                    };
                    return Err(fault(path, reason));
                }
                several => {
                    let paths: Vec<_> = several.iter().map(|r| r.path.as_str()).collect();
                    return Err(fault(path, format!("which: {}", paths.join(" or "))));
                }
            }
        }
        Ok(())
    }

    /// Returns the error of a faulty profile of any kind.
    fn fault_named(&self, name: &str) -> Option<&Error> {
        let mut faulty = self.faulty.iter();
        let found = faulty.find(|((_, known), _)| known == name);
        found.map_or_else(|| self.sources.fault(name), |(_, error)| Some(error))
    }

    /// Returns the profile that sets the value at `path` of a profile based on it, or of a system
    /// that it is part of; and the value's own path.
    fn owner_of(&self, path: &str) -> Option<(&str, &str)> {
        self.profiles.iter().find_map(|(name, profile)| {
            let kind = format!("{}/", name.0.word());
            let key = path.strip_prefix(&kind).unwrap_or(path);
            let key = key.strip_prefix(name.1.as_str())?.strip_prefix('.')?;
            let names = match profile {
                Profile::System(names) => parts(names),
                _ => Vec::new(),
            };
            std::iter::once(name.clone()).chain(names).find_map(|part| {
                // The nearest of its bases that sets the value.
                let chain = self.sources.chain(&part).ok()?;
                chain.iter().find_map(|here| {
                    let found = self
                        .recorded
                        .iter()
                        .find(|r| r.is_of(here) && r.key == key)?;
                    Some((found.profile.as_str(), found.path.as_str()))
                })
            })
        })
    }

    /// Returns every value of every profile.
    pub fn recorded(&self) -> &[Recorded] {
        &self.recorded
    }

    /// Returns the values of all profiles but the software adapter's. Those are fitted to local
    /// measurements, and no published figure depends on them.
    pub fn of_published(&self) -> impl Iterator<Item = &Recorded> {
        let all = self.recorded.iter();
        all.filter(|value| value.kind != ProfileKind::Software)
    }

    /// Iterates over the names of the systems.
    pub fn systems(&self) -> impl Iterator<Item = &str> {
        let systems = self.profiles.keys();
        let systems = systems.filter(|(kind, _)| *kind == ProfileKind::System);
        systems.map(|(_, name)| name.as_str())
    }

    /// Returns the profile `name` of kind `kind`.
    pub fn profile(&self, kind: ProfileKind, name: &str) -> Option<&Profile> {
        let found = self.profiles.get(&(kind, name.to_owned()));
        found.filter(|_| self.fault(kind, name).is_none())
    }

    /// Iterates over the names of the software adapters.
    pub fn software_names(&self) -> impl Iterator<Item = &str> {
        let all = self.profiles.keys();
        let all = all.filter(|(kind, _)| *kind == ProfileKind::Software);
        all.map(|(_, name)| name.as_str())
    }

    /// Returns the software adapter `name`, if it exists.
    pub fn software(&self, name: &str) -> Option<&Software> {
        match self.profile(ProfileKind::Software, name) {
            Some(Profile::Software(software)) => Some(software),
            _ => None,
        }
    }

    /// Returns the names of the profiles that make up the system `name`.
    ///
    /// # Errors
    ///
    /// Returns the error of the profile, or one that lists the known systems if there is no such
    /// system.
    pub fn system_names(&self, name: &str) -> Result<&SystemNames, Error> {
        match self.profile(ProfileKind::System, name) {
            Some(Profile::System(names)) => Ok(names),
            _ => {
                if let Some(fault) = self.fault_named(name) {
                    return Err(fault.clone());
                }
                let known: Vec<_> = self.systems().collect();
                let reason = format!("no such system; there are {}", known.join(", "));
                Err(fault_of(name, "-", reason))
            }
        }
    }

    /// Returns the system `name` with its parts.
    ///
    /// # Errors
    ///
    /// Returns an error if the system or one of its profiles does not exist, or the topology does
    /// not fit the rest of the system.
    pub fn system(&self, name: &str) -> Result<System, Error> {
        let names = self.system_names(name)?;
        macro_rules! part {
            ($kind:ident, $name:expr) => {
                match self.profile(ProfileKind::$kind, $name) {
                    Some(Profile::$kind(part)) => part.clone(),
                    _ => {
                        if let Some(fault) = self.fault(ProfileKind::$kind, $name) {
                            return Err(fault.clone());
                        }
                        let kind = ProfileKind::$kind.word();
                        let reason = format!("no {kind} profile \"{}\"", $name);
                        return Err(fault_of(name, kind, reason));
                    }
                }
            };
        }
        let link = part!(Link, &names.link);
        let switch = match &names.switch {
            Some(switch) => Some(part!(Switch, switch)),
            None => None,
        };
        let topology = match (&self.fabric, &names.topology) {
            (Some(fabric), _) => Some(fabric.clone()),
            (None, Some(topology)) => Some(part!(Topology, topology)),
            (None, None) => None,
        };
        if let Some(topology) = &topology {
            let fits = match &self.fabric {
                Some(_) => fits_fabric(topology, names, (&link, switch.as_ref())),
                None => fits(&topology.wiring, names, (&link, switch.as_ref())),
            };
            fits.map_err(|reason| fault_of(name, "topology", reason))?;
        }
        let nodes = match &self.fabric {
            Some(fabric) => fabric.wiring.nodes() as u64,
            None => names.nodes.0,
        };
        let mut parts = names.clone();
        if let Some(fabric) = &self.fabric {
            parts.topology = Some(fabric.about.clone());
        }
        Ok(System {
            name: name.to_owned(),
            parts,
            about: names.about.clone(),
            host: part!(Host, &names.host),
            adapter: part!(Adapter, &names.adapter),
            link,
            topology,
            cable: part!(Cable, &names.cable),
            switch,
            congestion: match &names.congestion {
                Some(congestion) => Some(part!(Congestion, congestion)),
                None => None,
            },
            mpi: match &names.mpi {
                Some(mpi) => Some(part!(Mpi, mpi)),
                None => None,
            },
            ports: names.ports.0,
            nodes,
            corrections: Corrections::default(),
        })
    }
}

/// Checks that a topology fits the rest of the system; the error states the reason.
fn fits(
    wiring: &Wiring,
    names: &SystemNames,
    (link, switch): (&Link, Option<&Switch>),
) -> Result<(), String> {
    let Some(switch) = switch else {
        return Err("needs a switch profile for its switches, as `switch`".to_owned());
    };
    let (nodes, most) = (names.nodes.0, wiring.nodes());
    if nodes > most as u64 {
        return Err(format!(
            "joins {most} nodes, but the system has {nodes}: set `nodes`, or make it larger"
        ));
    }
    if most < 2 {
        return Err("joins only one node; at least two are needed".to_owned());
    }
    let ports = wiring.ports_taken(names.ports.0 as usize);
    let most = ports.iter().enumerate().max_by_key(|(_, taken)| **taken);
    if let Some((number, &taken)) = most.filter(|(_, taken)| **taken as u64 > switch.ports.0) {
        return Err(format!(
            "switch {number} needs {taken} ports for its nodes and cables, and {} has {}",
            names.switch.as_deref().unwrap_or_default(),
            switch.ports.0
        ));
    }
    deadlock::round(wiring, link.lanes.0 as usize, |switch| switch.to_string())
}

/// Checks that a system can run on a fabric that exists: its switches have the ports that they
/// have.
fn fits_fabric(
    fabric: &Topology,
    names: &SystemNames,
    (link, switch): (&Link, Option<&Switch>),
) -> Result<(), String> {
    if switch.is_none() {
        return Err(
            "needs a switch profile for the fabric's switches, and this system's nodes are \
                    connected back to back"
                .to_owned(),
        );
    }
    if names.ports.0 != 1 {
        return Err(format!(
            "the system's adapters have {} ports each, and the fabric joins one of each",
            names.ports.0
        ));
    }
    let known = |switch: usize| fabric.built.as_ref()?.switches.get(switch).cloned();
    deadlock::round(&fabric.wiring, link.lanes.0 as usize, |switch| {
        known(switch).unwrap_or_else(|| switch.to_string())
    })
}

fn fault_of(system: &str, key: &str, reason: String) -> Error {
    Error {
        file: format!("profile {system}"),
        line: 1,
        key: key.to_owned(),
        reason,
    }
}

fn parts(names: &SystemNames) -> Vec<Name> {
    let parts = [
        (ProfileKind::Host, Some(&names.host)),
        (ProfileKind::Adapter, Some(&names.adapter)),
        (ProfileKind::Link, Some(&names.link)),
        (ProfileKind::Cable, Some(&names.cable)),
        (ProfileKind::Switch, names.switch.as_ref()),
        (ProfileKind::Topology, names.topology.as_ref()),
        (ProfileKind::Congestion, names.congestion.as_ref()),
        (ProfileKind::Mpi, names.mpi.as_ref()),
    ];
    let given = parts
        .into_iter()
        .filter_map(|(kind, name)| Some((kind, name?.clone())));
    given.collect()
}

/// Prefixes the kind to paths that occur in profiles of two kinds.
fn tell_apart(recorded: &mut [Recorded]) {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<_> = recorded
        .iter()
        .filter(|value| !seen.insert(value.path.clone()))
        .map(|value| value.path.clone())
        .collect();
    for value in recorded
        .iter_mut()
        .filter(|value| twice.contains(&value.path))
    {
        value.path = value.whole_path();
    }
}

fn add_directory(sources: &mut Sources, directory: &Path) -> Result<(), Error> {
    let fault = |path: &Path, reason: String| Error {
        file: path.display().to_string(),
        line: 1,
        key: "-".to_owned(),
        reason,
    };
    let entries = std::fs::read_dir(directory).map_err(|e| fault(directory, e.to_string()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|e| fault(directory, e.to_string()))?.path());
    }
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_directory(sources, &path)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(&path).map_err(|e| fault(&path, e.to_string()));
            if let Err(error) = text.and_then(|text| sources.add(&file, &text)) {
                sources.add_unreadable(&file, error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_file_affects_what_refers_to_it_alone() {
        let number = std::process::id();
        let directory = std::env::temp_dir().join(format!("verbena-profiles-{number}"));
        std::fs::create_dir_all(&directory).unwrap();
        let put = |file: &str, text: &str| std::fs::write(directory.join(file), text).unwrap();
        put(
            "mine.toml",
            "kind = \"system\"\nbase = \"connectx6-hdr\"\nrouting = \"adaptive\"\n",
        );
        put("on-mine.toml", "kind = \"system\"\nbase = \"mine\"\n");
        put("fibre.toml", "kind = \"cable\n");
        put(
            "good.toml",
            "kind = \"system\"\nbase = \"connectx6-hdr\"\nabout = \"mine\"\n",
        );
        let shipped = Library::shipped(&Overrides::none()).unwrap();
        let library = shipped.and_directory(&directory).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let fault = |name: &str| {
            library
                .system(name)
                .map(|_| ())
                .expect_err(name)
                .to_string()
        };
        for name in ["mine", "on-mine"] {
            let text = fault(name);
            let hint =
                "mine.toml:3: routing: unknown key; it belongs in a file of kind \"topology\"";
            assert!(text.ends_with(hint), "{text}");
        }
        let text = fault("connectx-qdr-fibre");
        assert!(text.contains("fibre.toml:1: "), "{text}");
        assert!(library.system("good").is_ok());
        assert_eq!(library.faults().len(), 2, "{:?}", library.faults());
        // A setting elsewhere is still possible, a wrong one still an error.
        let with = |path, value| library.with(&Overrides::none().with(path, value));
        assert!(with("connectx.send.blueflame", 1.0).is_ok());
        assert!(with("no.such", 1.0).is_err());
        let text = with("mine.ports", 1.0).unwrap_err().to_string();
        assert!(text.contains("mine.toml:3: routing"), "{text}");
    }

    #[test]
    fn earlier_overrides_are_kept() {
        let value = |library: &Library, path: &str| {
            let found = library.recorded().iter().find(|value| value.path == path);
            found.map(|value| value.value)
        };
        let (first, second) = ("connectx.send.blueflame", "bensley.cpu.post");
        let library = Library::shipped(&Overrides::none().with(first, 1.0)).expect("sound");
        let other = library
            .with(&Overrides::none().with(second, 7.0))
            .expect("sound");
        assert_eq!(value(&other, first), Some(1.0));
        assert_eq!(value(&other, second), Some(7.0));
        let again = other
            .with(&Overrides::none().with(first, 2.0))
            .expect("sound");
        assert_eq!(value(&again, first), Some(2.0));
        assert_eq!(value(&again, second), Some(7.0));
    }

    #[test]
    fn unknown_paths_name_the_profile_that_sets_the_value() {
        let refused = |path: &str| {
            let library = Library::shipped(&Overrides::none().with(path, 1.0));
            library.expect_err("no such path").reason
        };
        let inherited = "is set in profile connectx4; use connectx4.send.reads";
        assert_eq!(refused("connectx5.send.reads"), inherited);
        assert_eq!(refused("adapter/connectx5.send.reads"), inherited);
        let of_a_part = "is set in profile pcie3-x16; use pcie3-x16.pcie.lanes";
        assert_eq!(refused("connectx5-edr.pcie.lanes"), of_a_part);
        assert_eq!(
            refused("connectx5.send.nothing"),
            "no profile has such a value"
        );
    }
}
