//! Reads `papers/claims.toml`, and beside it `papers/misses.toml`.

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
    /// Why the shipped models miss it, if they do.
    #[serde(skip_deserializing)]
    pub miss: Option<String>,
}

impl Claim {
    /// The paper's part of the id.
    pub fn paper(&self) -> &str {
        self.id.split('.').next().unwrap_or(&self.id)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    claim: Vec<Claim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Misses {
    miss: Vec<Miss>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Miss {
    claim: String,
    why: String,
}

/// The claims cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A file is not as it should be.
    #[error("papers/{file}: {source}")]
    File {
        /// Its name.
        file: &'static str,
        /// What is wrong.
        source: toml::de::Error,
    },
    /// A miss of no claim.
    #[error("papers/misses.toml: there is no claim {0:?}")]
    Unknown(String),
}

macro_rules! paper {
    ($file:literal) => {
        toml::from_str(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../papers/",
            $file
        )))
        .map_err(|source| ClaimError::File {
            file: $file,
            source,
        })
    };
}

/// The claims that come with the program.
pub fn shipped() -> Result<Vec<Claim>, ClaimError> {
    let Claims { claim: mut claims } = paper!("claims.toml")?;
    let Misses { miss: misses } = paper!("misses.toml")?;
    for miss in misses {
        let claim = claims.iter_mut().find(|claim| claim.id == miss.claim);
        match claim {
            Some(claim) => claim.miss = Some(miss.why),
            None => return Err(ClaimError::Unknown(miss.claim)),
        }
    }
    Ok(claims)
}
