//! Reads `papers/claims.toml`, and beside it `papers/misses.toml` and `papers/information.toml`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kind of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// A measured value.
    Absolute,
    /// One configuration over another.
    Ratio,
    /// A value that must lie between `low` and `high`.
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
    /// Section, table or figure of the paper.
    #[serde(rename = "where")]
    pub place: String,
    /// The measured system and quantity.
    pub setup: String,
    /// Kind of statement.
    pub kind: ClaimKind,
    /// The published figure.
    pub value: Option<f64>,
    /// Several published figures.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// Lower bound.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// Unit of the figures.
    #[serde(default)]
    pub unit: String,
    /// Predicate of a shape.
    pub check: Option<String>,
    /// Reason why the shipped models miss it, if they do.
    #[serde(skip_deserializing)]
    pub miss: Option<String>,
    /// Reason why it says nothing about the models, if so.
    #[serde(skip_deserializing)]
    pub without: Option<String>,
}

impl Claim {
    /// Returns the part of the id that names the paper.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Information {
    without: Vec<Without>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Without {
    claim: String,
    why: String,
}

/// Reason why the claims cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A file is invalid.
    #[error("papers/{file}: {source}")]
    File {
        /// Name of the file.
        file: &'static str,
        /// The parser's error.
        source: toml::de::Error,
    },
    /// A note refers to a claim that does not exist.
    #[error("papers/{file}: there is no claim {claim:?}")]
    Unknown {
        /// File of the note.
        file: &'static str,
        /// The missing claim.
        claim: String,
    },
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

/// Returns the claims that come with the program.
///
/// # Errors
///
/// Returns [`ClaimError`] if a file is invalid or a note refers to a claim that does not exist.
pub fn shipped() -> Result<Vec<Claim>, ClaimError> {
    let Claims { claim: mut claims } = paper!("claims.toml")?;
    let Misses { miss: misses } = paper!("misses.toml")?;
    let Information { without } = paper!("information.toml")?;
    let find = |claims: &mut [Claim], file, name: String| {
        let place = claims.iter().position(|claim| claim.id == name);
        place.ok_or(ClaimError::Unknown { file, claim: name })
    };
    for miss in misses {
        let place = find(&mut claims, "misses.toml", miss.claim)?;
        claims[place].miss = Some(miss.why);
    }
    for note in without {
        let place = find(&mut claims, "information.toml", note.claim)?;
        claims[place].without = Some(note.why);
    }
    Ok(claims)
}
