//! Published figures of a measurement on a system.

use verbena_reproduce::validation::{ValidationError, shipped};

/// A published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedFigure {
    /// In the curve's unit: us, or 10^6 bytes a second.
    pub value: f64,
    /// Id of the curve.
    pub curve: String,
    /// Its author.
    pub author: String,
}

/// Returns the published figures of a benchmark over a connection on a system, with messages of
/// this size in bytes.
///
/// # Errors
///
/// If the shipped curves cannot be read.
pub fn published(
    system: &str,
    benchmark: &str,
    bytes: u64,
) -> Result<Vec<PublishedFigure>, ValidationError> {
    let mut found = Vec::new();
    for source in shipped()? {
        let of_it = source.curves.iter().filter(|curve| {
            curve.system == system
                && curve.benchmark == benchmark
                && curve.transport.as_deref().is_none_or(|one| one == "rc")
        });
        let points = of_it.flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let at_size = points.filter(|(_, point)| point.0 == bytes);
        found.extend(at_size.map(|(curve, point)| PublishedFigure {
            value: point.1,
            curve: curve.id.clone(),
            author: source.author.clone(),
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_match_the_size() {
        let at = |bytes| published("connectx6-hdr", "latency.send", bytes).unwrap();
        let figures: Vec<f64> = at(8).iter().map(|figure| figure.value).collect();
        assert!(figures.contains(&1.59), "{figures:?}");
        assert_eq!(at(9), []);
    }
}
