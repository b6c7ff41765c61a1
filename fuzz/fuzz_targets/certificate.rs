//! Fuzzes the parsers of certificates, their subject names, and the file that maps certificates to
//! users. A name survives formatting and parsing unchanged, so no two names have the same text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verbena_rfio_auth::certificate::{CertificateUsers, ClientCertificate, Name};

fn written_and_read(name: &Name) {
    if !name.is_empty() {
        let text = name.to_string();
        assert!(!text.contains(char::is_control));
        assert_eq!(text.parse().as_ref(), Ok(name));
    }
}

fuzz_target!(|input: &[u8]| {
    if let Some(name) = Name::decode(input) {
        written_and_read(&name);
    }
    if let Some(name) = ClientCertificate::read(&input.into()).subject {
        written_and_read(&name);
    }
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Ok(name) = text.parse() {
        written_and_read(&name);
    }
    if let Err((line, what)) = CertificateUsers::parse(text) {
        assert!(line >= 1 && line <= text.lines().count() && !what.is_empty());
    }
});
