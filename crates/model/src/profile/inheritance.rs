//! Values that a profile takes from a base of an earlier generation.
//!
//! A profile may state its `generation`; otherwise it is of its base's. If the two differ, every
//! value that it takes from the base is named in `inherits`, a list of groups `{ keys, tag, source
//! }`: `datasheet` and `published` say that the value is known to hold for this generation too,
//! `assumed` that no figure was found for it.

use super::error::Error;
use super::reader::line_of;
use super::recorded::{Recorded, Tag};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A group of values that a profile takes from a base of another generation.
#[derive(Debug, Clone)]
pub(super) struct Group {
    keys: Vec<String>,
    tag: Tag,
    source: String,
    line: usize,
}

/// A value that a profile takes from one of another generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Inherited {
    /// The value as the earlier profile gives it.
    pub value: Recorded,
    /// Generation of that profile.
    pub from: String,
    /// Generation of the profile that takes it.
    pub into: String,
    /// Whether it is known to hold for this generation; `Assumed` if not.
    pub tag: Tag,
    /// Reason for taking it.
    pub source: String,
}

/// A profile's file in the chain of its bases.
pub(super) struct ChainFile<'a> {
    pub file: &'a str,
    pub generation: Option<&'a str>,
    pub groups: &'a [Group],
}

impl ChainFile<'_> {
    /// Returns the values that the first file of `chain` takes from other generations, and an error
    /// for each that it fails to name, or names without taking it. `values` are those that each
    /// file contributes.
    pub fn inherited(
        chain: &[ChainFile<'_>],
        values: &[Vec<Recorded>],
    ) -> (Vec<Inherited>, Vec<Error>) {
        let of = |from: usize| chain[from..].iter().find_map(|file| file.generation);
        let (mut inherited, mut faults) = (Vec::new(), Vec::new());
        let begins = |at: &usize| of(*at).is_some() && of(*at) != of(0);
        let Some(boundary) = (1..chain.len()).find(begins) else {
            return (inherited, faults);
        };
        // The file that begins this generation.
        let first = &chain[boundary - 1];
        let is_own = boundary == 1;
        let mut fault = |line: usize, key: &str, reason: String| {
            // Reported once, not for each variant of the profile.
            if is_own {
                faults.push(Error {
                    file: first.file.to_owned(),
                    line,
                    key: key.to_owned(),
                    reason,
                });
            }
        };
        let taken = (boundary..chain.len()).flat_map(|at| values[at].iter().map(move |v| (at, v)));
        for (at, value) in taken.clone() {
            let from = of(at).or(of(boundary)).unwrap_or_default().to_owned();
            let names = |group: &&Group| group.keys.iter().any(|key| key == value.said_with());
            match first.groups.iter().find(names) {
                Some(group) => inherited.push(Inherited {
                    value: value.clone(),
                    from,
                    into: of(0).unwrap_or_default().to_owned(),
                    tag: group.tag,
                    source: group.source.clone(),
                }),
                None => fault(
                    1,
                    value.said_with(),
                    format!(
                        "is inherited from another generation ({from}); name it in `inherits`, \
                         or give this generation's value"
                    ),
                ),
            }
        }
        for group in first.groups {
            for key in &group.keys {
                if !taken.clone().any(|(_, value)| value.said_with() == key) {
                    let reason = "is named in `inherits`, but not inherited".to_owned();
                    fault(group.line, key, reason);
                }
            }
        }
        (inherited, faults)
    }
}

