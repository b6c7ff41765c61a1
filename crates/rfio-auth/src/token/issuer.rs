//! The file of trusted token issuers: a line for each issuer, `#` for comments.
//!
//! `NAME ISSUER keys=FILE audience=AUDIENCE[,AUDIENCE...] [path=/BASE] [user=USER] [skew=SECONDS]`

use std::path::{Path, PathBuf};

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, JwkSet, KeyAlgorithm, PublicKeyUse};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use super::scope::{Components, components};
use crate::certificate::PublicKey;
use crate::files::{BadFile, read_unchanged, text_of};

/// Maximum number of keys of an issuer: a token that names none is tried with all of them.
const MOST_KEYS: usize = 32;

/// Default for the permitted difference between the clocks of issuer and server, in seconds.
const USUAL_SKEW: u64 = 60;

/// Maximum for the same, in seconds.
const MOST_SKEW: u64 = 300;

/// A trusted issuer of tokens.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// Its local name, which its users have as a suffix after `@`.
    pub name: String,
    /// The `iss` claim of its tokens.
    pub url: String,
    /// Their `aud` claim must be one of these.
    pub audience: Vec<String>,
    /// The path of this service that corresponds to `/` in its tokens.
    pub base: Components,
    /// The single user that all of its users map to, if any.
    pub user: Option<String>,
    /// Permitted difference between the clocks, in seconds.
    pub skew: u64,
    /// Its keys for verifying signatures.
    pub keys: Vec<IssuerKey>,
}

/// A public key with its identifier in tokens.
#[derive(Debug, Clone)]
pub struct IssuerKey {
    /// The identifier.
    pub id: Option<String>,
    /// The key.
    pub key: DecodingKey,
}

/// Why such a file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum BadIssuers {
    /// It, or a file of keys, cannot be read, or other users can change it.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A line is invalid.
    #[error("{0}, line {1}: {2}")]
    Line(PathBuf, usize, String),
    /// A file of keys is invalid.
    #[error("{0}: {1}")]
    Keys(PathBuf, String),
}

impl Issuer {
    /// Reads a file, and the files of keys that it names.
    ///
    /// # Errors
    /// A file cannot be read, can be changed by other users, or is invalid.
    pub fn load_all(path: &Path) -> Result<Vec<Self>, BadIssuers> {
        let text = text_of(path, read_unchanged(path)?)?;
        let mut issuers: Vec<Self> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |what: String| BadIssuers::Line(path.to_owned(), index + 1, what);
            let (mut issuer, keys) = Self::parse(line).map_err(bad)?;
            if let Some(same) = issuers
                .iter()
                .find(|other| other.url == issuer.url || other.name == issuer.name)
            {
                return Err(bad(format!("{} is already in the file", same.name)));
            }
            issuer.keys = load_keys(&keys)?;
            issuers.push(issuer);
        }
        Ok(issuers)
    }

    fn parse(line: &str) -> Result<(Self, PathBuf), String> {
        let form = "expected NAME ISSUER keys=FILE audience=AUDIENCE[,...] [path=/BASE] \
                    [user=USER] [skew=SECONDS]";
        let mut words = line.split_whitespace();
        let (Some(name), Some(url)) = (words.next(), words.next()) else {
            return Err(form.into());
        };
        // A colon is the separator after it in names of groups (--rights).
        if name.contains(':') {
            return Err(format!("name '{name}' has a colon; {form}"));
        }
        let mut issuer = Self {
            name: name.to_owned(),
            url: url.to_owned(),
            audience: Vec::new(),
            base: Components::new(),
            user: None,
            skew: USUAL_SKEW,
            keys: Vec::new(),
        };
        let mut keys = None;
        for word in words {
            match word.split_once('=') {
                Some(("keys", file)) => keys = Some(PathBuf::from(file)),
                Some(("audience", list)) => {
                    issuer.audience = list.split(',').map(str::to_owned).collect();
                }
                Some(("path", path)) if path.starts_with('/') => {
                    let base = components(path.as_bytes());
                    issuer.base = base.ok_or(format!("'{path}' has '..'"))?;
                }
                Some(("user", user)) if !user.is_empty() => issuer.user = Some(user.to_owned()),
                Some(("skew", text)) => {
                    let seconds = text.parse().ok().filter(|&seconds| seconds <= MOST_SKEW);
                    let range = format!("skew is 0 to {MOST_SKEW} seconds, not '{text}'");
                    issuer.skew = seconds.ok_or(range)?;
                }
                _ => return Err(format!("unknown word '{word}'; {form}")),
            }
        }
        if issuer.audience.is_empty() || issuer.audience.iter().any(String::is_empty) {
            return Err(format!("no audience; {form}"));
        }
        let keys = keys.ok_or(format!("no file of keys; {form}"))?;
        Ok((issuer, keys))
    }
}

