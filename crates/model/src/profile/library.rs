//! The profiles that are there: those shipped with the program, and those of a directory beside or instead of them.

use super::error::Error;
use super::reader::{Reading, Recorded, Section, line_of};
use super::schema::{Profile, System};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use toml::de::DeTable;

/// Values put in place of a profile's own, by path (`bensley.pcie.read_latency`), in the unit that the profile uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides(BTreeMap<String, f64>);

impl Overrides {
    /// None.
    pub fn none() -> Overrides {
        Overrides::default()
    }

    /// The same and `value` at `path`.
    pub fn with(mut self, path: &str, value: f64) -> Overrides {
        self.0.insert(path.to_owned(), value);
        self
    }

    /// These and `later` ones, which take the place of these.
    fn and(&self, later: &Overrides) -> Overrides {
        let mut all = self.clone();
        all.0
            .extend(later.0.iter().map(|(path, value)| (path.clone(), *value)));
        all
    }

    /// The value at `path`, if it is overridden.
    pub fn get(&self, path: &str) -> Option<f64> {
        self.0.get(path).copied()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(path, value)| (path.as_str(), *value))
    }
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each profile shipped with the program.
        const SHIPPED: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/", $name, ".toml")),
        )),*];
    };
}

shipped![
    "host/bensley",
    "host/bensley-coalescing",
    "host/lindenhurst",
    "host/lindenhurst-pcix",
    "host/xeon-e7501",
    "host/opteron-8131",
    "host/pcie2",
    "host/pcie2-slot1",
    "adapter/infinihost3-mem",
    "adapter/infinihost3-memfree",
    "adapter/infinihost",
    "adapter/connectx",
    "adapter/connectx-2009",
    "link/4x-sdr",
    "link/4x-ddr",
    "link/4x-qdr",
    "link/1x-sdr",
    "link/12x-sdr",
    "cable/copper",
    "cable/fibre",
    "switch/infiniscale",
    "switch/infiniscale3",
    "switch/infiniscale4",
    "mpi/mvapich-0.9.2",
    "mpi/mvapich-0.9.4",
    "mpi/mvapich-0.9.5",
    "mpi/mvapich-0.9.9",
    "stack/ipoib",
    "stack/ethernet",
    "service/rfio",
    "application/skeletons",
    "system/infinihost3-ddr",
    "system/connectx-ddr",
    "system/connectx-ddr-coalescing",
    "system/connectx-qdr",
    "system/connectx-qdr-back-to-back",
    "system/connectx-qdr-fibre",
    "system/connectx-ddr-legacy",
    "system/infinihost3-sdr-legacy",
    "system/infinihost3-mem-sdr",
    "system/infinihost3-memfree-sdr",
    "system/infinihost3-mem-sdr-2port",
    "system/infinihost-pcix",
    "system/infinihost-pcix-2port",
    "system/infinihost-xeon",
    "system/infinihost-opteron",
];

/// Profiles by name, with every value that they gave.
#[derive(Debug, Clone)]
pub struct Library {
    profiles: BTreeMap<String, Profile>,
    /// File and text of each, for those that are based on it.
    texts: BTreeMap<String, (String, String)>,
    /// Names in the order of adding: bases before what is based on them.
    order: Vec<String>,
    recorded: Vec<Recorded>,
    /// What was put in place of profiles' own values.
    overrides: Overrides,
}

impl Library {
    /// The shipped profiles.
    pub fn shipped(overrides: &Overrides) -> Result<Library, Error> {
        let mut library = Library::empty(overrides.clone());
        for (path, text) in SHIPPED {
            library.add(&format!("profiles/{path}.toml"), text, overrides)?;
        }
        library.check_overrides(overrides)?;
        Ok(library)
    }

    fn empty(overrides: Overrides) -> Library {
        Library {
            profiles: BTreeMap::new(),
            texts: BTreeMap::new(),
            order: Vec::new(),
            recorded: Vec::new(),
            overrides,
        }
    }

