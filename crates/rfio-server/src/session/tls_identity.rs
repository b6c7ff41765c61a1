//! The TLS identity of a client: its certificate.

use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use verbena_rfio_auth::certificate::{CertificateUsers, ClientCertificate};

/// A client with a valid certificate.
#[derive(Debug, Clone)]
pub struct TlsIdentity {
    /// The certificate.
    pub certificate: ClientCertificate,
    /// The user that the certificate maps to, if any.
    pub user: Option<String>,
}

impl TlsIdentity {
    /// Returns the identity for a certificate.
    pub fn of(certificate: &CertificateDer<'_>, users: &CertificateUsers) -> Self {
        let certificate = ClientCertificate::read(certificate);
        let user = users.of(&certificate).map(str::to_owned);
        Self { certificate, user }
    }

    /// Returns details for the audit log. A subject is readable but may be shared with another
    /// certificate; the fingerprint is unique.
    pub fn details(&self) -> Value {
        json!({
            "certificate": self.certificate.to_string(),
            "sha256": self.certificate.fingerprint.to_string(),
        })
    }
}