/// Reads the list `inherits` of a file, if it has one.
pub(super) fn read_groups(
    file: &str,
    text: &str,
    table: &DeTable<'_>,
) -> Result<Vec<Group>, Error> {
    let Some(list) = table.get("inherits") else {
        return Ok(Vec::new());
    };
    let fault = |at: usize, reason: String| Error {
        file: file.to_owned(),
        line: line_of(text, at),
        key: "inherits".to_owned(),
        reason,
    };
    let expected = |at: usize| {
        let form = "expected a list of { keys = [\"section.key\"], tag, source }; tag: datasheet, \
                    published or assumed";
        fault(at, form.to_owned())
    };
    let DeValue::Array(groups) = list.get_ref() else {
        return Err(expected(list.span().start));
    };
    let group = |entry: &Spanned<DeValue<'_>>| {
        let DeValue::Table(table) = entry.get_ref() else {
            return None;
        };
        let known = |key: &str| ["keys", "tag", "source"].contains(&key);
        if !table.iter().all(|(key, _)| known(key.get_ref())) {
            return None;
        }
        let DeValue::Array(keys) = table.get("keys")?.get_ref() else {
            return None;
        };
        let keys: Option<Vec<String>> = keys.iter().map(word).collect();
        let tag = Tag::from_word(&word(table.get("tag")?)?)?;
        Some(Group {
            keys: keys?,
            tag: (tag != Tag::Fitted).then_some(tag)?,
            source: word(table.get("source")?)?,
            line: line_of(text, entry.span().start),
        })
    };
    let read =
        |entry: &Spanned<DeValue<'_>>| group(entry).ok_or_else(|| expected(entry.span().start));
    groups.iter().map(read).collect()
}

fn word(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(word) => Some(word.to_string()),
        _ => None,
    }
}

/// Ends of the paths of values that matter most, most important first: those that move most claims
/// (docs/models-profiles.md).
const IMPORTANT: [&str; 12] = [
    ".overhead",
    "pcie.write_latency",
    "pcie.read_latency",
    "cpu.doorbell",
    "cpu.post",
    "pcie.propagation",
    "engines.pipeline",
    "engines.packet",
    "receive.request",
    "cpu.miss",
    ".intranode",
    ".latency",
];

/// The values of a system that no source supports: assumed ones, and those of earlier generations.
#[derive(Debug, Clone, PartialEq)]
pub struct Basis {
    /// The system.
    pub system: String,
    /// Number of fitted values.
    pub fitted: usize,
    /// Assumed values.
    pub assumed: Vec<Recorded>,
    /// Values of earlier generations, taken for want of a figure; without assumed ones.
    pub inherited: Vec<Inherited>,
}

impl Basis {
    pub(super) fn new(
        system: &str,
        used: Vec<Recorded>,
        inherited: impl Iterator<Item = Inherited>,
    ) -> Basis {
        let taken = |one: &Inherited| one.tag == Tag::Assumed && one.value.tag != Tag::Assumed;
        Basis {
            system: system.to_owned(),
            fitted: used.iter().filter(|one| one.tag == Tag::Fitted).count(),
            assumed: used
                .into_iter()
                .filter(|one| one.tag == Tag::Assumed)
                .collect(),
            inherited: inherited.filter(taken).collect(),
        }
    }

    /// Returns the paths of the values that matter most, most important first.
    pub fn most_important(&self) -> Vec<String> {
        let assumed = self.assumed.iter().map(|one| (&one.path, "assumed"));
        let inherited = self.inherited.iter();
        let inherited = inherited.map(|one| (&one.value.path, one.from.as_str()));
        let mut all: Vec<_> = assumed.chain(inherited).collect();
        let rank = |path: &str| IMPORTANT.iter().position(|end| path.ends_with(end));
        all.sort_by_key(|(path, _)| rank(path).unwrap_or(IMPORTANT.len()));
        let named = all
            .into_iter()
            .map(|(path, from)| format!("{path} ({from})"));
        named.collect()
    }

