//! Whoever has shown a certificate when TLS began.

use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use crate::auth::certificate::{Shown, Users};

/// A client whose certificate is valid.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// What it has shown.
    pub certificate: Shown,
    /// Who that is here, if it is somebody.
    pub user: Option<String>,
}

impl Bearer {
    /// Who shows a certificate.
    pub fn of(certificate: &CertificateDer<'_>, users: &Users) -> Self {
        let certificate = Shown::read(certificate);
        let user = users.of(&certificate).map(str::to_owned);
        Self { certificate, user }
    }

    /// For the audit log. Subjects are what people know, and may be given to another certificate; the fingerprint is this one's.
    pub fn details(&self) -> Value {
        json!({
            "certificate": self.certificate.to_string(),
            "sha256": self.certificate.fingerprint.to_string(),
        })
    }
}
