//! Fabrics of a study: the topologies, with their forwarding tables or without, that connect the
//! nodes of its systems.

use super::file::{Placed, Source};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use toml::de::{DeTable, DeValue};
use verbena_model::profile::{Error, Library, Topology};

/// Files of a fabric, as a study names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FabricSource {
    /// Its topology.
    pub topology: String,
    /// Its switches' forwarding tables.
    pub routes: Option<String>,
    /// The hosts: a list as Slurm abbreviates it, or `@FILE` with a name per line.
    pub hosts: Option<String>,
}

/// A fabric that connects the nodes of a point's system.
#[derive(Debug, Clone)]
pub(super) struct StudyFabric {
    /// Its name in the study; `None` for the one fabric of all points.
    pub name: Option<String>,
    /// How the nodes are connected.
    pub connections: Topology,
}

impl StudyFabric {
    /// Returns the library with all systems on this fabric.
    pub fn joining(&self, library: Library) -> Library {
        library.connected_as(self.connections.clone())
    }

    /// Returns a line that changes with the content of the fabric's files.
    pub fn fingerprint(&self) -> String {
        let mut hash = Hash(OFFSET);
        let (wiring, built) = (&self.connections.wiring, &self.connections.built);
        write!(hash, "{wiring:?} {built:?}").expect("a hash takes every text");
        let name = self.name.as_deref().unwrap_or("-");
        format!("fabric {name} {:016x}", hash.0)
    }
}

/// Constants of FNV-1a with 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Hashes a text by FNV-1a without storing it: `DefaultHasher` may change with the compiler.
struct Hash(u64);

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

/// Keys of a fabric's section.
const KEYS: [&str; 3] = ["topology", "routes", "hosts"];

/// Reads the sections `[fabric.NAME]`, in the order of their names.
///
/// # Errors
///
/// Returns an error if a section is invalid, or `load` cannot read its files.
pub(super) fn read(
    source: Source<'_>,
    table: &DeTable<'_>,
    load: impl Fn(&FabricSource) -> Result<Topology, String>,
) -> Result<Vec<StudyFabric>, Error> {
    let Some(section) = table.get("fabric") else {
        return Ok(Vec::new());
    };
    let at = section.span().start;
    let DeValue::Table(sections) = section.get_ref() else {
        return Err(source.fault(at, "fabric", "expected sections [fabric.NAME]"));
    };
    let mut fabrics = BTreeMap::new();
    for (key, value) in sections.iter() {
        let name = key.get_ref().to_string();
        let full = format!("fabric.{name}");
        let at = key.span().start;
        let fault = |reason: &str| source.fault(at, &full, reason);
        if name.is_empty() || name.contains(|c: char| c.is_control() || c == ',' || c == '"') {
            return Err(fault(
                "a name must not be empty or contain commas, quotation marks or control characters",
            ));
        }
        let DeValue::Table(entries) = value.get_ref() else {
            return Err(fault("expected a section with topology"));
        };
        for (key, _) in entries.iter() {
            let word = key.get_ref().as_ref();
            if !KEYS.contains(&word) {
                let reason = format!("expected {}", KEYS.join(", "));
                let full = format!("{full}.{word}");
                return Err(source.fault(key.span().start, &full, reason));
            }
        }
        let word = |key: &str| {
            let value = entries.get(key);
            let word = value.map(|value| source.word_of(&format!("{full}.{key}"), value));
            Ok::<_, Error>(word.transpose()?.map(|Placed { value, .. }| value))
        };
        let files = FabricSource {
            topology: word("topology")?.ok_or_else(|| fault("topology is missing"))?,
            routes: word("routes")?,
            hosts: word("hosts")?,
        };
        let is_input = |word: &Option<String>, input: &str| word.as_deref() == Some(input);
        if files.topology == "-" || is_input(&files.routes, "-") || is_input(&files.hosts, "@-") {
            return Err(fault("a study has no standard input; name a file"));
        }
        let connections = load(&files).map_err(|reason| fault(&reason))?;
        let fabric = StudyFabric {
            name: Some(name.clone()),
            connections,
        };
        fabrics.insert(name, fabric);
    }
    if fabrics.is_empty() {
        return Err(source.fault(at, "fabric", "expected sections [fabric.NAME]"));
    }
    Ok(fabrics.into_values().collect())
}
