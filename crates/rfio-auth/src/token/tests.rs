//! Valid tokens, and attempts to gain more access than a token grants.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use verbena_rfio_common::scratch::Scratch;

use super::*;
use issuer::IssuerKey;

const URL: &str = "https://iam.example/";
const HERE: &str = "https://data.example:5001";

/// Encodes as in RFC 4648, section 5, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(word >> (18 - 6 * digit)) as usize & 63]));
        }
    }
    text
}

fn key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(curve, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(curve, pkcs8.as_ref(), &random).unwrap()
}

fn issuers(key: &EcdsaKeyPair) -> Issuers {
    verifier::install();
    Issuers(vec![Issuer {
        name: "wlcg".into(),
        url: URL.into(),
        audience: vec![HERE.into()],
        base: Vec::new(),
        user: None,
        skew: 60,
        keys: vec![IssuerKey {
            id: Some("k1".into()),
            key: DecodingKey::from_ec_der(key.public_key().as_ref()),
        }],
    }])
}

fn now() -> i64 {
    jsonwebtoken::get_current_timestamp() as i64
}

fn claims() -> Value {
    json!({
        "iss": URL, "sub": "ann", "aud": HERE, "wlcg.ver": "1.0",
        "nbf": now() - 10, "exp": now() + 600, "scope": "storage.read:/data openid",
    })
}

fn changed(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}

fn signing(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| base64(value.to_string().as_bytes());
    format!("{}.{}", part(header), part(claims))
}

fn signed(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    let message = signing(header, claims);
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    format!("{message}.{}", base64(signature.as_ref()))
}

fn es256() -> Value {
    json!({"alg": "ES256", "kid": "k1", "typ": "JWT"})
}

#[test]
fn a_valid_token_gives_user_and_scopes() {
    let key = key();
    let token = signed(&key, &es256(), &claims());
    let verified = issuers(&key).verify_token(token.as_bytes()).unwrap();
    assert_eq!(verified.user, "ann@wlcg");
    assert!(
        verified
            .scopes
            .covers(&scope::components(b"/data/x").unwrap())
    );
    assert!(
        !verified
            .scopes
            .covers(&scope::components(b"/data2").unwrap())
    );
    for audience in [json!([HERE]), json!(["other", HERE])] {
        let token = signed(&key, &es256(), &changed("aud", audience));
        assert!(issuers(&key).verify_token(token.as_bytes()).is_ok());
    }
}

#[test]
fn wrong_missing_and_mistyped_claims_are_refused() {
    let key = key();
    let issuers = issuers(&key);
    for (name, value, bad) in [
        (
            "aud",
            json!("https://other.example"),
            Some(BadToken::Audience),
        ),
        ("aud", json!(["a", "b"]), Some(BadToken::Audience)),
        ("aud", json!([]), Some(BadToken::Audience)),
        ("aud", json!(format!("{HERE}/")), Some(BadToken::Audience)),
        (
            "aud",
            json!("https://wlcg.cern.ch/jwt/v1/any"),
            Some(BadToken::Audience),
        ),
        ("aud", json!("ANY"), Some(BadToken::Audience)),
        ("aud", Value::Null, Some(BadToken::Claim("aud"))),
        ("aud", json!(7), Some(BadToken::Claim("aud"))),
        ("iss", json!("https://iam.example"), None),
        ("iss", json!([URL, "x"]), Some(BadToken::Claim("iss"))),
        ("iss", Value::Null, Some(BadToken::Claim("iss"))),
        ("sub", Value::Null, Some(BadToken::Claim("sub"))),
        ("sub", json!(""), Some(BadToken::Claim("sub"))),
        ("sub", json!("x".repeat(256)), Some(BadToken::Claim("sub"))),
        ("exp", json!(now() - 61), Some(BadToken::Expired)),
        ("exp", json!(-5), None),
        ("exp", json!("tomorrow"), None),
        ("exp", Value::Null, Some(BadToken::Claim("exp"))),
        ("nbf", json!(now() + 70), Some(BadToken::Early)),
        ("nbf", json!("1"), None),
        ("scope", Value::Null, Some(BadToken::Claim("scope"))),
        (
            "scope",
            json!(["storage.read:/"]),
            Some(BadToken::Claim("scope")),
        ),
        ("scope", json!("openid"), Some(BadToken::Nothing)),
        ("scope", json!("storage.read"), None),
        ("scope", json!("storage.read:/data/../secret"), None),
    ] {
        let token = signed(&key, &es256(), &changed(name, value.clone()));
        let refused = issuers.verify_token(token.as_bytes());
        let refused = refused.expect_err(&format!("{name}: {value}"));
        if let Some(bad) = bad {
            assert_eq!(refused, bad, "{name}: {value}");
        }
    }
}

#[test]
fn clocks_may_differ_by_the_skew() {
    let key = key();
    for (name, value) in [("exp", now() - 55), ("nbf", now() + 55)] {
        let token = signed(&key, &es256(), &changed(name, json!(value)));
        assert!(
            issuers(&key).verify_token(token.as_bytes()).is_ok(),
            "{name}"
        );
    }
}