/// Reads public keys: a JSON Web Key Set, or PEM.
fn load_keys(path: &Path) -> Result<Vec<IssuerKey>, BadIssuers> {
    let text = text_of(path, read_unchanged(path)?)?;
    let keys = match text.trim_start().starts_with('{') {
        true => keys_of_set(&text),
        false => keys_of_pem(&text),
    };
    let keys = keys.map_err(|what| BadIssuers::Keys(path.to_owned(), what))?;
    match keys.len() {
        0 => {
            let what = "has no public key for RS256 or ES256".into();
            Err(BadIssuers::Keys(path.to_owned(), what))
        }
        count if count > MOST_KEYS => {
            let what = format!("has {count} keys, more than {MOST_KEYS}");
            Err(BadIssuers::Keys(path.to_owned(), what))
        }
        _ => Ok(keys),
    }
}

fn keys_of_set(text: &str) -> Result<Vec<IssuerKey>, String> {
    let set: JwkSet = serde_json::from_str(text)
        .map_err(|error| format!("is not a JSON Web Key Set: {error}"))?;
    // Issuers also publish keys of other kinds and for other purposes; these are skipped.
    let keys = set.keys.iter().filter_map(|jwk| {
        let common = &jwk.common;
        let encrypts = matches!(common.public_key_use, Some(PublicKeyUse::Encryption));
        let algorithm = common.key_algorithm;
        let fits = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => {
                matches!(algorithm, None | Some(KeyAlgorithm::RS256))
            }
            AlgorithmParameters::EllipticCurve(parameters) => {
                parameters.curve == EllipticCurve::P256
                    && matches!(algorithm, None | Some(KeyAlgorithm::ES256))
            }
            _ => false,
        };
        let key = (fits && !encrypts).then(|| DecodingKey::from_jwk(jwk).ok());
        Some(IssuerKey {
            id: common.key_id.clone(),
            key: key??,
        })
    });
    Ok(keys.collect())
}

fn keys_of_pem(text: &str) -> Result<Vec<IssuerKey>, String> {
    if text.contains("PRIVATE KEY") {
        return Err("has a private key; list public keys only".into());
    }
    let infos = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes());
    let keys = infos.map(|info| {
        let info = info.map_err(|error| format!("is not PEM: {error}"))?;
        let key = match PublicKey::read(&info) {
            Some(PublicKey::Rsa(key)) => DecodingKey::from_rsa_der(key),
            Some(PublicKey::P256(point)) => DecodingKey::from_ec_der(point),
            None => return Err("has a public key that is neither RSA nor of P-256".into()),
        };
        Ok(IssuerKey { id: None, key })
    });
    keys.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_lines_are_parsed() {
        let line = "wlcg https://iam.example/ keys=/k audience=a,b path=/x//y user=atlas skew=5";
        let (issuer, keys) = Issuer::parse(line).unwrap();
        assert_eq!(issuer.url, "https://iam.example/");
        assert_eq!(issuer.audience, ["a", "b"]);
        assert_eq!(issuer.base, components(b"/x/y").unwrap());
        assert_eq!((issuer.user.as_deref(), issuer.skew), (Some("atlas"), 5));
        assert_eq!(keys, Path::new("/k"));
        for bad in [
            "wlcg",
            "wlcg https://x/",
            "wlcg https://x/ keys=/k",
            "wlcg https://x/ audience=a",
            "wlcg https://x/ keys=/k audience=",
            "wlcg https://x/ keys=/k audience=a,",
            "wlcg https://x/ keys=/k audience=a path=x",
            "wlcg https://x/ keys=/k audience=a path=/a/../b",
            "wlcg https://x/ keys=/k audience=a skew=301",
            "wlcg https://x/ keys=/k audience=a users=x",
            "wl:cg https://x/ keys=/k audience=a",
        ] {
            assert!(Issuer::parse(bad).is_err(), "{bad}");
        }
    }
}
