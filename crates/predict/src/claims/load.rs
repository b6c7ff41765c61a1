//! Reads `papers/claims.toml`, and beside it `papers/misses.toml` and `papers/information.toml`.

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
    /// Why it says nothing about the models, if it does not.
    #[serde(skip_deserializing)]
    pub without: Option<String>,
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
    /// A note on no claim.
    #[error("papers/{file}: there is no claim {claim:?}")]
    Unknown {
        /// Where the note is.
        file: &'static str,
        /// What it names.
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

/// The claims that come with the program.
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
