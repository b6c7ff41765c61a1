//! Fuzzes the parsers of untrusted tokens, their scopes, and public keys: no input panics, and
//! scopes grant rights only below their base path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_rfio_auth::certificate::PublicKey;
use verbena_rfio_auth::token::Issuers;
use verbena_rfio_auth::token::scope::{ScopeRight, Scopes, components};

fuzz_target!(|input: &[u8]| {
    assert!(
        Issuers::default().verify_token(input).is_err(),
        "nobody is trusted"
    );
    let _ = PublicKey::read(input);
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (claim, path) = text.split_once('\n').unwrap_or((text, "/"));
    let base = vec![b"base".to_vec()];
    if let (Ok(scopes), Some(path)) = (Scopes::parse(claim, &base), components(path.as_bytes())) {
        for right in [ScopeRight::Read, ScopeRight::Create, ScopeRight::Modify] {
            if scopes.has(right, &path) {
                assert!(scopes.covers(&path) && path.starts_with(&base));
            }
        }
    }
});