    /// Adds the files `*.toml` under `directory`, which may replace shipped profiles of the same name.
    pub fn add_directory(&mut self, directory: &Path, overrides: &Overrides) -> Result<(), Error> {
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
                self.add_directory(&path, overrides)?;
            } else if path.extension().is_some_and(|e| e == "toml") {
                let text =
                    std::fs::read_to_string(&path).map_err(|e| fault(&path, e.to_string()))?;
                self.add(&path.display().to_string(), &text, overrides)?;
            }
        }
        Ok(())
    }

    /// Adds one profile; its name is the file's without directories and ending.
    pub fn add(&mut self, file: &str, text: &str, overrides: &Overrides) -> Result<(), Error> {
        let name = file
            .rsplit('/')
            .next()
            .unwrap_or(file)
            .trim_end_matches(".toml")
            .to_owned();
        let mut sources = vec![(name.clone(), file.to_owned(), text.to_owned())];
        // The chain of bases; each was added before those based on it, so there is no circle.
        loop {
            let (_, file, text) = &sources[sources.len() - 1];
            let Some(base) = base_of(file, text, parse(file, text)?.get_ref())? else {
                break;
            };
            let Some((file, text)) = self.texts.get(&base) else {
                return Err(Error {
                    file: file.clone(),
                    line: 1,
                    key: "base".to_owned(),
                    reason: format!("no profile \"{base}\" before this one"),
                });
            };
            sources.push((base, file.clone(), text.clone()));
        }
        let mut parsed = Vec::new();
        for (_, file, text) in &sources {
            parsed.push(parse(file, text)?);
        }
        let readings: Vec<_> = sources
            .iter()
            .map(|(profile, file, text)| Reading {
                file,
                text,
                profile,
                overrides,
                recorded: RefCell::new(Vec::new()),
            })
            .collect();
        let mut root: Option<Section<'_>> = None;
        for (reading, table) in readings.iter().zip(&parsed).rev() {
            root = Some(Section::root(reading, table.get_ref(), root.take()));
        }
        let root = root.expect("at least the profile itself");
        let profile = Profile::read(&root)?;
        drop(root);
        let own = readings[0].recorded.borrow().clone();
        let prefix = format!("{name}.");
        self.recorded.retain(|r| !r.path.starts_with(&prefix));
        self.recorded.extend(own);
        self.profiles.insert(name.clone(), profile);
        self.order.retain(|known| known != &name);
        self.order.push(name.clone());
        self.texts.insert(name, (file.to_owned(), text.to_owned()));
        Ok(())
    }

    /// The same profiles with these values besides those that were put in place before.
    pub fn with(&self, overrides: &Overrides) -> Result<Library, Error> {
        let all = self.overrides.and(overrides);
        let mut library = Library::empty(all.clone());
        for name in &self.order {
            if let Some((file, text)) = self.texts.get(name) {
                library.add(file, text, &all)?;
            }
        }
        library.check_overrides(&all)?;
        Ok(library)
    }

    /// The values that the system `name` is made of, with those of the profiles that its own are based on.
    pub fn used_by(&self, name: &str) -> Result<Vec<Recorded>, Error> {
        self.system(name)?;
        let Some(Profile::System(names)) = self.profiles.get(name) else {
            return Ok(Vec::new());
        };
        let parts = [
            Some(&names.host),
            Some(&names.adapter),
            Some(&names.link),
            Some(&names.cable),
            names.switch.as_ref(),
            names.mpi.as_ref(),
        ];
        let mut used = Vec::new();
        for part in parts.into_iter().flatten() {
            let mut taken = std::collections::BTreeSet::new();
            let mut profile = Some(part.clone());
            // What a profile says itself hides what its base says.
            while let Some(here) = profile {
                let prefix = format!("{here}.");
                for recorded in self.recorded.iter().filter(|r| r.path.starts_with(&prefix)) {
                    if taken.insert(recorded.path[prefix.len()..].to_owned()) {
                        used.push(recorded.clone());
                    }
                }
                profile = match self.texts.get(&here) {
                    Some((file, text)) => base_of(file, text, parse(file, text)?.get_ref())?,
                    None => None,
                };
            }
        }
        Ok(used)
    }

    fn check_overrides(&self, overrides: &Overrides) -> Result<(), Error> {
        for (path, _) in overrides.iter() {
            if !self.recorded.iter().any(|r| r.path == path) {
                return Err(Error {
                    file: "overrides".to_owned(),
                    line: 1,
                    key: path.to_owned(),
                    reason: "no profile has such a value".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Every value of every profile.
    pub fn recorded(&self) -> &[Recorded] {
        &self.recorded
    }

    /// Names of the systems.
    pub fn systems(&self) -> impl Iterator<Item = &str> {
        self.profiles
            .iter()
            .filter(|(_, profile)| matches!(profile, Profile::System(_)))
            .map(|(name, _)| name.as_str())
    }

    /// The profile of that name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// The system of that name, with its parts.
    pub fn system(&self, name: &str) -> Result<System, Error> {
        let fault = |key: &str, reason: String| Error {
            file: format!("profile {name}"),
            line: 1,
            key: key.to_owned(),
            reason,
        };
        let Some(Profile::System(names)) = self.profiles.get(name) else {
            let known: Vec<_> = self.systems().collect();
            return Err(fault(
                "-",
                format!("no such system; there are {}", known.join(", ")),
            ));
        };
        macro_rules! part {
            ($kind:ident, $key:literal, $name:expr) => {
                match self.profiles.get($name) {
                    Some(Profile::$kind(part)) => part.clone(),
                    _ => return Err(fault($key, format!("no {} profile \"{}\"", $key, $name))),
                }
            };
        }
        Ok(System {
            name: name.to_owned(),
            about: names.about.clone(),
            host: part!(Host, "host", &names.host),
            adapter: part!(Adapter, "adapter", &names.adapter),
            link: part!(Link, "link", &names.link),
            cable: part!(Cable, "cable", &names.cable),
            switch: match &names.switch {
                Some(switch) => Some(part!(Switch, "switch", switch)),
                None => None,
            },
            mpi: match &names.mpi {
                Some(mpi) => Some(part!(Mpi, "mpi", mpi)),
                None => None,
            },
            ports: names.ports.0,
            nodes: names.nodes.0,
        })
    }
}

fn parse<'a>(file: &str, text: &'a str) -> Result<toml::Spanned<DeTable<'a>>, Error> {
    DeTable::parse(text).map_err(|e| Error {
        file: file.to_owned(),
        line: line_of(text, e.span().map_or(0, |s| s.start)),
        key: "-".to_owned(),
        reason: e.message().to_owned(),
    })
}

fn base_of(file: &str, text: &str, table: &DeTable<'_>) -> Result<Option<String>, Error> {
    match table.get("base") {
        None => Ok(None),
        Some(value) => match value.get_ref().as_str() {
            Some(name) => Ok(Some(name.to_owned())),
            None => Err(Error {
                file: file.to_owned(),
                line: line_of(text, value.span().start),
                key: "base".to_owned(),
                reason: "expected the name of a profile".to_owned(),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_put_in_place_before_stay() {
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
}