    /// Returns how many of its values no source supports, e.g. `connectx6-hdr 13 + 15`; `None` if
    /// there are none.
    pub fn counts(&self) -> Option<String> {
        let (assumed, inherited) = (self.assumed.len(), self.inherited.len());
        let any = assumed + inherited > 0;
        any.then(|| format!("{} {assumed} + {inherited}", self.system))
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::shipped::SHIPPED;
    use crate::profile::{Library, Overrides};

    const OLD: &str = "kind = \"cable\"\nbase = \"copper\"\nabout = \"a test's\"\n";

    fn with(text: &str) -> Result<Library, crate::profile::Error> {
        let shipped = Library::shipped(&Overrides::none()).expect("sound");
        shipped.and([("copper.toml", COPPER), ("mine.toml", text)])
    }

    const COPPER: &str = "kind = \"cable\"\nbase = \"copper\"\nabout = \"of 2005\"\n\
                          generation = \"2005\"\n";

    #[test]
    fn hosts_adapters_links_switches_and_libraries_state_their_generation() {
        let kinds = ["host/", "adapter/", "link/", "switch/", "mpi/"];
        for (path, text) in SHIPPED {
            let needs = kinds.iter().any(|kind| path.starts_with(kind));
            let states = text.lines().any(|line| line.starts_with("generation = "));
            assert!(states || !needs, "{path} states no generation");
        }
    }

    #[test]
    fn no_shipped_value_is_inherited_over_a_generation_unlisted() {
        // Such a value is a fault of its profile.
        let library = Library::shipped(&Overrides::none());
        assert_eq!(library.map(|_| ()), Ok(()));
    }

    #[test]
    fn an_unlisted_value_is_refused_by_file_and_key() {
        with(OLD).expect("of the same generation");
        let error = with(&format!("{OLD}generation = \"2020\"\n")).expect_err("unlisted");
        assert_eq!(error.file, "mine.toml");
        assert!(
            error.reason.contains("another generation (2005)"),
            "{error}"
        );
        let keys = "keys = [\"length\", \"per_metre\", \"transceiver\"]";
        let list = format!("inherits = [{{ {keys}, tag = \"assumed\", source = \"none\" }}]\n");
        with(&format!("{OLD}generation = \"2020\"\n{list}")).expect("all are listed");
        let same = with(&format!("{OLD}{list}")).map(|_| ());
        same.expect("lists without a new generation say nothing");
    }

    #[test]
    fn a_listed_value_that_is_not_inherited_is_refused() {
        let keys = "keys = [\"length\", \"per_metre\", \"transceiver\", \"colour\"]";
        let list = format!("inherits = [{{ {keys}, tag = \"assumed\", source = \"none\" }}]\n");
        let error = with(&format!("{OLD}generation = \"2020\"\n{list}")).expect_err("stale");
        assert_eq!((error.line, error.key.as_str()), (5, "colour"));
        let error = with(&format!("{OLD}inherits = 3\n")).expect_err("no list");
        assert_eq!(error.key, "inherits");
    }

    /// Years by which a shipped system's library may be older than its host.
    const LIBRARY_YEARS: u32 = 3;

    /// Returns the last year in the generation that a shipped profile states.
    fn year(path: &str) -> u32 {
        let (_, text) = SHIPPED
            .iter()
            .find(|(shipped, _)| *shipped == path)
            .expect("is shipped");
        let line = text.lines().find(|line| line.starts_with("generation = "));
        let words = line
            .expect("states it")
            .split(|letter: char| !letter.is_ascii_digit());
        let mut years = words.filter(|word| word.len() == 4);
        years
            .next_back()
            .expect("has a year")
            .parse()
            .expect("is a number")
    }

    #[test]
    fn the_library_of_a_shipped_system_is_of_the_time_of_its_host() {
        let library = Library::shipped(&Overrides::none()).expect("sound");
        for system in library.systems() {
            let names = library.system_names(system).expect("is known");
            let Some(mpi) = &names.mpi else {
                continue;
            };
            let host = year(&format!("host/{}", names.host));
            assert!(
                year(&format!("mpi/{mpi}")) + LIBRARY_YEARS >= host,
                "{system}: {mpi} is more than {LIBRARY_YEARS} years older than a host of {host}"
            );
        }
    }

    #[test]
    fn the_most_important_values_are_first() {
        let library = Library::shipped(&Overrides::none()).expect("sound");
        let basis = library.basis("connectx6-hdr").expect("a system");
        let all = basis.most_important();
        assert!(all[0].ends_with(".overhead (assumed)"), "{all:?}");
        let (assumed, inherited) = (basis.assumed.len(), basis.inherited.len());
        assert_eq!(assumed + inherited, all.len());
        let counts = format!("connectx6-hdr {assumed} + {inherited}");
        assert_eq!(basis.counts(), Some(counts));
    }
}
