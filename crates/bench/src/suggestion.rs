//! Suggests a known name for an unknown one.

/// Similarity below which names count as different words.
const ALIKE: f64 = 0.8;

/// Returns the known name most similar to `name`, if any is similar enough.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    known
        .map(|known| (likeness(known), known))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Returns the suggestion as the end of a message: `; did you mean "latency.write"?`, or an empty
/// string.
pub fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map_or(String::new(), |known| format!("; did you mean {known:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_misspellings_get_a_suggestion() {
        let known = || ["latency.write", "latency.read", "bandwidth.write"].into_iter();
        assert_eq!(nearest("latency.wrote", known()), Some("latency.write"));
        assert_eq!(nearest("bandwith.write", known()), Some("bandwidth.write"));
        assert_eq!(nearest("ping", known()), None);
        assert_eq!(did_you_mean("ping", known()), "");
    }
}
