//! Fitted values as a profile.

use super::Closed;
use crate::system::quoted;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Suffix of the name of a fitted profile.
pub const ENDING: &str = "calibrated";

/// Returns the text of a profile: `base` with the fitted values. Values that the measurements do
/// not determine are not changed. `source` describes in words the data of the fit.
pub fn fitted_profile(base: &str, closed: &Closed, source: &str) -> String {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    let values = closed
        .free
        .iter()
        .zip(&closed.units)
        .zip(&closed.fit.values);
    for ((free, unit), value) in values {
        if closed.identified.unseen.contains(&free.path) {
            continue;
        }
        let mut words = free.path.rsplit('.');
        let (Some(key), Some(section)) = (words.next(), words.next()) else {
            continue;
        };
        let _ = writeln!(
            sections.entry(section).or_default(),
            "{key} = {{ value = {value}, unit = {}, tag = \"fitted\", source = {}, low = {}, \
             high = {} }}",
            quoted(unit),
            quoted(source),
            free.low,
            free.high
        );
    }
    let mut out = format!(
        "kind = \"software\"\nbase = {}\nabout = {}\n",
        quoted(base),
        quoted("Verbena's software adapter, as it was measured here")
    );
    for (section, lines) in sections {
        let _ = write!(out, "\n[{section}]\n{lines}");
    }
    out
}