#[test]
fn signatures_by_other_keys_algorithms_or_over_other_text_are_refused() {
    let (ours, theirs) = (key(), key());
    let issuers = issuers(&ours);
    let mut attempts = vec![
        signed(&theirs, &es256(), &claims()),
        signed(&ours, &json!({"alg": "ES256", "kid": "k2"}), &claims()),
        signed(&ours, &json!({"alg": "ES384", "kid": "k1"}), &claims()),
        signed(&ours, &json!({"alg": "RS256", "kid": "k1"}), &claims()),
        signed(
            &ours,
            &json!({"alg": "ES256", "crit": ["x"], "x": 1}),
            &claims(),
        ),
    ];
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let message = signing(&json!({"alg": none, "kid": "k1"}), &claims());
        attempts.push(format!("{message}."));
        attempts.push(message);
    }
    // The public key, which is known to all, as the secret of an HMAC.
    let public = ours.public_key();
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.as_ref());
    let message = signing(&json!({"alg": "HS256", "kid": "k1"}), &claims());
    let tag = ring::hmac::sign(&secret, message.as_bytes());
    attempts.push(format!("{message}.{}", base64(tag.as_ref())));
    // A key contained in the token.
    let header =
        json!({"alg": "ES256", "jwk": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}});
    attempts.push(signed(&theirs, &header, &claims()));
    // Other claims with the signature of a valid token.
    let good = signed(&ours, &es256(), &claims());
    let (_, signature) = good.rsplit_once('.').unwrap();
    let wider = signing(&es256(), &changed("scope", json!("storage.modify:/")));
    attempts.push(format!("{wider}.{signature}"));
    for cut in 0..good.len() {
        attempts.push(good[..cut].to_owned());
    }
    attempts.push(format!("{good}.{good}"));
    attempts.push(format!(" {good}"));
    for token in attempts {
        assert!(issuers.verify_token(token.as_bytes()).is_err(), "{token}");
    }
    assert!(issuers.verify_token(good.as_bytes()).is_ok());
}

#[test]
fn malformed_tokens_are_refused() {
    let key = key();
    let issuers = issuers(&key);
    let deep = base64("[".repeat(3000).as_bytes());
    let header = base64(es256().to_string().as_bytes());
    for token in [
        Vec::new(),
        b"...".to_vec(),
        vec![0xff; 8000],
        format!("{header}.{deep}.AA").into_bytes(),
        format!("{deep}.{deep}.AA").into_bytes(),
    ] {
        assert!(issuers.verify_token(&token).is_err());
    }
}

#[test]
fn keys_are_read_from_jwks_and_pem_and_other_kinds_skipped() {
    let scratch = Scratch::new();
    let key = key();
    let point = key.public_key().as_ref();
    let jwk = json!({
        "kty": "EC", "crv": "P-256", "kid": "k1", "alg": "ES256", "use": "sig",
        "x": base64(&point[1..33]), "y": base64(&point[33..]),
    });
    let write = |name: &str, text: String| {
        std::fs::write(scratch.path(name), text).unwrap();
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(scratch.path(name), mode).unwrap();
        scratch.path(name)
    };
    let secret = json!({"kty": "oct", "k": base64(b"secret"), "kid": "k1"});
    let set = |keys: &[&Value]| json!({ "keys": keys }).to_string();
    let keys = write("keys", set(&[&secret, &jwk]));
    let line = format!("wlcg {URL} keys={} audience={HERE}\n", keys.display());
    let file = write("issuers", format!("# comment\n\n{line}"));
    let issuers = Issuers::load(&file).unwrap();
    assert_eq!(issuers.0[0].keys.len(), 1, "no secret is a key");
    let token = signed(&key, &es256(), &claims());
    assert!(issuers.verify_token(token.as_bytes()).is_ok());

    write("keys", set(&[&secret]));
    assert!(Issuers::load(&file).is_err(), "no key is left");
    write(
        "keys",
        "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n".into(),
    );
    assert!(Issuers::load(&file).is_err(), "a private key");
    write("keys", set(&[&jwk]));
    write("issuers", format!("{line}{line}"));
    assert!(Issuers::load(&file).is_err(), "an issuer twice");
}

#[test]
fn groups_are_prefixed_by_the_issuer() {
    let key = key();
    let verify_token = |value| {
        let claims = changed("wlcg.groups", value);
        let token = signed(&key, &json!({"alg": "ES256", "typ": "JWT"}), &claims);
        issuers(&key)
            .verify_token(token.as_bytes())
            .map(|verified| verified.groups)
    };
    assert_eq!(verify_token(Value::Null).unwrap(), [""; 0]);
    let groups = verify_token(json!(["/atlas", "/atlas/production"])).unwrap();
    assert_eq!(groups, ["wlcg:/atlas", "wlcg:/atlas/production"]);
    for malformed in [json!("/atlas"), json!([7]), json!({})] {
        assert_eq!(verify_token(malformed), Err(BadToken::Claim("wlcg.groups")));
    }
}
