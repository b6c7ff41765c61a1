//! Fitted values as profiles: one for each part that has some, based on the one it had, and a system of them.

use super::Calibrated;
use std::collections::BTreeMap;
use std::fmt::Write;
use verbena_model::profile::{Library, Profile, SystemNames};

/// What the names of fitted profiles end in.
const ENDING: &str = "calibrated";

/// A profile's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// Its name, without `.toml`.
    pub name: String,
    /// Its contents.
    pub text: String,
}

/// Profiles with what was fitted for `system`, the system itself last. Values that the data do not see stay as they were.
/// `source` says in words what they were fitted to.
pub fn overlay(
    library: &Library,
    system: &str,
    calibrated: &Calibrated,
    source: &str,
) -> Vec<Overlay> {
    let Some(Profile::System(names)) = library.profile(system) else {
        return Vec::new();
    };
    // Kind and name of a part; its sections; their values.
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
            "{key} = {{ value = {value}, unit = {}, tag = \"fitted\", source = {}, low = {}, high = {} }}",
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

fn string(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Kind and name of the system's part to which a path belongs, be it by its base, and the key in it.
fn part_of<'n, 'p>(
    library: &Library,
    names: &'n SystemNames,
    path: &'p str,
) -> Option<((&'static str, &'n str), &'p str)> {
    let (profile, key) = path
        .match_indices('.')
        .find_map(|(dot, _)| Some((library.profile(&path[..dot])?, &path[dot + 1..])))?;
    let part = match profile {
        Profile::Host(_) => ("host", names.host.as_str()),
        Profile::Adapter(_) => ("adapter", names.adapter.as_str()),
        Profile::Link(_) => ("link", names.link.as_str()),
        Profile::Cable(_) => ("cable", names.cable.as_str()),
        Profile::Switch(_) => ("switch", names.switch.as_deref()?),
        Profile::Mpi(_) => ("mpi", names.mpi.as_deref()?),
        _ => return None,
    };
    Some((part, key))
}
