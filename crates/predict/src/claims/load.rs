//! Reads `papers/claims.toml`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What kind of statement a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// A measured value.
    Absolute,
    /// One configuration over another.
    Ratio,
    /// Must lie between `low` and `high`.
    Bound,
    /// A statement about a curve.
    Shape,
}

/// A published statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `<paper>.<what>`.
    pub id: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// What was measured on what.
    pub setup: String,
    /// Kind of statement.
    pub kind: ClaimKind,
    /// The published figure.
    pub value: Option<f64>,
    /// Several published figures.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// Not below.
    pub low: Option<f64>,
    /// Not above.
    pub high: Option<f64>,
    /// Unit of the figures.
    #[serde(default)]
    pub unit: String,
    /// The predicate of a shape.
    pub check: Option<String>,
}

impl Claim {
    /// The paper's part of the id.
    pub fn paper(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }
}

#[derive(Deserialize)]
struct File {
    claim: Vec<Claim>,
}

/// The claims' file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("papers/claims.toml: {0}")]
pub struct ClaimError(#[from] toml::de::Error);

/// The claims that come with the program.
pub fn shipped() -> Result<Vec<Claim>, ClaimError> {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../papers/claims.toml"
    ));
    Ok(toml::from_str::<File>(text)?.claim)
}
