//! Profile files by kind and name, and their bases.

use super::error::Error;
use super::inheritance::{ChainFile, Group, Inherited, read_groups};
use super::kind::{Name, ProfileKind};
use super::overrides::Overrides;
use super::reader::{Reading, Section, line_of};
use super::recorded::Recorded;
use super::schema::Profile;
use std::cell::RefCell;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file of a profile.
#[derive(Debug, Clone)]
struct Source {
    file: String,
    text: String,
    base: Option<String>,
    /// Its generation, if it states one.
    generation: Option<String>,
    /// The values that it takes from a base of another generation.
    groups: Vec<Group>,
}

/// A profile as read.
pub(super) struct Read {
    pub profile: Profile,
    /// The values that it defines itself.
    pub own: Vec<Recorded>,
    /// The values that it takes from earlier generations.
    pub inherited: Vec<Inherited>,
    /// Values that it takes without saying so.
    pub unlisted: Vec<Error>,
}

/// All profile files. The last file of a kind and name defines it; that file may be based on the
/// one that it replaces.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    files: BTreeMap<Name, Vec<Source>>,
    /// By name of the profile: files whose kind cannot be read. They could define any profile of
    /// the name.
    unreadable: BTreeMap<String, Error>,
}

/// Returns the name of a file's profile: the file name without directories and extension.
fn profile_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.trim_end_matches(".toml").to_owned()
}

impl Sources {
    /// Adds a file.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), Error> {
        let table = parse(file, text)?;
        let kind = word(file, text, table.get_ref(), "kind")?;
        let Some((kind, at)) = kind else {
            return Err(fault(file, 1, "kind", ProfileKind::expected("is missing")));
        };
        let Some(kind) = ProfileKind::from_word(&kind) else {
            let reason = ProfileKind::expected(&format!("is no \"{kind}\""));
            return Err(fault(file, line_of(text, at), "kind", reason));
        };
        let base = word(file, text, table.get_ref(), "base")?.map(|(base, _)| base);
        let generation = word(file, text, table.get_ref(), "generation")?.map(|(word, _)| word);
        let groups = read_groups(file, text, table.get_ref())?;
        let name = (kind, profile_of(file));
        self.files.entry(name).or_default().push(Source {
            file: file.to_owned(),
            text: text.to_owned(),
            base,
            generation,
            groups,
        });
        Ok(())
    }

    /// Adds the error of a file that cannot be added.
    pub fn add_unreadable(&mut self, file: &str, error: Error) {
        self.unreadable.insert(profile_of(file), error);
    }

    /// Returns the error of the file of a profile that cannot be read.
    pub fn fault(&self, name: &str) -> Option<&Error> {
        self.unreadable.get(name)
    }

    /// Iterates over the errors of files that cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Error> {
        self.unreadable.values()
    }

    /// Iterates over the kinds and names.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.files.keys()
    }

    /// Returns a profile and its bases, nearest first.
    pub fn chain(&self, name: &Name) -> Result<Vec<Name>, Error> {
        let chain = self.sources_of(name)?;
        Ok(chain.into_iter().map(|(name, _)| name).collect())
    }

    fn sources_of(&self, name: &Name) -> Result<Vec<(Name, &Source)>, Error> {
        let mut chain: Vec<(Name, &Source)> = Vec::new();
        let mut here = name.clone();
        // Number of files of this name to skip: those that the chain already contains.
        let mut over = 0;
        loop {
            if let Some(error) = self.unreadable.get(&here.1) {
                return Err(error.clone());
            }
            let files = self.files.get(&here).map_or(&[][..], Vec::as_slice);
            let Some(source) = files.len().checked_sub(over + 1).map(|at| &files[at]) else {
                let from = chain.last().map_or("profiles", |(_, source)| &source.file);
                let reason = format!("no {} profile \"{}\"", here.0.word(), here.1);
                return Err(fault(from, 1, "base", reason));
            };
            if chain.iter().any(|(_, known)| std::ptr::eq(*known, source)) {
                let (_, first) = chain[0];
                let reason = format!("\"{}\" is based on itself", here.1);
                return Err(fault(&first.file, 1, "base", reason));
            }
            chain.push((here.clone(), source));
            let Some(base) = &source.base else {
                return Ok(chain);
            };
            over = match *base == here.1 {
                true => over + 1,
                false => 0,
            };
            here.1.clone_from(base);
        }
    }

    /// Reads the profile `name`.
    pub fn read(&self, name: &Name, overrides: &Overrides) -> Result<Read, Error> {
        let chain = self.sources_of(name)?;
        let mut parsed = Vec::new();
        for (_, source) in &chain {
            parsed.push(parse(&source.file, &source.text)?);
        }
        let readings: Vec<_> = chain
            .iter()
            .map(|((kind, profile), source)| Reading {
                file: &source.file,
                text: &source.text,
                kind: *kind,
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
        let profile = Profile::read(name.0, &root)?;
        drop(root);
        let values: Vec<_> = readings.iter().map(|file| file.recorded.take()).collect();
        let files = chain.iter().map(|(_, source)| ChainFile {
            file: &source.file,
            generation: source.generation.as_deref(),
            groups: &source.groups,
        });
        let (inherited, unlisted) = ChainFile::inherited(&files.collect::<Vec<_>>(), &values);
        // A replaced file that serves as the base of its replacement has the same name and counts
        // as part of it.
        let files = readings.iter().zip(values);
        let own = files.filter(|(reading, _)| reading.profile == name.1);
        let mut recorded: Vec<Recorded> = Vec::new();
        for value in own.flat_map(|(_, values)| values) {
            if !recorded.iter().any(|known| known.key == value.key) {
                recorded.push(value);
            }
        }
        Ok(Read {
            profile,
            own: recorded,
            inherited,
            unlisted,
        })
    }
}

fn fault(file: &str, line: usize, key: &str, reason: String) -> Error {
    Error {
        file: file.to_owned(),
        line,
        key: key.to_owned(),
        reason,
    }
}

fn parse<'a>(file: &str, text: &'a str) -> Result<Spanned<DeTable<'a>>, Error> {
    DeTable::parse(text).map_err(|e| {
        let line = line_of(text, e.span().map_or(0, |s| s.start));
        fault(file, line, "-", e.message().to_owned())
    })
}

/// Returns a top-level string of the file and its position, if present.
fn word(
    file: &str,
    text: &str,
    table: &DeTable<'_>,
    key: &str,
) -> Result<Option<(String, usize)>, Error> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    let at = value.span().start;
    match value.get_ref() {
        DeValue::String(word) => Ok(Some((word.to_string(), at))),
        _ => {
            let reason = "expected a word in quotation marks".to_owned();
            Err(fault(file, line_of(text, at), key, reason))
        }
    }
}
