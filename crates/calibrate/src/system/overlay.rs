//! Fitted values as profiles: one for each part with fitted values, based on the original part, and
//! a system that uses them.

use super::Calibrated;
use std::collections::BTreeMap;
use std::fmt::Write;
use verbena_model::profile::{Library, ProfileKind, SystemNames};

const ENDING: &str = "calibrated";

/// A profile file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// Its name, without `.toml`.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// Returns profiles with the values fitted for `system`, the system itself last. Values that the
/// data do not determine are left out. `source` describes in words the data of the fit.
pub fn overlay(
    library: &Library,
    system: &str,
    calibrated: &Calibrated,
    source: &str,
) -> Vec<Overlay> {
    let Ok(names) = library.system_names(system) else {
        return Vec::new();
    };
    // Values by kind and name of a part, then by section.
    let mut parts: BTreeMap<(&str, &str), BTreeMap<&str, String>> = BTreeMap::new();
    let unseen = &calibrated.identified.unseen;
    for ((free, unit), value) in calibrated
        .free
        .iter()
        .zip(&calibrated.units)
        .zip(&calibrated.fit.values)
        .filter(|((free, _), _)| !unseen.contains(&free.path))
    {
        let Some((part, key)) = part_of(library, names, &free.path) else {
            continue;
        };
        let (section, key) = key.rsplit_once('.').unwrap_or(("", key));
        let lines = parts.entry(part).or_default().entry(section).or_default();
        let _ = writeln!(
            lines,
            "{key} = {{ value = {value}, unit = {}, tag = \"fitted\", source = {}, low = {}, \
             high = {} }}",
            string(unit),
            string(source),
            free.low,
            free.high
        );
    }
    let mut overlays = Vec::new();
    let mut whole = head("system", system);
    for ((kind, name), sections) in parts {
        let mut text = head(kind, name);
        for (section, lines) in sections {
            if !section.is_empty() {
                let _ = writeln!(text, "\n[{section}]");
            }
            text.push_str(&lines);
        }
        let name = format!("{name}-{ENDING}");
        let _ = writeln!(whole, "{kind} = {}", string(&name));
        overlays.push(Overlay { name, text });
    }
    overlays.push(Overlay {
        name: format!("{system}-{ENDING}"),
        text: whole,
    });
    overlays
}

fn head(kind: &str, base: &str) -> String {
    let about = string(&format!("{base}, calibrated"));
    format!(
        "kind = \"{kind}\"\nbase = {}\nabout = {about}\n",
        string(base)
    )
}

/// Quotes a string as TOML.
pub(crate) fn string(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Returns the kind and name of the system's part to which a path belongs, directly or through its
/// base, and the key in it.
fn part_of<'l>(
    library: &'l Library,
    names: &'l SystemNames,
    path: &str,
) -> Option<((&'static str, &'l str), &'l str)> {
    let value = library.recorded().iter().find(|value| value.path == path)?;
    let name = match value.kind {
        ProfileKind::Host => names.host.as_str(),
        ProfileKind::Adapter => names.adapter.as_str(),
        ProfileKind::Link => names.link.as_str(),
        ProfileKind::Cable => names.cable.as_str(),
        ProfileKind::Switch => names.switch.as_deref()?,
        ProfileKind::Topology => names.topology.as_deref()?,
        ProfileKind::Congestion => names.congestion.as_deref()?,
        ProfileKind::Mpi => names.mpi.as_deref()?,
        _ => return None,
    };
    Some(((value.kind.word(), name), value.key.as_str()))
}
