//! SciTokens and tokens of the WLCG profile: JSON Web Tokens of trusted issuers, with the access
//! that they grant.

mod issuer;
pub mod scope;
mod verifier;

use std::path::Path;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{DecodingKey, Validation, dangerous, decode, decode_header};
use serde_json::Value;

use issuer::{BadIssuers, Issuer};
use scope::{BadScope, Scopes};
use verifier::algorithm_of;

/// Maximum length of a subject in bytes: with the issuer's name it forms a user's name.
const MOST_SUBJECT: usize = 255;

/// The accepted issuers.
#[derive(Debug, Default)]
pub struct Issuers(Vec<Issuer>);

/// A verified token: the user that it names, and the scopes that it grants.
#[derive(Debug, Clone)]
pub struct VerifiedToken {
    /// The local user name: `SUBJECT@NAME`, or the user in the issuer's line.
    pub user: String,
    /// The token's subject.
    pub subject: String,
    /// The issuer's local name.
    pub issuer: String,
    /// The user's groups according to the token, as `ISSUER:GROUP` with the issuer's local name.
    pub groups: Vec<String>,
    /// The granted access.
    pub scopes: Scopes,
    /// Expiry in seconds since 1970, by this host's clock.
    pub expires: u64,
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It is not a JSON Web Token.
    #[error("it is not a JSON Web Token")]
    Form,
    /// The issuer is unknown.
    #[error("its issuer '{0}' is not known here")]
    Issuer(String),
    /// The signature is of another kind or invalid.
    #[error("it is not signed by RS256 or ES256 with a key of its issuer")]
    Signature,
    /// It has expired.
    #[error("it has expired; get another one")]
    Expired,
    /// It is not valid yet.
    #[error("it is not valid yet: the clocks of its issuer and of this server differ")]
    Early,
    /// It is for another service.
    #[error("its audience does not include this service")]
    Audience,
    /// A claim is missing or of the wrong type.
    #[error("its claim '{0}' is missing or malformed")]
    Claim(&'static str),
    /// Its scopes are invalid.
    #[error(transparent)]
    Scope(#[from] BadScope),
    /// It grants no access to this service.
    #[error("it grants no access here: no scope is storage.read, .create, .modify, read or write")]
    Nothing,
}

impl Issuers {
    /// Reads the file of issuers, with their keys.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn load(path: &Path) -> Result<Self, BadIssuers> {
        verifier::install();
        Issuer::load_all(path).map(Self)
    }

    /// Returns whether no issuer is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Verifies a token, by this host's clock.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn verify_token(&self, token: &[u8]) -> Result<VerifiedToken, BadToken> {
        let header = decode_header(token).map_err(|_| BadToken::Form)?;
        if header.crit.is_some() {
            // RFC 7515, 4.1.11: unsupported critical extensions make the token invalid.
            return Err(BadToken::Form);
        }
        // Not trusted: it only selects the issuer whose keys must have signed the token.
        let claimed: Value =
            dangerous::insecure_decode_claims(token).map_err(|_| BadToken::Form)?;
        let url = claimed["iss"].as_str().ok_or(BadToken::Claim("iss"))?;
        let issuer = self
            .0
            .iter()
            .find(|issuer| issuer.url == url)
            .ok_or_else(|| BadToken::Issuer(url.chars().take(200).collect()))?;
        let named = header.kid.as_deref();
        let fits = |id: Option<&str>| named.is_none() || id.is_none() || id == named;
        let mut verdict = Err(BadToken::Signature);
        for key in issuer.keys.iter().filter(|key| fits(key.id.as_deref())) {
            verdict = verify(token, &key.key, issuer);
            if !matches!(verdict, Err(BadToken::Signature)) {
                break;
            }
        }
        verified(&verdict?, issuer)
    }
}

/// Returns the claims of a token that is signed with this key and currently valid.
fn verify(token: &[u8], key: &DecodingKey, issuer: &Issuer) -> Result<Value, BadToken> {
    // The key determines the algorithm, never the token.
    let algorithm = algorithm_of(key).ok_or(BadToken::Signature)?;
    let mut validation = Validation::new(algorithm);
    validation.leeway = issuer.skew;
    validation.validate_nbf = true;
    validation.set_issuer(&[&issuer.url]);
    validation.set_audience(&issuer.audience);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    decode(token, key, &validation)
        .map(|verified| verified.claims)
        .map_err(|error| match error.kind() {
            ErrorKind::ExpiredSignature => BadToken::Expired,
            ErrorKind::ImmatureSignature => BadToken::Early,
            ErrorKind::InvalidAudience => BadToken::Audience,
            ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
                let known = ["exp", "nbf", "iss", "aud", "sub"];
                let name = known.into_iter().find(|known| *known == claim.as_str());
                BadToken::Claim(name.unwrap_or("exp"))
            }
            ErrorKind::Json(_) | ErrorKind::Utf8(_) | ErrorKind::InvalidToken => BadToken::Form,
            _ => BadToken::Signature,
        })
}

/// Returns the groups of the WLCG profile's claim, if there is one.
fn groups(claims: &Value, issuer: &Issuer) -> Result<Vec<String>, BadToken> {
    let malformed = BadToken::Claim("wlcg.groups");
    match &claims["wlcg.groups"] {
        Value::Null => Ok(Vec::new()),
        Value::Array(groups) => groups
            .iter()
            .map(|group| {
                let name = group.as_str().ok_or(malformed.clone())?;
                Ok(format!("{}:{name}", issuer.name))
            })
            .collect(),
        _ => Err(malformed),
    }
}

fn verified(claims: &Value, issuer: &Issuer) -> Result<VerifiedToken, BadToken> {
    if claims["iss"].as_str() != Some(&issuer.url) {
        return Err(BadToken::Claim("iss"));
    }
    let subject = claims["sub"]
        .as_str()
        .filter(|subject| (1..=MOST_SUBJECT).contains(&subject.len()))
        .ok_or(BadToken::Claim("sub"))?;
    let expires = claims["exp"].as_f64().ok_or(BadToken::Claim("exp"))?;
    let scope = claims["scope"].as_str().ok_or(BadToken::Claim("scope"))?;
    let scopes = Scopes::parse(scope, &issuer.base)?;
    if scopes.is_empty() {
        return Err(BadToken::Nothing);
    }
    Ok(VerifiedToken {
        user: match &issuer.user {
            Some(user) => user.clone(),
            None => format!("{subject}@{}", issuer.name),
        },
        subject: subject.to_owned(),
        groups: groups(claims, issuer)?,
        issuer: issuer.name.clone(),
        scopes,
        // A float beyond the range of u64 saturates.
        expires: (expires as u64).saturating_add(issuer.skew),
    })
}

#[cfg(test)]
mod tests;
